//! How far a read in a table goes beyond what was asked for. Pure.
//!
//! ```text
//!   reads     ▪ ▪ ▪ ▪ ▪ ▪ …            of blocks, by one scan
//!   requests  ▪ ▪─── ▪──────── ▪────    one block, one block and 64 KiB, 128 KiB, … 1 MiB
//! ```
//! A request costs the time of a megabyte, and money. So a read that goes on where an earlier one
//! ended asks for more than its block, twice as much each time; one that goes back from where an
//! earlier one began, for what lies before it. One that comes from anywhere asks for no more than
//! it needs. Gets are not looked at: in a table of a few megabytes many of them begin a little
//! behind another one by chance.

use std::ops::Range;

use super::ahead::PIECE_BYTES;

/// The first time, so much is read beyond what was asked for.
pub const FIRST_BYTES: u64 = 64 << 10;

/// A read goes on where another one ended if it begins at most this far behind it: some blocks
/// between them may have been cached.
const GAP_BYTES_MAX: u64 = 256 << 10;

/// The same for one that goes back: few do, so that most often it is chance.
const GAP_BACK_BYTES_MAX: u64 = 16 << 10;

/// So many scans of a table are told apart; the one that read longest ago is forgotten.
const SEQUENCES_MAX: usize = 4;

/// The scans that go through a table, the newest last.
#[derive(Debug, Default)]
pub(super) struct Sequences(Vec<Sequence>);

#[derive(Clone, Debug)]
struct Sequence {
    /// What was read the last time.
    read: Range<u64>,
    /// What was read beyond what was asked for the last time.
    beyond: u64,
}

impl Sequences {
    /// Somebody reads an interval which nobody has read ahead: what around it is worth a request.
    pub fn worth_reading(&mut self, read: &Range<u64>) -> Range<u64> {
        let found = self.take(read);
        let goes_back = found.as_ref().is_some_and(|before| before.read.start >= read.end);
        let more = |before: Sequence| (before.beyond * 2).clamp(FIRST_BYTES, PIECE_BYTES);
        let beyond = found.map_or(0, more);
        self.put(Sequence { read: read.clone(), beyond });
        match goes_back {
            true => read.start.min(read.end.saturating_sub(beyond))..read.end,
            false => read.start..read.end.max(read.start + beyond),
        }
    }

    /// Somebody will go through the table from one end of an interval, which is being read for
    /// that.
    pub fn begin(&mut self, reads: &Range<u64>) {
        let is_long = reads.end - reads.start + FIRST_BYTES > PIECE_BYTES;
        let beyond = if is_long { PIECE_BYTES } else { 0 };
        self.put(Sequence { read: reads.start..reads.start, beyond });
    }

    /// Somebody reads an interval that was read ahead; whether the next piece is worth a request
    /// now.
    pub fn passes(&mut self, read: &Range<u64>) -> bool {
        let Some(before) = self.take(read) else { return false };
        let goes_back = before.read.start >= read.end;
        let beyond = before.beyond;
        self.put(Sequence { read: read.clone(), beyond });
        beyond >= PIECE_BYTES && !goes_back
    }

    fn take(&mut self, read: &Range<u64>) -> Option<Sequence> {
        let goes_on = |one: &Sequence| {
            let behind = one.read.end..=one.read.end + GAP_BYTES_MAX;
            let before = read.end..=read.end + GAP_BACK_BYTES_MAX;
            behind.contains(&read.start) || before.contains(&one.read.start)
        };
        let found = self.0.iter().rposition(goes_on)?;
        Some(self.0.remove(found))
    }

    fn put(&mut self, sequence: Sequence) {
        if self.0.len() == SEQUENCES_MAX {
            self.0.remove(0);
        }
        self.0.push(sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a read of a block of 4 KiB at `at` is worth.
    fn read_at(sequences: &mut Sequences, at: u64) -> Range<u64> {
        sequences.worth_reading(&(at..at + 4096))
    }

    #[test]
    fn a_scan_reads_ever_more_ahead() {
        let mut sequences = Sequences::default();
        let (mut at, mut asked) = (0, Vec::new());
        while at < 4 << 20 {
            let worth = read_at(&mut sequences, at);
            assert_eq!(worth.start, at);
            let bytes = worth.end - at;
            asked.push(bytes >> 10);
            at += 4096;
            while at < worth.end {
                assert_eq!(sequences.passes(&(at..at + 4096)), bytes == PIECE_BYTES);
                at += 4096;
            }
        }
        assert_eq!(asked, [4, 64, 128, 256, 512, 1024, 1024, 1024, 1024]);
    }

    #[test]
    fn one_that_goes_back_does_so_too() {
        let mut sequences = Sequences::default();
        let (mut end, mut asked) = (1 << 20, Vec::new());
        while end > 0 {
            let worth = read_at(&mut sequences, end - 4096);
            assert_eq!(worth.end, end);
            asked.push((end - worth.start) >> 10);
            end -= 4096;
            while end > worth.start {
                assert!(!sequences.passes(&(end - 4096..end)));
                end -= 4096;
            }
        }
        assert_eq!(asked, [4, 64, 128, 256, 512, 60]);
    }

    #[test]
    fn a_scan_goes_on_behind_what_it_was_expected_to_read() {
        for (bytes, then) in [(40 << 10, FIRST_BYTES), (PIECE_BYTES - 2048, PIECE_BYTES)] {
            let mut sequences = Sequences::default();
            let start = 1 << 20;
            sequences.begin(&(start..start + bytes));
            let mut at = start;
            while at + 4096 <= start + bytes {
                assert_eq!(sequences.passes(&(at..at + 4096)), then == PIECE_BYTES);
                at += 4096;
            }
            assert_eq!(read_at(&mut sequences, at), at..at + then);
        }
    }

    #[test]
    fn reads_that_come_from_anywhere_read_what_they_need() {
        let mut sequences = Sequences::default();
        for at in [5 << 20, 1 << 20, 9 << 20, 2 << 20, 7 << 20, 3 << 20] {
            assert_eq!(read_at(&mut sequences, at), at..at + 4096);
        }
        // A scan among them goes on.
        let at = (3 << 20) + 4096 + (100 << 10);
        assert_eq!(read_at(&mut sequences, at), at..at + FIRST_BYTES);
        assert!(!sequences.passes(&(0..4096)), "nobody has been here");
    }
}
