use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use terrace_base::{Entry, EntryRef};

use super::Stream;
use super::head::Head;
use crate::Result;

/// Every version of every key of several streams, in internal order.
///
/// The streams stand in a heap, the one with the least entry on top. *Cost* of a step: O(log n)
/// comparisons for n streams, of the first bytes of keys most often; two while entries of one
/// stream follow each other.
pub struct MergingStream<'a> {
    sources: BinaryHeap<MergedStream<'a>>,
}

/// A stream that stands on an entry. The greater one has the lesser entry.
struct MergedStream<'a> {
    head: Head,
    stream: Box<dyn Stream + Send + 'a>,
    /// Which one of the streams it is: the first of those that stand on the same entry goes first.
    number: usize,
}

impl MergedStream<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.stream.entry().map(|entry| entry.key)
    }
}

impl Ord for MergedStream<'_> {
    #[inline]
    fn cmp(&self, other: &MergedStream<'_>) -> Ordering {
        let keys = self.head.compare(&other.head).unwrap_or_else(|| self.key().cmp(&other.key()));
        // Of one key the newest comes first.
        let newer = self.head.seqno.cmp(&other.head.seqno);
        keys.reverse().then(newer).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for MergedStream<'_> {
    fn partial_cmp(&self, other: &MergedStream<'_>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MergedStream<'_> {
    fn eq(&self, other: &MergedStream<'_>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for MergedStream<'_> {}

impl<'a> MergingStream<'a> {
    /// Merges `streams`.
    #[must_use]
    pub fn new(streams: Vec<Box<dyn Stream + Send + 'a>>) -> MergingStream<'a> {
        let source = |(number, stream): (usize, Box<dyn Stream + Send + 'a>)| {
            let head = stream.entry().map(|entry| Head::of(entry.key, entry.seqno));
            head.map(|head| MergedStream { head, stream, number })
        };
        MergingStream { sources: streams.into_iter().enumerate().filter_map(source).collect() }
    }
}

impl Stream for MergingStream<'_> {
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.sources.peek().and_then(|source| source.stream.entry())
    }

    fn advance(&mut self) -> Result<()> {
        let Some(mut top) = self.sources.peek_mut() else { return Ok(()) };
        top.stream.advance()?;
        match top.stream.entry().map(|entry| Head::of(entry.key, entry.seqno)) {
            // It sinks to where it belongs as it is let go.
            Some(head) => top.head = head,
            None => drop(PeekMut::pop(top)),
        }
        Ok(())
    }
}

impl std::fmt::Debug for MergingStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergingStream of {}", self.sources.len())
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
    use terrace_base::{EntryKind, SeqNo, compare_internal};

    use super::*;
    use terrace_env::SeededRng;

    use crate::table::tests::random_key;

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
    fn many_streams_merge_as_one_sorted_list() -> Result<()> {
        for seed in 0..50 {
            let mut rng = SeededRng::new(seed);
            let shape = rng.index(6);
            let mut expected = Vec::new();
            let streams = (0..rng.index(40)).map(|_| {
                let mut entries: Vec<Entry> = (0..rng.index(30))
                    .map(|_| {
                        let number = rng.index(100);
                        let key = random_key(&mut rng, shape, number);
                        let seqno = SeqNo(rng.next_u64() >> 8);
                        let (kind, value) = (EntryKind::Value, Vec::new());
                        Entry { key, seqno, kind, expiry: None, value }
                    })
                    .collect();
                entries.sort_by(|a, b| compare_internal(&a.key, a.seqno, &b.key, b.seqno));
                expected.extend(entries.iter().cloned());
                Box::new(VecStream::new(entries)) as Box<dyn Stream + Send>
            });
            let mut merged = MergingStream::new(streams.collect());
            expected.sort_by(|a, b| compare_internal(&a.key, a.seqno, &b.key, b.seqno));
            for entry in &expected {
                assert_eq!(merged.entry(), Some(entry.as_ref()), "seed {seed}");
                merged.advance()?;
            }
            assert!(merged.entry().is_none(), "seed {seed}");
        }
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
