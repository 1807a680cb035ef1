//! What an operation of this thread waited for.
//!
//! Whoever waits says afterwards how long, in a note of the thread. The operation that made it
//! wait, which may be far up the stack and does not look at the clock by itself, takes the note
//! when it ends. Work in the background leaves notes too, which nobody takes: each operation begins
//! with an empty one.

use std::cell::Cell;
use std::time::Duration;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WaitCause {
    /// Bytes of a table.
    File,
    /// The admission gate.
    Gate,
    /// A drange that somebody holds.
    Hold,
    /// Room in a memtable or in the log, or a place among the writes under way.
    Room,
    /// That earlier writes are done, so that this one may be published.
    Publication,
    /// A sync of the log.
    Sync,
}

/// Every cause, as they are numbered.
const CAUSES: [WaitCause; 6] = [
    WaitCause::File,
    WaitCause::Gate,
    WaitCause::Hold,
    WaitCause::Room,
    WaitCause::Publication,
    WaitCause::Sync,
];

impl WaitCause {
    /// The word for it in texts.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            WaitCause::File => "file",
            WaitCause::Gate => "gate",
            WaitCause::Hold => "hold",
            WaitCause::Room => "room",
            WaitCause::Publication => "publication",
            WaitCause::Sync => "sync",
        }
    }
}

/// The waits of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitTimes {
    /// When the first of them began.
    began: Option<Duration>,
    /// How long, by cause; none if there was no such wait.
    by_cause: [Option<Duration>; CAUSES.len()],
    /// Reads of files.
    file_reads: u32,
    /// Their bytes.
    file_bytes: u64,
}

thread_local! {
    /// Apart from the waits, so that asking costs one load.
    static HAS_WAITED: Cell<bool> = const { Cell::new(false) };
    static WAITS: Cell<WaitTimes> = const { Cell::new(WaitTimes::new()) };
}

/// An operation of this thread begins.
#[inline]
pub(crate) fn begin() {
    HAS_WAITED.set(false);
}

/// Whether the operation has waited.
#[inline]
pub(crate) fn has_waited() -> bool {
    HAS_WAITED.get()
}

/// How long the operation has waited for files so far.
#[inline]
pub(crate) fn so_far_for_files() -> Duration {
    let of_files = |waits: WaitTimes| waits.by_cause[WaitCause::File as usize];
    has_waited().then(|| of_files(WAITS.get())).flatten().unwrap_or_default()
}

/// What the operation has waited for; it begins anew.
#[cold]
pub(crate) fn take() -> WaitTimes {
    if HAS_WAITED.replace(false) { WAITS.take() } else { WaitTimes::new() }
}

fn change(with: impl FnOnce(&mut WaitTimes)) {
    let mut waits = if HAS_WAITED.replace(true) { WAITS.get() } else { WaitTimes::new() };
    with(&mut waits);
    WAITS.set(waits);
}

/// The operation waited for `cause` from `began` to `ended`.
#[cold]
pub(crate) fn waited(cause: WaitCause, began: Duration, ended: Duration) {
    change(|waits| {
        waits.began.get_or_insert(began);
        let time = waits.by_cause[cause as usize].get_or_insert(Duration::ZERO);
        *time += ended.saturating_sub(began);
    });
}

/// As [`waited`], for a read of `bytes` bytes of a file.
#[cold]
pub(crate) fn waited_for_file(bytes: u64, began: Duration, ended: Duration) {
    waited(WaitCause::File, began, ended);
    change(|waits| {
        waits.file_reads += 1;
        waits.file_bytes += bytes;
    });
}

impl WaitTimes {
    const fn new() -> WaitTimes {
        WaitTimes { began: None, by_cause: [None; CAUSES.len()], file_reads: 0, file_bytes: 0 }
    }

    /// When the first wait began.
    pub(crate) fn began(&self) -> Option<Duration> {
        self.began
    }

    /// How long all of them took together.
    pub(crate) fn total(&self) -> Duration {
        self.by_cause.iter().flatten().sum()
    }

    /// Reads of files, and their bytes.
    pub(crate) fn files(&self) -> (u32, u64) {
        (self.file_reads, self.file_bytes)
    }

    /// What was waited for at all, and how long.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (WaitCause, Duration)> {
        let known = |(cause, time): (WaitCause, Option<Duration>)| Some((cause, time?));
        CAUSES.into_iter().zip(self.by_cause).filter_map(known)
    }

    /// Both together.
    pub(crate) fn add(&mut self, other: &WaitTimes) {
        self.began = self.began.or(other.began);
        for (time, more) in self.by_cause.iter_mut().zip(other.by_cause) {
            if let Some(more) = more {
                *time = Some(time.unwrap_or_default() + more);
            }
        }
        self.file_reads += other.file_reads;
        self.file_bytes += other.file_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_takes_its_own_waits() {
        let ms = Duration::from_millis;
        waited(WaitCause::Sync, ms(1), ms(9));
        begin();
        assert!(!has_waited());
        waited(WaitCause::Gate, ms(10), ms(13));
        waited_for_file(4096, ms(20), ms(22));
        waited_for_file(100, ms(30), ms(31));
        assert!(has_waited());
        let waits = take();
        assert_eq!((waits.began(), waits.total()), (Some(ms(10)), ms(6)));
        assert_eq!(waits.files(), (2, 4196));
        let causes: Vec<_> = waits.causes().collect();
        assert_eq!(causes, [(WaitCause::File, ms(3)), (WaitCause::Gate, ms(3))]);
        assert!(!has_waited() && take().total().is_zero());
    }

    #[test]
    fn causes_are_numbered_as_they_are_listed() {
        for (number, cause) in CAUSES.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
        }
    }
}
