//! Which slice of the triangle is cut next. Pure.
//!
//! A cut takes one key slice out of all rows, the *right-angle side* of the triangle:
//!
//! ```text
//!               cut last      cut longest ago
//!                   │         │
//!   newest  row 9   ├─────────────────────────┤        what a slice holds grows with the time since it
//!           row 8   ├─────────────────────────┤        was cut, so the rows make a triangle (here cut off
//!           row 7      ╎├─────────────────────┤        at both ends, since the cuts go round)
//!           row 6          ╎├─────────────────┤
//!           row 5                 ├───────────┤
//!           row 4                 ├───╎                the next cut: from here as far as it is large
//!                                 └───┘                enough
//!   L1      ├──┤├──────┤ ├───┤├───┤├──┤  ├────┤        it ends where a table begins or ends, or in a gap
//! ```
//!
//! # How
//! 1. *Turn.* The next slice begins where the oldest row that is left begins to count: that is where no cut
//!    has been for the longest time. From there on slices follow each other to the end of the keys, and
//!    then from the first key on. Nothing has to be remembered: the rows say it.
//! 2. *Size.* A slice is extended from one allowed end to the next until it holds `min` bytes, and not
//!    beyond `max`. What counts is what a cut reads: what is live of the rows in it, and the tables that
//!    it meets below.
//! 3. *Ends.* A slice ends in no table below, so that no table is written twice for one key; between
//!    tables it ends at a key of a row. Where nothing lies below, only that.
//!
//! Below `min` are slices at the end of the keys, where the turn begins, before a gap in the rows under
//! which tables lie that no row meets (they would be rewritten for nothing), before what cannot be divided
//! and is too large to go with them, and slices of which nothing but range tombstones is left. Beyond `max` is what cannot be divided: a table that is larger, or the versions of one key.
//!
//! *Source:* TriangleKV (TPDS 2022), §3.2, where the bounds are ½·AF·S and AF·S for the ratio AF of levels
//! and tables of S bytes. *Differs:* there a slice begins at a table's end always, and when L1 is empty
//! nothing is said.

use terrace_base::KeyRange;

use crate::l0::CutBounds;
use crate::l0::content::Content;

/// How many bytes a cut takes: the rows' and those of the tables that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutSize {
    /// A slice is extended until it holds so many.
    pub min: u64,
    /// It holds no more than this.
    pub max: u64,
}

/// The slices of `content` in the order of their turns, the first of which begins at or before `first`.
/// They share no key and no interval below, and outside of them nothing counts.
///
/// Cost: O(n log n) for n parts, samples and intervals below.
pub(super) fn slices_in_turn(
    content: &Content<'_>,
    first: &[u8],
    bounds: &CutBounds,
    size: CutSize,
) -> Vec<KeyRange> {
    let pieces = pieces_of(content, bounds);
    let start = pieces.partition_point(|piece| piece.is_before(first));
    let mut slices = gather(&pieces[start..], size);
    slices.extend(gather(&pieces[..start], size));
    slices
}

/// Keys between two places where a slice may end.
#[derive(Debug)]
struct Piece<'a> {
    start: &'a [u8],
    end: Option<&'a [u8]>,
    /// Bytes of the rows and of what lies below.
    bytes: u64,
    /// Whether anything of the rows counts here.
    counts: bool,
}

impl Piece<'_> {
    /// Whether all its keys are below `key`.
    fn is_before(&self, key: &[u8]) -> bool {
        self.end.is_some_and(|end| end <= key)
    }

    fn overlaps(&self, keys: &KeyRange) -> bool {
        !keys.is_before(self.start) && self.end.is_none_or(|end| keys.start() < end)
    }
}

/// The pieces of the key space, ascending; together they are all of it.
fn pieces_of<'a>(content: &'a Content<'a>, bounds: &'a CutBounds) -> Vec<Piece<'a>> {
    let below = &bounds.below;
    let is_allowed = |key: &[u8]| {
        let index = below.partition_point(|(keys, _)| keys.is_before(key));
        !key.is_empty() && below.get(index).is_none_or(|(keys, _)| key <= keys.start())
    };
    let of_below = below.iter().flat_map(|(keys, _)| [Some(keys.start()), keys.end()]).flatten();
    let of_parts = content.parts.iter().flat_map(|part| [Some(part.start()), part.end()]).flatten();
    let of_samples = content.samples.iter().map(|(key, _)| key.as_slice());
    let ends = of_below.chain(of_parts).chain(of_samples).filter(|key| is_allowed(key));
    let mut ends: Vec<&[u8]> = ends.collect();
    ends.sort_unstable();
    ends.dedup();
    let starts = std::iter::once([].as_slice()).chain(ends.iter().copied());
    let ends = ends.iter().map(|end| Some(*end)).chain([None]);
    let mut pieces: Vec<Piece<'_>> = starts
        .zip(ends)
        .map(|(start, end)| Piece { start, end, bytes: 0, counts: false })
        .collect();
    let place = |pieces: &[Piece<'_>], key: &[u8]| {
        pieces.partition_point(|piece| piece.is_before(key)).min(pieces.len() - 1)
    };
    for (keys, bytes) in below {
        let index = place(&pieces, keys.start());
        pieces[index].bytes += bytes;
    }
    for part in &content.parts {
        let from = place(&pieces, part.start());
        let met = pieces[from..].iter_mut().take_while(|piece| piece.overlaps(part));
        met.for_each(|piece| piece.counts = true);
    }
    for (key, bytes) in &content.samples {
        // They are those of the keys up to this one.
        let index = place(&pieces, key);
        let before = index.checked_sub(1).filter(|before| pieces[*before].counts);
        let ends_here = pieces[index].start == key.as_slice();
        pieces[before.filter(|_| ends_here).unwrap_or(index)].bytes += bytes;
    }
    pieces
}

/// Joins pieces, which follow each other, to slices.
fn gather(pieces: &[Piece<'_>], size: CutSize) -> Vec<KeyRange> {
    let slice = |open: Piece<'_>| KeyRange::new(open.start, open.end.map(<[u8]>::to_vec));
    let mut slices = Vec::new();
    let mut open: Option<Piece<'_>> = None;
    for piece in pieces {
        let ends_before = |open: &mut Piece<'_>| match piece.counts {
            true => open.bytes.saturating_add(piece.bytes) > size.max,
            // Tables that no row meets are not rewritten.
            false => piece.bytes > 0,
        };
        slices.extend(open.take_if(ends_before).map(slice));
        if !piece.counts {
            continue;
        }
        let Piece { start, bytes, .. } = open.take().unwrap_or(Piece { bytes: 0, ..*piece });
        let joined = Piece { start, bytes: bytes + piece.bytes, ..*piece };
        if joined.bytes >= size.min {
            slices.push(slice(joined));
        } else {
            open = Some(joined);
        }
    }
    slices.extend(open.map(slice));
    slices
}

#[cfg(test)]
mod tests {
    //! Goal: slices hold all that counts, share nothing, are as large as they should be, and come in the
    //! order of their turns. Method: drawings, and rows and tables drawn at random, judged key by key.

    use std::fmt::Write as _;

    use super::*;
    use crate::compaction::split::Sample;
    use crate::l0::range;

    const KEYS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

    fn number(word: &str) -> u64 {
        word.parse().expect("a number")
    }

    /// What there is to divide: rows, the newest first, and what lies below.
    struct Given {
        rows: Vec<(u64, Vec<KeyRange>)>,
        samples: Vec<Sample>,
        below: Vec<(KeyRange, u64)>,
        size: CutSize,
    }

    impl Given {
        /// Where the oldest row begins to count.
        fn first(&self) -> &[u8] {
            let of_oldest = self.rows.last().into_iter().flat_map(|(_, parts)| parts);
            of_oldest.map(KeyRange::start).min().unwrap_or_default()
        }

        fn slices(&self) -> Vec<KeyRange> {
            let parts = self.rows.iter().flat_map(|(_, parts)| parts);
            let content = Content::new(parts, self.samples.clone());
            let bounds = CutBounds { below: self.below.clone(), bytes: u64::MAX };
            slices_in_turn(&content, self.first(), &bounds, self.size)
        }

        fn counts_at(&self, key: &[u8]) -> bool {
            self.rows.iter().any(|(_, parts)| parts.iter().any(|part| part.contains(key)))
        }

        /// Bytes below that a slice meets.
        fn below_of(&self, slice: &KeyRange) -> u64 {
            let met = self.below.iter().filter(|(keys, _)| keys.overlaps(slice));
            met.map(|(_, bytes)| bytes).sum()
        }

        /// Bytes of rows in a slice: of the samples behind its start and up to its end; and of one at
        /// its start if no other slice ends there.
        fn bytes_of(&self, slice: &KeyRange, all: &[KeyRange]) -> u64 {
            let is_first = !all.iter().any(|other| other.end() == Some(slice.start()));
            let is_in = |(key, _): &&Sample| {
                (key.as_slice() > slice.start() || is_first && key.as_slice() == slice.start())
                    && slice.end().is_none_or(|end| key.as_slice() <= end)
            };
            self.samples.iter().filter(is_in).map(|(_, bytes)| bytes).sum()
        }
    }

    fn read(input: &str) -> Given {
        let size = CutSize { min: 1, max: u64::MAX };
        let mut given = Given { rows: Vec::new(), samples: Vec::new(), below: Vec::new(), size };
        for line in input.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["size", min, max] => {
                    given.size = CutSize { min: number(min), max: number(max) };
                }
                ["below", keys, bytes] => given.below.push((range(keys), number(bytes))),
                ["row", id, ref words @ ..] => {
                    let (samples, parts): (Vec<&str>, Vec<&str>) =
                        words.iter().partition(|word| word.contains('='));
                    given.rows.push((number(id), parts.into_iter().map(range).collect()));
                    for sample in samples {
                        let (keys, bytes) = sample.split_once('=').expect("KEYS=BYTES");
                        let one = |key: u8| (vec![key], number(bytes));
                        given.samples.extend(keys.bytes().map(one));
                    }
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
        for (id, parts) in &given.rows {
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
        let slices = given.slices();
        for (turn, slice) in slices.iter().enumerate() {
            let letter = |key: &[u8]| if slice.contains(key) { '^' } else { ' ' };
            let drawn = line(&format!("cut {}", turn + 1), &letter);
            let (rows, below) = (given.bytes_of(slice, &slices), given.below_of(slice));
            let _ = writeln!(out, "{:<36}{rows} and {below} below", drawn.trim_end());
        }
        out
    }

    /// Each case of the file: a comment, lines `size MIN MAX`, `below KEYS BYTES` and `row ID PARTS..
    /// KEYS=BYTES..` (newest first; each of the keys is sampled with so many bytes up to it), `----`, and
    /// the drawing up to the next empty line.
    #[test]
    fn slices_look_as_drawn() {
        let expected = include_str!("../testdata/cuts.txt");
        let mut actual = String::new();
        for case in expected.split_inclusive("\n\n") {
            let (input, _) = case.split_once("----\n").expect("a case has an input and a drawing");
            let _ = write!(actual, "{input}----\n{}\n", draw(&read(input)));
        }
        assert!(actual == expected, "the drawings are now\n{actual}");
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            (self.0 >> 33) % bound
        }

        fn key(&mut self) -> Vec<u8> {
            format!("{:02}", self.below(100)).into_bytes()
        }

        fn ascending_keys(&mut self, count: u64) -> Vec<Vec<u8>> {
            let mut keys: Vec<Vec<u8>> = (0..count).map(|_| self.key()).collect();
            keys.sort();
            keys.dedup();
            keys
        }

        /// Some of the intervals between keys, the last of which may have no end.
        fn ranges(&mut self, count: u64, one_in: u64) -> Vec<KeyRange> {
            let keys = self.ascending_keys(count);
            let ends = keys.iter().skip(1).cloned().map(Some).chain([None]);
            let all = keys.iter().zip(ends).map(|(start, end)| KeyRange::new(start.clone(), end));
            let all: Vec<KeyRange> = all.collect();
            all.into_iter().filter(|_| self.below(one_in) > 0).collect()
        }

        fn given(&mut self) -> Given {
            let mut samples = Vec::new();
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
                let is_in = |key: &Vec<u8>| parts.iter().any(|part| part.contains(key));
                let keys = self.ascending_keys(30).into_iter().filter(is_in);
                let keys: Vec<Vec<u8>> = keys.collect();
                samples.extend(keys.into_iter().map(|key| (key, self.below(30))));
                (id, parts)
            });
            let mut rows: Vec<(u64, Vec<KeyRange>)> = rows.collect();
            rows.retain(|(_, parts)| !parts.is_empty());
            samples.sort();
            let mut below = self.ranges(16, 3);
            if self.below(4) == 0 {
                below.clear();
            }
            let below = below.into_iter().map(|keys| (keys, 1 + self.below(60))).collect();
            let max = 1 + self.below(400);
            Given { rows, samples, below, size: CutSize { min: max.div_ceil(2), max } }
        }
    }

    #[test]
    fn slices_hold_everything_share_nothing_and_take_turns() {
        let mut within = 0;
        for seed in 0..if cfg!(miri) { 5 } else { 2000 } {
            let given = Random(seed).given();
            let slices = given.slices();
            let name = format!(
                "seed {seed}: {:?} {:?} {:?} {:?} {slices:?}",
                given.rows, given.samples, given.below, given.size
            );
            check_shares(&given, &slices, &name);
            check_turns(&given, &slices, &name);
            within += check_sizes(&given, &slices, &name);
        }
        assert!(cfg!(miri) || within > 2000, "{within} slices were within the bounds");
    }

    fn check_shares(given: &Given, slices: &[KeyRange], name: &str) {
        for (index, slice) in slices.iter().enumerate() {
            assert!(!slice.is_empty(), "{name}");
            let others = &slices[index + 1..];
            assert!(others.iter().all(|other| !other.overlaps(slice)), "{name}: {slice:?}");
        }
        for (keys, _) in &given.below {
            let meeting: Vec<_> = slices.iter().filter(|slice| slice.overlaps(keys)).collect();
            assert!(meeting.len() <= 1, "{name}: {keys:?} is met twice");
            for slice in meeting {
                assert_eq!(slice.intersection(keys), *keys, "{name}: {keys:?} is divided");
            }
        }
        for key in (0..100).flat_map(|key| ["", "+"].map(|more| format!("{key:02}{more}"))) {
            let is_in = slices.iter().any(|slice| slice.contains(key.as_bytes()));
            assert!(is_in || !given.counts_at(key.as_bytes()), "{name}: {key} is in no slice");
        }
        let mut parts = given.rows.iter().flat_map(|(_, parts)| parts);
        assert!(
            slices.iter().all(|slice| parts.clone().any(|part| part.overlaps(slice))),
            "{name}"
        );
        let endless = parts.any(|part| part.end().is_none());
        assert!(!endless || slices.iter().any(|slice| slice.end().is_none()), "{name}");
    }

    fn check_turns(given: &Given, slices: &[KeyRange], name: &str) {
        let Some(first) = slices.first() else { return };
        assert!(first.contains(given.first()), "{name}: not where the oldest row counts");
        let turns = slices.windows(2).filter(|pair| pair[1].start() < pair[0].start()).count();
        assert!(turns <= 1, "{name}: they go round once");
        let last = slices.last().expect("there is a first");
        assert!(turns == 0 || last.start() < first.start(), "{name}");
    }

    /// Judges the bytes of the slices, and returns how many were within the bounds.
    fn check_sizes(given: &Given, slices: &[KeyRange], name: &str) -> u64 {
        let mut within = 0;
        for (turn, slice) in slices.iter().enumerate() {
            let bytes = given.bytes_of(slice, slices) + given.below_of(slice);
            let next = slices.get(turn + 1).filter(|next| next.start() >= slice.start());
            if bytes > given.size.max {
                // Nowhere in it a slice may end.
                assert_eq!(divisible_at(given, slice), None, "{name}: {slice:?} of {bytes}");
            } else if bytes < given.size.min {
                let Some(next) = next else { continue };
                let gap = KeyRange::new(
                    slice.end().expect("another follows"),
                    Some(next.start().to_vec()),
                );
                let skips = !gap.is_empty() && given.below_of(&gap) > 0;
                let fits_no_more = bytes + first_piece(given, next, slices) > given.size.max;
                assert!(skips || fits_no_more, "{name}: {slice:?} of {bytes} before {next:?}");
            } else {
                within += 1;
            }
        }
        within
    }

    /// The keys at which a slice may end: where a part or an interval below begins or ends, or at a
    /// sample; in no interval below.
    fn ends(given: &Given) -> Vec<Vec<u8>> {
        let parts = given.rows.iter().flat_map(|(_, parts)| parts);
        let ranges = parts.chain(given.below.iter().map(|(keys, _)| keys));
        let bounds = ranges.flat_map(|keys| [Some(keys.start()), keys.end()]).flatten();
        let samples = given.samples.iter().map(|(key, _)| key.as_slice());
        let is_inside = |key: &[u8]| {
            given.below.iter().any(|(keys, _)| keys.contains(key) && keys.start() < key)
        };
        let ends = bounds.chain(samples).filter(|key| !is_inside(key));
        let mut ends: Vec<Vec<u8>> = ends.map(<[u8]>::to_vec).collect();
        ends.sort();
        ends.dedup();
        ends
    }

    /// A key at which a slice could be divided so that something counts on both sides.
    fn divisible_at(given: &Given, slice: &KeyRange) -> Option<Vec<u8>> {
        let counts = |keys: &KeyRange| {
            !keys.is_empty()
                && given.rows.iter().any(|(_, parts)| parts.iter().any(|part| part.overlaps(keys)))
        };
        ends(given).into_iter().find(|key| {
            let left = slice.intersection(&KeyRange::new("", Some(key.clone())));
            let right = slice.intersection(&KeyRange::new(key.clone(), None));
            counts(&left) && counts(&right)
        })
    }

    /// Bytes of a slice up to the first key at which it could have ended.
    fn first_piece(given: &Given, slice: &KeyRange, slices: &[KeyRange]) -> u64 {
        let end = ends(given).into_iter().find(|key| key.as_slice() > slice.start());
        let piece = slice.intersection(&KeyRange::new(slice.start(), end));
        let mut all = slices.to_vec();
        all.push(piece.clone());
        given.bytes_of(&piece, &all) + given.below_of(&piece)
    }
}
