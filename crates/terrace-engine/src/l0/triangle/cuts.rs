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
//! Below `min` are slices at the end of the keys, before a gap in the rows under which tables lie that
//! no row meets (they would be rewritten for nothing), and slices of which nothing but range tombstones
//! is left. Beyond `max` is what cannot be divided: a table that is larger, or the versions of one key.
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
    let start = pieces.partition_point(|piece| piece.keys.is_before(first));
    let mut slices = gather(&pieces[start..], size);
    slices.extend(gather(&pieces[..start], size));
    slices
}

/// Keys between two places where a slice may end.
#[derive(Debug)]
struct Piece {
    keys: KeyRange,
    /// Bytes of the rows and of what lies below.
    bytes: u64,
    /// Whether anything of the rows counts here.
    counts: bool,
}

/// The pieces of the key space, ascending; together they are all of it.
fn pieces_of(content: &Content<'_>, bounds: &CutBounds) -> Vec<Piece> {
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
    let ends = ends.iter().map(|end| Some(end.to_vec())).chain([None]);
    let mut pieces: Vec<Piece> = starts
        .zip(ends)
        .map(|(start, end)| Piece { keys: KeyRange::new(start, end), bytes: 0, counts: false })
        .collect();
    let place = |pieces: &[Piece], key: &[u8]| {
        pieces.partition_point(|piece| piece.keys.is_before(key)).min(pieces.len() - 1)
    };
    for (keys, bytes) in below {
        let index = place(&pieces, keys.start());
        pieces[index].bytes += bytes;
    }
    for part in &content.parts {
        let from = place(&pieces, part.start());
        let met = pieces[from..].iter_mut().take_while(|piece| piece.keys.overlaps(part));
        met.for_each(|piece| piece.counts = true);
    }
    for (key, bytes) in &content.samples {
        // They are those of the keys up to this one.
        let index = place(&pieces, key);
        let before = index.checked_sub(1).filter(|before| pieces[*before].counts);
        let ends_here = pieces[index].keys.start() == key.as_slice();
        pieces[before.filter(|_| ends_here).unwrap_or(index)].bytes += bytes;
    }
    pieces
}

/// Joins pieces, which follow each other, to slices.
fn gather(pieces: &[Piece], size: CutSize) -> Vec<KeyRange> {
    let mut slices = Vec::new();
    let mut open: Option<(KeyRange, u64)> = None;
    for piece in pieces {
        let ends_before = |open: &mut (KeyRange, u64)| match piece.counts {
            true => open.1.saturating_add(piece.bytes) > size.max,
            // Tables that no row meets are not rewritten.
            false => piece.bytes > 0,
        };
        slices.extend(open.take_if(ends_before).map(|(keys, _)| keys));
        if !piece.counts {
            continue;
        }
        let (keys, bytes) = match open.take() {
            Some((keys, bytes)) => (keys.hull(&piece.keys), bytes + piece.bytes),
            None => (piece.keys.clone(), piece.bytes),
        };
        if bytes >= size.min {
            slices.push(keys);
        } else {
            open = Some((keys, bytes));
        }
    }
    slices.extend(open.map(|(keys, _)| keys));
    slices
}
