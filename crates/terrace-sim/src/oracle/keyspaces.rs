//! How a database with keyspaces lies in the model, which has one row of keys.
//!
//! ```text
//!   c NAME 00 SS SS     the catalog: there is a keyspace of this name
//!   d SS SS KEY         what it holds
//! ```
//! A keyspace that is dropped and made again is another one ([`SpaceId`]), whatever number the
//! database gives it. So nothing of the one can show in the other, now or through a snapshot.

use std::collections::BTreeMap;

use terrace_base::{KeyRange, WallTime};

use super::judge::{difference, moments};
use super::model::{Model, Row};

/// A keyspace of a run, counted as they are made. [`SpaceId::DEFAULT`] is always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub u16);

/// The name of the keyspace that is always there.
pub const DEFAULT: &str = "default";

/// What a database holds: the rows of each keyspace by its name.
pub type Content = BTreeMap<String, Vec<Row>>;

impl SpaceId {
    /// The default keyspace.
    pub const DEFAULT: SpaceId = SpaceId(0);

    /// The key of the model that says that this keyspace is there under `name`.
    #[must_use]
    pub fn entry(self, name: &str) -> Vec<u8> {
        [b"c", name.as_bytes(), &[0], &self.0.to_be_bytes()].concat()
    }

    /// The key of the model that `key` is in this keyspace.
    #[must_use]
    pub fn key(self, key: &[u8]) -> Vec<u8> {
        [b"d", &self.0.to_be_bytes()[..], key].concat()
    }

    /// The interval of the model that `within` is in this keyspace.
    #[must_use]
    pub fn range(self, within: &KeyRange) -> KeyRange {
        let end = within.end().map_or_else(|| SpaceId(self.0 + 1).key(b""), |end| self.key(end));
        KeyRange::new(self.key(within.start()), Some(end))
    }

    /// The interval of the model that is this keyspace.
    #[must_use]
    pub fn whole(self) -> KeyRange {
        self.range(&KeyRange::all())
    }
}

/// The keyspaces that are there at `seqno`, by name.
#[must_use]
pub fn spaces_at(model: &Model, seqno: u64) -> BTreeMap<String, SpaceId> {
    let mut spaces = BTreeMap::from([(DEFAULT.to_string(), SpaceId::DEFAULT)]);
    for (key, _) in model.scan(&KeyRange::prefix(b"c"), seqno, WallTime(0)) {
        let (name, number) = key[1..].split_at(key.len() - 4);
        let number = SpaceId(u16::from_be_bytes([number[1], number[2]]));
        spaces.insert(String::from_utf8_lossy(name).into_owned(), number);
    }
    spaces
}

/// What is wrong with `content`, which was read at `seqno` from `from` to `until`: each keyspace
/// may judge expiry by a moment of its own between them.
#[must_use]
pub fn content_differs(
    model: &Model,
    seqno: u64,
    from: WallTime,
    until: WallTime,
    content: &Content,
) -> Option<String> {
    let spaces = spaces_at(model, seqno);
    let (wanted, found): (Vec<_>, Vec<_>) = (spaces.keys().collect(), content.keys().collect());
    if wanted != found {
        return Some(format!(
            "at number {seqno} there are the keyspaces {found:?}, not {wanted:?}"
        ));
    }
    spaces.iter().find_map(|(name, space)| {
        let at = |now| -> Vec<Row> {
            let rows = model.scan(&space.whole(), seqno, now).into_iter();
            rows.map(|(key, found)| (key[3..].to_vec(), found)).collect()
        };
        let rows = &content[name];
        let there = model.scan(&space.whole(), seqno, from);
        let keys: Vec<Vec<u8>> = there.into_iter().map(|(key, _)| key).collect();
        let mut moments = moments(model, &keys, seqno, from, until).into_iter();
        let is_right = moments.any(|now| at(now) == *rows);
        let text = || format!("keyspace {name} at number {seqno}: {}", difference(rows, &at(from)));
        (!is_right).then(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Found;
    use crate::workload::{Change, Value};

    const NOW: WallTime = WallTime(1000);

    #[test]
    fn a_keyspace_that_is_made_again_has_nothing_of_the_one_that_was_dropped() {
        let value = Value { bytes: 3, tag: 1 };
        let put = |key: Vec<u8>, ttl_ms| Change::Put { key, value, ttl_ms };
        let (old, new) = (SpaceId(1), SpaceId(2));
        let whole = old.whole();
        let mut model = Model::default();
        let clear = Change::DeleteRange {
            start: whole.start().to_vec(),
            end: whole.end().expect("it has one").to_vec(),
        };
        let found = |seqno| Found::of(seqno, None, &value.content());
        let content = |names: &[(&str, &[Row])]| -> Content {
            names.iter().map(|(name, rows)| ((*name).to_string(), rows.to_vec())).collect()
        };
        model.apply(&[put(old.entry("a"), None), put(old.key(b"k"), None)], NOW);
        model.apply(&[clear, Change::Delete { key: old.entry("a") }], NOW);
        model.apply(&[put(new.entry("a"), None), put(new.key(b""), Some(5))], NOW);
        let differs =
            |seqno, content: &Content| content_differs(&model, seqno, NOW, WallTime(1009), content);
        let row = (b"k".to_vec(), found(2));
        let then = content(&[("a", std::slice::from_ref(&row)), ("default", &[])]);
        assert_eq!(differs(2, &then), None);
        assert_eq!(differs(4, &content(&[("default", &[])])), None);
        assert!(differs(4, &then).is_some_and(|text| text.contains("[\"a\", \"default\"]")));
        // What expires meanwhile may be there or not.
        let expiring = Found { expiry: Some(WallTime(1005)), ..found(6) };
        let with = content(&[("a", &[(Vec::new(), expiring)]), ("default", &[])]);
        assert_eq!(differs(6, &with), None);
        assert_eq!(differs(6, &content(&[("a", &[]), ("default", &[])])), None);
        assert!(differs(6, &then).is_some_and(|text| text.starts_with("keyspace a")));
    }
}
