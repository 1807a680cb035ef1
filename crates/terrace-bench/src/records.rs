//! What the records of a run are: their numbers, keys and values.
//!
//! ```text
//! record    0 1 2 ... N-1          in the order in which they are loaded
//!           │ a fixed permutation: loading is random in key order
//! slot      0 . . . 16 . . . 32    loaded records stand 16 apart, so that inserted ones (N, N+1,
//!           │                      ...) have room between them, anywhere among the keys
//! key       00000000000032         the slot in decimal, padded to the length of keys
//! ```
//! The permutation does not depend on the run's seed, so that runs with other seeds find the same
//! records. A zipfian rank is a record number: the permutation scatters the common ones. A
//! clustered rank is a slot: the common ones are neighbours.

use std::str::FromStr;

use crate::random::{Random, mix};

/// The distance between the slots of loaded records.
const SLOTS_PER_RECORD: u64 = 16;

/// Rounds of inserted records after which slots come again: the last place between two loaded
/// records stays free, for keys that are never there.
const INSERT_ROUNDS: u64 = SLOTS_PER_RECORD - 2;

/// Rounds of the Feistel network.
const ROUNDS: u64 = 4;

/// The records of a run: `count` loaded ones, and any number of inserted ones.
#[derive(Clone, Debug)]
pub struct Records {
    count: u64,
    /// Half of the bits of the permutation's domain.
    half_bits: u32,
    key_bytes: usize,
    /// The distance between the slots of loaded records: [`SLOTS_PER_RECORD`], or 1.
    slots: u64,
}

impl Records {
    /// `count` records, at least 1, with keys of `key_bytes`.
    #[must_use]
    pub fn new(count: u64, key_bytes: usize) -> Records {
        assert!(count > 0, "there is a record");
        let bits = u64::BITS - (count - 1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Records { count, half_bits, key_bytes, slots: SLOTS_PER_RECORD }
    }

    /// The same with slots one beside the other: as many keys as there are numbers. Inserted
    /// records come behind all others, and no key is missing between two.
    #[must_use]
    pub fn dense(self) -> Records {
        Records { slots: 1, ..self }
    }

    /// The fewest bytes that keys of `count` records must have.
    #[must_use]
    pub fn key_bytes_min(count: u64) -> usize {
        count.saturating_mul(SLOTS_PER_RECORD).to_string().len()
    }

    /// How many records are loaded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The slot of a record, in the order of loading and inserting. After 14 inserted records for
    /// each loaded one, slots come again.
    #[must_use]
    pub fn slot(&self, record: u64) -> u64 {
        if record < self.count {
            return self.permuted(record) * self.slots;
        }
        if self.slots == 1 {
            return record;
        }
        let inserted = record - self.count;
        let round = inserted / self.count % INSERT_ROUNDS;
        self.permuted(inserted % self.count) * SLOTS_PER_RECORD + 1 + round
    }

    /// The slot of the loaded record with this place in key order.
    #[must_use]
    pub fn slot_in_order(&self, place: u64) -> u64 {
        place * self.slots
    }

    /// A slot beside that of `slot` which no record ever takes; dense records have none.
    #[must_use]
    pub fn missing_slot(&self, slot: u64) -> u64 {
        slot / SLOTS_PER_RECORD * SLOTS_PER_RECORD + SLOTS_PER_RECORD - 1
    }

    /// Writes the key of `slot` into `key`.
    pub fn write_key(&self, slot: u64, key: &mut Vec<u8>) {
        key.clear();
        key.resize(self.key_bytes, b'0');
        let mut rest = slot;
        for digit in key.iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *digit = b'0' + u8::try_from(rest % 10).expect("a digit is below 10");
            rest /= 10;
        }
        assert_eq!(rest, 0, "the key has room for the slot");
    }

    /// A permutation of 0..count, without a table: a Feistel network over the next even power of
    /// two, applied again until the result is in bounds.
    fn permuted(&self, number: u64) -> u64 {
        let mut at = number;
        loop {
            at = self.feistel(at);
            if at < self.count {
                return at;
            }
        }
    }

    fn feistel(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (mix(right ^ (round << 56)) & mask));
        }
        left << self.half_bits | right
    }
}

/// The bytes that values are cut from.
const POOL_BYTES: usize = 1 << 20;

/// Small, medium and large pairs: bytes of key and value together.
///
/// *Source:* Tebis (EuroSys 2022), §4, after the mixes that Facebook reports.
const PAIR_BYTES: [usize; 3] = [33, 123, 1023];

/// Shares of small, medium and large pairs, as Tebis (EuroSys 2022), Table 1, has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueMix {
    /// Small ones only.
    S,
    /// Medium ones only.
    M,
    /// Large ones only.
    L,
    /// 60 % small, 20 % of each other.
    Sd,
    /// 60 % medium, 20 % of each other.
    Md,
    /// 60 % large, 20 % of each other.
    Ld,
}

impl ValueMix {
    /// All of them, by their names.
    pub const ALL: [(&'static str, ValueMix); 6] = [
        ("s", ValueMix::S),
        ("m", ValueMix::M),
        ("l", ValueMix::L),
        ("sd", ValueMix::Sd),
        ("md", ValueMix::Md),
        ("ld", ValueMix::Ld),
    ];

    /// Percent of small, medium and large pairs.
    fn shares(self) -> [u64; 3] {
        match self {
            ValueMix::S => [100, 0, 0],
            ValueMix::M => [0, 100, 0],
            ValueMix::L => [0, 0, 100],
            ValueMix::Sd => [60, 20, 20],
            ValueMix::Md => [20, 60, 20],
            ValueMix::Ld => [20, 20, 60],
        }
    }

    /// The bytes of the smallest pair in the mix.
    #[must_use]
    pub fn pair_bytes_min(self) -> usize {
        let pairs = PAIR_BYTES.into_iter().zip(self.shares());
        pairs.filter(|(_, share)| *share > 0).map(|(bytes, _)| bytes).min().unwrap_or(0)
    }

    /// The mean bytes of a pair.
    #[must_use]
    pub fn pair_bytes_mean(self) -> f64 {
        let pairs = PAIR_BYTES.into_iter().zip(self.shares());
        pairs.map(|(bytes, share)| bytes as f64 * share as f64 / 100.0).sum()
    }

    fn draw(self, random: &mut Random) -> usize {
        let [small, medium, _] = self.shares();
        let drawn = random.below(100);
        PAIR_BYTES[usize::from(drawn >= small) + usize::from(drawn >= small + medium)]
    }
}

impl FromStr for ValueMix {
    type Err = String;

    fn from_str(text: &str) -> Result<ValueMix, String> {
        let found = ValueMix::ALL.into_iter().find(|(name, _)| *name == text);
        let names = || ValueMix::ALL.map(|(name, _)| name).join(", ");
        found.map(|(_, mix)| mix).ok_or_else(|| format!("'{text}' is none of {}", names()))
    }
}

/// How long values are.
#[derive(Clone, Copy, Debug)]
enum Length {
    Fixed(usize),
    Mixed { mix: ValueMix, key_bytes: usize },
}

/// Values that compress to about half, as real ones do: every 64 bytes, 32 random ones and 32 of
/// one letter.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    length: Length,
}

impl Values {
    /// Values of `value_bytes`.
    #[must_use]
    pub fn new(seed: u64, value_bytes: usize) -> Values {
        Values::with_length(seed, Length::Fixed(value_bytes), value_bytes)
    }

    /// Values of several lengths, for keys of `key_bytes`, which are shorter than any pair.
    #[must_use]
    pub fn mixed(seed: u64, mix: ValueMix, key_bytes: usize) -> Values {
        Values::with_length(seed, Length::Mixed { mix, key_bytes }, PAIR_BYTES[2])
    }

    fn with_length(seed: u64, length: Length, longest: usize) -> Values {
        let mut random = Random::new(seed, u64::MAX);
        let mut pool = Vec::with_capacity(POOL_BYTES + longest);
        while pool.len() < POOL_BYTES + longest {
            (0..4).for_each(|_| pool.extend_from_slice(&random.draw().to_le_bytes()));
            pool.extend_from_slice(&[b'v'; 32]);
        }
        Values { pool, length }
    }

    /// A value.
    pub fn next<'a>(&'a self, random: &mut Random) -> &'a [u8] {
        let start = usize::try_from(random.below(POOL_BYTES as u64)).expect("the pool is small");
        let bytes = match self.length {
            Length::Fixed(bytes) => bytes,
            Length::Mixed { mix, key_bytes } => mix.draw(random) - key_bytes,
        };
        &self.pool[start..start + bytes]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_record_has_a_slot_of_its_own() {
        for count in [1, 2, 3, 5, 16, 17, 1000, 1025] {
            let records = Records::new(count, 16);
            let slots: HashSet<u64> = (0..count * 15).map(|record| records.slot(record)).collect();
            assert_eq!(slots.len() as u64, count * 15);
            assert!(slots.iter().all(|&slot| !slots.contains(&records.missing_slot(slot))));
            let loaded: HashSet<u64> = (0..count).map(|record| records.slot(record)).collect();
            let in_order = (0..count).map(|place| records.slot_in_order(place)).collect();
            assert_eq!(loaded, in_order);
        }
    }

    #[test]
    fn dense_records_have_every_number() {
        let records = Records::new(1000, 16).dense();
        let slots: HashSet<u64> = (0..1000).map(|record| records.slot(record)).collect();
        assert_eq!(slots, (0..1000).collect());
        assert_eq!((records.slot(1000), records.slot_in_order(7)), (1000, 7));
    }

    #[test]
    fn records_are_loaded_in_random_order() {
        let records = Records::new(10_000, 16);
        let rising = (1..10_000).filter(|&at| records.slot(at) > records.slot(at - 1)).count();
        assert!((4_700..5_300).contains(&rising), "{rising} steps go up");
    }

    #[test]
    fn keys_are_in_the_order_of_their_slots() {
        let records = Records::new(1000, Records::key_bytes_min(1000));
        let (mut key, mut before) = (Vec::new(), Vec::new());
        for slot in 0..16_000 {
            records.write_key(slot, &mut key);
            assert!(slot == 0 || before < key);
            before.clone_from(&key);
        }
        assert_eq!(key, b"15999");
    }

    #[test]
    fn values_have_their_length() {
        let values = Values::new(1, 300);
        let mut random = Random::new(1, 0);
        assert!((0..100).all(|_| values.next(&mut random).len() == 300));
    }

    #[test]
    fn mixes_have_their_shares() {
        for (name, mix) in ValueMix::ALL {
            assert_eq!(name.parse(), Ok(mix));
            let values = Values::mixed(1, mix, 16);
            let mut random = Random::new(1, 0);
            let mut counts = [0_u64; 3];
            let mut sum = 0;
            for _ in 0..10_000 {
                let bytes = values.next(&mut random).len() + 16;
                sum += bytes;
                counts[PAIR_BYTES.iter().position(|&known| known == bytes).unwrap()] += 1;
            }
            let mean = sum as f64 / 10_000.0;
            assert!((mean / mix.pair_bytes_mean() - 1.0).abs() < 0.05, "{name}: {mean}");
            for (count, share) in counts.into_iter().zip(mix.shares()) {
                assert!(count.abs_diff(share * 100) < 200, "{name}: {counts:?}");
            }
        }
        let means = [ValueMix::Sd, ValueMix::Md, ValueMix::Ld].map(ValueMix::pair_bytes_mean);
        assert_eq!(means.map(f64::round), [249.0, 285.0, 645.0]);
    }
}
