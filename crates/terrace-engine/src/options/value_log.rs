use super::require;
use crate::Result;

/// Which values stand in the value log, and how much of it may be garbage.
///
/// ```text
///   bytes of a value      below `medium_bytes`   up to `large_bytes`      from there on
///   in the upper levels   in the tables          in value files           in the value log
///   in the last level     in the tables          in the tables            in the value log
/// ```
///
/// *Source:* Tebis (EuroSys 2022), section 2, for the separation and the three classes (those of
/// Parallax); users' wish for a hard bound on what dead values take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLogOptions {
    /// Values of this many bytes and more are *large*: a flush leaves them where the log has them,
    /// or writes them to a value file, and tables hold a pointer of ten to fourteen bytes. At least
    /// 32, or 0, for which see [`every_value`](ValueLogOptions::every_value). With a lower bound,
    /// less is rewritten by compactions; with a higher one, fewer reads take a second step, and
    /// scans fewer still. The default is 1,000.
    pub large_bytes: usize,
    /// Values of this many bytes and more that are not large are *medium*, at least 32: a flush
    /// writes them to a value file, and compactions move pointers to them, but that into the last
    /// level writes them into its tables. Unless it is below `large_bytes` there is no such class,
    /// which is the default ([`usize::MAX`]).
    pub medium_bytes: usize,
    /// What value files may take, in percent of what lives in them, from 105 to 1000. Near that,
    /// the files with the most garbage are written anew, and tables are compacted that hide what
    /// was overwritten; above it, writers are slowed down. Values that only a snapshot sees count
    /// as living. What is dead may always take the bytes of eight memtables, so the bound holds
    /// from some 2 GB of values on. Files that are just being rewritten, or that the log still
    /// keeps, take up to six memtables beside it. With less, more is copied; the default is 130.
    pub space_ratio_percent: u64,
    /// Whether value files with garbage are written anew. Without it they are only written and,
    /// once nothing of one is left, deleted; there is no bound on the space that they take. The
    /// default is yes.
    pub rewrites: bool,
}

impl Default for ValueLogOptions {
    fn default() -> ValueLogOptions {
        ValueLogOptions {
            large_bytes: 1000,
            medium_bytes: usize::MAX,
            space_ratio_percent: 130,
            rewrites: true,
        }
    }
}

impl ValueLogOptions {
    /// A value log of every value, however small: tables hold keys and pointers only. A segment of
    /// the log stays where it is as soon as one value in it lives, however much else is in it.
    ///
    /// A baseline for research, and of use for nothing else: a pointer to a value that is hardly
    /// longer saves nothing, each read and each entry of a scan takes a second step, and what is
    /// overwritten in memory is still written to a file. *Source:* Kreon, the store under Tebis
    /// (EuroSys 2022), section 2, whose log is the place of all values.
    #[must_use]
    pub fn every_value() -> ValueLogOptions {
        ValueLogOptions { large_bytes: 0, ..ValueLogOptions::default() }
    }

    /// Whether every value is large, and the log the place of all of them.
    #[must_use]
    pub(crate) fn is_every_value(&self) -> bool {
        self.large_bytes == 0
    }

    /// Whether there are medium values.
    #[must_use]
    pub(crate) fn has_medium(&self) -> bool {
        self.medium_bytes < self.large_bytes
    }

    pub(super) fn validate(&self) -> Result<()> {
        require(
            self.large_bytes >= 32 || self.is_every_value(),
            "value_log.large_bytes must be at least 32, or 0 for every value",
        )?;
        require(
            self.medium_bytes >= 32 || !self.has_medium(),
            "value_log.medium_bytes must be at least 32",
        )?;
        require(
            (105..=1000).contains(&self.space_ratio_percent),
            "value_log.space_ratio_percent must be from 105 to 1000",
        )
    }
}
