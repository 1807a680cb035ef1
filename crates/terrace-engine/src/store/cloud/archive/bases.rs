//! Which checkpoints an archive consists of, and when another one is due.

use std::path::Path;
use std::time::Duration;

use terrace_base::{Corruption, SeqNo, WallTime};

use crate::Result;
use crate::cloud::format::CheckpointObject;
use crate::cloud::{CheckpointName, Checkpoints, LogPoint};
use crate::version::format::decode_edit;
use crate::version::{StoreLog, VersionEdit};

/// Whoever asks for a state reads so many bytes of the log at most, and has them in memory.
pub const LOG_BYTES_PER_BASE: u64 = if cfg!(test) { 16 << 10 } else { 512 << 20 };

/// The time that an archive reaches back has so many bases.
pub const BASES_PER_TIME: u32 = 8;

/// A checkpoint of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// What it is called.
    pub name: CheckpointName,
    /// When it was made, by its owner's clock.
    pub at: WallTime,
    /// The log that goes on behind it.
    pub log: StoreLog,
    /// It has everything up to this number.
    pub seqno: SeqNo,
    /// The number of its pin.
    pub pin: u64,
}

impl Base {
    /// What a base is called behind which this log goes on.
    pub fn name_of(log: &StoreLog) -> CheckpointName {
        CheckpointName::of_archive(log.epoch, log.chain, log.position)
    }

    /// What a checkpoint holds, if it is one of an archive; and what the log goes on behind.
    ///
    /// Errors: `Corruption`.
    pub fn of(checkpoint: &CheckpointObject) -> Result<Option<(Base, VersionEdit)>> {
        if !checkpoint.name.is_of_archive() {
            return Ok(None);
        }
        let edit = decode_edit(&checkpoint.snapshot).map_err(|error| {
            Corruption::from_codec(Path::new(checkpoint.name.as_str()), 0, &error)
        })?;
        let log = edit.range.log_behind.and_then(|log| log.in_store());
        Ok(log.map(|log| {
            let seqno = edit.tree.greatest_seqno.unwrap_or_default();
            let (name, at) = (checkpoint.name.clone(), WallTime(checkpoint.at_ms));
            (Base { name, at, log, seqno, pin: checkpoint.pin }, edit)
        }))
    }

    /// Whether it has nothing that lies behind a point.
    pub fn is_before(&self, point: LogPoint) -> bool {
        match point {
            LogPoint::End => true,
            LogPoint::Time(time) => self.at <= time,
            LogPoint::Number(number) => self.seqno <= number,
        }
    }
}

/// The bases of an archive, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bases(Vec<Base>);

impl Bases {
    /// These, in any order.
    pub fn new(mut bases: Vec<Base>) -> Bases {
        bases.sort_by_key(|base| (base.log.number, base.log.position));
        Bases(bases)
    }

    /// Those that are there.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn find(checkpoints: &Checkpoints) -> Result<Bases> {
        let mut bases = Vec::new();
        for checkpoint in checkpoints.list()? {
            bases.extend(Base::of(&checkpoint)?.map(|(base, _)| base));
        }
        Ok(Bases::new(bases))
    }

    /// The oldest one.
    pub fn oldest(&self) -> Option<&Base> {
        self.0.first()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether an archive that reaches back for `keep` needs another one, at the moment behind
    /// which this log goes on.
    pub fn lack(&self, log: &StoreLog, now: WallTime, keep: Duration) -> bool {
        let of_chain = |base: &&Base| (base.log.epoch, base.log.chain) == (log.epoch, log.chain);
        let Some(newest) = self.0.last().filter(of_chain) else { return true };
        let bytes = log.position.0.saturating_sub(newest.log.position.0);
        let is_time = now >= after(newest.at, keep / BASES_PER_TIME);
        bytes >= LOG_BYTES_PER_BASE || bytes > 0 && is_time
    }

    /// Whether the newest one is the moment behind which this log goes on.
    pub fn are_at(&self, log: &StoreLog) -> bool {
        let place = |log: &StoreLog| (log.epoch, log.chain, log.position);
        self.0.last().is_some_and(|newest| place(&newest.log) == place(log))
    }

    /// There is another one.
    pub fn add(&mut self, base: Base) {
        self.0.push(base);
        *self = Bases::new(std::mem::take(&mut self.0));
    }

    /// The oldest one, if no state of the time that an archive reaches back for needs it.
    pub fn outlived(&self, now: WallTime, keep: Duration) -> Option<&Base> {
        let next = self.0.get(1)?;
        (after(next.at, keep) <= now).then_some(&self.0[0])
    }

    /// The oldest one is gone.
    pub fn drop_oldest(&mut self) {
        self.0.remove(0);
    }

    /// The newest one that has nothing behind a point.
    pub fn before(&self, point: LogPoint) -> Option<&Base> {
        self.0.iter().rev().find(|base| base.is_before(point))
    }
}

fn after(at: WallTime, period: Duration) -> WallTime {
    WallTime(at.0.saturating_add(period.as_millis() as u64))
}

#[cfg(test)]
mod tests {
    use terrace_base::{Epoch, LogPosition};

    use super::*;

    const HOUR: u64 = 3_600_000;
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn base(at: u64, chain: u64, number: u64) -> Base {
        let position = LogPosition(number * 1000);
        let log = StoreLog { epoch: Epoch(1), chain, number, position };
        let (name, at, seqno) = (Base::name_of(&log), WallTime(at * HOUR), SeqNo(number * 10));
        Base { name, at, log, seqno, pin: number }
    }

    #[test]
    fn a_base_is_due_for_each_chain_and_after_time_or_bytes() {
        let mut bases = Bases::default();
        let first = base(0, 1, 5);
        assert!(bases.lack(&first.log, first.at, DAY));
        bases.add(first.clone());
        let due = |log: &StoreLog, hours: u64| bases.lack(log, WallTime(hours * HOUR), DAY);
        assert!(!due(&first.log, 20), "nothing was written since");
        let later = base(0, 1, 6).log;
        assert!(!due(&later, 2));
        assert!(due(&later, 3));
        assert!(due(&base(0, 2, 5).log, 0), "another chain at the same position");
        assert!(bases.are_at(&first.log) && !bases.are_at(&later));
        let far = StoreLog { position: LogPosition(5000 + LOG_BYTES_PER_BASE), ..first.log };
        assert!(due(&far, 0));
    }

    #[test]
    fn a_base_goes_when_the_next_one_is_old_enough() {
        let mut bases = Bases::new(vec![base(30, 1, 8), base(2, 1, 5)]);
        assert_eq!(bases.outlived(WallTime(53 * HOUR), DAY), None);
        assert_eq!(bases.outlived(WallTime(54 * HOUR), DAY), Some(&base(2, 1, 5)));
        bases.drop_oldest();
        assert_eq!(bases.outlived(WallTime(900 * HOUR), DAY), None, "the newest one stays");
        assert_eq!(bases.oldest(), Some(&base(30, 1, 8)));
    }

    #[test]
    fn a_state_is_reached_from_the_newest_base_before_it() {
        let bases = Bases::new(vec![base(2, 1, 5), base(30, 1, 8)]);
        let number = |point| bases.before(point).map(|base| base.log.number);
        assert_eq!(number(LogPoint::Time(WallTime(HOUR))), None);
        assert_eq!(number(LogPoint::Time(WallTime(29 * HOUR))), Some(5));
        assert_eq!(number(LogPoint::Time(WallTime(30 * HOUR))), Some(8));
        assert_eq!(number(LogPoint::Number(SeqNo(79))), Some(5));
        assert_eq!(number(LogPoint::Number(SeqNo(80))), Some(8));
        assert_eq!(number(LogPoint::Number(SeqNo(49))), None);
    }
}
