use std::cmp::Ordering;

use super::head::FirstBytes;

/// Which way sources stand around a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Every source stands on its first key at or above it.
    Forward,
    /// Every source stands on its last key at or below it.
    Backward,
}

impl Direction {
    /// How two keys compare in this direction: less is what comes first.
    #[inline]
    pub(super) fn of(self, order: Ordering) -> Ordering {
        match self {
            Direction::Forward => order,
            Direction::Backward => order.reverse(),
        }
    }
}

/// What came of a move that may be put off.
///
/// ```text
///   sought: m          near       where it will stand
///   a source            p....   ──►   pear             at or above, going forward
///   another             n       ──►   (none)           or nowhere
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// The cursor stands on a key.
    Stands,
    /// There is no such key.
    Nowhere,
    /// If there is a key, its first bytes are at or behind these, in the direction of the move.
    /// [`Cursor::arrive`](super::Cursor::arrive) finds out.
    Near(FirstBytes),
}

impl Approach {
    /// Of a move that nothing was put off of.
    #[must_use]
    #[inline]
    pub fn done(stands: bool) -> Approach {
        if stands { Approach::Stands } else { Approach::Nowhere }
    }

    /// Near a key of which only the beginning is known, in two parts: nothing of the key lies
    /// before them.
    #[must_use]
    pub fn near(parts: [&[u8]; 2], direction: Direction) -> Approach {
        let unknown = match direction {
            Direction::Forward => 0,
            Direction::Backward => u8::MAX,
        };
        Approach::Near(FirstBytes::beginning(parts, unknown))
    }
}
