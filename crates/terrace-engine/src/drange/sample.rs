use terrace_base::{EntryRef, SeqNo};

use crate::Result;
use crate::iter::Stream;

/// Keys that writes went to, evenly spaced among the writes, in key order.
///
/// ```text
///   versions, as a flush meets them   a a a a a a b c c d e f f g h …
///   every fourth                      a       a       d       g
/// ```
/// A key that is written often stands in it often, so its quantiles are those of the writes. The
/// versions that a flush drops are met too; nothing is counted while a write is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteSample {
    /// Ascending, each as often as it was met.
    pub keys: Vec<Vec<u8>>,
    /// How many writes were met in all.
    pub writes: u64,
}

impl WriteSample {
    /// Several samples of different writes as one.
    #[must_use]
    pub fn joined(samples: Vec<WriteSample>) -> WriteSample {
        let mut joined = WriteSample::default();
        for sample in samples {
            joined.writes += sample.writes;
            joined.keys.extend(sample.keys);
        }
        joined.keys.sort();
        joined
    }

    /// The keys of several samples in order, borrowed. Those of each count as much as those of any
    /// other: samples of one range have about the same spacing.
    #[must_use]
    pub fn merged<'a>(samples: impl IntoIterator<Item = &'a WriteSample>) -> Vec<&'a [u8]> {
        let keys = samples.into_iter().flat_map(|sample| &sample.keys);
        let mut keys: Vec<&[u8]> = keys.map(Vec::as_slice).collect();
        // Runs that ascend already: this merges them.
        keys.sort();
        keys
    }
}

/// A stream over every version that takes a sample of the writes on its way.
pub struct SampledStream<'a> {
    input: &'a mut dyn Stream,
    /// Writes up to this number were met before.
    after: SeqNo,
    spacing: u64,
    sample: WriteSample,
}

impl<'a> SampledStream<'a> {
    /// Passes `input` on and takes every `spacing`-th entry above `after` into the sample.
    pub fn new(input: &'a mut dyn Stream, after: SeqNo, spacing: u64) -> SampledStream<'a> {
        let spacing = spacing.max(1);
        let mut sampled = SampledStream { input, after, spacing, sample: WriteSample::default() };
        sampled.meet();
        sampled
    }

    /// What was taken.
    #[must_use]
    pub fn finish(self) -> WriteSample {
        self.sample
    }

    #[inline]
    fn meet(&mut self) {
        let Some(entry) = self.input.entry().filter(|entry| entry.seqno > self.after) else {
            return;
        };
        if self.sample.writes.is_multiple_of(self.spacing) {
            self.sample.keys.push(entry.key.to_vec());
        }
        self.sample.writes += 1;
    }
}

impl Stream for SampledStream<'_> {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.input.entry()
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.input.advance()?;
        self.meet();
        Ok(())
    }
}

impl std::fmt::Debug for SampledStream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SampledStream with {} keys of {}", self.sample.keys.len(), self.sample.writes)
    }
}
