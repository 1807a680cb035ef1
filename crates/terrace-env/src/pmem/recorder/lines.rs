use std::collections::BTreeMap;

use super::{LINE_BYTES, lines_of};

/// The bytes of one line.
pub(super) type Line = [u8; LINE_BYTES];

/// An area, line by line: what is durable, and what of the stores since may be.
///
/// Stores are numbered from 1. Invariant: a line is *open* from a store until a fence has made
/// durable what a flush after that store wrote back.
pub(super) struct Lines {
    /// Every store applied.
    newest: Vec<u8>,
    open: BTreeMap<usize, OpenLine>,
    /// For each thread, the lines that it flushed since its last fence, each with the last store
    /// before that.
    flushed: Vec<BTreeMap<usize, u64>>,
    stores: u64,
}

/// A line that is not durable as it is.
pub(super) struct OpenLine {
    /// Contents with the store that made them, in order. The first is durable, and its number 0 if
    /// it was when the line was opened; the last is the newest; neighbours differ.
    contents: Vec<(u64, Line)>,
    /// The last store to it.
    stored: u64,
    /// The last store before somebody flushed it.
    flushed: u64,
}

impl OpenLine {
    /// How many contents a crash can leave, tears aside.
    pub fn count(&self) -> usize {
        self.contents.len()
    }

    /// The contents that a crash can leave, tears aside, the durable one first.
    pub fn contents(&self) -> impl Iterator<Item = &Line> {
        self.contents.iter().map(|(_, line)| line)
    }

    /// The last store to it.
    pub fn stored(&self) -> u64 {
        self.stored
    }
}

impl Lines {
    /// A durable area.
    pub fn new(content: Vec<u8>) -> Lines {
        Lines { newest: content, open: BTreeMap::new(), flushed: Vec::new(), stores: 0 }
    }

    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// The open lines by number.
    pub fn open(&self) -> impl Iterator<Item = (usize, &OpenLine)> {
        self.open.iter().map(|(&line, open)| (line, open))
    }

    pub fn store(&mut self, offset: usize, bytes: &[u8]) {
        self.stores += 1;
        let (first, count) = lines_of(offset, bytes.len());
        for line in first..first + count {
            let before = self.line(line);
            let open = self.open.entry(line);
            open.or_insert_with(|| OpenLine { contents: vec![(0, before)], stored: 0, flushed: 0 });
        }
        self.newest[offset..offset + bytes.len()].copy_from_slice(bytes);
        for line in first..first + count {
            let after = self.line(line);
            let open = self.open.get_mut(&line).expect("opened above");
            open.stored = self.stores;
            if open.contents.last().is_none_or(|(_, last)| *last != after) {
                open.contents.push((self.stores, after));
            }
        }
    }

    /// Flushes `count` lines; returns how many of them had nothing new to flush.
    pub fn flush(&mut self, thread: usize, first: usize, count: usize) -> u64 {
        if self.flushed.len() <= thread {
            self.flushed.resize_with(thread + 1, BTreeMap::new);
        }
        let mut needless = 0;
        for line in first..first + count {
            let Some(open) = self.open.get_mut(&line) else {
                needless += 1;
                continue;
            };
            needless += u64::from(open.flushed >= open.stored);
            open.flushed = self.stores;
            self.flushed[thread].insert(line, self.stores);
        }
        needless
    }

    /// Makes durable what `thread` flushed; returns the lines whose durable content changed, with
    /// both contents.
    pub fn fence(&mut self, thread: usize) -> Vec<(usize, Line, Line)> {
        let mut changed = Vec::new();
        let flushed = self.flushed.get_mut(thread).map(std::mem::take).unwrap_or_default();
        for (line, through) in flushed {
            // Another thread's fence may have closed it.
            let Some(open) = self.open.get_mut(&line) else { continue };
            let durable = open.contents.iter().rposition(|(store, _)| *store <= through);
            let durable = durable.expect("the durable content is older than every flush");
            if durable > 0 {
                changed.push((line, open.contents[0].1, open.contents[durable].1));
                open.contents.drain(..durable);
            }
            if open.stored <= through {
                self.open.remove(&line);
            }
        }
        changed
    }

    fn line(&self, line: usize) -> Line {
        let start = line * LINE_BYTES;
        self.newest[start..start + LINE_BYTES].try_into().expect("an area has whole lines")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(lines: &Lines, line: usize) -> Vec<u8> {
        lines.open.get(&line).map_or(vec![], |open| open.contents().map(|line| line[0]).collect())
    }

    #[test]
    fn a_line_is_at_least_as_new_as_at_the_flush_before_the_fence() {
        let mut lines = Lines::new(vec![0; 4096]);
        lines.store(64, &[1]);
        lines.store(64, &[2]);
        assert_eq!(lines.flush(0, 1, 1), 0);
        lines.store(64, &[3]);
        assert_eq!(contents(&lines, 1), [0, 1, 2, 3]);
        assert_eq!(lines.fence(1), [], "another thread's fence");
        assert_eq!(contents(&lines, 1), [0, 1, 2, 3]);
        let changed = lines.fence(0);
        assert_eq!((changed.len(), changed[0].1[0], changed[0].2[0]), (1, 0, 2));
        assert_eq!(contents(&lines, 1), [2, 3]);
        assert_eq!(lines.fence(0), [], "the third store was not flushed");
        lines.flush(0, 1, 1);
        lines.fence(0);
        assert_eq!(lines.open_count(), 0);
    }

    #[test]
    fn a_late_fence_takes_nothing_back() {
        let mut lines = Lines::new(vec![0; 4096]);
        lines.store(0, &[1]);
        lines.flush(0, 0, 1);
        lines.store(0, &[2]);
        lines.flush(1, 0, 1);
        assert_eq!(lines.fence(1).len(), 1);
        lines.store(0, &[3]);
        assert_eq!(lines.fence(0), []);
        assert_eq!(contents(&lines, 0), [2, 3]);
    }

    #[test]
    fn a_flush_is_needless_without_a_store_since_the_last_one() {
        let mut lines = Lines::new(vec![0; 4096]);
        assert_eq!(lines.flush(0, 0, 3), 3);
        lines.store(63, &[1, 1]);
        assert_eq!(lines.open_count(), 2);
        assert_eq!(lines.flush(0, 0, 3), 1);
        assert_eq!(lines.flush(0, 0, 2), 2);
        lines.store(0, &[0]);
        assert_eq!(lines.flush(0, 0, 1), 0, "it stored what was there, which nobody looks at");
        assert_eq!(lines.fence(0).len(), 2);
        assert_eq!(lines.open_count(), 0);
    }
}
