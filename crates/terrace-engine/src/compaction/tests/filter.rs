//! Goal: a filter is asked about what may change without a reader's notice, and about nothing
//! else; what it drops does not let older versions come back. Method: small inputs of one job.

use std::sync::Arc;

use terrace_base::{Entry, EntryKind, Expiry, KeyRange, SeqNo, WallTime};

use crate::Error;
use crate::compaction::filter::{
    CompactionFilter, Decision, FilterOption, Filtered, PlanFilter, Wants,
};
use crate::compaction::{Retained, Retention};
use crate::iter::{Stream, VecStream};
use crate::merge::Append;
use crate::range_tombstone::Fragments;

/// Drops values that begin with `x`, changes those that begin with `c`, panics at those that begin
/// with `!`; of keys that begin with `k` it wants to know no value.
#[derive(Debug)]
struct ByFirstByte;

impl CompactionFilter for ByFirstByte {
    fn name(&self) -> &str {
        "by-first-byte"
    }

    fn wants(&self, key: &[u8]) -> Wants {
        match key.first() {
            Some(b'n') => Wants::Nothing,
            Some(b'k') => Wants::Key,
            _ => Wants::Value,
        }
    }

    fn decide(&self, key: &[u8], value: &[u8]) -> Decision {
        assert!(key[0] != b'n', "it did not want to be asked");
        assert!(key[0] != b'k' || value.is_empty(), "it did not want to see the value");
        match value.first() {
            Some(b'x') => Decision::Drop,
            Some(b'c') => Decision::Change([b"changed ", value].concat()),
            Some(b'!') => panic!("as planned"),
            None => Decision::Drop,
            _ => Decision::Keep,
        }
    }
}

/// `key number kind value`, kind one of `=`, `-` (a tombstone), `+` (an operand), `~` (a value that
/// has expired) and `^` (one that will).
fn entries(text: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let kind = match words[2] {
            "-" => EntryKind::Tombstone,
            "+" => EntryKind::MergeOperand,
            _ => EntryKind::Value,
        };
        let expiry = match words[2] {
            "~" => Some(Expiry::at(WallTime(50))),
            "^" => Some(Expiry::at(WallTime(150))),
            _ => None,
        };
        let value = words.get(3).copied().unwrap_or_default().as_bytes().to_vec();
        let seqno = SeqNo(words[1].parse().expect("a number"));
        Entry { key: words[0].as_bytes().to_vec(), seqno, kind, expiry, value }
    };
    text.split(", ").map(entry).collect()
}

fn shown(entry: &Entry) -> String {
    let kind = match (entry.kind, entry.expiry) {
        (EntryKind::Tombstone, _) => "-",
        (EntryKind::MergeOperand, _) => "+",
        (_, None) => "=",
        (_, Some(expiry)) if expiry.is_expired(WallTime(100)) => "~",
        (_, Some(_)) => "^",
    };
    let (key, value) = (entry.key.escape_ascii(), entry.value.escape_ascii());
    format!("{key} {} {kind} {value}", entry.seqno.0).trim_end().to_string()
}

fn rules(snapshots: &[u64], above: u64, is_bottom: bool) -> Retention {
    let points = snapshots.iter().map(|point| SeqNo(*point)).collect();
    let droppable = if is_bottom { vec![KeyRange::all()] } else { Vec::new() };
    let plan = PlanFilter { name: "by-first-byte".to_string(), above: SeqNo(above) };
    Retention::new(points, droppable, WallTime(100), Fragments::default())
        .with_operator(Some(Arc::new(Append)))
        .with_filter(FilterOption::of(ByFirstByte).called(Some(&plan)))
}

fn run(input: &str, rules: &Retention) -> Result<(String, Filtered), Error> {
    let mut input = VecStream::new(entries(input));
    let mut retained = Retained::new(&mut input, rules)?;
    let mut seen = Vec::new();
    while let Some(entry) = retained.entry() {
        seen.push(shown(&entry.to_entry()));
        retained.advance()?;
    }
    Ok((seen.join(", "), retained.filtered()))
}

#[test]
fn a_filter_is_asked_about_the_newest_value_of_each_key() {
    // Read points; the newest snapshot; whether nothing lies below; what goes in; what comes out.
    #[rustfmt::skip]
    let cases: &[(&[u64], u64, bool, &str, &str)] = &[
        // What is dropped is gone where nothing can lie below, and a tombstone where it can.
        (&[], 0, true, "a 5 = x, b 4 = v", "b 4 = v"),
        (&[], 0, false, "a 5 = x, b 4 = v", "a 5 -, b 4 = v"),
        (&[], 0, true, "a 5 = x, a 3 = v, b 1 = x", ""),
        (&[], 0, false, "a 5 = x, a 3 = v", "a 5 -"),
        // What is changed keeps its number and its expiry.
        (&[], 0, true, "a 5 = c, b 4 ^ c", "a 5 = changed c, b 4 ^ changed c"),
        // What a snapshot sees is not shown to it; what is above is, over what the snapshot needs.
        (&[5], 5, true, "a 5 = x, b 6 = x, b 5 = v", "a 5 = x, b 6 -, b 5 = v"),
        (&[5], 5, true, "b 6 = x, b 4 = x", "b 6 -, b 4 = x"),
        (&[5], 5, true, "b 6 = c, b 4 = c", "b 6 = changed c, b 4 = c"),
        // An iterator's point alone keeps older versions, and nothing more.
        (&[5], 0, true, "a 5 = x, b 6 = v, b 4 = x", "b 6 = v, b 4 = x"),
        // An older version is never asked about, whatever became of the newest.
        (&[5], 0, true, "a 6 -, a 4 = x", "a 6 -, a 4 = x"),
        (&[5], 0, true, "a 6 ~ v, a 4 = x", "a 6 ~ v, a 4 = x"),
        // Tombstones and expired values are not asked about.
        (&[], 0, false, "a 6 -, b 5 ~ x", "a 6 -, b 5 ~ x"),
        // Operands are folded first, and not shown as long as they cannot be.
        (&[], 0, true, "a 6 + y, a 5 = x", ""),
        (&[], 0, false, "a 6 + y, a 5 = x, b 1 = v", "a 6 -, b 1 = v"),
        (&[], 0, true, "a 6 + y, a 5 = c", "a 6 = changed cy"),
        (&[], 0, true, "a 6 + x", ""),
        (&[], 0, false, "a 6 + x", "a 6 + x"),
        (&[], 0, true, "a 6 + y, a 5 ^ x", "a 6 + y, a 5 ^ x"),
        (&[5], 5, true, "a 6 + y, a 5 = x", "a 6 + y, a 5 = x"),
        (&[], 0, true, "a 6 = v, a 5 + x, a 4 = x", "a 6 = v"),
        // It is asked only for what it wants.
        (&[], 0, true, "kb 6 = v, na 5 = x", "na 5 = x"),
        // The last entry of the input, and one behind which another key comes.
        (&[], 0, true, "a 1 = x, b 1 = x, c 1 = x", ""),
        (&[], 0, true, "a 1 = x, a 1 = x, b 1 = v", "b 1 = v"),
    ];
    for (points, above, is_bottom, input, wanted) in cases {
        let rules = rules(points, *above, *is_bottom);
        let (seen, filtered) = run(input, &rules).expect("in memory");
        assert_eq!(&seen, wanted, "{input}, points {points:?}, {above}, bottom: {is_bottom}");
        let changed = seen.matches("changed").count() as u64;
        assert_eq!(filtered.changed, changed, "{input}");
        assert_eq!(filtered.least.is_some(), filtered.changed + filtered.dropped > 0, "{input}");
    }
}

#[test]
fn the_least_number_that_was_touched_is_known() {
    let input = "a 9 = x, b 7 = c, c 3 = v, d 8 = x";
    let (_, filtered) = run(input, &rules(&[], 0, true)).expect("in memory");
    let wanted = Filtered { dropped: 2, changed: 1, least: Some(SeqNo(7)), set_aside: 0 };
    assert_eq!(filtered, wanted);
    let other = Filtered { dropped: 1, changed: 0, least: Some(SeqNo(4)), set_aside: 0 };
    let both = Filtered { dropped: 3, changed: 1, least: Some(SeqNo(4)), set_aside: 0 };
    assert_eq!(wanted.and(other), both);
    assert_eq!(wanted.and(Filtered::default()), wanted);
}

#[test]
fn a_filter_that_panics_is_an_error_that_names_it() {
    let error = run("a 1 = v, b\" 2 = !", &rules(&[], 0, true)).expect_err("it panics");
    let text = error.to_string();
    assert!(matches!(error, Error::Filter(_)), "{text}");
    for part in ["by-first-byte", "\"b\\\"\"", "as planned", "without it"] {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

#[test]
fn a_plan_calls_for_a_filter_by_its_name() {
    let plan = |name: &str| PlanFilter { name: name.to_string(), above: SeqNo(0) };
    let filter = FilterOption::of(ByFirstByte);
    assert!(filter.called(Some(&plan("by-first-byte"))).is_some());
    assert!(filter.called(Some(&plan("another"))).is_none());
    assert!(filter.called(None).is_none());
    assert!(FilterOption::default().called(Some(&plan("by-first-byte"))).is_none());
}
