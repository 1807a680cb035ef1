//! The filter: which keys are surely absent.
//!
//! A Bloom filter whose bits for one key lie in one cache line, so that a probe costs one miss.
//!
//! ```text
//!  ┌───────────────────────┬───────────┐
//!  │ lines, n × 64 bytes   │ probes u8 │      n ≥ 1, 1 ≤ probes ≤ 24
//!  └───────────────────────┴───────────┘
//!
//!  h       XXH3-64 of the user key, seed 0
//!  line    (h × n) >> 64
//!  probe i bit (h × G^(i+1) mod 2^64) >> 55 of the line, G = 0x9e3779b97f4a7c15
//!          bit b of a line is bit b mod 64 of its little-endian word b / 64
//! ```
//!
//! The more probes, the more bits each key sets and tests; the builder takes the number that gives
//! the fewest false positives for its bits a key.

use terrace_base::{CodecError, hash_bytes};

const LINE_BYTES: usize = 64;
const LINE_BITS: u64 = 512;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const PROBES_MAX: u8 = 24;

/// The most bits a key; more would change nothing that can be measured.
pub const BITS_PER_KEY_MAX: u32 = 48;

/// The hash by which filters know a user key: computed once for a get that asks many tables.
#[must_use]
#[inline]
pub fn filter_hash(key: &[u8]) -> u64 {
    hash_bytes(0, key)
}

/// 512 bits of a filter, in one cache line of the machine.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; 8]);

#[inline]
fn line_index(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

/// The bits that a key sets in its line: what a get that asks many filters works out once.
#[derive(Clone, Copy, Debug)]
pub struct FilterBits {
    hash: u64,
    probes: u8,
    bits: [u64; 8],
}

impl FilterBits {
    /// Those of the key with this [`filter_hash`] in filters that set `probes` bits for each key.
    #[must_use]
    pub fn new(hash: u64, probes: u8) -> FilterBits {
        let mut bits = [0; 8];
        for bit in probed_bits(hash, probes) {
            bits[bit / 64] |= 1 << (bit % 64);
        }
        FilterBits { hash, probes, bits }
    }

    /// How many bits were set, equal ones counted again.
    #[must_use]
    #[inline]
    pub fn probes(&self) -> u8 {
        self.probes
    }
}

/// Which bits of its line a key sets, in the order in which they are probed.
#[inline]
fn probed_bits(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    let mut product = hash;
    (0..probes).map(move |_| {
        product = product.wrapping_mul(MULTIPLIER);
        (product >> 55) as usize
    })
}

/// A filter in memory.
#[derive(Debug)]
pub struct Filter {
    lines: Vec<Line>,
    probes: u8,
}

impl Filter {
    /// A filter over these distinct hashes, with about `bits_per_key` bits for each (at least 1,
    /// at most [`BITS_PER_KEY_MAX`]).
    #[must_use]
    pub fn build(hashes: &[u64], bits_per_key: u32) -> Filter {
        let bits_per_key = bits_per_key.clamp(1, BITS_PER_KEY_MAX);
        let count = line_count(hashes.len(), bits_per_key);
        let probes = probes_for(bits_per_key);
        let mut lines = vec![Line::default(); count];
        for &hash in hashes {
            let line = &mut lines[line_index(hash, count)];
            for bit in probed_bits(hash, probes) {
                line.0[bit / 64] |= 1 << (bit % 64);
            }
        }
        Filter { lines, probes }
    }

    /// How many bits a key sets, and a probe tests.
    #[must_use]
    #[inline]
    pub fn probes(&self) -> u8 {
        self.probes
    }

    /// Whether a key with this hash may have been added; no false negatives.
    ///
    /// Cost: one cache line; for an absent key two probes on average.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let line = &self.lines[line_index(hash, self.lines.len())];
        probed_bits(hash, self.probes).all(|bit| line.0[bit / 64] & 1 << (bit % 64) != 0)
    }

    /// The same for a key whose bits are known, with this filter's number of probes.
    ///
    /// Cost: one cache line, and one branch that is as a rule foreseen: so a processor asks the
    /// next filter while the line is on its way. Which of a key's bits is the first that is not
    /// set, on which the other branches, is never foreseen.
    #[must_use]
    #[inline]
    pub fn may_contain_bits(&self, key: &FilterBits) -> bool {
        debug_assert_eq!(key.probes, self.probes, "bits of a key for another filter");
        let line = &self.lines[line_index(key.hash, self.lines.len())];
        let missing = key.bits.iter().zip(&line.0).fold(0, |all, (bits, set)| all | (bits & !set));
        missing == 0
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    /// Appends the block.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.memory_bytes() + 1);
        for line in &self.lines {
            for word in line.0 {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        out.push(self.probes);
    }

    /// Decodes a block. Allocates no more than its bytes.
    pub fn decode(payload: &[u8]) -> Result<Filter, CodecError> {
        let error = |offset, what| Err(CodecError { offset, what });
        let Some((&probes, lines)) = payload.split_last() else {
            return error(0, "a filter without bytes");
        };
        if probes == 0 || probes > PROBES_MAX {
            return error(lines.len(), "a filter with a number of probes that cannot be");
        }
        let (lines, rest) = lines.as_chunks::<LINE_BYTES>();
        if lines.is_empty() || !rest.is_empty() {
            return error(payload.len(), "a filter that does not consist of whole lines");
        }
        let lines = lines
            .iter()
            .map(|line| {
                let mut words = [0; 8];
                for (word, bytes) in words.iter_mut().zip(line.as_chunks::<8>().0) {
                    *word = u64::from_le_bytes(*bytes);
                }
                Line(words)
            })
            .collect();
        Ok(Filter { lines, probes })
    }
}

/// How many bytes the frame payload of a filter over `keys` distinct keys has.
#[must_use]
pub fn encoded_bytes(keys: usize, bits_per_key: u32) -> usize {
    line_count(keys, bits_per_key.clamp(1, BITS_PER_KEY_MAX)) * LINE_BYTES + 1
}

fn line_count(keys: usize, bits_per_key: u32) -> usize {
    let bits = (keys as u64).saturating_mul(u64::from(bits_per_key));
    bits.div_ceil(LINE_BITS).max(1) as usize
}

/// The number of probes with the fewest false positives: below ln 2 × bits a key, since the keys
/// that share a line are unevenly many.
fn probes_for(bits_per_key: u32) -> u8 {
    match bits_per_key {
        0..=2 => 1,
        3 => 2,
        4..=5 => 3,
        6 => 4,
        7..=8 => 5,
        9..=10 => 6,
        11 => 7,
        12..=14 => 8,
        15..=16 => 9,
        17..=18 => 10,
        19..=22 => 11,
        23..=25 => 12,
        more => ((more - 1) / 2).min(u32::from(PROBES_MAX)) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(from: u64, to: u64) -> Vec<u64> {
        (from..to).map(|number| filter_hash(&number.to_be_bytes())).collect()
    }

    #[test]
    fn no_added_key_is_denied_and_few_others_are_admitted() {
        // Expected rates of a 512-bit blocked filter, with room above for chance.
        for (bits_per_key, ppm_max) in [(4, 170_000), (8, 30_000), (10, 12_500), (16, 1_500)] {
            for keys in [1, 100, 20_000] {
                let filter = Filter::build(&hashes(0, keys), bits_per_key);
                assert!(hashes(0, keys).iter().all(|&hash| filter.may_contain(hash)));
                let asked = hashes(1_000_000, 1_200_000);
                let admitted = asked.iter().filter(|&&hash| filter.may_contain(hash)).count();
                let ppm = admitted as u64 * 1_000_000 / asked.len() as u64;
                assert!(ppm <= ppm_max, "{bits_per_key} bits, {keys} keys: {ppm} ppm");
            }
        }
    }

    #[test]
    fn a_filter_round_trips_and_keeps_its_bits() {
        let added = hashes(0, 500);
        let filter = Filter::build(&added, 10);
        let mut payload = Vec::new();
        filter.encode(&mut payload);
        assert_eq!(payload.len(), encoded_bytes(500, 10));
        let decoded = Filter::decode(&payload).unwrap();
        let mut again = Vec::new();
        decoded.encode(&mut again);
        assert_eq!(payload, again);
        assert!(added.iter().all(|&hash| decoded.may_contain(hash)));
        // Which bits a key sets is persistent.
        let mut one = Vec::new();
        Filter::build(&[filter_hash(b"terrace")], 10).encode(&mut one);
        let set: Vec<usize> = (0..512).filter(|bit| one[bit / 8] >> (bit % 8) & 1 == 1).collect();
        assert_eq!(set, [3, 56, 108, 193, 324, 452]);
    }

    #[test]
    fn a_keys_bits_and_its_probes_answer_alike() {
        for bits_per_key in [1, 10, BITS_PER_KEY_MAX] {
            let filter = Filter::build(&hashes(0, 1000), bits_per_key);
            for hash in hashes(0, 20_000) {
                let bits = FilterBits::new(hash, filter.probes());
                assert_eq!(filter.may_contain_bits(&bits), filter.may_contain(hash));
            }
        }
    }

    #[test]
    fn malformed_filters_are_refused() {
        for bytes in [0, 1, 2, 63, 64, 66, 128] {
            assert!(Filter::decode(&vec![6; bytes]).is_err(), "{bytes} bytes");
        }
        let mut payload = vec![0; 65];
        for (probes, fine) in [(0, false), (1, true), (24, true), (25, false), (255, false)] {
            payload[64] = probes;
            assert_eq!(Filter::decode(&payload).is_ok(), fine, "{probes} probes");
        }
    }
}
