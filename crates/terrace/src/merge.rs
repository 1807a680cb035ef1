use std::sync::Arc;

use terrace_engine::merge::{MergeFailure, MergeOperator, MergeOperators as EngineOperators};

use crate::keyspace;

/// Merge operators that a program brings along.
pub type MergeOperators = Vec<Arc<dyn MergeOperator>>;

/// A program's operator, which knows keys without the prefix of their keyspace.
#[derive(Debug)]
struct OfCaller(Arc<dyn MergeOperator>);

fn callers_key(stored: &[u8]) -> &[u8] {
    keyspace::split(stored).1.unwrap_or(stored)
}

impl MergeOperator for OfCaller {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn check(&self, key: &[u8], operand: &[u8]) -> Result<(), MergeFailure> {
        self.0.check(callers_key(key), operand)
    }

    fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure> {
        self.0.full(callers_key(key), base, operands)
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.0.partial(callers_key(key), older, newer)
    }
}

/// The operators that the engine is to know: the built-in ones, and these.
pub fn engine_operators(own: &MergeOperators) -> EngineOperators {
    own.iter().fold(EngineOperators::default(), |operators, own| {
        operators.with(Arc::new(OfCaller(Arc::clone(own))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, ErrorKind, FormatOptions, KeyRange, Options, ReadOptions};

    /// Keeps the key in front of the operands. It takes no empty ones, nor any for the key
    /// "closed", and finds out too late that it cannot read "bad".
    #[derive(Debug)]
    struct Labelled;

    impl MergeOperator for Labelled {
        fn name(&self) -> &'static str {
            "labelled"
        }

        fn check(&self, key: &[u8], operand: &[u8]) -> Result<(), MergeFailure> {
            match operand {
                _ if key == b"closed" => Err(MergeFailure::new("this key is closed")),
                b"" => Err(MergeFailure::new("an empty operand")),
                _ => Ok(()),
            }
        }

        fn full(
            &self,
            key: &[u8],
            _: Option<&[u8]>,
            operands: &[&[u8]],
        ) -> Result<Vec<u8>, MergeFailure> {
            if operands.contains(&&b"bad"[..]) {
                return Err(MergeFailure::new("a bad operand"));
            }
            Ok([key, b":", &operands.concat()].concat())
        }
    }

    fn options(operators: MergeOperators) -> Options {
        let format = FormatOptions { merge_operator: Some("labelled".to_string()) };
        Options { format, merge_operators: operators, ..Options::default() }
    }

    #[test]
    fn an_operator_of_the_program_sees_keys_as_the_program_does() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = Db::open(directory.path(), options(vec![Arc::new(Labelled)])).expect("new");
        let other = db.keyspace(7);
        other.merge(b"k", b"a").expect("merge");
        other.merge(b"k", b"b").expect("merge");
        assert_eq!(other.get(b"k").expect("get").as_deref(), Some(&b"k:ab"[..]));
        let error = other.merge(b"bad", b"").expect_err("an empty operand");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("for the key \"bad\" (an empty operand)"), "{error}");
        let error = other.merge(b"closed", b"a").expect_err("a closed key");
        assert!(error.to_string().contains("for the key \"closed\" (this key"), "{error}");
        assert_eq!(other.get(b"bad").expect("get"), None);
        other.merge(b"bad", b"bad").expect("the operator finds out later");
        let error = other.get(b"bad").expect_err("a bad operand");
        assert_eq!(error.kind(), ErrorKind::Merge);
        assert!(error.to_string().contains("of the key \"bad\" (a bad operand)"), "{error}");
        let mut iter = other.iter(KeyRange::all(), &ReadOptions::default()).expect("iter");
        let error = iter.seek(b"").expect_err("a bad operand");
        assert!(error.to_string().contains("of the key \"bad\" (a bad operand)"), "{error}");
        assert_eq!(iter.item(), None);
        iter.next().expect("it goes on behind the key");
        assert_eq!(iter.item().map(|(key, _, _)| key), Some(&b"k"[..]));
        other.delete(b"bad").expect("delete");
        assert_eq!(other.get(b"bad").expect("get"), None);
    }

    #[test]
    fn the_database_keeps_its_operator_and_says_what_to_do() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = Db::open(directory.path(), Options::default()).expect("new");
        let error = db.merge(b"k", b"a").expect_err("no operator");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("with the option merge_operator"), "{error}");
        drop(db);
        // A database without an operator takes one.
        drop(Db::open(directory.path(), options(vec![Arc::new(Labelled)])).expect("there"));
        let error = Db::open(directory.path(), Options::default()).expect_err("unknown");
        assert!(error.to_string().contains("labelled, which this program does not"), "{error}");
        let format = FormatOptions { merge_operator: Some("max".into()) };
        let other = Options { format, ..Options::default() };
        let error = Db::open(directory.path(), other).expect_err("another");
        assert!(error.to_string().contains("labelled, not with max"), "{error}");
        assert!(options(Vec::new()).validate().is_err(), "it is not known");
        let twice: MergeOperators = vec![Arc::new(Labelled), Arc::new(Labelled)];
        assert!(options(twice).validate().is_err(), "two have one name");
    }
}
