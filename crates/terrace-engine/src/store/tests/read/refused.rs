//! Goal: an operand that the operator cannot read is refused at the write; one that lies in the
//! range nevertheless costs a scan its own key and no other. Method: the built-in counter for the
//! first, an operator that finds out too late for the second.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::KeyRange;
use terrace_env::{SeededRng, SharedEnv};

use crate::merge::{Append, MergeFailure, MergeOperator, MergeOperators};
use crate::options::{FormatOptions, Options};
use crate::store::tests::*;
use crate::store::{GetOptions, Iter, IterOptions, Store, Update, WriteOptions};
use crate::{Error, Result, WriteBatch};

fn counting() -> Options {
    Options { format: FormatOptions { merge_operator: Some("add-i64".to_string()) }, ..small() }
}

/// Appends, but not "bad", which it takes at the write: as an operator whose older build did not
/// look at operands.
#[derive(Debug)]
struct Late;

impl MergeOperator for Late {
    fn name(&self) -> &'static str {
        "late"
    }

    fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, MergeFailure> {
        if operands.contains(&&b"bad"[..]) {
            return Err(MergeFailure::new("an operand is bad"));
        }
        Append.full(key, base, operands)
    }
}

fn late() -> Options {
    let operators = MergeOperators::default().with(Arc::new(Late));
    let format = FormatOptions { merge_operator: Some("late".to_string()) };
    Options { format, merge_operators: operators, ..small() }
}

/// Where an iterator stands, or which key it could not show.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Value(String, String),
    Refused(String),
    End,
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// What the iterator shows after a move that came to `outcome`.
fn seen(iter: &Iter, outcome: Result<()>) -> Seen {
    match outcome {
        Ok(()) => match iter.entry() {
            Some(entry) => Seen::Value(text(entry.key), text(entry.value)),
            None => Seen::End,
        },
        Err(Error::Merge(error)) => {
            assert!(iter.entry().is_none(), "it has nothing to show of {error}");
            Seen::Refused(text(&error.key))
        }
        Err(error) => panic!("{error}"),
    }
}

/// A walk from one end to the other: `key=value`, or `key!` where the operator refuses.
fn walk(store: &Store, forward: bool) -> Result<String> {
    let mut iter = store.iter(IterOptions::default())?;
    let mut outcome = if forward { iter.seek_to_first() } else { iter.seek_back(None) };
    let mut all = Vec::new();
    loop {
        match seen(&iter, outcome) {
            Seen::Value(key, value) => all.push(format!("{key}={value}")),
            Seen::Refused(key) => all.push(format!("{key}!")),
            Seen::End => return Ok(all.join(" ")),
        }
        assert!(all.len() < 1000, "the walk has no end: {all:?}");
        outcome = if forward { iter.next() } else { iter.prev() };
    }
}

fn refusal(outcome: &Result<()>) -> String {
    match outcome {
        Err(Error::Operand(error)) => error.to_string(),
        other => panic!("{other:?} is no refusal of an operand"),
    }
}

#[test]
fn an_operand_that_the_operator_cannot_read_is_refused_with_its_batch() -> Result<()> {
    simulate(1, |env| {
        let store = open(env, &counting())?;
        put(&store, "k", "1")?;
        let before = store.write_numbered(&WriteBatch::new(), &WriteOptions::default())?;
        let batch = || -> Result<WriteBatch> {
            let mut batch = WriteBatch::new();
            batch.put(b"a", b"5")?;
            batch.merge(b"k", b"2")?;
            batch.merge(b"k\xff", b"many")?;
            batch.merge(b"z", b"3")?;
            Ok(batch)
        };
        let written = store.write(&batch()?, &WriteOptions::default());
        let updated = store.update(&[b"a", b"k", b"k\xff", b"z"], &WriteOptions::default(), |_| {
            Ok(Update::Write(batch()?))
        });
        for outcome in [written, updated] {
            let told = refusal(&outcome);
            for part in ["add-i64", "\"k\\xff\"", "\"many\" is no number", "nothing was written"] {
                assert!(told.contains(part), "{part:?} is missing: {told}");
            }
        }
        assert_eq!(walk(&store, true)?, "k=1");
        let after = store.write_numbered(&WriteBatch::new(), &WriteOptions::default())?;
        assert_eq!(after, before, "no number was taken");
        for operand in ["", "1.5", &format!("{}0", 1i128 << 96)] {
            refusal(&merge(&store, "k", operand));
        }
        merge(&store, "k", "2")?;
        drop(store);
        let store = open(env, &counting())?;
        assert_eq!(walk(&store, false)?, "k=3");
        Ok(())
    })
}

/// `a`, two keys that cannot be folded, of which one has a base that is no number, and `z`.
fn with_refused_keys(env: &SharedEnv) -> Result<Store> {
    let store = open(env, &late())?;
    put(&store, "a", "1")?;
    put(&store, "k", "2")?;
    merge(&store, "k", "3")?;
    merge(&store, "k", "bad")?;
    merge(&store, "k", "4")?;
    merge(&store, "m", "bad")?;
    merge(&store, "o", "5")?;
    merge(&store, "z", "bad")?;
    Ok(store)
}

#[test]
fn a_scan_tells_of_each_key_that_it_cannot_fold_and_goes_on() -> Result<()> {
    simulate(2, |env| {
        let store = with_refused_keys(env)?;
        for round in 0..3 {
            match round {
                0 => {}
                1 => store.flush()?,
                _ => store.compact(&KeyRange::all())?,
            }
            assert_eq!(walk(&store, true)?, "a=1 k! m! o=5 z!", "round {round}");
            assert_eq!(walk(&store, false)?, "z! o=5 m! k! a=1", "round {round}");
        }
        put(&store, "k", "x")?;
        delete(&store, "m")?;
        merge(&store, "z", "y")?;
        assert_eq!(walk(&store, true)?, "a=1 k=x o=5 z!");
        Ok(())
    })
}

#[test]
fn a_base_that_the_operator_cannot_read_is_an_error_of_its_key_only() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &counting())?;
        put(&store, "a", "1")?;
        put(&store, "k", "many")?;
        merge(&store, "k", "2")?;
        put(&store, "z", "3")?;
        assert_eq!(walk(&store, true)?, "a=1 k! z=3");
        store.compact(&KeyRange::all())?;
        assert_eq!(walk(&store, false)?, "z=3 k! a=1");
        assert!(matches!(get(&store, "k"), Err(Error::Merge(_))));
        Ok(())
    })
}

#[test]
fn an_iterator_turns_round_on_a_key_that_it_cannot_fold() -> Result<()> {
    simulate(4, |env| {
        let store = with_refused_keys(env)?;
        let mut iter = store.iter(IterOptions::default())?;
        let outcome = iter.seek(b"b");
        assert_eq!(seen(&iter, outcome), Seen::Refused("k".into()));
        let outcome = iter.prev();
        assert_eq!(seen(&iter, outcome), Seen::Value("a".into(), "1".into()));
        let outcome = iter.next();
        assert_eq!(seen(&iter, outcome), Seen::Refused("k".into()));
        let outcome = iter.next();
        assert_eq!(seen(&iter, outcome), Seen::Refused("m".into()));
        let outcome = iter.prev();
        assert_eq!(seen(&iter, outcome), Seen::Refused("k".into()));
        let outcome = iter.seek_back(None);
        assert_eq!(seen(&iter, outcome), Seen::Refused("z".into()));
        let outcome = iter.next();
        assert_eq!(seen(&iter, outcome), Seen::End);
        assert!(matches!(iter.next(), Err(Error::Invalid(_))), "it stands nowhere now");
        Ok(())
    })
}

/// The keys that are there, and what each shows; `None` if the operator refuses it.
type Model = BTreeMap<String, Option<String>>;

fn write_at_random(store: &Store, model: &mut Model, random: &mut SeededRng) -> Result<()> {
    let key = format!("{:02}", random.below(40));
    match random.below(8) {
        0 | 1 => {
            put(store, &key, "v")?;
            model.insert(key, Some("v".into()));
        }
        2 => {
            delete(store, &key)?;
            model.remove(&key);
        }
        3 | 4 => {
            merge(store, &key, "bad")?;
            model.insert(key, None);
        }
        _ => {
            merge(store, &key, "+")?;
            let under = model.entry(key).or_insert_with(|| Some(String::new()));
            if let Some(value) = under {
                value.push('+');
            }
        }
    }
    Ok(())
}

fn what(model: &Model, key: Option<&String>) -> Seen {
    match key.map(|key| (key.clone(), model[key].clone())) {
        None => Seen::End,
        Some((key, None)) => Seen::Refused(key),
        Some((key, Some(value))) => Seen::Value(key, value),
    }
}

/// Moves an iterator at random while the range is flushed and compacted under it; it must show the
/// moment of its making.
fn check_random_moves(seed: u64) -> Result<()> {
    simulate(seed, |env| {
        let mut random = SeededRng::new(seed);
        let store = open(env, &late())?;
        let mut model = Model::new();
        for _ in 0..120 {
            write_at_random(&store, &mut model, &mut random)?;
            if random.below(30) == 0 {
                store.flush()?;
            }
        }
        let mut iter = store.iter(IterOptions::default())?;
        let mut later = model.clone();
        let mut at: Option<String> = None;
        for turn in 0..400 {
            let key = format!("{:02}", random.below(42));
            let choice = if at.is_none() { random.below(2) } else { random.below(12) };
            let (outcome, next) = match (choice, &at) {
                (0, _) => (iter.seek(key.as_bytes()), model.range(key..).next()),
                (1, _) => (iter.seek_back(Some(key.as_bytes())), model.range(..key).next_back()),
                (2..=6, Some(at)) => {
                    let above = (std::ops::Bound::Excluded(at.clone()), std::ops::Bound::Unbounded);
                    (iter.next(), model.range(above).next())
                }
                (_, Some(at)) => (iter.prev(), model.range(..at.clone()).next_back()),
                (_, None) => unreachable!("it is placed first"),
            };
            at = next.map(|(key, _)| key.clone());
            assert_eq!(seen(&iter, outcome), what(&model, at.as_ref()), "turn {turn}");
            if random.below(20) == 0 {
                write_at_random(&store, &mut later, &mut random)?;
                if random.below(3) == 0 { store.compact(&KeyRange::all()) } else { store.flush() }?;
            }
        }
        for (key, value) in &later {
            match store.get(key.as_bytes(), &GetOptions::default()) {
                Ok(item) => assert_eq!(item.map(|item| text(&item.value)), *value, "{key}"),
                Err(error) => assert!(value.is_none(), "{key}: {error}"),
            }
        }
        Ok(())
    })
}

#[test]
fn keys_that_cannot_be_folded_are_in_nobodys_way() {
    for seed in 0..40 {
        println!("seed {seed}");
        check_random_moves(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
