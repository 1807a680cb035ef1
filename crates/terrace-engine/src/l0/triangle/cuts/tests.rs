//! Goal: slices hold all that counts, share nothing, come in the order of their turns, and have as
//! many bytes as they should, but for those that are named. Method: drawings, and rows and tables
//! drawn at random, judged key by key.

use std::cell::Cell;
use std::fmt::Write as _;

use terrace_env::SeededRng;

use super::*;
use crate::l0::{draw_key, range};
use crate::table::Sample;
use crate::tests::specimens::assert_as_drawn;

const KEYS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

/// A row: its entries, ascending, and where it counts.
struct Row {
    id: u64,
    parts: Vec<KeyRange>,
    entries: Vec<(Vec<u8>, u64)>,
}

/// What there is to divide: rows, the newest first, and what lies below.
struct Given {
    rows: Vec<Row>,
    /// Of the keys of entries those that are sampled; all if none are named.
    sampled: Vec<Vec<u8>>,
    below: Vec<(KeyRange, u64)>,
    busy: Vec<KeyRange>,
    size: CutSize,
}

impl Rows for Given {
    fn bytes_within(&self, keys: &KeyRange) -> u64 {
        let of_row = |row: &Row| -> u64 {
            let counts = |key: &[u8]| row.parts.iter().any(|part| part.contains(key));
            let is_in = |(key, _): &&(Vec<u8>, u64)| keys.contains(key) && counts(key);
            row.entries.iter().filter(is_in).map(|(_, bytes)| bytes).sum()
        };
        self.rows.iter().map(of_row).sum()
    }

    /// The middle one of each row.
    fn keys_within(&self, keys: &KeyRange) -> Vec<Vec<u8>> {
        let of_row = |row: &Row| {
            let is_in = |key: &&Vec<u8>| key.as_slice() > keys.start() && keys.contains(key);
            let all: Vec<_> = row.entries.iter().map(|(key, _)| key).filter(is_in).collect();
            all.get(all.len() / 2).copied().cloned()
        };
        self.rows.iter().filter_map(of_row).collect()
    }
}

impl Given {
    /// Where the oldest row begins to count.
    fn first(&self) -> &[u8] {
        let of_oldest = self.rows.last().into_iter().flat_map(|row| &row.parts);
        of_oldest.map(KeyRange::start).min().unwrap_or_default()
    }

    /// Where the turn begins: a slice has all of an interval below.
    fn turn_start(&self) -> &[u8] {
        let around = self.below.iter().find(|(keys, _)| keys.contains(self.first()));
        around.map_or(self.first(), |(keys, _)| keys.start())
    }

    /// As a table says it: with the bytes since the sample before.
    fn samples(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for row in &self.rows {
            let mut since = 0;
            for (key, bytes) in &row.entries {
                if self.sampled.is_empty() || self.sampled.contains(key) {
                    samples.push((key.clone(), since));
                    since = 0;
                }
                since += bytes;
            }
        }
        samples
    }

    fn turn(&self) -> CutTurn {
        let parts = self.rows.iter().flat_map(|row| &row.parts);
        let content = Content::new(parts, self.samples());
        let (below, busy) = (self.below.clone(), self.busy.clone());
        let bounds = CutBounds { below, busy, bytes: u64::MAX };
        CutTurn::new(content, self.first(), &bounds, self.size)
    }

    fn slices(&self) -> Vec<Slice> {
        let mut turn = self.turn();
        std::iter::from_fn(|| turn.next(self)).collect()
    }

    fn counts_within(&self, keys: &KeyRange) -> bool {
        self.rows.iter().any(|row| row.parts.iter().any(|part| part.overlaps(keys)))
    }

    /// Bytes below that a slice meets.
    fn below_of(&self, slice: &KeyRange) -> u64 {
        let met = self.below.iter().filter(|(keys, _)| keys.overlaps(slice));
        met.map(|(_, bytes)| bytes).sum()
    }

    fn bytes_of(&self, slice: &KeyRange) -> u64 {
        self.bytes_within(slice) + self.below_of(slice)
    }

    /// What a job has taken, with what that meets below.
    fn busy_with_met(&self) -> Vec<KeyRange> {
        let widened = self.busy.iter().map(|busy| {
            let met = self.below.iter().filter(|(keys, _)| keys.overlaps(busy));
            met.fold(busy.clone(), |busy, (keys, _)| busy.hull(keys))
        });
        widened.collect()
    }
}

fn read(input: &str) -> Given {
    let size = CutSize { min: 1, max: u64::MAX };
    let (below, busy) = (Vec::new(), Vec::new());
    let mut given = Given { rows: Vec::new(), sampled: Vec::new(), below, busy, size };
    for line in input.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["size", min, max] => {
                given.size = CutSize { min: number(min), max: number(max) };
            }
            ["below", keys, bytes] => given.below.push((range(keys), number(bytes))),
            ["busy", keys] => given.busy.push(range(keys)),
            ["sampled", keys] => given.sampled = keys.bytes().map(|key| vec![key]).collect(),
            ["row", id, ref words @ ..] => {
                let (entries, parts): (Vec<&str>, Vec<&str>) =
                    words.iter().partition(|word| word.contains('='));
                let entries = entries.into_iter().flat_map(|word| {
                    let (keys, bytes) = word.split_once('=').expect("KEYS=BYTES");
                    keys.bytes().map(move |key| (vec![key], number(bytes)))
                });
                let mut entries: Vec<_> = entries.collect();
                entries.sort();
                let parts = parts.into_iter().map(range).collect();
                given.rows.push(Row { id: number(id), parts, entries });
            }
            _ => assert!(line.starts_with('#'), "{line:?} is no line of a case"),
        }
    }
    given
}

/// The rows, what lies below, and the slices by their turns.
fn draw(given: &Given) -> String {
    let line = |name: &str, letter: &dyn Fn(&[u8]) -> char| {
        let drawn: String = KEYS.iter().map(|key| letter(&[*key])).collect();
        let drawn = format!("{name:<8}{drawn}");
        format!("{}\n", drawn.trim_end())
    };
    let mut out = format!("        {}\n", str::from_utf8(KEYS).expect("letters"));
    for Row { id, parts, .. } in &given.rows {
        let counts = |key: &[u8]| parts.iter().any(|part| part.contains(key));
        out += &line(&format!("row {id}"), &|key| if counts(key) { '=' } else { ' ' });
    }
    let starts = |key: &[u8]| given.below.iter().any(|(keys, _)| keys.start() == key);
    let is_in = |key: &[u8]| given.below.iter().any(|(keys, _)| keys.contains(key));
    let below = |key: &[u8]| match (starts(key), is_in(key)) {
        (true, _) => '[',
        (_, true) => '-',
        _ => ' ',
    };
    out += &line("below", &below);
    if !given.busy.is_empty() {
        let is_in = |key: &[u8]| given.busy.iter().any(|keys| keys.contains(key));
        out += &line("busy", &|key| if is_in(key) { 'x' } else { ' ' });
    }
    for (turn, slice) in given.slices().iter().enumerate() {
        let letter = |key: &[u8]| if slice.keys.contains(key) { '^' } else { ' ' };
        let drawn = line(&format!("cut {}", turn + 1), &letter);
        let (rows, below) = (given.bytes_within(&slice.keys), given.below_of(&slice.keys));
        let why = match slice.end {
            CutEnd::InBounds => String::new(),
            end => format!(", {}", end.name()),
        };
        let _ = writeln!(out, "{:<36}{rows} and {below} below{why}", drawn.trim_end());
    }
    out
}

/// Each case of the file: a comment, lines `size MIN MAX`, `below KEYS BYTES`, `busy KEYS`,
/// `sampled KEYS` and `row ID PARTS.. KEYS=BYTES..` (newest first; each of the keys has this number
/// of bytes), `----`, and the drawing up to the next empty line.
#[test]
fn slices_look_as_drawn() {
    assert_as_drawn("l0/testdata/cuts.txt", |input| draw(&read(input)));
}

/// What the random tests draw.
trait Draw {
    fn ascending_keys(&mut self, count: u64) -> Vec<Vec<u8>>;

    /// Some of the intervals between keys, the last of which may have no end.
    fn ranges(&mut self, count: u64, one_in: u64) -> Vec<KeyRange>;

    fn given(&mut self) -> Given;
}

impl Draw for SeededRng {
    fn ascending_keys(&mut self, count: u64) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = (0..count).map(|_| draw_key(self)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn ranges(&mut self, count: u64, one_in: u64) -> Vec<KeyRange> {
        let keys = self.ascending_keys(count);
        let ends = keys.iter().skip(1).cloned().map(Some).chain([None]);
        let all = keys.iter().zip(ends).map(|(start, end)| KeyRange::new(start.clone(), end));
        let all: Vec<KeyRange> = all.collect();
        all.into_iter().filter(|_| self.below(one_in) > 0).collect()
    }

    fn given(&mut self) -> Given {
        let rows = (0..1 + self.below(6)).rev().map(|id| {
            // Neighbours may touch, as parts do not.
            let mut parts = self.ranges(8, 3);
            parts.dedup_by(|next, last| {
                let touches = last.end() == Some(next.start());
                if touches {
                    *last = last.hull(next);
                }
                touches
            });
            // Some keys are consumed.
            let entries = self.ascending_keys(30).into_iter();
            let entries: Vec<_> = entries.map(|key| (key, self.below(30))).collect();
            Row { id, parts, entries }
        });
        let mut rows: Vec<Row> = rows.collect();
        rows.retain(|row| !row.parts.is_empty());
        let sampled = match self.below(3) {
            0 => Vec::new(),
            1 => self.ascending_keys(3),
            _ => self.ascending_keys(30),
        };
        let mut below = self.ranges(16, 3);
        if self.below(4) == 0 {
            below.clear();
        }
        let below = below.into_iter().map(|keys| (keys, 1 + self.below(60))).collect();
        let busy = if self.below(3) == 0 { self.ranges(4, 2) } else { Vec::new() };
        let max = 1 + self.below(400);
        // The bounds need not be that far from each other.
        let min = if self.below(4) == 0 { 1 + self.below(max) } else { max.div_ceil(2) };
        Given { rows, sampled, below, busy, size: CutSize { min, max } }
    }
}

#[test]
fn slices_hold_everything_share_nothing_and_take_turns() {
    let (mut within, mut others) = (0, 0);
    for seed in 0..if cfg!(miri) { 5 } else { 2000 } {
        let given = SeededRng::new(seed).given();
        let slices = given.slices();
        let rows = given.rows.iter().map(|row| (row.id, &row.parts, &row.entries));
        let name = format!(
            "seed {seed}: {:?} {:?} {:?} {:?} {:?} {slices:?}",
            rows.collect::<Vec<_>>(),
            given.sampled,
            given.below,
            given.busy,
            given.size
        );
        check_shares(&given, &slices, &name);
        check_turns(&given, &slices, &name);
        for turn in 0..slices.len() {
            check_size(&given, &slices, turn, &name);
        }
        let is_within = |slice: &&Slice| slice.end == CutEnd::InBounds;
        within += slices.iter().filter(is_within).count();
        others += slices.iter().filter(|slice| !is_within(slice)).count();
    }
    assert!(cfg!(miri) || within > 2000, "{within} slices were within the bounds");
    assert!(cfg!(miri) || others > 2000, "{others} were not");
}

fn check_shares(given: &Given, slices: &[Slice], name: &str) {
    let slices: Vec<&KeyRange> = slices.iter().map(|slice| &slice.keys).collect();
    let busy = given.busy_with_met();
    for (index, slice) in slices.iter().enumerate() {
        assert!(!slice.is_empty() && given.counts_within(slice), "{name}: {slice:?}");
        let others = &slices[index + 1..];
        assert!(others.iter().all(|other| !other.overlaps(slice)), "{name}: {slice:?}");
        assert!(busy.iter().all(|busy| !busy.overlaps(slice)), "{name}: {slice:?}");
    }
    for (keys, _) in &given.below {
        let meeting: Vec<_> = slices.iter().filter(|slice| slice.overlaps(keys)).collect();
        assert!(meeting.len() <= 1, "{name}: {keys:?} is met twice");
        for slice in meeting {
            assert_eq!(slice.intersection(keys), *keys, "{name}: {keys:?} is divided");
        }
    }
    let is_in = |key: &[u8]| slices.iter().any(|slice| slice.contains(key));
    let is_busy = |key: &[u8]| busy.iter().any(|busy| busy.contains(key));
    for key in (0..100).flat_map(|key| ["", "+"].map(|more| format!("{key:02}{more}"))) {
        let key = key.as_bytes();
        let counts = given.counts_within(&KeyRange::new(key, Some([key, &[0]].concat())));
        assert!(!counts || is_busy(key) || is_in(key), "{name}: {key:?} is in no slice");
    }
    let is_endless = given.counts_within(&KeyRange::new("99++", None))
        && busy.iter().all(|busy| busy.end().is_some());
    assert!(!is_endless || slices.iter().any(|slice| slice.end().is_none()), "{name}");
}

fn check_turns(given: &Given, slices: &[Slice], name: &str) {
    let Some(first) = slices.first() else { return };
    let is_busy = given.busy_with_met().iter().any(|busy| busy.contains(given.first()));
    let begins = first.keys.contains(given.first());
    assert!(begins || is_busy, "{name}: not where the oldest row counts");
    let is_round = |pair: &&[Slice]| pair[1].keys.start() < pair[0].keys.start();
    let turns = slices.windows(2).filter(is_round).count();
    assert!(turns <= 1, "{name}: they go round once");
    let last = slices.last().expect("there is a first");
    assert!(turns == 0 || last.keys.start() < first.keys.start(), "{name}");
}

/// Judges the bytes of a slice. Why it is not within the bounds, if it is not, is found out again.
fn check_size(given: &Given, slices: &[Slice], turn: usize, name: &str) {
    let Slice { keys, end } = &slices[turn];
    let bytes = given.bytes_of(keys);
    let name = format!("{name}: {keys:?} of {bytes}, {end:?}");
    if bytes > given.size.max {
        assert_eq!(*end, CutEnd::Undivided, "{name}");
        let counts = |keys: &KeyRange| given.counts_within(keys);
        let divided = divisions(given, keys).find(|(left, right)| counts(left) && counts(right));
        assert_eq!(divided, None, "{name}");
        return;
    }
    if bytes >= given.size.min {
        assert_eq!(*end, CutEnd::InBounds, "{name}");
        return;
    }
    // What counts next, if no slice must end before it.
    let next = slices.get(turn + 1).filter(|next| !is_apart(given, keys, &next.keys));
    match (end, next) {
        (CutEnd::BeforeUndivided, Some(next)) => {
            let mut piece = divisions(given, &next.keys).map(|(left, _)| left);
            let piece = piece.find(|left| given.counts_within(left));
            let piece = piece.unwrap_or_else(|| next.keys.clone());
            let both = KeyRange::new(keys.start(), piece.end().map(<[u8]>::to_vec));
            assert!(given.bytes_of(&both) > given.size.max, "{name}: {piece:?} would fit");
        }
        (CutEnd::EndOfTurn | CutEnd::BeforeGap | CutEnd::BesideJob, None) => {
            let behind = keys.end().map(|end| {
                let next = slices.get(turn + 1).filter(|next| next.keys.start() >= end);
                KeyRange::new(end, next.map(|next| next.keys.start().to_vec()))
            });
            let is_in = |keys: &KeyRange| behind.as_ref().is_some_and(|gap| gap.overlaps(keys));
            let is_busy = given.busy_with_met().iter().any(is_in);
            let has_below = given.below.iter().any(|(keys, _)| is_in(keys));
            match end {
                CutEnd::BesideJob => assert!(is_busy, "{name}"),
                CutEnd::BeforeGap => assert!(has_below, "{name}"),
                _ => {
                    let later = slices.get(turn + 1..).unwrap_or_default().iter();
                    let mut later = later.take_while(|_| keys.start() >= given.turn_start());
                    assert!(!later.any(|later| later.keys.start() > keys.start()), "{name}");
                }
            }
        }
        _ => panic!("{name}, before {next:?}"),
    }
    // With the slice before it, it makes neither one slice nor two.
    let before = turn.checked_sub(1).map(|before| &slices[before].keys);
    let Some(before) = before.filter(|before| !is_apart(given, before, keys)) else { return };
    let both = before.hull(keys);
    assert!(given.bytes_of(&both) > given.size.max, "{name} fits to {before:?}");
    let is_within =
        |keys: &KeyRange| (given.size.min..=given.size.max).contains(&given.bytes_of(keys));
    let evened = divisions(given, &both).find(|(left, right)| is_within(left) && is_within(right));
    assert_eq!(evened, None, "{name} and {before:?} could be evened out");
}

/// Whether a slice must end between two that follow each other.
fn is_apart(given: &Given, left: &KeyRange, right: &KeyRange) -> bool {
    let Some(end) = left.end().filter(|end| *end <= right.start()) else { return true };
    let gap = KeyRange::new(end, Some(right.start().to_vec()));
    let first = given.turn_start();
    let is_turn = left.start() < first && first <= right.start();
    let is_met = given.below.iter().any(|(keys, _)| keys.overlaps(&gap));
    is_turn || is_met || given.busy_with_met().iter().any(|busy| busy.overlaps(&gap))
}

/// The two sides of each key at which a slice could be divided: where a part or an interval below
/// begins or ends, or at the key of an entry; in no interval below.
fn divisions(given: &Given, slice: &KeyRange) -> impl Iterator<Item = (KeyRange, KeyRange)> {
    let parts = given.rows.iter().flat_map(|row| &row.parts);
    let ranges = parts.chain(given.below.iter().map(|(keys, _)| keys));
    let bounds = ranges.flat_map(|keys| [Some(keys.start()), keys.end()]).flatten();
    let entries = given.rows.iter().flat_map(|row| &row.entries);
    let entries = entries.map(|(key, _)| key.as_slice());
    let is_inside =
        |key: &[u8]| given.below.iter().any(|(keys, _)| keys.contains(key) && keys.start() < key);
    let is_in = |key: &&[u8]| *key > slice.start() && slice.contains(key) && !is_inside(key);
    let mut keys: Vec<Vec<u8>> = bounds.chain(entries).filter(is_in).map(<[u8]>::to_vec).collect();
    keys.sort();
    keys.dedup();
    let sides = keys.into_iter().map(|key| {
        let left = KeyRange::new(slice.start(), Some(key.clone()));
        (left, KeyRange::new(key, slice.end().map(<[u8]>::to_vec)))
    });
    sides.collect::<Vec<_>>().into_iter()
}

/// Slices that are asked for later are those that are asked for at once, and few questions are
/// asked for each: rows with many keys, of which few are sampled.
#[test]
fn a_slice_takes_few_questions() {
    struct Asked<'a>(&'a Given, Cell<u64>);
    impl Rows for Asked<'_> {
        fn bytes_within(&self, keys: &KeyRange) -> u64 {
            self.1.set(self.1.get() + 1);
            self.0.bytes_within(keys)
        }

        fn keys_within(&self, keys: &KeyRange) -> Vec<Vec<u8>> {
            self.0.keys_within(keys)
        }
    }
    let mut random = SeededRng::new(1);
    let key = |number: u64| format!("{number:04}").into_bytes();
    let rows = (0..6).map(|id| {
        let entries = (0..1000).map(|number| (key(number), 50 + random.below(100))).collect();
        Row { id, parts: vec![KeyRange::all()], entries }
    });
    let sampled = (0..40).map(|number| key(25 * number)).collect();
    let size = CutSize { min: 12_000, max: 24_000 };
    let (below, busy) = (Vec::new(), Vec::new());
    let given = Given { rows: rows.collect(), sampled, below, busy, size };
    let slices = given.slices();
    assert!((25..=50).contains(&slices.len()), "{slices:?}");
    assert!(slices.iter().all(|slice| slice.end == CutEnd::InBounds), "{slices:?}");
    let asked = Asked(&given, Cell::new(0));
    let mut turn = given.turn();
    for slice in &slices {
        assert_eq!(turn.next(&asked).as_ref(), Some(slice));
        assert!(asked.1.replace(0) <= 10, "{slice:?}");
    }
    assert_eq!(turn.next(&asked), None);
}
