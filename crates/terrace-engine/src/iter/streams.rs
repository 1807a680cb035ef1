use terrace_base::{Entry, EntryRef, compare_internal};

use super::Stream;
use crate::Result;

/// Every version of every key of several streams, in internal order.
///
/// No two streams hold the same version. A step costs one comparison a stream.
pub struct MergingStream<'a> {
    streams: Vec<Box<dyn Stream + Send + 'a>>,
    current: Option<usize>,
}

impl<'a> MergingStream<'a> {
    /// Merges `streams`.
    #[must_use]
    pub fn new(streams: Vec<Box<dyn Stream + Send + 'a>>) -> MergingStream<'a> {
        let mut merged = MergingStream { streams, current: None };
        merged.choose();
        merged
    }

    fn choose(&mut self) {
        let mut least: Option<(usize, EntryRef<'_>)> = None;
        for (index, stream) in self.streams.iter().enumerate() {
            let Some(entry) = stream.entry() else { continue };
            let smaller = least.as_ref().is_none_or(|(_, chosen)| {
                compare_internal(entry.key, entry.seqno, chosen.key, chosen.seqno).is_lt()
            });
            if smaller {
                least = Some((index, entry));
            }
        }
        self.current = least.map(|(index, _)| index);
    }
}

impl Stream for MergingStream<'_> {
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.current.and_then(|index| self.streams[index].entry())
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(index) = self.current {
            self.streams[index].advance()?;
            self.choose();
        }
        Ok(())
    }
}

impl std::fmt::Debug for MergingStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergingStream of {}", self.streams.len())
    }
}

/// A stream over entries in memory, which are in internal order already.
#[derive(Clone, Debug)]
pub struct VecStream {
    entries: Vec<Entry>,
    at: usize,
}

impl VecStream {
    /// A stream over `entries`.
    #[must_use]
    pub fn new(entries: Vec<Entry>) -> VecStream {
        VecStream { entries, at: 0 }
    }
}

impl Stream for VecStream {
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.entries.get(self.at).map(Entry::as_ref)
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
}
