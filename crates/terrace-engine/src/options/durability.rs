//! What an acknowledged write survives.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{Error, Result};

/// When a write is acknowledged, relative to what it survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// In the kernel's pages: survives a killed process, not a lost machine. The default.
    #[default]
    Buffered,
    /// As `Buffered`; and the log is synced at least this often, so a lost machine loses at most
    /// that much.
    Interval(Duration),
    /// Synced: survives a lost machine. Writes of one range that wait at the same time share a
    /// sync.
    Sync,
    /// As `Sync`; and the object store has it, with all before it: survives a lost machine and its
    /// disk. It needs the log there ([`CloudOptions::log`](super::CloudOptions::log)), and waits as
    /// long as the store takes. Others see the write before that, once it is synced.
    Durable,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Buffered => f.write_str("buffered"),
            Durability::Interval(period) => write!(f, "interval:{}", period.as_millis()),
            Durability::Sync => f.write_str("sync"),
            Durability::Durable => f.write_str("durable"),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Durability> {
        match text {
            "buffered" => return Ok(Durability::Buffered),
            "sync" => return Ok(Durability::Sync),
            "durable" => return Ok(Durability::Durable),
            _ => {}
        }
        let millis = text.strip_prefix("interval:").and_then(|millis| millis.parse().ok());
        match millis {
            Some(millis) if millis > 0 => Ok(Durability::Interval(Duration::from_millis(millis))),
            _ => Err(Error::invalid(format!(
                "\"{text}\" is no durability class: use buffered, interval:MS (at least 1), sync \
                 or durable"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_classes_print_and_parse() {
        for text in ["buffered", "sync", "durable", "interval:250"] {
            let durability: Durability = text.parse().expect(text);
            assert_eq!(durability.to_string(), text);
        }
        for wrong in ["", "interval", "interval:0", "interval:-1", "Sync", "interval:x"] {
            assert!(wrong.parse::<Durability>().is_err(), "{wrong}");
        }
    }
}
