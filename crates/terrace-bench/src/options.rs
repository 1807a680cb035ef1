use std::fmt;

use crate::distribution::Distribution;
use crate::records::{Records, ValueMix};
use crate::workload::{self, ScanLength, Workload};

/// The most records that keys can be made for.
const RECORDS_MAX: u64 = u32::MAX as u64 * 64;

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
    /// The length of values (default 256), unless a mix is asked for.
    pub value_bytes: usize,
    /// Values of several lengths instead.
    pub value_mix: Option<ValueMix>,
    /// To which records; `None` for what the workload says.
    pub distribution: Option<Distribution>,
    /// How many records a scan reads; `None` for what the workload says.
    pub scan_count: Option<u64>,
    /// The share of reads, in percent, that ask for records that are not there; `None` for what
    /// the workload says.
    pub missing_share: Option<u32>,
    /// Whether loaded records have the numbers from 0 on as keys, and not every sixteenth (default
    /// no). Nothing can be missing then.
    pub dense_keys: bool,
    /// Operations in a second, at least 1, by all threads together, begun on time whether or not
    /// those before have ended; latencies then count from the intended start. `None`: each thread
    /// begins an operation when its last one has ended.
    pub rate: Option<f64>,
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
            value_mix: None,
            distribution: None,
            scan_count: None,
            missing_share: None,
            dense_keys: false,
            rate: None,
            seed: 1,
        }
    }
}

impl BenchOptions {
    /// The records that it runs over.
    pub(crate) fn records(&self) -> Records {
        let records = Records::new(self.records, self.key_bytes);
        if self.dense_keys { records.dense() } else { records }
    }

    /// The workload that is asked for, with what the options change of it.
    ///
    /// Errors: there is none of this name, or a number is out of its bounds.
    pub fn validate(&self) -> Result<Workload, OptionsError> {
        let unknown = || OptionsError::UnknownWorkload(self.workload.clone());
        let mut workload = *workload::find(&self.workload).ok_or_else(unknown)?;
        if let Some(count) = self.scan_count {
            workload.scan = ScanLength::Exactly(count);
        }
        workload.missing_share = self.missing_share.unwrap_or(workload.missing_share);
        workload.distribution = self.distribution.unwrap_or(workload.distribution);
        if workload.missing_share > 100 {
            return Err(OptionsError::MissingShare);
        }
        if self.dense_keys && workload.missing_share > 0 {
            return Err(OptionsError::DenseKeys);
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate < 1.0) {
            return Err(OptionsError::Rate);
        }
        let numbers =
            [("records", self.records), ("operations", self.operations), ("threads", self.threads)];
        let mut numbers =
            numbers.into_iter().chain(self.scan_count.map(|count| ("scan-count", count)));
        if let Some((name, _)) = numbers.find(|(_, number)| *number == 0) {
            return Err(OptionsError::Zero(name));
        }
        if self.records > RECORDS_MAX {
            return Err(OptionsError::TooManyRecords);
        }
        if self.value_mix.is_some_and(|mix| mix.pair_bytes_min() < self.key_bytes) {
            return Err(OptionsError::LongKeys);
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
    /// Keys must have at least this many bytes for that number of records.
    ShortKeys {
        /// The fewest bytes.
        least: usize,
    },
    /// Keys or values are longer than a store takes.
    TooLong,
    /// Keys are longer than the smallest key and value of the mix together.
    LongKeys,
    /// A share is more than all.
    MissingShare,
    /// Keys that lie side by side leave none that is missing.
    DenseKeys,
    /// No operation would ever begin.
    Rate,
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
            OptionsError::TooManyRecords => {
                write!(f, "there can be at most {RECORDS_MAX} records (--records)")
            }
            OptionsError::ShortKeys { least } => {
                write!(
                    f,
                    "for this number of records keys need at least {least} bytes (--key-bytes)"
                )
            }
            OptionsError::TooLong => {
                f.write_str("keys have at most 64 KiB (--key-bytes), values 64 MiB (--value-bytes)")
            }
            OptionsError::LongKeys => f.write_str(
                "this --value-mix leaves no room for values: choose shorter --key-bytes",
            ),
            OptionsError::MissingShare => f.write_str("--missing-share is at most 100"),
            OptionsError::DenseKeys => f.write_str(
                "with --dense-keys no record is missing: leave out --missing-share, or the workload \
                 that reads what is not there",
            ),
            OptionsError::Rate => f.write_str("--rate must be at least 1 operation in a second"),
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_bounds_are_refused() {
        fn check(change: impl FnOnce(&mut BenchOptions)) -> Result<&'static str, OptionsError> {
            let mut options = BenchOptions::default();
            change(&mut options);
            options.validate().map(|workload| workload.name)
        }
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
        assert_eq!(
            check(|options| options.missing_share = Some(101)),
            Err(OptionsError::MissingShare)
        );
        for rate in [0.0, 1e-300, 0.9, f64::NAN, f64::INFINITY] {
            assert_eq!(check(|options| options.rate = Some(rate)), Err(OptionsError::Rate));
        }
        assert_eq!(
            check(|options| options.scan_count = Some(0)),
            Err(OptionsError::Zero("scan-count"))
        );
        let long = check(|options| {
            options.key_bytes = 40;
            options.value_mix = Some(ValueMix::S);
        });
        assert_eq!(long, Err(OptionsError::LongKeys));
    }
}
