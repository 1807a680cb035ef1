//! What the catalog keeps of a keyspace, in bytes.
//!
//! ```text
//! a keyspace       key    1  name
//!                  value  format = 1 (1 byte)   number (2, big-endian)
//!                         milliseconds that what is put stays, 0 for ever (varint)
//!                         name of the merge operator, empty for none (length as varint, bytes)
//! a used number    key    2  number (2, big-endian)       of a keyspace that was dropped
//!                  value  format = 1 (1 byte)
//! ```
//! Both lie in the keyspace with the greatest number, which no name leads to.

use std::time::Duration;

use terrace_base::{ByteReader, put_bytes, put_varint};

use super::stored::KeyspaceNo;

const FORMAT: u8 = 1;
const NAMED: u8 = 1;
const USED: u8 = 2;

/// What is kept of a keyspace beside its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub number: KeyspaceNo,
    pub ttl: Option<Duration>,
    pub operator: Option<String>,
}

/// What a key of the catalog is about.
#[derive(Debug, PartialEq, Eq)]
pub enum EntryKey<'a> {
    Named(&'a str),
    Used(KeyspaceNo),
}

pub fn named_key(name: &str) -> Vec<u8> {
    [&[NAMED], name.as_bytes()].concat()
}

pub fn used_key(number: KeyspaceNo) -> Vec<u8> {
    [&[USED][..], &number.0.to_be_bytes()].concat()
}

pub fn used_value() -> Vec<u8> {
    vec![FORMAT]
}

/// None for a key of a later version, or a damaged one.
pub fn read_key(key: &[u8]) -> Option<EntryKey<'_>> {
    match key {
        [NAMED, name @ ..] => std::str::from_utf8(name).ok().map(EntryKey::Named),
        [USED, high, low] => Some(EntryKey::Used(KeyspaceNo(u16::from_be_bytes([*high, *low])))),
        _ => None,
    }
}

impl Entry {
    pub fn encode(&self) -> Vec<u8> {
        let mut value = vec![FORMAT];
        value.extend_from_slice(&self.number.0.to_be_bytes());
        let millis = self.ttl.map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        put_varint(&mut value, millis);
        put_bytes(&mut value, self.operator.as_deref().unwrap_or_default().as_bytes());
        value
    }

    /// None for a value of a later version, or a damaged one.
    pub fn decode(value: &[u8]) -> Option<Entry> {
        let mut reader = ByteReader::new(value);
        if reader.u8().ok()? != FORMAT {
            return None;
        }
        let number = KeyspaceNo(u16::from_be_bytes([reader.u8().ok()?, reader.u8().ok()?]));
        let millis = reader.varint().ok()?;
        let operator = std::str::from_utf8(reader.bytes().ok()?).ok()?;
        if !reader.is_empty() {
            return None;
        }
        Some(Entry {
            number,
            ttl: (millis > 0).then(|| Duration::from_millis(millis)),
            operator: (!operator.is_empty()).then(|| operator.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_nothing_else_is() {
        let ttl = Some(Duration::from_millis(90_000));
        let entry =
            Entry { number: KeyspaceNo(0x0405), ttl, operator: Some("add-i64".to_string()) };
        let bytes = entry.encode();
        assert_eq!(bytes, b"\x01\x04\x05\x90\xbf\x05\x07add-i64");
        assert_eq!(Entry::decode(&bytes), Some(entry.clone()));
        let bare = Entry { ttl: None, operator: None, ..entry };
        assert_eq!(Entry::decode(&bare.encode()), Some(bare));
        for len in 0..bytes.len() {
            assert_eq!(Entry::decode(&bytes[..len]), None, "{len}");
        }
        assert_eq!(Entry::decode(&[&bytes[..], b"x"].concat()), None);
        assert_eq!(Entry::decode(&[&[2], &bytes[1..]].concat()), None, "a later format");
    }

    #[test]
    fn keys_are_told_apart() {
        assert_eq!(read_key(&named_key("users")), Some(EntryKey::Named("users")));
        assert_eq!(
            read_key(&used_key(KeyspaceNo(0x0405))),
            Some(EntryKey::Used(KeyspaceNo(0x0405)))
        );
        assert_eq!(read_key(b"\x01\xff"), None);
        assert_eq!(read_key(b"\x02\x00"), None);
        assert_eq!(read_key(b"\x03"), None);
    }
}
