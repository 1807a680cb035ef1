//! How far a read in a table goes beyond what was asked for. Pure.
//!
//! ```text
//!   reads     ▪ ▪ ▪ ▪ ▪ ▪ …            of blocks, by one scan
//!   requests  ▪ ▪─── ▪──────── ▪────    one block, one block and 64 KiB, 128 KiB, … 1 MiB
//! ```
//! A request costs the time of a megabyte, and money. So a read that goes on where an earlier one
//! ended asks for more than its block, twice as much each time. One that comes from anywhere asks
//! for no more than it needs. Gets are not looked at: in a table of a few megabytes many of them
//! begin a little behind another one by chance.

use super::ahead::PIECE_BYTES;

/// The first time, so much is read beyond what was asked for.
pub const FIRST_BYTES: u64 = 64 << 10;

/// A read goes on where another one ended if it begins at most this far behind it: some blocks
/// between them may have been cached.
const GAP_BYTES_MAX: u64 = 256 << 10;

/// So many scans of a table are told apart; the one that read longest ago is forgotten.
const SEQUENCES_MAX: usize = 4;

/// The scans that go through a table, the newest last.
#[derive(Debug, Default)]
pub(super) struct Sequences(Vec<Sequence>);

#[derive(Clone, Copy, Debug)]
struct Sequence {
    /// Where the last read ended.
    end: u64,
    /// What was read beyond what was asked for the last time.
    beyond: u64,
}

impl Sequences {
    /// Somebody reads from `start` to `end`, which nobody has read ahead: how many bytes from
    /// `start` on are worth a request.
    pub fn bytes_to_read(&mut self, start: u64, end: u64) -> u64 {
        let beyond = match self.take(start) {
            Some(before) => (before.beyond * 2).clamp(FIRST_BYTES, PIECE_BYTES),
            None => 0,
        };
        self.put(Sequence { end, beyond });
        beyond.max(end - start)
    }

    /// Somebody will go through the table from `start` on, where a read is under way for that.
    pub fn begin(&mut self, start: u64) {
        self.put(Sequence { end: start, beyond: 0 });
    }

    /// Somebody reads from `start` to `end`, which was read ahead; whether the next piece is worth
    /// a request now.
    pub fn passes(&mut self, start: u64, end: u64) -> bool {
        let Some(before) = self.take(start) else { return false };
        self.put(Sequence { end, ..before });
        before.beyond >= PIECE_BYTES
    }

    fn take(&mut self, start: u64) -> Option<Sequence> {
        let goes_on = |one: &Sequence| one.end <= start && start <= one.end + GAP_BYTES_MAX;
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

    #[test]
    fn a_scan_reads_ever_more_ahead() {
        let mut sequences = Sequences::default();
        let (mut at, mut asked) = (0, Vec::new());
        while at < 4 << 20 {
            let bytes = sequences.bytes_to_read(at, at + 4096);
            asked.push(bytes >> 10);
            let end = at + bytes;
            at += 4096;
            while at < end {
                assert_eq!(sequences.passes(at, at + 4096), bytes == PIECE_BYTES);
                at += 4096;
            }
        }
        assert_eq!(asked, [4, 64, 128, 256, 512, 1024, 1024, 1024, 1024]);
    }

    #[test]
    fn a_scan_goes_on_behind_what_it_was_expected_to_read() {
        let mut sequences = Sequences::default();
        sequences.begin(1 << 20);
        for block in 0..10 {
            let at = (1 << 20) + block * 4096;
            assert!(!sequences.passes(at, at + 4096), "too short for a piece");
        }
        let at = (1 << 20) + 10 * 4096;
        assert_eq!(sequences.bytes_to_read(at, at + 4096), FIRST_BYTES);
    }

    #[test]
    fn reads_that_come_from_anywhere_read_what_they_need() {
        let mut sequences = Sequences::default();
        for at in [5 << 20, 1 << 20, 9 << 20, 2 << 20, 7 << 20, 3 << 20] {
            assert_eq!(sequences.bytes_to_read(at, at + 4096), 4096);
        }
        // A scan among them goes on.
        let at = (3 << 20) + 4096 + (100 << 10);
        assert_eq!(sequences.bytes_to_read(at, at + 4096), FIRST_BYTES);
        assert!(!sequences.passes(0, 4096), "nobody has been here");
    }
}
