//! Where interrupted `SCAN`s go on.
//!
//! A cursor must be a 64-bit integer, and a place in an ordered store is a key. So the server
//! remembers, for the cursors it gave out last, the key that each stands before. Entries are not
//! taken out by use (a client may repeat a call) but by age, within bounds on count and bytes.
//!
//! Numbers stay below 2^53, which clients that keep them in floating point can hold, and begin at
//! the moment the server started, so that a cursor of an earlier run is refused and not mistaken.

use std::collections::VecDeque;

/// How many cursors are remembered.
const CURSORS_MAX: usize = 65_536;

/// How many bytes of keys are remembered.
const KEY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The cursors given out last.
#[derive(Debug)]
pub(crate) struct Cursors {
    /// The keys of the cursors from `first` on.
    keys: VecDeque<Vec<u8>>,
    first: u64,
    bytes: usize,
}

impl Cursors {
    /// No cursors; `seed` is different in each run of a server.
    pub(crate) fn new(seed: u64) -> Cursors {
        let first = ((seed & 0x000f_ffff) << 32) + 1;
        Cursors { keys: VecDeque::new(), first, bytes: 0 }
    }

    /// A cursor that stands before `key`.
    pub(crate) fn give_out(&mut self, key: &[u8]) -> u64 {
        self.bytes += key.len();
        self.keys.push_back(key.to_vec());
        while self.keys.len() > CURSORS_MAX || self.bytes > KEY_BYTES_MAX {
            let Some(oldest) = self.keys.pop_front() else { break };
            self.bytes -= oldest.len();
            self.first += 1;
        }
        self.first + self.keys.len() as u64 - 1
    }

    /// The key that `cursor` stands before, if it is remembered.
    pub(crate) fn key(&self, cursor: u64) -> Option<&[u8]> {
        let index = usize::try_from(cursor.checked_sub(self.first)?).ok()?;
        self.keys.get(index).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_remembered_until_too_many_follow() {
        let mut cursors = Cursors::new(7);
        let first = cursors.give_out(b"a");
        let second = cursors.give_out(b"b");
        assert_eq!(cursors.key(first), Some(&b"a"[..]));
        assert_eq!(cursors.key(second), Some(&b"b"[..]));
        assert_eq!(cursors.key(second + 1), None);
        assert_eq!(cursors.key(0), None);
        assert!(first < 1 << 53);
        for _ in 0..CURSORS_MAX - 1 {
            cursors.give_out(b"c");
        }
        assert_eq!(cursors.key(first), None);
        assert_eq!(cursors.key(second), Some(&b"b"[..]));
    }

    #[test]
    fn long_keys_are_bounded_in_bytes() {
        let mut cursors = Cursors::new(u64::MAX);
        for _ in 0..1000 {
            cursors.give_out(&[0; 65_536]);
        }
        assert!(cursors.bytes <= KEY_BYTES_MAX);
        assert!(cursors.first < 1 << 53);
    }
}
