use std::fmt;

use terrace_env::SeededRng;

use super::operation::Value;

/// How the keys of a run look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// `k00012`.
    Numbered,
    /// Strings of two letters, all prefixes of each other, from the empty key on.
    Prefixes,
    /// Runs of 0xff with something behind them.
    High,
    /// A long common prefix, then a number.
    Long,
    /// Any bytes, of any length up to twelve.
    Bytes,
    /// All of these.
    Mixed,
    /// `k00012`, or `a:k00012` for that of the keyspace `a`: of [`SPACES`] and of the default one.
    Spaces,
}

/// The names of keyspaces that are drawn.
pub const SPACES: &[&str] = &["a", "b", "c"];

/// How large the values of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// Nothing.
    Empty,
    /// Up to 20 bytes.
    Tiny,
    /// Up to 200 bytes.
    Small,
    /// Around the size of a block.
    Block,
    /// Around and above the size of a log segment.
    Segment,
    /// All of these.
    Mixed,
}

/// What a workload is for: which operations make sense in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// One client that does everything and is checked at every step.
    Steps,
    /// Clients that mostly write: what a crash leaves is checked.
    Crash,
    /// Clients that write and read the same keys at once.
    Race,
}

/// How often each kind of operation is drawn, relative to the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weights {
    /// Writes of one change.
    pub write: u32,
    /// Writes of several.
    pub batch: u32,
    /// Conditional writes.
    pub update: u32,
    /// Reads of a key.
    pub get: u32,
    /// Reads of an interval.
    pub scan: u32,
    /// Taking and dropping snapshots.
    pub snapshot: u32,
    /// Making, moving and dropping iterators.
    pub iterator: u32,
    /// Flushes.
    pub flush: u32,
    /// Compactions of an interval.
    pub compact: u32,
    /// Opening anew.
    pub restart: u32,
    /// Opening for reading only.
    pub read_only: u32,
    /// Letting time pass.
    pub sleep: u32,
    /// Waiting for the background, and checking all tables.
    pub settle: u32,
    /// Ingests.
    pub ingest: u32,
    /// Checkpoints.
    pub checkpoint: u32,
    /// Divisions into dranges.
    pub divide: u32,
    /// Dropping and renaming keyspaces.
    pub keyspace: u32,
}

impl Weights {
    /// Each weight with a number for its kind, in order.
    #[must_use]
    pub fn list(&self) -> [u32; 17] {
        [
            self.write,
            self.batch,
            self.update,
            self.get,
            self.scan,
            self.snapshot,
            self.iterator,
            self.flush,
            self.compact,
            self.restart,
            self.read_only,
            self.sleep,
            self.settle,
            self.ingest,
            self.checkpoint,
            self.divide,
            self.keyspace,
        ]
    }
}

/// The shape of a workload. Runs differ in shape and not only in their seed, because a generator
/// that is always the same finds only what it was made for.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How keys look.
    pub key_form: KeyForm,
    /// How many keys there are.
    pub key_count: u64,
    /// Bytes of the common prefix of long keys.
    pub prefix_bytes: usize,
    /// Once in how many times a key is one of the first three; 0 for never.
    pub hot_in: u32,
    /// How large values are.
    pub value_form: ValueForm,
    /// Bytes of a block and of a log segment, to draw values around them.
    pub block_bytes: u32,
    /// See above.
    pub segment_bytes: u32,
    /// Once in how many changes an operand is merged into a key; 0 for never.
    pub merges_in: u32,
    /// Once in how many changes a key is deleted.
    pub deletes_in: u32,
    /// Once in how many changes an interval is deleted; 0 for never.
    pub range_deletes_in: u32,
    /// Once in how many puts a value expires; 0 for never.
    pub ttl_in: u32,
    /// Once in how many writes one is synced; 0 for never.
    pub sync_in: u32,
    /// Once in how many calls one may not wait; 0 for never.
    pub nowait_in: u32,
    /// Changes in a batch, at most.
    pub batch_max: u64,
    /// Once in how many changes of a batch a key of the same batch is changed again; 0 for never.
    pub twice_in: u32,
    /// Which operations.
    pub weights: Weights,
}

impl Shape {
    /// A shape for `purpose`, over tables with blocks of `block_bytes` and a log with segments of
    /// `segment_bytes`.
    #[must_use]
    pub fn draw(
        random: &mut SeededRng,
        purpose: Purpose,
        block_bytes: u32,
        segment_bytes: u32,
    ) -> Shape {
        use KeyForm::{Bytes, High, Long, Mixed, Numbered, Prefixes};
        let key_form = [Numbered, Numbered, Prefixes, High, Long, Bytes, Mixed][random.index(7)];
        let key_count = match purpose {
            Purpose::Steps => [3, 40, 400, 4000][random.index(4)],
            Purpose::Crash => [2, 10, 40, 200][random.index(4)],
            Purpose::Race => [1, 3, 8, 24][random.index(4)],
        };
        use ValueForm::{Block, Empty, Segment, Small, Tiny};
        let value_form = match purpose {
            // Large values everywhere would make these runs few.
            Purpose::Race => [Tiny, Tiny, Small, Small, Block, Empty][random.index(6)],
            _ => {
                [Tiny, Tiny, Small, Small, Block, Empty, Segment, ValueForm::Mixed][random.index(8)]
            }
        };
        let pick = |random: &mut SeededRng, from: &[u32]| from[random.index(from.len())];
        Shape {
            key_form,
            key_count,
            prefix_bytes: [20, 200, 1500][random.index(3)],
            hot_in: pick(random, &[0, 2, 4]),
            value_form,
            block_bytes,
            segment_bytes,
            merges_in: pick(random, &[0, 2, 5]),
            deletes_in: pick(random, &[2, 5, 20]),
            range_deletes_in: pick(random, &[0, 6, 40]),
            ttl_in: pick(random, &[0, 3, 10]),
            sync_in: pick(random, &[0, 3, 10]),
            nowait_in: pick(random, &[0, 0, 10]),
            batch_max: [2, 6, 14][random.index(3)],
            twice_in: pick(random, &[0, 3]),
            weights: weights_for(purpose, random),
        }
    }

    /// The key with this number.
    #[must_use]
    pub fn key(&self, number: u64) -> Vec<u8> {
        match self.key_form {
            KeyForm::Numbered => numbered(number),
            KeyForm::Prefixes => prefixes(number),
            KeyForm::High => high(number),
            KeyForm::Long => self.long(number),
            KeyForm::Bytes => bytes(number),
            KeyForm::Spaces => in_spaces(number),
            KeyForm::Mixed => match number % 5 {
                0 => numbered(number),
                1 => prefixes(number / 5),
                2 => high(number / 5),
                3 => self.long(number),
                _ => bytes(number),
            },
        }
    }

    /// A random key.
    pub fn draw_key(&self, random: &mut SeededRng) -> Vec<u8> {
        if random.one_in(self.hot_in) {
            return self.key(random.below(self.key_count.min(3)));
        }
        self.key(random.below(self.key_count))
    }

    /// A random value with this tag.
    pub fn draw_value(&self, random: &mut SeededRng, tag: u64) -> Value {
        let form = match self.value_form {
            ValueForm::Mixed => {
                use ValueForm::{Block, Empty, Segment, Small, Tiny};
                [Empty, Tiny, Small, Small, Small, Block, Block, Segment][random.index(8)]
            }
            form => form,
        };
        let around = |random: &mut SeededRng, bytes: u32| {
            bytes / 2 + random.below(u64::from(bytes) + 64) as u32
        };
        let bytes = match form {
            ValueForm::Empty => 0,
            ValueForm::Tiny => random.below(21) as u32,
            ValueForm::Small | ValueForm::Mixed => random.below(201) as u32,
            ValueForm::Block => around(random, self.block_bytes.min(4096)),
            ValueForm::Segment if random.one_in(3) => around(random, self.segment_bytes),
            ValueForm::Segment => random.below(201) as u32,
        };
        Value { bytes, tag }
    }

    fn long(&self, number: u64) -> Vec<u8> {
        let mut key = b"common/".repeat(self.prefix_bytes / 7 + 1);
        key.truncate(self.prefix_bytes);
        key.extend_from_slice(format!("{number:06}").as_bytes());
        key
    }
}

fn in_spaces(number: u64) -> Vec<u8> {
    let count = SPACES.len() as u64 + 1;
    let key = numbered(number / count);
    match SPACES.get((number % count) as usize) {
        Some(name) => [name.as_bytes(), b":", &key].concat(),
        None => key,
    }
}

fn numbered(number: u64) -> Vec<u8> {
    format!("k{number:05}").into_bytes()
}

/// The number in the counting that goes "", a, b, aa, ab, ba, …
fn prefixes(number: u64) -> Vec<u8> {
    let mut left = number + 1;
    let mut key = Vec::new();
    while left > 1 {
        key.push(if left.is_multiple_of(2) { b'a' } else { b'b' });
        left /= 2;
    }
    key.reverse();
    key
}

fn high(number: u64) -> Vec<u8> {
    let mut key = vec![0xff; (number % 9) as usize];
    let rest = number / 9;
    if rest > 0 {
        let bytes = rest.to_be_bytes();
        let skipped = bytes.iter().take_while(|byte| **byte == 0).count();
        key.extend_from_slice(&bytes[skipped..]);
    }
    key
}

fn bytes(number: u64) -> Vec<u8> {
    let content = Value { bytes: 12, tag: number * 2 + 1 }.content();
    // The number itself, so that no two are the same, among bytes that say nothing.
    let mut key = content[..(number % 9) as usize].to_vec();
    key.extend_from_slice(&(number as u32).to_be_bytes()[1..]);
    key
}

fn weights_for(purpose: Purpose, random: &mut SeededRng) -> Weights {
    let mut one_of = |from: &[u32]| from[random.index(from.len())];
    match purpose {
        Purpose::Steps => Weights {
            write: 400,
            batch: one_of(&[20, 150]),
            update: one_of(&[20, 100]),
            get: one_of(&[100, 300]),
            scan: one_of(&[10, 40]),
            snapshot: one_of(&[5, 25]),
            iterator: one_of(&[10, 60]),
            flush: one_of(&[1, 6]),
            compact: one_of(&[1, 4]),
            restart: one_of(&[1, 5]),
            read_only: 1,
            sleep: one_of(&[5, 25]),
            settle: 2,
            ingest: one_of(&[0, 12]),
            checkpoint: one_of(&[0, 2]),
            divide: 4,
            keyspace: 0,
        },
        Purpose::Crash => Weights {
            write: 100,
            batch: one_of(&[10, 60]),
            update: one_of(&[0, 30]),
            get: 5,
            scan: 2,
            snapshot: one_of(&[0, 6]),
            iterator: 2,
            flush: one_of(&[0, 4, 12]),
            compact: one_of(&[0, 3, 8]),
            restart: one_of(&[0, 3, 8]),
            read_only: 0,
            sleep: one_of(&[0, 4]),
            settle: 1,
            ingest: one_of(&[0, 0, 5]),
            checkpoint: one_of(&[0, 0, 3]),
            divide: 2,
            keyspace: 0,
        },
        Purpose::Race => Weights {
            write: 60,
            batch: one_of(&[10, 30]),
            update: one_of(&[10, 40]),
            get: one_of(&[30, 80]),
            scan: one_of(&[5, 15]),
            snapshot: 10,
            iterator: one_of(&[10, 20]),
            flush: one_of(&[2, 10]),
            compact: one_of(&[1, 6]),
            restart: 0,
            read_only: 0,
            sleep: one_of(&[0, 4]),
            settle: 0,
            ingest: one_of(&[0, 0, 5]),
            checkpoint: one_of(&[0, 0, 3]),
            divide: 4,
            keyspace: 0,
        },
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} keys ({:?}), values {:?}, 1/{} merges, 1/{} deletes, 1/{} range deletes, 1/{} expiring, \
             1/{} synced, batches of up to {}",
            self.key_count,
            self.key_form,
            self.value_form,
            self.merges_in,
            self.deletes_in,
            self.range_deletes_in,
            self.ttl_in,
            self.sync_in,
            self.batch_max,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_keys_of_a_form_are_all_different() {
        for form in [
            KeyForm::Numbered,
            KeyForm::Prefixes,
            KeyForm::High,
            KeyForm::Long,
            KeyForm::Bytes,
            KeyForm::Spaces,
        ] {
            let mut random = SeededRng::new(1);
            let shape =
                Shape { key_form: form, ..Shape::draw(&mut random, Purpose::Steps, 512, 4096) };
            let keys: BTreeSet<Vec<u8>> = (0..500).map(|number| shape.key(number)).collect();
            assert_eq!(keys.len(), 500, "{form:?}");
        }
        assert_eq!(prefixes(0), b"");
        assert_eq!(prefixes(4), b"ab");
        assert_eq!(high(3), [0xff; 3]);
    }
}
