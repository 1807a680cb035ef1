use std::collections::BTreeMap;

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

/// What one version of a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    value: Value,
    hash: u64,
    expiry: Option<WallTime>,
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
        let held = self.held.filter(|held| held.expiry.is_none_or(|expiry| expiry > now))?;
        let (bytes, hash, expiry) = (held.value.bytes, held.hash, held.expiry);
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
                Change::Put { key, value, ttl_ms } => {
                    // The moment 0 cannot be stored and is rounded up.
                    let expiry = ttl_ms.map(|ttl| WallTime(now.0.saturating_add(ttl).max(1)));
                    let hash = hash_bytes(0, &value.content());
                    let held = Some(Held { value: *value, hash, expiry });
                    self.keys.entry(key.clone()).or_default().push(Version { seqno, held });
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

    /// The model without versions that nobody can see who reads at the last number.
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
}
