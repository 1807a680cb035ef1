//! What a keyspace was asked since the database was opened: counted, not sampled.
//!
//! # How
//! ```text
//!   a thread ──► its place ──► the keyspace's counters of that place, made by its first count
//!   stats()  ──► the sum over all places
//! ```
//! A call counts when it has answered, by a load and a store for each figure, in cache lines that
//! no other thread writes to. A batch is counted once for each of its keyspaces, from sums that
//! were made while it was filled; an iterator once, when it goes, from sums that it keeps itself.
//!
//! # Invariants
//! 1. What answered an error is counted nowhere, but for the conflicts of transactions. So a call
//!    that is tried without waiting, and then made again by a thread that may wait, counts once.
//! 2. The counters belong to the keyspace and not to its name: they stay with a keyspace that is
//!    renamed, and go with one that is dropped.
//! 3. What the database reads and writes by itself (its catalog, compactions, explanations) is
//!    nobody's.
//!
//! Memory: a kibibyte for each keyspace that was opened, and 256 bytes for each thread that asks it
//! anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_engine::explain::Place;
use terrace_env::SetOnce;

use super::space::Space;

/// A figure: its name, that among metrics, what it says, and where it is.
pub struct Figure {
    pub name: &'static str,
    pub metric: &'static str,
    pub help: &'static str,
    pub value: fn(&KeyspaceStats) -> u64,
    /// Adds to it, in a sum of several keyspaces.
    add: fn(&mut KeyspaceStats, u64),
}

/// Makes the counters and the figures that show them, one of each a line.
macro_rules! figures {
    ($($(#[$doc:meta])* $count:ident => $name:ident, $metric:literal, $help:literal;)*) => {
        /// What a keyspace was asked since the database was opened; made by
        /// [`Keyspace::stats`](crate::Keyspace::stats). `Display` shows it to people, `Serialize`
        /// to programs.
        ///
        /// Every operation is counted, once it has answered: what answered an error is not, but for
        /// the conflicts of transactions. An iterator or a cursor is counted when it is dropped.
        /// Bytes are those of keys, as callers know them, and of values. While threads are at work,
        /// figures that belong together may be apart by the operations that are just ending.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct KeyspaceStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// All figures, in the order of the fields.
        pub const FIGURES: &[Figure] = &[$(Figure {
            name: stringify!($name),
            metric: $metric,
            help: $help,
            value: |stats| stats.$name,
            add: |stats, amount| stats.$name += amount,
        },)*];

        /// What is counted; each has a counter.
        #[derive(Clone, Copy)]
        enum Count {
            $($count,)*
        }

        impl Counters {
            /// What was counted so far, by all threads.
            pub fn stats(&self) -> KeyspaceStats {
                KeyspaceStats { $($name: self.sum(Count::$count),)* }
            }
        }
    };
}

figures! {
    /// Keys read one by one that were there: by transactions too, not by conditional writes.
    GetsFound => get_found_count, "found_gets", "Keys read one by one that were there.";
    /// Keys read one by one that were not there.
    GetsMissed => get_missed_count, "missed_gets", "Keys read one by one that were not there.";
    /// Calls that read several keys at once.
    MultiGets => multi_get_count, "multi_gets", "Calls that read several keys.";
    /// Keys of these calls that were there.
    MultiGetsFound => multi_get_found_count, "found_multi_get_keys",
        "Keys of calls that read several, that were there.";
    /// Keys of these calls that were not there.
    MultiGetsMissed => multi_get_missed_count, "missed_multi_get_keys",
        "Keys of calls that read several, that were not there.";
    /// Iterators and cursors that showed something, or looked for it.
    Scans => scan_count, "scans", "Iterators that ended.";
    /// How often iterators and cursors were placed: at an end, or at a key.
    Seeks => seek_count, "seeks", "Placements of iterators.";
    /// Keys that iterators and cursors showed; each time, if one goes over a key again.
    Scanned => scanned_count, "scanned_keys", "Keys that iterators showed.";
    /// Bytes of keys that were found or shown, and of their values.
    ReadBytes => read_bytes, "read_bytes", "Bytes of keys and values that were found or shown.";
    /// Values put: by single writes, batches, transactions, conditional writes.
    Puts => put_count, "puts", "Values put.";
    /// Keys deleted one by one, there or not, in any of these ways.
    Deletes => delete_count, "deletes", "Keys deleted one by one.";
    /// Intervals deleted, in any of these ways.
    RangeDeletes => range_delete_count, "range_deletes", "Intervals deleted.";
    /// Operands merged, in any of these ways.
    Merges => merge_count, "merges", "Operands merged.";
    /// Entries of ingests.
    Ingested => ingested_count, "ingested_entries", "Entries ingested.";
    /// Bytes of keys that were put, merged into, ingested or deleted one by one, and of their
    /// values and operands.
    WriteBytes => write_bytes, "written_bytes", "Bytes of keys and values written.";
    /// Conditional writes: compare-and-swap, and updates.
    ConditionalWrites => conditional_write_count, "conditional_writes", "Conditional writes.";
    /// Conditional writes that wrote nothing: what they found was not what they expected, or they
    /// left it as it was.
    ConditionalRefused => conditional_refused_count, "refused_conditional_writes",
        "Conditional writes that wrote nothing.";
    /// Commits of transactions that wrote in it.
    Commits => commit_count, "commits", "Commits of transactions that wrote.";
    /// Commits and checks of transactions that were refused because a key of it had been changed.
    Conflicts => conflict_count, "conflicts", "Commits and checks refused because of a changed key.";
}

impl KeyspaceStats {
    /// Keys read one by one.
    #[must_use]
    pub fn get_count(&self) -> u64 {
        self.get_found_count + self.get_missed_count
    }

    /// All figures by name, in the order of the fields: for programs that hand them on.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// db.put("key", "value")?;
    /// for (name, value) in db.stats().figures().filter(|(_, value)| *value > 0) {
    ///     println!("{name} {value}");
    /// }
    /// assert!(db.stats().figures().any(|figure| figure == ("put_count", 1)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FIGURES.iter().map(|figure| (figure.name, (figure.value)(self)))
    }

    /// Adds what another keyspace was asked.
    pub(crate) fn add(&mut self, other: &KeyspaceStats) {
        FIGURES.iter().for_each(|figure| (figure.add)(self, (figure.value)(other)));
    }
}

/// A line for each figure that is not 0.
impl std::fmt::Display for KeyspaceStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut told = self.figures().filter(|(_, value)| *value > 0).peekable();
        if told.peek().is_none() {
            return f.write_str("nothing was asked");
        }
        while let Some((name, value)) = told.next() {
            let end = if told.peek().is_some() { "\n" } else { "" };
            write!(f, "{:<25} {value}{end}", name.replace('_', " "))?;
        }
        Ok(())
    }
}

const COUNTERS: usize = FIGURES.len();

/// One place's counters. Processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PlaceCounters([AtomicU64; COUNTERS]);

/// The counters of a keyspace.
#[derive(Debug)]
pub struct Counters {
    places: [SetOnce<Box<PlaceCounters>>; Place::COUNT],
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { places: [const { SetOnce::new() }; Place::COUNT] }
    }
}

/// The counters of the calling thread.
struct Mine<'a> {
    place: Place,
    counters: &'a PlaceCounters,
}

impl Mine<'_> {
    #[inline]
    fn add(&self, count: Count, amount: u64) {
        self.place.add(&self.counters.0[count as usize], amount);
    }
}

#[cold]
fn made(place: &SetOnce<Box<PlaceCounters>>) -> &PlaceCounters {
    place.get_or_set(Box::default())
}

impl Counters {
    #[inline]
    fn mine(&self) -> Mine<'_> {
        let place = Place::mine();
        let counters = &self.places[place.index()];
        let counters = match counters.get() {
            Some(counters) => counters,
            None => made(counters),
        };
        Mine { place, counters }
    }

    /// A key was read; of what was found, the bytes of key and value.
    #[inline]
    pub fn got(&self, found_bytes: Option<usize>) {
        let mine = self.mine();
        match found_bytes {
            Some(bytes) => {
                mine.add(Count::GetsFound, 1);
                mine.add(Count::ReadBytes, bytes as u64);
            }
            None => mine.add(Count::GetsMissed, 1),
        }
    }

    /// Several keys were read in one call; of those that were found, the bytes of key and value.
    pub fn got_many(&self, keys: usize, found_bytes: impl Iterator<Item = usize>) {
        let (found, bytes) = found_bytes.fold((0, 0), |(found, sum), one| (found + 1, sum + one));
        let mine = self.mine();
        mine.add(Count::MultiGets, 1);
        mine.add(Count::MultiGetsFound, found);
        mine.add(Count::MultiGetsMissed, keys as u64 - found);
        mine.add(Count::ReadBytes, bytes as u64);
    }

    /// One entry was written.
    #[inline]
    pub fn wrote_one(&self, kind: Written, bytes: usize) {
        let mine = self.mine();
        mine.add(kind.count(), 1);
        mine.add(Count::WriteBytes, bytes as u64);
    }

    /// The entries of a batch were written.
    pub fn wrote(&self, tally: &WriteTally) {
        let mine = self.mine();
        for kind in Written::ALL {
            match tally.counts[kind as usize] {
                0 => {}
                count => mine.add(kind.count(), count),
            }
        }
        mine.add(Count::WriteBytes, tally.bytes);
    }

    /// A conditional write ended; whether it wrote anything.
    pub fn decided(&self, has_written: bool) {
        let mine = self.mine();
        mine.add(Count::ConditionalWrites, 1);
        mine.add(Count::ConditionalRefused, u64::from(!has_written));
    }

    /// A transaction was committed that wrote here.
    pub fn committed(&self) {
        self.mine().add(Count::Commits, 1);
    }

    /// A transaction was refused because of a key of this keyspace.
    pub fn conflicted(&self) {
        self.mine().add(Count::Conflicts, 1);
    }

    fn sum(&self, count: Count) -> u64 {
        let counters = self.places.iter().filter_map(SetOnce::get);
        counters.map(|one| one.0[count as usize].load(Ordering::Relaxed)).sum()
    }
}

/// What an entry does that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Put,
    Delete,
    RangeDelete,
    Merge,
    Ingested,
}

const KINDS: usize = Written::ALL.len();

impl Written {
    const ALL: [Written; 5] =
        [Written::Put, Written::Delete, Written::RangeDelete, Written::Merge, Written::Ingested];

    #[inline]
    fn count(self) -> Count {
        match self {
            Written::Put => Count::Puts,
            Written::Delete => Count::Deletes,
            Written::RangeDelete => Count::RangeDeletes,
            Written::Merge => Count::Merges,
            Written::Ingested => Count::Ingested,
        }
    }
}

/// What entries come to that are about to be written into one keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteTally {
    counts: [u64; KINDS],
    bytes: u64,
}

impl WriteTally {
    /// Adds an entry of so many bytes of key and value. An interval has none.
    #[inline]
    pub fn add(&mut self, kind: Written, bytes: usize) {
        let count = &mut self.counts[kind as usize];
        *count = count.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes as u64);
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.counts == [0; KINDS]
    }
}

/// What an iterator comes to. It is added to the counters when it is dropped.
#[derive(Debug)]
pub struct ScanTally {
    space: Arc<Space>,
    /// Whether it is of the second end of an iterator.
    is_no_scan: bool,
    seeks: u64,
    shown: u64,
    bytes: u64,
}

impl ScanTally {
    /// That of an iterator over a keyspace, which has not moved.
    pub fn new(space: &Arc<Space>) -> ScanTally {
        let space = Arc::clone(space);
        ScanTally { space, is_no_scan: false, seeks: 0, shown: 0, bytes: 0 }
    }

    /// That of the other end of the same iterator.
    pub fn twin(&self) -> ScanTally {
        let mut twin = ScanTally::new(&self.space);
        twin.is_no_scan = true;
        twin
    }

    /// The keyspace.
    #[inline]
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// The iterator was placed.
    #[inline]
    pub fn placed(&mut self) {
        self.seeks += 1;
    }

    /// It showed an entry.
    #[inline]
    pub fn shown(&mut self, bytes: usize) {
        self.shown = self.shown.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes as u64);
    }

    /// Forgets everything so far: it will be done again by another iterator.
    #[cfg(feature = "tokio")]
    pub fn discard(&mut self) {
        (self.seeks, self.shown, self.bytes) = (0, 0, 0);
    }
}

impl Drop for ScanTally {
    fn drop(&mut self) {
        if self.seeks + self.shown > 0 {
            let mine = self.space.counters.mine();
            mine.add(Count::Scans, u64::from(!self.is_no_scan));
            mine.add(Count::Seeks, self.seeks);
            mine.add(Count::Scanned, self.shown);
            mine.add(Count::ReadBytes, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever adds a counter or a figure adds it everywhere: each figure shows a counter of its
    /// own, and the sum of two keyspaces has all of them.
    #[test]
    fn every_figure_has_its_counter_and_its_place_in_the_table() {
        let counters = Counters::default();
        let mine = counters.mine();
        for (index, counter) in mine.counters.0.iter().enumerate() {
            mine.place.add(counter, 1 << index);
        }
        let stats = counters.stats();
        let mut values: Vec<u64> = stats.figures().map(|(_, value)| value).collect();
        assert_eq!(values.len(), COUNTERS);
        values.sort_unstable();
        assert_eq!(values, (0..COUNTERS).map(|index| 1 << index).collect::<Vec<u64>>());
        let shown = format!("{stats:?}");
        for (name, value) in stats.figures() {
            assert!(shown.contains(&format!("{name}: {value}")), "{name} in {shown}");
        }
        let mut sum = stats;
        sum.add(&stats);
        let doubled = stats.figures().zip(sum.figures()).all(|(one, two)| two.1 == 2 * one.1);
        assert!(doubled, "{sum:?}");
    }

    #[test]
    fn counts_of_threads_add_up_while_others_ask() {
        const THREADS: u64 = 80;
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for number in 0..500 {
                        counters.got((number % 2 == 0).then_some(10));
                        counters.wrote_one(Written::Put, 3);
                    }
                });
            }
            let mut last = 0;
            for _ in 0..100 {
                let count = counters.stats().get_count();
                assert!(count >= last, "counts do not go back");
                last = count;
            }
        });
        let stats = counters.stats();
        assert_eq!((stats.get_count(), stats.get_found_count), (THREADS * 500, THREADS * 250));
        assert_eq!((stats.put_count, stats.read_bytes), (THREADS * 500, THREADS * 2500));
        assert_eq!(stats.write_bytes, THREADS * 1500);
    }

    #[test]
    fn people_see_what_was_asked() {
        assert_eq!(KeyspaceStats::default().to_string(), "nothing was asked");
        let stats = KeyspaceStats { put_count: 2, write_bytes: 30, ..KeyspaceStats::default() };
        assert_eq!(stats.to_string(), "put count                 2\nwrite bytes               30");
    }
}
