use super::require;
use crate::Result;

/// Which values stand in the value log, and how much of it may be garbage.
///
/// *Source:* Tebis (EuroSys 2022), section 2, for the separation; users' wish for a hard bound on
/// what dead values take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLogOptions {
    /// Values of this many bytes and more are *large*, at least 32: a flush leaves them where the
    /// log has them, or writes them to a value file, and tables hold a pointer of ten to fourteen
    /// bytes. With a lower bound, less is rewritten by compactions; with a higher one, fewer reads
    /// take a second step, and scans fewer still. The default is 1,000.
    pub large_bytes: usize,
    /// What value files may take, in percent of what lives in them, from 105 to 1000. Near that,
    /// the files with the most garbage are written anew, and tables are compacted that hide what
    /// was overwritten; above it, writers are slowed down. Values that only a snapshot sees count
    /// as living. What is dead may always take the bytes of eight memtables, so the bound holds
    /// from some 2 GB of values on. With less, more is copied; the default is 130.
    pub space_ratio_percent: u64,
    /// Whether value files with garbage are written anew. Without it they are only written and,
    /// once nothing of one is left, deleted; there is no bound on the space that they take. The
    /// default is yes.
    pub rewrites: bool,
}

impl Default for ValueLogOptions {
    fn default() -> ValueLogOptions {
        ValueLogOptions { large_bytes: 1000, space_ratio_percent: 130, rewrites: true }
    }
}

impl ValueLogOptions {
    pub(super) fn validate(&self) -> Result<()> {
        require(self.large_bytes >= 32, "value_log.large_bytes must be at least 32")?;
        require(
            (105..=1000).contains(&self.space_ratio_percent),
            "value_log.space_ratio_percent must be from 105 to 1000",
        )
    }
}
