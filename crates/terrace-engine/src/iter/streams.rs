use terrace_base::{Entry, EntryRef, compare_internal};

use super::Stream;
use crate::Result;

/// Every version of every key of several streams, in internal order.
///
/// A step costs one comparison as long as entries of one stream follow each other, else one a
/// stream: whoever has many that are disjoint chains them ([`ChainedStream`]) first.
pub struct MergingStream<'a> {
    streams: Vec<Box<dyn Stream + Send + 'a>>,
    current: Option<usize>,
    /// The stream with the least entry of all others.
    second: Option<usize>,
}

impl<'a> MergingStream<'a> {
    /// Merges `streams`.
    #[must_use]
    pub fn new(streams: Vec<Box<dyn Stream + Send + 'a>>) -> MergingStream<'a> {
        let mut merged = MergingStream { streams, current: None, second: None };
        merged.choose();
        merged
    }

    fn choose(&mut self) {
        let mut least: Option<(usize, EntryRef<'_>)> = None;
        let mut second: Option<(usize, EntryRef<'_>)> = None;
        for (index, stream) in self.streams.iter().enumerate() {
            let Some(entry) = stream.entry() else { continue };
            if least.as_ref().is_none_or(|(_, chosen)| is_before(&entry, chosen)) {
                second = least.replace((index, entry));
            } else if second.as_ref().is_none_or(|(_, chosen)| is_before(&entry, chosen)) {
                second = Some((index, entry));
            }
        }
        self.current = least.map(|(index, _)| index);
        self.second = second.map(|(index, _)| index);
    }

    /// Whether the current stream, which has moved, is still the one with the least entry.
    fn stays(&self, current: usize) -> bool {
        let Some(entry) = self.streams[current].entry() else { return false };
        let second = self.second.and_then(|second| self.streams[second].entry());
        second.is_none_or(|second| is_before(&entry, &second))
    }
}

#[inline]
fn is_before(entry: &EntryRef<'_>, other: &EntryRef<'_>) -> bool {
    compare_internal(entry.key, entry.seqno, other.key, other.seqno).is_lt()
}

impl Stream for MergingStream<'_> {
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.current.and_then(|index| self.streams[index].entry())
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(index) = self.current {
            self.streams[index].advance()?;
            if !self.stays(index) {
                self.choose();
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for MergingStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergingStream of {}", self.streams.len())
    }
}

/// Streams one after the other, each made when the one before is used up: for tables of one run.
pub struct ChainedStream<I, S> {
    rest: I,
    current: Option<S>,
}

impl<I: Iterator<Item = Result<S>>, S: Stream> ChainedStream<I, S> {
    /// What the streams of `rest` hold, in their order; the keys of each lie above those of the one
    /// before.
    pub fn new(rest: I) -> Result<ChainedStream<I, S>> {
        let mut chained = ChainedStream { rest, current: None };
        chained.settle()?;
        Ok(chained)
    }

    fn settle(&mut self) -> Result<()> {
        while self.current.as_ref().is_none_or(|stream| stream.entry().is_none()) {
            self.current = self.rest.next().transpose()?;
            if self.current.is_none() {
                break;
            }
        }
        Ok(())
    }
}

impl<I: Iterator<Item = Result<S>>, S: Stream> Stream for ChainedStream<I, S> {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.current.as_ref().and_then(Stream::entry)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        if let Some(stream) = &mut self.current {
            stream.advance()?;
        }
        self.settle()
    }
}

impl<I, S: std::fmt::Debug> std::fmt::Debug for ChainedStream<I, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChainedStream at {:?}", self.current)
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

#[cfg(test)]
mod tests {
    use terrace_base::{EntryKind, SeqNo};

    use super::*;

    fn stream(entries: &[(&str, u64)]) -> VecStream {
        let entry = |(key, seqno): &(&str, u64)| Entry {
            key: key.as_bytes().to_vec(),
            seqno: SeqNo(*seqno),
            kind: EntryKind::Value,
            expiry: None,
            value: Vec::new(),
        };
        VecStream::new(entries.iter().map(entry).collect())
    }

    fn all(mut stream: impl Stream) -> Result<Vec<String>> {
        let mut seen = Vec::new();
        while let Some(entry) = stream.entry() {
            seen.push(format!("{}{}", entry.key.escape_ascii(), entry.seqno));
            stream.advance()?;
        }
        Ok(seen)
    }

    #[test]
    fn merged_streams_come_in_internal_order() -> Result<()> {
        let lists: [&[(&str, u64)]; 4] = [
            &[("a", 9), ("a", 2), ("d", 4), ("e", 1)],
            &[("a", 5), ("b", 7), ("b", 6), ("f", 1)],
            &[],
            &[("b", 8), ("c", 3), ("z", 1)],
        ];
        let streams = lists.iter().map(|list| Box::new(stream(list)) as Box<dyn Stream + Send>);
        let merged = all(MergingStream::new(streams.collect()))?;
        let expected = ["a9", "a5", "a2", "b8", "b7", "b6", "c3", "d4", "e1", "f1", "z1"];
        assert_eq!(merged, expected);
        // The same entry in two streams surfaces twice.
        let twice = [stream(&[("a", 1), ("b", 1)]), stream(&[("a", 1), ("c", 1)])];
        let twice = twice.into_iter().map(|one| Box::new(one) as Box<dyn Stream + Send>);
        assert_eq!(all(MergingStream::new(twice.collect()))?, ["a1", "a1", "b1", "c1"]);
        Ok(())
    }

    #[test]
    fn chained_streams_follow_each_other() -> Result<()> {
        let parts = [&[("a", 1), ("b", 1)][..], &[], &[("c", 2)], &[]];
        let chained = ChainedStream::new(parts.iter().map(|part| Ok(stream(part))))?;
        assert_eq!(all(chained)?, ["a1", "b1", "c2"]);
        assert_eq!(all(ChainedStream::new(std::iter::empty::<Result<VecStream>>())?)?, [""; 0]);
        Ok(())
    }
}
