//! Which keyspace a key of a workload is of.

use terrace_base::KeyRange;

use crate::oracle::DEFAULT;

/// The name of the keyspace, and the key in it: `a:k` is `k` in the keyspace `a`, for each name of
/// one small letter; any other key is one of the default keyspace.
pub fn split(key: &[u8]) -> (&str, &[u8]) {
    match key {
        [letter, b':', rest @ ..] if letter.is_ascii_lowercase() => {
            (std::str::from_utf8(&key[..1]).unwrap_or(DEFAULT), rest)
        }
        key => (DEFAULT, key),
    }
}

/// The interval of the keyspace of `start`; it goes to the end of that if `end` is of another one.
pub fn split_interval<'a>(start: &'a [u8], end: Option<&[u8]>) -> (&'a str, KeyRange) {
    let (name, start) = split(start);
    let end = end.map(split).filter(|(other, _)| *other == name);
    (name, KeyRange::new(start, end.map(|(_, end)| end.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_of_one_keyspace() {
        assert_eq!(split(b"a:k"), ("a", &b"k"[..]));
        assert_eq!(split(b"z:"), ("z", &b""[..]));
        for key in [&b""[..], b":", b"a", b"A:k", b"aa:k", b"\xff:k"] {
            assert_eq!(split(key), (DEFAULT, key));
        }
    }

    #[test]
    fn an_interval_stays_in_the_keyspace_of_its_start() {
        let range = |start: &str, end| KeyRange::new(start, end);
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(split_interval(b"a:b", Some(b"a:c")), ("a", range("b", bytes("c"))));
        assert_eq!(split_interval(b"a:b", Some(b"b:c")), ("a", range("b", None)));
        assert_eq!(split_interval(b"a:b", None), ("a", range("b", None)));
        assert_eq!(split_interval(b"", Some(b"k")), (DEFAULT, range("", bytes("k"))));
    }
}
