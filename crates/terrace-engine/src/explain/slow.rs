//! The slowest operations of the last minutes.
//!
//! ```text
//!   window    ... 3 min ago   2 min ago   1 min ago   now
//!   gets          ▮▮▮▮         ▮▮▮▮        ▮▮▮▮       ▮▮      each the slowest of its minute,
//!   scans         ▮▮           ▮▮▮         ▮          ▮       at most KEPT_PER_WINDOW a kind
//!   writes        ▮▮▮▮         ▮▮▮▮        ▮▮▮▮       ▮▮▮▮
//! ```
//!
//! Most operations never come here: only those that were sampled or had to wait do, and of these
//! only those are let in that are slower than the fastest one kept, which is one load. So the latch
//! is taken seldom, and by threads that have just lost far more time.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_base::WallTime;
use terrace_env::Latch;

use super::get::GetExplanation;
use super::recorder::in_us;
use super::text::{self, Key};
use super::waits::{WaitCause, WaitTimes};
use crate::nanos;

/// How long a window is.
pub const SLOW_WINDOW: Duration = Duration::from_secs(60);

/// How many windows are kept.
const WINDOWS: usize = 5;

/// How many operations of a kind are kept in a window.
const KEPT_PER_WINDOW: usize = 8;

/// The most bytes of a key that are kept.
const KEY_BYTES_KEPT: usize = 128;

/// What an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OperationKind {
    /// A key was read.
    Get,
    /// An iterator lived.
    Scan,
    /// A batch was written.
    Write,
}

impl OperationKind {
    /// The word for it in texts.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            OperationKind::Get => "get",
            OperationKind::Scan => "scan",
            OperationKind::Write => "write",
        }
    }
}

/// One of the slowest operations. `Display` shows it to people in a line (and its steps below, if
/// they are known), `Serialize` to programs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SlowOperation {
    /// Grows by one with each operation that is kept.
    pub id: u64,
    /// What it was.
    pub kind: OperationKind,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// How long it took, in microseconds.
    pub us: f64,
    /// Whether all of it was timed: it had been sampled. Else the time counts from its first wait
    /// on; that of a scan is the sum of its waits.
    pub is_sampled: bool,
    /// The key of a get, the first key of a write, the start of a scan's interval; of a long one
    /// the first bytes.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped"))]
    pub key: Vec<u8>,
    /// Entries written, or shown by a scan; of a get whether it found any.
    pub entry_count: u64,
    /// Entries that a scan stepped over.
    pub hidden_count: u64,
    /// What it waited for.
    pub waits: Vec<SlowWait>,
    /// Number of times that a file was read.
    pub file_reads: u64,
    /// Number of bytes that were read from files.
    pub file_bytes: u64,
    /// The steps of a get that was sampled.
    pub explanation: Option<GetExplanation>,
}

/// What an operation waited for, and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SlowWait {
    /// What for.
    pub cause: WaitCause,
    /// How long, in microseconds.
    pub us: f64,
}

/// The slowest operations of the last minutes, at most some hundred. All methods may be called by
/// many threads at once.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// The number of the process, for sampling.
    process: u64,
    /// For each kind: an operation that was faster than this is not kept, in nanoseconds.
    floors: [AtomicU64; 3],
    /// When the current window is over, in nanoseconds of the clock.
    window_end: AtomicU64,
    kept: Latch<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    next_id: u64,
    /// The current one last.
    windows: VecDeque<Window>,
}

#[derive(Debug)]
struct Window {
    began: Duration,
    kinds: [Vec<(Duration, SlowOperation)>; 3],
}

impl Window {
    /// Whether it began before the windows that are kept.
    fn is_forgotten(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= SLOW_WINDOW * WINDOWS as u32
    }
}

/// An operation that has ended, and may be one of the slowest.
pub(crate) struct Ended<'a> {
    pub(crate) kind: OperationKind,
    pub(crate) took: Duration,
    pub(crate) is_sampled: bool,
    pub(crate) key: &'a [u8],
    pub(crate) entry_count: u64,
    pub(crate) hidden_count: u64,
    pub(crate) waits: WaitTimes,
    pub(crate) explanation: Option<GetExplanation>,
}

impl SlowLog {
    /// An empty one, for a range of the process with this number.
    pub(crate) fn new(process: u64) -> SlowLog {
        SlowLog {
            process,
            floors: Default::default(),
            window_end: AtomicU64::new(0),
            kept: Latch::new(Kept::default()),
        }
    }

    /// The number of the process.
    #[inline]
    pub(super) fn process(&self) -> u64 {
        self.process
    }

    /// Keeps the operation if it is one of the slowest of its window. `now` is the clock's, `wall`
    /// the wall clock's.
    pub(crate) fn offer(&self, ended: Ended<'_>, now: Duration, wall: WallTime) {
        let kind = ended.kind as usize;
        let mut kept = self.kept.lock();
        kept.windows.retain(|window| !window.is_forgotten(now));
        let is_over = |window: &Window| now.saturating_sub(window.began) >= SLOW_WINDOW;
        if kept.windows.back().is_none_or(is_over) {
            kept.windows.push_back(Window { began: now, kinds: Default::default() });
            if kept.windows.len() > WINDOWS {
                kept.windows.pop_front();
            }
            self.floors.iter().for_each(|floor| floor.store(0, Ordering::Relaxed));
            self.window_end.store(nanos(now + SLOW_WINDOW), Ordering::Relaxed);
        }
        let id = kept.next_id;
        let window = kept.windows.back_mut().expect("there is a current window");
        let slowest = &mut window.kinds[kind];
        let place = slowest.partition_point(|(took, _)| *took >= ended.took);
        if place >= KEPT_PER_WINDOW {
            return;
        }
        slowest.insert(place, (ended.took, ended.into_slow(id, wall)));
        slowest.truncate(KEPT_PER_WINDOW);
        if let Some((floor, _)) = slowest.get(KEPT_PER_WINDOW - 1) {
            self.floors[kind].store(nanos(*floor) + 1, Ordering::Relaxed);
        }
        kept.next_id += 1;
    }

    /// Whether an operation that took so long and ended `now` may be one of the slowest. Two loads.
    pub(crate) fn is_wanted(&self, kind: OperationKind, took: Duration, now: Duration) -> bool {
        let floor = self.floors[kind as usize].load(Ordering::Relaxed);
        nanos(took) >= floor || nanos(now) >= self.window_end.load(Ordering::Relaxed)
    }

    /// What is kept at the moment `now` of the clock, the slowest first. Windows that began too
    /// long ago do not count: if nothing is slow, no new one takes their place.
    pub(crate) fn list(&self, now: Duration) -> Vec<SlowOperation> {
        let kept = self.kept.lock();
        let windows = kept.windows.iter().filter(|window| !window.is_forgotten(now));
        let kinds = windows.flat_map(|window| window.kinds.iter().flatten());
        let mut list: Vec<_> = kinds.map(|(_, operation)| operation.clone()).collect();
        drop(kept);
        list.sort_by(|a, b| b.us.total_cmp(&a.us).then(b.id.cmp(&a.id)));
        list
    }

    /// Forgets what is kept.
    pub(crate) fn reset(&self) {
        let mut kept = self.kept.lock();
        kept.windows.clear();
        self.window_end.store(0, Ordering::Relaxed);
        self.floors.iter().for_each(|floor| floor.store(0, Ordering::Relaxed));
    }
}

impl Ended<'_> {
    fn into_slow(self, id: u64, wall: WallTime) -> SlowOperation {
        let (file_reads, file_bytes) = self.waits.files();
        let wait = |(cause, time)| SlowWait { cause, us: in_us(time) };
        SlowOperation {
            id,
            kind: self.kind,
            ended_ms: wall.0,
            us: in_us(self.took),
            is_sampled: self.is_sampled,
            key: self.key[..self.key.len().min(KEY_BYTES_KEPT)].to_vec(),
            entry_count: self.entry_count,
            hidden_count: self.hidden_count,
            waits: self.waits.causes().map(wait).collect(),
            file_reads: u64::from(file_reads),
            file_bytes,
            explanation: self.explanation,
        }
    }
}

impl SlowOperation {
    /// What is known of where the time went, in a line.
    #[must_use]
    pub fn breakdown(&self) -> String {
        let mut parts = Vec::new();
        match self.kind {
            OperationKind::Get if self.entry_count == 0 => parts.push("nothing there".to_owned()),
            OperationKind::Get => {}
            OperationKind::Scan => {
                parts.push(text::count(self.entry_count, "key", "keys"));
                if self.hidden_count > 0 {
                    parts.push(format!("{} stepped over", self.hidden_count));
                }
            }
            OperationKind::Write => parts.push(text::count(self.entry_count, "entry", "entries")),
        }
        for SlowWait { cause, us } in &self.waits {
            parts.push(format!("{} {}", cause.word(), text::time(*us).trim()));
        }
        if self.file_reads > 0 {
            let reads = text::count(self.file_reads, "read", "reads");
            parts.push(format!("{reads} of {}", text::bytes(self.file_bytes)));
        }
        parts.join(", ")
    }
}

impl fmt::Display for SlowOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = if self.is_sampled { ' ' } else { '>' };
        let (time, kind) = (text::time(self.us), self.kind.word());
        write!(f, "{least}{time}  {kind:5}  {}  {}", Key(&self.key), self.breakdown())?;
        if let Some(explanation) = &self.explanation {
            for line in explanation.to_string().lines().skip(1) {
                write!(f, "\n            {line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(took_us: u64) -> Ended<'static> {
        Ended {
            kind: OperationKind::Get,
            took: Duration::from_micros(took_us),
            is_sampled: true,
            key: b"key",
            entry_count: 1,
            hidden_count: 0,
            waits: WaitTimes::default(),
            explanation: None,
        }
    }

    #[test]
    fn the_slowest_of_each_window_are_kept_and_old_windows_go() {
        let log = SlowLog::new(1);
        let offer = |minute: u64, took_us| {
            let (ended, now) = (get(took_us), Duration::from_secs(60 * minute));
            if log.is_wanted(ended.kind, ended.took, now) {
                log.offer(ended, now, WallTime(minute));
            }
        };
        (1..=100).for_each(|took_us| offer(0, took_us));
        let list = |minute: u64| log.list(Duration::from_secs(60 * minute));
        let kept: Vec<u64> = list(0).iter().map(|slow| slow.us as u64).collect();
        assert_eq!(kept, [100, 99, 98, 97, 96, 95, 94, 93]);
        let is_wanted =
            |kind, us, s| log.is_wanted(kind, Duration::from_micros(us), Duration::from_secs(s));
        assert!(!is_wanted(OperationKind::Get, 93, 59));
        assert!(is_wanted(OperationKind::Get, 93, 60), "the next window is empty");
        assert!(is_wanted(OperationKind::Write, 1, 59), "each kind by itself");
        (1..=WINDOWS as u64).for_each(|minute| offer(minute, 10 + minute));
        let kept: Vec<u64> = list(5).iter().map(|slow| slow.us as u64).collect();
        assert_eq!(kept, [15, 14, 13, 12, 11]);
        let kept: Vec<u64> = list(8).iter().map(|slow| slow.us as u64).collect();
        assert_eq!(kept, [15, 14], "they age, although nothing slow came after them");
        assert!(list(10).is_empty());
        log.reset();
        assert!(list(5).is_empty() && is_wanted(OperationKind::Get, 1, 300));
        offer(9, 1);
        assert!(list(9)[0].id > 12, "numbers are not used again");
    }

    #[test]
    fn a_line_says_where_the_time_went() {
        let mut ended = get(2_345);
        ended.kind = OperationKind::Scan;
        ended.hidden_count = 7;
        ended.is_sampled = false;
        super::super::waits::begin();
        super::super::waits::waited_for_file(5000, Duration::ZERO, Duration::from_micros(2345));
        ended.waits = super::super::waits::take();
        let log = SlowLog::new(1);
        log.offer(ended, Duration::ZERO, WallTime(1));
        let line = log.list(Duration::ZERO)[0].to_string();
        assert_eq!(
            line,
            ">   2.3 ms  scan   key  1 key, 7 stepped over, file 2.3 ms, 1 read of 4.9 KiB"
        );
    }
}
