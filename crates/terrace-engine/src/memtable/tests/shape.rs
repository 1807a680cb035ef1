//! Goal: nodes split where they should, share what they can, and cost what was reserved. Method:
//! small trees drawn as text, and the sums of the budget against the arena.

#![allow(unsafe_code)]

use std::fmt::Write as _;

use terrace_base::{EntryKind, EntryRef, SeqNo};
use terrace_env::SeededRng;

use super::super::Memtable;
use super::super::charge;
use super::super::entry::Stored;
use super::super::node::Skip;
use super::super::tree::{LEAF_TAG, Tree};
use super::{memtable, put, value};
use crate::tests::specimens::assert_as_drawn;

/// One node a line, children under their parent, each after its separator.
fn draw(tree: &Tree) -> String {
    let mut out = String::new();
    draw_node(tree, tree.root(), 0, &mut out);
    out
}

fn draw_node(tree: &Tree, node: u32, depth: usize, out: &mut String) {
    let indent = "    ".repeat(depth);
    // Safety: offsets of entries that stand in nodes of this tree.
    let key = |entry| unsafe { Stored::at(tree.arena(), entry) }.unwrap().key();
    if node & LEAF_TAG != 0 {
        // Safety: the root, or the child of a node of this tree.
        let leaf = unsafe { tree.leaf(node) };
        let permutation = leaf.slots.permutation();
        let keys: Vec<_> = (0..permutation.count())
            .map(|rank| leaf.slots.entry(permutation.slot(rank)))
            .map(|entry| key(entry).escape_ascii().to_string())
            .collect();
        writeln!(out, "{indent}leaf {}: {}", describe(leaf.slots.skip()), keys.join(" ")).unwrap();
        return;
    }
    // Safety: as above.
    let inner = unsafe { tree.inner(node) };
    let permutation = inner.slots.permutation();
    writeln!(out, "{indent}inner {}", describe(inner.slots.skip())).unwrap();
    draw_node(tree, inner.child(permutation, 0), depth + 1, out);
    for rank in 0..permutation.count() {
        let separator = key(inner.slots.entry(permutation.slot(rank)));
        writeln!(out, "{indent}  {}", separator.escape_ascii()).unwrap();
        draw_node(tree, inner.child(permutation, rank + 1), depth + 1, out);
    }
}

fn describe(skip: Skip) -> String {
    format!("skip {}{}", skip.bytes, if skip.checked { " checked" } else { "" })
}

/// Each case of the file: a comment, lines `insert KEYS` (a word, or a..b with a step), `----`,
/// and the drawing up to the next empty line.
#[test]
fn splits_look_as_drawn() {
    assert_as_drawn("memtable/testdata/splits.txt", |input| {
        let memtable = memtable(1 << 17);
        let mut seqno = 0;
        let mut insert = |key: &str| {
            seqno += 1;
            put(&memtable, value(key.as_bytes(), seqno, b""));
        };
        for line in input.lines().filter_map(|line| line.strip_prefix("insert ")) {
            for word in line.split_whitespace() {
                keys(word).iter().for_each(|key| insert(key));
            }
        }
        draw(memtable.tree())
    });
}

/// `abc`, or `p-10..40/3`: the numbers from 10 to 40 in steps of 3 after `p-`, `40..10/3` down.
fn keys(word: &str) -> Vec<String> {
    let Some((start, rest)) = word.split_once("..") else { return vec![word.to_owned()] };
    let digits = start.len() - start.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (prefix, first) = start.split_at(start.len() - digits);
    let (last, step) = rest.split_once('/').unwrap_or((rest, "1"));
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    let mut numbers: Vec<usize> =
        (first.min(last)..=first.max(last)).step_by(step.parse().unwrap()).collect();
    if first > last {
        numbers.reverse();
    }
    numbers.iter().map(|number| format!("{prefix}{number:0digits$}")).collect()
}

/// Goal: an insert never charges more than the bound, and the arena never holds more than was
/// charged. Method: orders of insertion that split in all the ways there are, checked at each
/// insert.
#[test]
fn no_order_of_inserts_costs_more_than_was_reserved() {
    let count = if cfg!(miri) { 60 } else { 20_000 };
    let (mut random, mut runs) = (SeededRng::new(5), SeededRng::new(6));
    let (mut next, mut left) = (0, 0);
    let mut run = |_| {
        if left == 0 {
            (next, left) = (runs.next_u64() % (64 * count), runs.below(40) + 1);
        }
        (next, left) = (next + 1, left - 1);
        next
    };
    let orders: Vec<(&str, Vec<u64>)> = vec![
        ("ascending", (0..count).collect()),
        ("descending", (0..count).rev().collect()),
        ("random", (0..count).map(|_| random.next_u64()).collect()),
        // Full leaves that were left in place are hit again.
        ("ascending, then between", {
            let half = count / 2;
            (0..half).map(|i| 2 * i).chain((0..half).map(|i| 2 * i + 1)).collect()
        }),
        ("runs from random starts", (0..count).map(&mut run).collect()),
        ("from both ends", {
            (0..count).map(|i| if i % 2 == 0 { i } else { 2 * count - i }).collect()
        }),
    ];
    for (name, order) in orders {
        let memtable = memtable(Memtable::FIXED_BYTES + order.len() * 400);
        let mut filled_bytes = memtable.tree().arena().filled_bytes();
        for (index, number) in order.into_iter().enumerate() {
            let key = number.to_be_bytes();
            let mut reservation = memtable.reserve(Memtable::space_for(8, 0)).expect(name);
            let before = reservation.bytes();
            memtable.insert(&mut reservation, value(&key, index as u64 + 1, b""));
            let charged = before - reservation.bytes();
            assert!(charged <= charge::NODE_CHARGE_MAX + 32, "{name}: {charged}");
            drop(reservation);
            filled_bytes = memtable.tree().arena().filled_bytes();
            assert!(filled_bytes <= memtable.used_bytes(), "{name}");
        }
        if name == "ascending" && count > 1000 {
            let per_key = (filled_bytes - Memtable::FIXED_BYTES) / memtable.key_count() as usize;
            assert!(per_key < 32 + 16, "sequential loads fill their leaves: {per_key}");
        }
    }
}

#[test]
fn a_reservation_is_given_back_but_for_what_was_used() {
    let memtable = memtable(Memtable::FIXED_BYTES + 1000);
    let empty_bytes = memtable.used_bytes();
    let needed_bytes = Memtable::space_for(3, 5);
    let mut reservation = memtable.reserve(needed_bytes).unwrap();
    assert_eq!(memtable.used_bytes(), empty_bytes + needed_bytes);
    memtable.insert(&mut reservation, value(b"key", 1, b"value"));
    drop(reservation);
    assert_eq!(memtable.used_bytes(), empty_bytes + 32, "24 bytes of header, 8 of key and value");
    assert!(memtable.reserve(memtable.arena_bytes()).is_none());
    drop(memtable.reserve(500).unwrap());
    assert_eq!(memtable.used_bytes(), empty_bytes + 32);
}

#[test]
#[should_panic(expected = "more than was reserved")]
fn an_insert_beyond_its_reservation_is_refused() {
    let memtable = memtable(1 << 16);
    let mut reservation = memtable.reserve(100).unwrap();
    memtable.insert(&mut reservation, value(b"key", 1, &[0; 100]));
}

#[test]
#[should_panic(expected = "another memtable's")]
fn a_reservation_of_another_memtable_is_refused() {
    let (first, second) = (memtable(1 << 16), memtable(1 << 16));
    let mut reservation = first.reserve(1000).unwrap();
    second.insert(&mut reservation, value(b"key", 1, b""));
}

#[test]
fn the_greatest_key_and_value_fit() {
    if cfg!(miri) {
        return;
    }
    let (key, large) = (vec![b'k'; 65_600], vec![b'v'; 64 << 20]);
    let needed_bytes = Memtable::FIXED_BYTES + Memtable::space_for(key.len(), large.len());
    let memtable = memtable(needed_bytes);
    put(&memtable, value(&key, 1, &large));
    assert_eq!(memtable.newest(&key).unwrap().value.len(), 64 << 20);
    assert_eq!(memtable.value_bytes(), 64 << 20);
}

#[test]
fn range_tombstones_stand_beside_the_tree() {
    let memtable = memtable(1 << 16);
    let delete = |start: &'static [u8], end: &'static [u8], seqno| EntryRef {
        key: start,
        seqno: SeqNo(seqno),
        kind: EntryKind::RangeTombstone,
        expiry: None,
        value: end,
    };
    assert!(memtable.is_empty() && !memtable.has_range_tombstones());
    assert!(memtable.range_tombstones().is_empty());
    put(&memtable, value(b"c", 1, b"1"));
    put(&memtable, delete(b"b", b"d", 2));
    put(&memtable, delete(b"d", b"d", 3));
    assert!(memtable.has_range_tombstones());
    assert_eq!(memtable.newest_covering(b"c", SeqNo(2)), Some(SeqNo(2)));
    assert_eq!(memtable.newest_covering(b"c", SeqNo(1)), None);
    assert_eq!(memtable.newest_covering(b"d", SeqNo(9)), None);
    assert_eq!(memtable.get(b"c", SeqNo(9)).entry.unwrap().seqno, SeqNo(1), "not applied");
    assert_eq!(memtable.get(b"b", SeqNo(9)).entry, None, "not shown");
    assert_eq!(memtable.range_tombstones().len(), 1);
    assert_eq!((memtable.entry_count(), memtable.key_count()), (2, 1));
    assert_eq!(
        (memtable.least_seqno(), memtable.greatest_seqno()),
        (Some(SeqNo(1)), Some(SeqNo(2)))
    );
}
