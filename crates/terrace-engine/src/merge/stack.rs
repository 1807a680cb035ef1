//! Stacks of operands: what a key holds above its base.

use terrace_base::limits::VALUE_BYTES_MAX;

use super::{MergeError, MergeOperator};
use crate::{Error, Result};

/// Rounds of joining neighbours: each halves a stack whose operands can all be joined, so this is
/// enough for any that fits the memory, and bounds the work for operators that join few of them.
const ROUNDS_MAX: usize = 32;

/// The value that `operands`, newest first and at least one, make of `base`.
///
/// Errors: [`Error::Merge`].
pub fn fold<'a>(
    operator: &dyn MergeOperator,
    key: &[u8],
    base: Option<&[u8]>,
    operands: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>> {
    let oldest_first: Vec<&[u8]> = operands.rev().collect();
    debug_assert!(!oldest_first.is_empty(), "there is nothing to fold");
    let refused = |reason| {
        let operator = operator.name().to_string();
        Error::Merge(Box::new(MergeError { key: key.to_vec(), operator, reason }))
    };
    let value = operator.full(key, base, &oldest_first).map_err(|failure| refused(failure.0))?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(refused(format!(
            "the value would have {} bytes, at most {VALUE_BYTES_MAX} are allowed",
            value.len()
        )));
    }
    Ok(value)
}

/// Joins neighbouring operands, newest first, as far as the operator can; each with what names it,
/// of which that of the newer one stays.
pub fn combine<T: Copy>(
    operator: &dyn MergeOperator,
    key: &[u8],
    mut operands: Vec<(T, Vec<u8>)>,
) -> Vec<(T, Vec<u8>)> {
    for _ in 0..ROUNDS_MAX {
        let before = operands.len();
        if before < 2 {
            break;
        }
        let mut joined: Vec<(T, Vec<u8>)> = Vec::with_capacity(before.div_ceil(2));
        // One that was made in this round waits for the next, so that no operand is copied often.
        let mut is_made = true;
        for (name, operand) in operands {
            let newer = joined.last_mut().filter(|_| !is_made);
            let both = newer.and_then(|(_, newer)| {
                let both = operator.partial(key, &operand, newer)?;
                (both.len() <= VALUE_BYTES_MAX).then(|| *newer = both)
            });
            is_made = both.is_some();
            if !is_made {
                joined.push((name, operand));
            }
        }
        operands = joined;
        if operands.len() == before {
            break;
        }
    }
    operands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{AddI64, Append, MergeFailure};

    /// Joins two letters and no more.
    #[derive(Debug)]
    struct Pairs;

    impl MergeOperator for Pairs {
        fn name(&self) -> &'static str {
            "pairs"
        }

        fn full(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            operands: &[&[u8]],
        ) -> std::result::Result<Vec<u8>, MergeFailure> {
            Ok(vec![b'x'; VALUE_BYTES_MAX + operands.len()])
        }

        fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
            (older.len() + newer.len() <= 2).then(|| [older, newer].concat())
        }
    }

    fn combined(operator: &dyn MergeOperator, operands: &[&str]) -> String {
        let newest = operands.len();
        let operands: Vec<(usize, Vec<u8>)> = operands
            .iter()
            .enumerate()
            .map(|(index, operand)| (newest - index, operand.as_bytes().to_vec()))
            .collect();
        let combined = combine(operator, b"k", operands);
        let shown: Vec<String> =
            combined.iter().map(|(n, bytes)| format!("{n}:{}", bytes.escape_ascii())).collect();
        shown.join(" ")
    }

    #[test]
    fn operands_are_joined_as_far_as_that_goes_and_keep_their_order() {
        assert_eq!(combined(&Append, &["c", "b", "a"]), "3:abc");
        assert_eq!(combined(&Append, &["a"]), "1:a");
        assert_eq!(combined(&Pairs, &["e", "d", "c", "b", "a"]), "5:de 3:bc 1:a");
        assert_eq!(combined(&AddI64, &["1", "x", "2", "3"]), "4:1 3:x 2:5");
        let many: Vec<String> = (0..1000).map(|_| "1".to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(combined(&AddI64, &many), "1000:1000");
    }

    #[test]
    fn what_cannot_be_folded_is_an_error_that_names_the_key() {
        let error = fold(&AddI64, b"k\xff", None, [&b"x"[..]].into_iter()).expect_err("no number");
        let text = error.to_string();
        assert!(text.contains("\"k\\xff\"") && text.contains("put or delete"), "{text}");
        let error = fold(&Pairs, b"k", None, [&b"x"[..]].into_iter()).expect_err("too long");
        assert!(error.to_string().contains("at most 67108864"), "{error}");
    }

    #[test]
    fn operands_are_folded_from_the_oldest_on() {
        let value = fold(&Append, b"k", Some(b"0"), [&b"2"[..], b"1"].into_iter());
        assert_eq!(value.expect("append never fails"), b"012");
    }
}
