//! What a walk has read ahead of value files.
//!
//! Values lie in most files in the order of their keys, so that a walk comes to most of them one
//! behind the other: in each file by itself, for the values of one interval are in as many files as
//! there were flushes of it. (In a segment of the log they lie in the order of their writing.) So a
//! walk keeps a window of each file that it has met lately, and reads more
//! at once the longer it goes on there.

use std::sync::Arc;

use terrace_base::TableUid;

/// What is read at least: a page, which costs no more than a part of it.
const READ_BYTES_MIN: usize = 4 << 10;

/// What is read at most.
const READ_BYTES_MAX: usize = 64 << 10;

/// Of how many files a walk keeps windows.
const WINDOWS_MAX: usize = 16;

/// The windows of a walk. Memory: up to a mebibyte, and less for a short walk.
#[derive(Debug, Default)]
pub struct ValueWindows {
    /// The one that was used last is the last one.
    windows: Vec<Window>,
    /// The frame of places that was asked last: its file, its offset there, and what it says.
    frame: Option<(TableUid, u64, Arc<[u8]>)>,
}

/// A stretch of a value file.
#[derive(Debug)]
struct Window {
    uid: TableUid,
    offset: u64,
    bytes: Arc<Vec<u8>>,
}

impl Window {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl ValueWindows {
    /// The window that holds `bytes` bytes at `offset` of a file, and where in it they begin.
    pub(super) fn find(
        &mut self,
        uid: TableUid,
        offset: u64,
        bytes: usize,
    ) -> Option<(Arc<Vec<u8>>, usize)> {
        let index = self.windows.iter().position(|window| window.uid == uid)?;
        let window = &self.windows[index];
        if offset < window.offset || offset + bytes as u64 > window.end() {
            return None;
        }
        let found = (Arc::clone(&window.bytes), (offset - window.offset) as usize);
        self.windows[index..].rotate_left(1);
        Some(found)
    }

    /// The frame of places at `offset` of a file, if it was asked last.
    pub(super) fn frame(&self, uid: TableUid, offset: u64) -> Option<Arc<[u8]>> {
        let (of, at, records) = self.frame.as_ref()?;
        ((*of, *at) == (uid, offset)).then(|| Arc::clone(records))
    }

    /// Keeps a frame of places, in the place of the one before.
    pub(super) fn keep_frame(&mut self, uid: TableUid, offset: u64, records: Arc<[u8]>) {
        self.frame = Some((uid, offset, records));
    }

    /// How many bytes to read at `offset` of a file, where `bytes` are wanted: more than that if
    /// the walk goes on from the window that it has of this file.
    pub(super) fn bytes_to_read(&self, uid: TableUid, offset: u64, bytes: usize) -> usize {
        let next = match self.continued(uid, offset) {
            Some(window) => (2 * window.bytes.len()).clamp(READ_BYTES_MIN, READ_BYTES_MAX),
            None => READ_BYTES_MIN,
        };
        next.max(bytes)
    }

    /// Whether a walk that comes to `offset` of a file goes on from where it was there last.
    pub(super) fn goes_on(&self, uid: TableUid, offset: u64) -> bool {
        self.continued(uid, offset).is_some()
    }

    fn continued(&self, uid: TableUid, offset: u64) -> Option<&Window> {
        let window = self.windows.iter().find(|window| window.uid == uid)?;
        let reach = window.offset..=window.end() + READ_BYTES_MIN as u64;
        reach.contains(&offset).then_some(window)
    }

    /// The walk has read up to `end` of a file, and keeps nothing of it.
    pub(super) fn pass(&mut self, uid: TableUid, end: u64) {
        self.keep(uid, end, Arc::default());
    }

    /// Keeps what was read, in the place of the window of that file.
    pub(super) fn keep(&mut self, uid: TableUid, offset: u64, bytes: Arc<Vec<u8>>) {
        let known = self.windows.iter().position(|window| window.uid == uid);
        if let Some(index) = known.or((self.windows.len() >= WINDOWS_MAX).then_some(0)) {
            self.windows.remove(index);
        }
        self.windows.push(Window { uid, offset, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: usize) -> Arc<Vec<u8>> {
        Arc::new(vec![7; count])
    }

    #[test]
    fn a_walk_reads_more_the_longer_it_goes_on_in_a_file() {
        let mut windows = ValueWindows::default();
        let (uid, mut offset, mut read) = (TableUid(1), 64, Vec::new());
        for _ in 0..6 {
            let count = windows.bytes_to_read(uid, offset, 1000);
            windows.keep(uid, offset, bytes(count));
            read.push(count >> 10);
            offset += count as u64;
        }
        assert_eq!(read, [4, 8, 16, 32, 64, 64]);
        assert_eq!(windows.bytes_to_read(uid, offset + (1 << 20), 1000), 4 << 10, "a jump");
        assert_eq!(windows.bytes_to_read(uid, 64, 1000), 4 << 10, "a jump back");
        assert_eq!(windows.bytes_to_read(uid, offset, 1 << 20), 1 << 20, "one large value");
    }

    #[test]
    fn a_walk_that_passes_by_goes_on_only_if_it_comes_to_what_lies_behind() {
        let mut windows = ValueWindows::default();
        let uid = TableUid(1);
        assert!(!windows.goes_on(uid, 64));
        windows.pass(uid, 1064);
        assert!(windows.find(uid, 1064, 1).is_none(), "nothing is kept");
        assert!(windows.goes_on(uid, 1070) && windows.goes_on(uid, 1064 + (4 << 10)));
        assert!(!windows.goes_on(uid, 1063) && !windows.goes_on(uid, 1065 + (4 << 10)));
        assert_eq!(windows.bytes_to_read(uid, 1070, 1000), 4 << 10);
    }

    #[test]
    fn each_file_has_a_window_and_those_of_old_go() {
        let mut windows = ValueWindows::default();
        for number in 0..WINDOWS_MAX as u128 {
            windows.keep(TableUid(number), 100, bytes(50));
        }
        let mut is_in = |number: u128, offset, count| {
            windows.find(TableUid(number), offset, count).map(|(_, from)| from)
        };
        assert_eq!(is_in(0, 100, 50), Some(0));
        assert_eq!(is_in(0, 120, 30), Some(20));
        assert_eq!((is_in(0, 120, 31), is_in(0, 99, 2), is_in(99, 100, 1)), (None, None, None));
        windows.keep(TableUid(99), 100, bytes(50));
        assert!(windows.find(TableUid(1), 100, 1).is_none(), "it was used longest ago");
        assert!(windows.find(TableUid(0), 100, 1).is_some());
        assert_eq!(windows.windows.len(), WINDOWS_MAX);
    }
}
