use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{KeyRange, WallTime, hash_bytes};

use crate::workload::{Change, Value};

/// What a range must hold, at every sequence number since the model began.
///
/// A sorted map from keys to their versions, and nothing else: no memtable, no level, no log. It is
/// small enough to be believed.
#[derive(Clone, Debug, Default)]
pub struct Model {
    keys: BTreeMap<Vec<u8>, Vec<Version>>,
    seqno: u64,
}

#[derive(Clone, Debug)]
struct Version {
    seqno: u64,
    held: Option<Held>,
}

/// What one version of a key holds: a value, and what was appended to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    value: Value,
    hash: u64,
    expiry: Option<WallTime>,
    appended: Option<Appended>,
}

/// The operands above a value, which stay when the value has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Appended {
    content: Arc<[u8]>,
    hash: u64,
}

impl Held {
    fn put(value: Value, expiry: Option<WallTime>) -> Held {
        Held { value, hash: hash_bytes(0, &value.content()), expiry, appended: None }
    }

    /// The same with one operand more.
    fn merged(&self, operand: Value) -> Held {
        let before = self.appended.as_ref().map_or(&b""[..], |appended| &appended.content);
        let content: Arc<[u8]> = [before, &operand.content()].concat().into();
        let hash = hash_bytes(0, &[&self.value.content()[..], &content].concat());
        let appended = Appended { hash: hash_bytes(0, &content), content };
        Held { hash, appended: Some(appended), ..self.clone() }
    }
}

/// A value as it was found, short enough to be kept for every read of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number of the entry.
    pub seqno: u64,
    /// When it expires.
    pub expiry: Option<WallTime>,
    /// How many bytes it has.
    pub bytes: u32,
    /// A hash of them.
    pub hash: u64,
}

impl Found {
    /// What was found.
    #[must_use]
    pub fn of(seqno: u64, expiry: Option<WallTime>, value: &[u8]) -> Found {
        Found { seqno, expiry, bytes: value.len() as u32, hash: hash_bytes(0, value) }
    }
}

/// A key with what was found under it.
pub type Row = (Vec<u8>, Found);

impl Version {
    fn found(&self, now: WallTime) -> Option<Found> {
        let held = self.held.as_ref()?;
        let is_alive = held.expiry.is_none_or(|expiry| expiry > now);
        let rest = held.appended.as_ref();
        let rest_bytes = rest.map_or(0, |appended| appended.content.len() as u32);
        let (bytes, hash, expiry) = match is_alive {
            true => (held.value.bytes + rest_bytes, held.hash, held.expiry),
            false => (rest_bytes, rest?.hash, None),
        };
        Some(Found { seqno: self.seqno, expiry, bytes, hash })
    }
}

impl Model {
    /// The number of the last change.
    #[must_use]
    pub fn seqno(&self) -> u64 {
        self.seqno
    }

    /// Makes these changes at `now`; they get the next numbers.
    pub fn apply(&mut self, changes: &[Change], now: WallTime) {
        for change in changes {
            if change.numbers() == 0 {
                continue;
            }
            self.seqno += 1;
            let seqno = self.seqno;
            match change {
                Change::Put { key, value, ttl_ms } => self.put(key, *value, *ttl_ms, now),
                Change::Ingest { puts } => {
                    for put in puts {
                        if let Change::Put { key, value, ttl_ms } = put {
                            self.put(key, *value, *ttl_ms, now);
                        }
                    }
                }
                Change::Merge { key, operand } => {
                    let versions = self.keys.entry(key.clone()).or_default();
                    let nothing = || Held::put(Value { bytes: 0, tag: 0 }, None);
                    let under = versions.last().and_then(|version| version.held.clone());
                    let held = Some(under.unwrap_or_else(nothing).merged(*operand));
                    versions.push(Version { seqno, held });
                }
                Change::Delete { key } => {
                    let versions = self.keys.entry(key.clone()).or_default();
                    versions.push(Version { seqno, held: None });
                }
                Change::DeleteRange { start, end } => {
                    for (_, versions) in self.keys.range_mut(start.clone()..end.clone()) {
                        versions.push(Version { seqno, held: None });
                    }
                }
            }
        }
    }

    /// Gives a key its version of the last number.
    fn put(&mut self, key: &[u8], value: Value, ttl_ms: Option<u64>, now: WallTime) {
        // The moment 0 cannot be stored and is rounded up.
        let expiry = ttl_ms.map(|ttl| WallTime(now.0.saturating_add(ttl).max(1)));
        let version = Version { seqno: self.seqno, held: Some(Held::put(value, expiry)) };
        self.keys.entry(key.to_vec()).or_default().push(version);
    }

    /// The model without what came after `seqno`.
    #[must_use]
    pub fn cut_at(mut self, seqno: u64) -> Model {
        for versions in self.keys.values_mut() {
            versions.truncate(versions.partition_point(|version| version.seqno <= seqno));
        }
        self.keys.retain(|_, versions| !versions.is_empty());
        self.seqno = self.seqno.min(seqno);
        self
    }

    /// The model without versions that no reader at the last number can see.
    #[must_use]
    pub fn without_history(mut self) -> Model {
        for versions in self.keys.values_mut() {
            let last = versions.len() - 1;
            versions.drain(..last);
        }
        self
    }

    /// What `key` holds for a reader at `seqno` and `now`.
    #[must_use]
    pub fn get(&self, key: &[u8], seqno: u64, now: WallTime) -> Option<Found> {
        version_at(self.keys.get(key)?, seqno)?.found(now)
    }

    /// The keys of `within` for a reader at `seqno` and `now`, in order.
    #[must_use]
    pub fn scan(&self, within: &KeyRange, seqno: u64, now: WallTime) -> Vec<Row> {
        let from = self.keys.range(within.start().to_vec()..);
        from.take_while(|(key, _)| within.contains(key))
            .filter_map(|(key, versions)| {
                let found = version_at(versions, seqno)?.found(now)?;
                Some((key.clone(), found))
            })
            .collect()
    }

    /// The numbers in `first..=last` at which `key` changed.
    pub fn changes_of(
        &self,
        key: &[u8],
        first: u64,
        last: u64,
    ) -> impl Iterator<Item = u64> + use<'_> {
        let versions = self.keys.get(key).map(Vec::as_slice).unwrap_or_default();
        let numbers = versions.iter().map(|version| version.seqno);
        numbers.filter(move |seqno| (first..=last).contains(seqno))
    }
}

fn version_at(versions: &[Version], seqno: u64) -> Option<&Version> {
    versions[..versions.partition_point(|version| version.seqno <= seqno)].last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{How, Operation};

    const NOW: WallTime = WallTime(1000);

    fn apply(model: &mut Model, line: &str) {
        match line.parse() {
            Ok(Operation::Write { changes, how: How { .. } }) => model.apply(&changes, NOW),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn keys(model: &Model, seqno: u64, now: u64) -> String {
        let rows = model.scan(&KeyRange::all(), seqno, WallTime(now));
        let shown =
            rows.iter().map(|(key, found)| format!("{}@{}", key.escape_ascii(), found.seqno));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_number_has_its_own_state() {
        let mut model = Model::default();
        apply(&mut model, "put a 3#1");
        apply(&mut model, "batch { put b 3#2; put a 3#3; delete-range b a }");
        apply(&mut model, "put c 3#4 ttl=10");
        apply(&mut model, "delete-range a b");
        assert_eq!(model.seqno(), 5);
        assert_eq!(keys(&model, 0, 1000), "");
        assert_eq!(keys(&model, 2, 1000), "a@1 b@2");
        assert_eq!(keys(&model, 4, 1009), "a@3 b@2 c@4");
        assert_eq!(keys(&model, 4, 1010), "a@3 b@2");
        assert_eq!(keys(&model, 5, 1000), "b@2 c@4");
        assert_eq!(model.changes_of(b"a", 2, 9).collect::<Vec<_>>(), [3, 5]);
        let cut = model.clone().cut_at(3);
        assert_eq!((cut.seqno(), keys(&cut, 9, 1000)), (3, "a@3 b@2".to_string()));
        assert_eq!(keys(&model.without_history(), 5, 1000), "b@2 c@4");
    }

    #[test]
    fn operands_are_appended_and_outlive_what_they_are_appended_to() {
        let mut model = Model::default();
        apply(&mut model, "put a 3#1 ttl=10");
        apply(&mut model, "merge a 2#2");
        apply(&mut model, "merge a 1#3");
        apply(&mut model, "delete a");
        apply(&mut model, "merge a 4#4");
        let content = |parts: &[(u32, u64)]| -> Vec<u8> {
            parts.iter().flat_map(|&(bytes, tag)| Value { bytes, tag }.content()).collect()
        };
        let found = |seqno, now| model.get(b"a", seqno, WallTime(now));
        let (until, whole) = (Some(WallTime(1010)), content(&[(3, 1), (2, 2), (1, 3)]));
        assert_eq!(found(3, 1009), Some(Found::of(3, until, &whole)));
        assert_eq!(found(3, 1010), Some(Found::of(3, None, &content(&[(2, 2), (1, 3)]))));
        assert_eq!((found(1, 1010), found(4, 1000)), (None, None));
        assert_eq!(found(5, 1000), Some(Found::of(5, None, &content(&[(4, 4)]))));
    }
}
