use std::fmt;
use std::time::Duration;

use terrace_env::SharedEnv;

/// How long the parts of an open took, one after the other. `Display` shows them in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RecoveryPhases {
    /// Reading the manifest, and the feed in the object store if there is one; of a database that
    /// is taken over, finding it there.
    pub manifest: Duration,
    /// Looking at tables and at media, and claiming these.
    pub tables: Duration,
    /// Reading the log, wherever it lies, and filling memtables with it.
    pub log: Duration,
    /// Becoming the owner: the new manifest, the fence in the object store, the log of this open.
    /// What of a long log has no room in memory is replayed after that, and is not in it.
    pub begin: Duration,
}

impl RecoveryPhases {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.manifest + self.tables + self.log + self.begin
    }
}

impl fmt::Display for RecoveryPhases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |phase: Duration| format!("{:.1} ms", phase.as_secs_f64() * 1000.0);
        let RecoveryPhases { manifest, tables, log, begin } = *self;
        let (manifest, tables, log, begin) = (ms(manifest), ms(tables), ms(log), ms(begin));
        write!(f, "{manifest} to read the manifest, {tables} for tables, ")?;
        write!(f, "{log} for the log, {begin} to begin")
    }
}

/// Takes the time of one phase after the other.
#[derive(Debug)]
pub(super) struct PhaseClock {
    env: SharedEnv,
    since: Duration,
}

impl PhaseClock {
    /// The first one begins.
    pub fn start(env: &SharedEnv) -> PhaseClock {
        PhaseClock { env: SharedEnv::clone(env), since: env.now() }
    }

    /// One ends, and the next begins: how long it took.
    pub fn end(&mut self) -> Duration {
        let now = self.env.now();
        now.saturating_sub(std::mem::replace(&mut self.since, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_how_long_each_part_took() {
        let ms = Duration::from_millis;
        let phases =
            RecoveryPhases { manifest: ms(3), tables: ms(0), log: ms(1200), begin: ms(40) };
        let expected = "3.0 ms to read the manifest, 0.0 ms for tables, 1200.0 ms for the log, \
                        40.0 ms to begin";
        assert_eq!(phases.to_string(), expected);
        assert_eq!(phases.total(), ms(1243));
    }
}
