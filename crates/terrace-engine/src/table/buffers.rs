use std::fmt;

use terrace_env::Latch;

use super::store::READ_AHEAD_BYTES;

/// Buffers of large reads, kept when they are done with. Fresh ones of this size come from the
/// system page by page, each with a fault, and are cleared; in compactions that costs more than the
/// reads.
///
/// Memory: up to [`KEPT_MAX`] buffers that nobody uses, 4 MiB.
#[derive(Default)]
pub(super) struct Buffers {
    spare: Latch<Vec<Vec<u8>>>,
}

/// How many are kept.
const KEPT_MAX: usize = 16;
/// Smaller buffers are not kept: an allocator has them at hand, and they would take as much memory
/// as the largest.
const BYTES_MIN: usize = 96 << 10;
/// Larger buffers are not kept: a stream rarely reads more at once.
const BYTES_MAX: usize = READ_AHEAD_BYTES as usize;

impl Buffers {
    /// A buffer of `bytes` bytes, whatever they are.
    pub(super) fn take(&self, bytes: usize) -> Vec<u8> {
        if !(BYTES_MIN..=BYTES_MAX).contains(&bytes) {
            return vec![0; bytes];
        }
        let spare = self.spare.lock().pop();
        let mut buffer = spare.unwrap_or_else(|| vec![0; BYTES_MAX]);
        buffer.truncate(bytes);
        buffer
    }

    /// Keeps a buffer for later.
    pub(super) fn give_back(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() != BYTES_MAX {
            return;
        }
        // What was cut off is cleared here, outside of the latch.
        buffer.resize(BYTES_MAX, 0);
        let mut spare = self.spare.lock();
        if spare.len() < KEPT_MAX {
            spare.push(buffer);
        }
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers").field("spare", &self.spare.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_come_back_and_small_ones_are_not_kept() {
        let buffers = Buffers::default();
        for bytes in [100 << 10, 64 << 10, 256 << 10, 300 << 10] {
            let mut buffer = buffers.take(bytes);
            assert_eq!(buffer.len(), bytes);
            buffer.fill(7);
            buffers.give_back(buffer);
        }
        assert_eq!(buffers.spare.lock().len(), 1, "both large ones were the same");
        assert_eq!(buffers.take(BYTES_MAX).len(), BYTES_MAX);
        assert_eq!(buffers.spare.lock().len(), 0);
        for _ in 0..KEPT_MAX + 3 {
            buffers.give_back(vec![0; BYTES_MAX]);
        }
        assert_eq!(buffers.spare.lock().len(), KEPT_MAX);
    }
}
