use std::fmt;

use crate::distribution::Distribution;
use crate::records::Records;
use crate::workload::{self, Workload};

/// What to run.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The name of the workload; see [`workload::WORKLOADS`].
    pub workload: String,
    /// How many records there are (default 1,000,000).
    pub records: u64,
    /// How many operations to run, for workloads that do not fix it (default 1,000,000).
    pub operations: u64,
    /// How many threads run them (default 2).
    pub threads: u64,
    /// The length of keys (default 16).
    pub key_bytes: usize,
    /// The length of values (default 256).
    pub value_bytes: usize,
    /// To which records; `None` for what the workload says.
    pub distribution: Option<Distribution>,
    /// Fixes every random choice (default 1).
    pub seed: u64,
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        BenchOptions {
            workload: "load".to_owned(),
            records: 1_000_000,
            operations: 1_000_000,
            threads: 2,
            key_bytes: 16,
            value_bytes: 256,
            distribution: None,
            seed: 1,
        }
    }
}

impl BenchOptions {
    /// The workload that is asked for.
    ///
    /// Errors: there is none of this name, or a number is out of its bounds.
    pub fn validate(&self) -> Result<&'static Workload, OptionsError> {
        let unknown = || OptionsError::UnknownWorkload(self.workload.clone());
        let workload = workload::find(&self.workload).ok_or_else(unknown)?;
        let numbers =
            [("records", self.records), ("operations", self.operations), ("threads", self.threads)];
        if let Some((name, _)) = numbers.iter().find(|(_, number)| *number == 0) {
            return Err(OptionsError::Zero(name));
        }
        if self.records > u64::from(u32::MAX) * 64 {
            return Err(OptionsError::TooManyRecords);
        }
        let least = Records::key_bytes_min(self.records);
        if self.key_bytes < least {
            return Err(OptionsError::ShortKeys { least });
        }
        let longest = terrace::limits::VALUE_BYTES_MAX;
        if self.key_bytes > terrace::limits::KEY_BYTES_MAX || self.value_bytes > longest {
            return Err(OptionsError::TooLong);
        }
        Ok(workload)
    }
}

/// Why a run does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// No workload has this name.
    UnknownWorkload(String),
    /// This number must be at least 1.
    Zero(&'static str),
    /// More records than keys can be made for.
    TooManyRecords,
    /// Keys must have at least this many bytes for so many records.
    ShortKeys {
        /// The fewest bytes.
        least: usize,
    },
    /// Keys or values are longer than a store takes.
    TooLong,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionsError::UnknownWorkload(name) => {
                write!(f, "there is no workload '{name}'; choose one of:")?;
                let mut each = workload::WORKLOADS.iter();
                each.try_for_each(|known| write!(f, "\n  {:<11} {}", known.name, known.meaning))
            }
            OptionsError::Zero(name) => write!(f, "{name} must be at least 1"),
            OptionsError::TooManyRecords => f.write_str("so many records cannot be told apart"),
            OptionsError::ShortKeys { least } => {
                write!(f, "keys of so many records need at least {least} bytes (--key-bytes)")
            }
            OptionsError::TooLong => {
                f.write_str("keys have at most 64 KiB (--key-bytes), values 64 MiB (--value-bytes)")
            }
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_bounds_are_refused() {
        let check = |change: fn(&mut BenchOptions)| {
            let mut options = BenchOptions::default();
            change(&mut options);
            options.validate().map(|workload| workload.name)
        };
        assert_eq!(check(|_| {}), Ok("load"));
        let unknown = check(|options| options.workload = "z".into()).unwrap_err();
        assert!(unknown.to_string().contains("fillrandom"));
        assert_eq!(check(|options| options.threads = 0), Err(OptionsError::Zero("threads")));
        assert_eq!(
            check(|options| options.key_bytes = 7),
            Err(OptionsError::ShortKeys { least: 8 })
        );
        assert_eq!(check(|options| options.records = u64::MAX), Err(OptionsError::TooManyRecords));
        assert_eq!(check(|options| options.key_bytes = 1 << 20), Err(OptionsError::TooLong));
    }
}
