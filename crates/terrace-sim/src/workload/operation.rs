use terrace_base::{Expiry, KeyRange, WallTime};
use terrace_engine::{Result, WriteBatch};

/// The content of a value, by its size and a tag from which its bytes follow. Two values of eight
/// bytes or more with different tags differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value {
    /// How many bytes.
    pub bytes: u32,
    /// What tells it from others. Even tags give bytes that compress, odd ones bytes that do not.
    pub tag: u64,
}

impl Value {
    /// The bytes.
    #[must_use]
    pub fn content(self) -> Vec<u8> {
        let bytes = self.bytes as usize;
        let mut content = Vec::with_capacity(bytes + 8);
        let mut word = self.tag.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        while content.len() < bytes {
            content.extend_from_slice(&word.to_le_bytes());
            if self.tag % 2 == 1 {
                word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(23);
            }
        }
        content.truncate(bytes);
        content
    }

    /// Whether `content` is this value's.
    #[must_use]
    pub fn is(self, content: &[u8]) -> bool {
        self.bytes as usize == content.len() && self.content() == content
    }
}

/// A change of one key, or of an interval of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a key, for ever or for a time in milliseconds (0: it is expired at once).
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Value,
        /// How long it lives.
        ttl_ms: Option<u64>,
    },
    /// Merges an operand into a key, whether or not it exists: it is appended.
    Merge {
        /// The key.
        key: Vec<u8>,
        /// The operand.
        operand: Value,
    },
    /// Deletes a key, whether or not it exists.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// Deletes the keys of `start..end`; nothing if that is empty.
    DeleteRange {
        /// The first key.
        start: Vec<u8>,
        /// The key after the last one.
        end: Vec<u8>,
    },
    /// Sets keys all at once, under one number: what an ingest does.
    Ingest {
        /// The [`Change::Put`]s, by key, each key once.
        puts: Vec<Change>,
    },
}

impl Change {
    /// The key, if it is a change of one.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Change::Put { key, .. } | Change::Merge { key, .. } | Change::Delete { key } => {
                Some(key)
            }
            Change::DeleteRange { .. } | Change::Ingest { .. } => None,
        }
    }

    /// How many sequence numbers it takes.
    #[must_use]
    pub fn numbers(&self) -> u64 {
        match self {
            Change::DeleteRange { start, end } => u64::from(start < end),
            Change::Ingest { puts } => u64::from(!puts.is_empty()),
            Change::Put { .. } | Change::Merge { .. } | Change::Delete { .. } => 1,
        }
    }

    /// Whether it changes more than one key.
    #[must_use]
    pub fn spans_keys(&self) -> bool {
        matches!(self, Change::DeleteRange { .. } | Change::Ingest { .. })
    }

    fn add_to(&self, batch: &mut WriteBatch, now: WallTime) -> Result<()> {
        match self {
            Change::Put { key, value, ttl_ms } => {
                let expiry = ttl_ms.map(|ttl| Expiry::at(WallTime(now.0.saturating_add(ttl))));
                batch.put_with_expiry(key, &value.content(), expiry)
            }
            Change::Merge { key, operand } => batch.merge(key, &operand.content()),
            Change::Delete { key } => batch.delete(key),
            Change::DeleteRange { start, end } => batch.delete_range(start, end),
            Change::Ingest { puts } => puts.iter().try_for_each(|put| put.add_to(batch, now)),
        }
    }
}

/// The batch that makes these changes at `now`.
pub fn batch_of(changes: &[Change], now: WallTime) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    changes.iter().try_for_each(|change| change.add_to(&mut batch, now))?;
    Ok(batch)
}

/// How many sequence numbers these changes take.
#[must_use]
pub fn numbers_of(changes: &[Change]) -> u64 {
    changes.iter().map(Change::numbers).sum()
}

/// What a conditional write asks of the value that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Always,
    /// That there is none.
    Absent,
    /// That there is one.
    Present,
    /// That it is this one.
    Is(Value),
}

impl Condition {
    /// Whether it holds for a key with this value.
    #[must_use]
    pub fn holds(self, found: Option<&[u8]>) -> bool {
        match self {
            Condition::Always => true,
            Condition::Absent => found.is_none(),
            Condition::Present => found.is_some(),
            Condition::Is(value) => found.is_some_and(|found| value.is(found)),
        }
    }
}

/// How a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Whether it is synced before it is acknowledged, whatever the range's class.
    pub sync: bool,
    /// Whether it may wait. If not, it may be refused.
    pub wait: bool,
}

impl Default for How {
    fn default() -> How {
        How { sync: false, wait: true }
    }
}

/// What a transaction reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A key.
    Key(Vec<u8>),
    /// An interval, as far as the limit lets it.
    Walk {
        /// The keys.
        within: KeyRange,
        /// From the end.
        backward: bool,
        /// At most this number.
        limit: u32,
    },
}

/// A place in which a client keeps a snapshot, or an iterator.
pub type Slot = u8;

/// One thing that a client does to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a batch.
    Write {
        /// The changes, in order.
        changes: Vec<Change>,
        /// How.
        how: How,
    },
    /// Writes a batch if a key's value is as expected.
    Update {
        /// The key.
        key: Vec<u8>,
        /// What is expected.
        condition: Condition,
        /// The changes; range deletes are left out.
        changes: Vec<Change>,
        /// How.
        how: How,
    },
    /// Reads at one moment, and writes a batch later if nothing of that was changed by then.
    Transact {
        /// What it reads.
        readings: Vec<Reading>,
        /// The changes, in order.
        changes: Vec<Change>,
        /// How it is written.
        how: How,
    },
    /// Reads a key.
    Get {
        /// The key.
        key: Vec<u8>,
        /// In which snapshot, if in one.
        at: Option<Slot>,
        /// Whether it may wait for the disk. If not, it is tried again with waiting.
        wait: bool,
    },
    /// Reads several keys at once.
    MultiGet {
        /// The keys.
        keys: Vec<Vec<u8>>,
        /// Whether it may wait for the disk. If not, it is tried again with waiting.
        wait: bool,
    },
    /// Reads an interval with an iterator of its own.
    Scan {
        /// The keys.
        within: KeyRange,
        /// From the end.
        backward: bool,
        /// At most this number.
        limit: u32,
        /// In which snapshot, if in one.
        at: Option<Slot>,
    },
    /// Takes a snapshot; one that the slot held is dropped.
    Snapshot {
        /// Where it is kept.
        slot: Slot,
    },
    /// Drops a snapshot.
    DropSnapshot {
        /// Where it is kept.
        slot: Slot,
    },
    /// Makes an iterator; one that the slot held is dropped.
    Iterate {
        /// Where it is kept.
        slot: Slot,
        /// The keys.
        within: KeyRange,
        /// In which snapshot, if in one.
        at: Option<Slot>,
    },
    /// Sends an iterator to the first key at or above one.
    Seek {
        /// Which.
        slot: Slot,
        /// The key.
        key: Vec<u8>,
    },
    /// Sends an iterator to the last key below one, or to the last of all.
    SeekBack {
        /// Which.
        slot: Slot,
        /// The key.
        bound: Option<Vec<u8>>,
    },
    /// Steps an iterator, as far as there are keys.
    Step {
        /// Which.
        slot: Slot,
        /// To greater keys.
        forward: bool,
        /// Number of times.
        count: u32,
    },
    /// Drops an iterator.
    DropIterator {
        /// Which.
        slot: Slot,
    },
    /// Writes all memtables to L0.
    Flush,
    /// Takes an interval down the levels.
    Compact {
        /// The keys.
        within: KeyRange,
    },
    /// Opens the range anew, after a clean close or after every handle was dropped. Snapshots and
    /// iterators are dropped first.
    Restart {
        /// Whether it is closed by a call.
        clean: bool,
    },
    /// Opens the range for reading only, reads everything, and opens it for writing again.
    ReadOnly,
    /// Lets time pass.
    Sleep {
        /// Milliseconds.
        ms: u64,
    },
    /// Waits for the background work.
    Settle,
    /// Reads and judges every table.
    Check,
    /// Ingests sorted data; of several puts of one key the last counts.
    Ingest {
        /// The [`Change::Put`]s; others are left out.
        puts: Vec<Change>,
    },
    /// Makes a checkpoint, or a backup where the library is driven; opens it, and reads and judges
    /// all that is in it.
    Checkpoint,
    /// Drops a keyspace; a range by itself has none.
    DropKeyspace {
        /// Its name.
        name: String,
    },
    /// Gives a keyspace another name.
    RenameKeyspace {
        /// Its name.
        from: String,
        /// The new one. If somebody has it, nothing is renamed.
        to: String,
    },
    /// Divides the range into dranges.
    Divide {
        /// Where, in any order.
        keys: Vec<Vec<u8>>,
        /// How many duplicates the intervals between the keys have, at least one each: by turns, as
        /// often as there are intervals. One each if this is empty.
        duplicates: Vec<usize>,
    },
}

impl Operation {
    /// A write of one change.
    #[must_use]
    pub fn write(change: Change) -> Operation {
        Operation::Write { changes: vec![change], how: How::default() }
    }

    /// The same with less in it, for the reducer: each candidate is one step simpler.
    #[must_use]
    pub fn simpler(&self) -> Vec<Operation> {
        match self {
            Operation::Write { changes, how } => {
                let mut out: Vec<Operation> = simpler_changes(changes)
                    .into_iter()
                    .map(|changes| Operation::Write { changes, how: *how })
                    .collect();
                if *how != How::default() {
                    out.push(Operation::Write { changes: changes.clone(), how: How::default() });
                }
                out
            }
            Operation::Update { key, condition, changes, how } => {
                let mut out = vec![Operation::Write { changes: changes.clone(), how: *how }];
                out.extend(simpler_changes(changes).into_iter().map(|changes| Operation::Update {
                    key: key.clone(),
                    condition: *condition,
                    changes,
                    how: *how,
                }));
                out
            }
            Operation::Transact { readings, changes, how } => {
                let with = |readings: Vec<Reading>, changes: Vec<Change>| Operation::Transact {
                    readings,
                    changes,
                    how: *how,
                };
                let mut out = vec![Operation::Write { changes: changes.clone(), how: *how }];
                for left_out in 0..readings.len() {
                    let mut fewer = readings.clone();
                    fewer.remove(left_out);
                    out.push(with(fewer, changes.clone()));
                }
                let simpler = simpler_changes(changes).into_iter();
                out.extend(simpler.map(|changes| with(readings.clone(), changes)));
                out
            }
            Operation::Scan { within, backward, limit, at } if *within != KeyRange::all() => {
                vec![Operation::Scan {
                    within: KeyRange::all(),
                    backward: *backward,
                    limit: *limit,
                    at: *at,
                }]
            }
            Operation::Compact { within } if *within != KeyRange::all() => {
                vec![Operation::Compact { within: KeyRange::all() }]
            }
            Operation::Divide { keys, duplicates }
                if !keys.is_empty() || !duplicates.is_empty() =>
            {
                let (fewer, duplicates) = (keys.get(1..).unwrap_or_default(), duplicates.clone());
                let plain = Operation::Divide { keys: keys.clone(), duplicates: Vec::new() };
                vec![
                    Operation::Flush,
                    plain,
                    Operation::Divide { keys: fewer.to_vec(), duplicates },
                ]
            }
            Operation::Compact { .. } | Operation::Checkpoint | Operation::Divide { .. } => {
                vec![Operation::Flush]
            }
            Operation::Ingest { puts } => {
                let mut out = vec![Operation::Write { changes: puts.clone(), how: How::default() }];
                let fewer = simpler_changes(puts).into_iter();
                out.extend(fewer.map(|puts| Operation::Ingest { puts }));
                out
            }
            Operation::Get { key, at, wait: false } => {
                vec![Operation::Get { key: key.clone(), at: *at, wait: true }]
            }
            Operation::MultiGet { keys, wait: false } => {
                vec![Operation::MultiGet { keys: keys.clone(), wait: true }]
            }
            Operation::MultiGet { keys, wait } if keys.len() > 1 => {
                let fewer = (0..keys.len()).map(|left_out| {
                    let mut keys = keys.clone();
                    keys.remove(left_out);
                    Operation::MultiGet { keys, wait: *wait }
                });
                fewer.collect()
            }
            Operation::Step { slot, forward, count } if *count > 1 => {
                vec![Operation::Step { slot: *slot, forward: *forward, count: count / 2 }]
            }
            _ => Vec::new(),
        }
    }

    /// The keys that it names, for tests of what a generator reaches.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let changes: &[Change] = match self {
            Operation::Write { changes, .. }
            | Operation::Update { changes, .. }
            | Operation::Transact { changes, .. } => changes,
            Operation::Ingest { puts } => puts,
            _ => &[],
        };
        let own = match self {
            Operation::Get { key, .. } | Operation::Update { key, .. } => Some(key.as_slice()),
            _ => None,
        };
        let several = match self {
            Operation::MultiGet { keys, .. } => keys.as_slice(),
            _ => &[],
        };
        let own = own.into_iter().chain(several.iter().map(Vec::as_slice));
        own.chain(changes.iter().filter_map(Change::key))
    }
}

/// Each change left out once, and each made smaller once.
fn simpler_changes(changes: &[Change]) -> Vec<Vec<Change>> {
    let mut out = Vec::new();
    if changes.len() > 1 {
        for left_out in 0..changes.len() {
            let mut fewer = changes.to_vec();
            fewer.remove(left_out);
            out.push(fewer);
        }
    }
    for (index, change) in changes.iter().enumerate() {
        let Change::Put { key, value, ttl_ms } = change else { continue };
        let mut replace = |value, ttl_ms| {
            let mut smaller = changes.to_vec();
            smaller[index] = Change::Put { key: key.clone(), value, ttl_ms };
            out.push(smaller);
        };
        if ttl_ms.is_some() {
            replace(*value, None);
        }
        if value.bytes > 8 {
            replace(Value { bytes: 8, ..*value }, *ttl_ms);
            replace(Value { bytes: value.bytes / 2, ..*value }, *ttl_ms);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_from_their_tags() {
        let value = |bytes, tag| Value { bytes, tag };
        assert!(value(0, 7).content().is_empty());
        assert_eq!(value(300, 3).content().len(), 300);
        assert_ne!(value(8, 3).content(), value(8, 4).content());
        assert!(value(9, 3).is(&value(9, 3).content()));
        assert!(!value(9, 3).is(&value(8, 3).content()));
        let repeated = value(64, 2).content();
        assert_eq!(repeated[..8], repeated[56..]);
        let mixed = value(64, 3).content();
        assert_ne!(mixed[..8], mixed[56..]);
    }

    #[test]
    fn a_simpler_operation_is_never_the_same() {
        let put = |bytes| Change::Put {
            key: b"k".to_vec(),
            value: Value { bytes, tag: 1 },
            ttl_ms: Some(5),
        };
        let operation = Operation::Write {
            changes: vec![put(100), put(3)],
            how: How { sync: true, wait: true },
        };
        let simpler = operation.simpler();
        assert_eq!(simpler.len(), 2 + 2 + 1 + 1 + 1);
        assert!(simpler.iter().all(|other| *other != operation));
    }
}
