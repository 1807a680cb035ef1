//! Iterators of the language over keys and values, from both ends.

use std::iter::FusedIterator;

use terrace_engine::store::PinnedItem;

use crate::Result;
use crate::view::cursor::Cursor;
use crate::view::value::{Key, Value};

/// The keys and values of an interval, as they were at one moment, in their order; from the back,
/// in the opposite one. Made by [`View::iter`](crate::View::iter),
/// [`View::range`](crate::View::range) and [`View::prefix`](crate::View::prefix).
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path())?;
/// for key in ["a", "b", "c"] {
///     db.put(key, "value")?;
/// }
/// for row in db.range(.."c").rev() {
///     let (key, value) = row?;
///     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
/// }
/// let keys: Vec<_> = db.iter().keys().collect::<terrace::Result<_>>()?;
/// assert_eq!(keys, ["a", "b", "c"]);
/// # Ok(())
/// # }
/// ```
///
/// Each row is a copy, and owes the iterator nothing; a [`Cursor`] copies nothing. An error is the
/// last item, unless it is of one key alone (`Merge`, `Unsupported`) and the iterator is walked
/// from one end only: then it goes on behind that key.
#[derive(Debug)]
pub struct Iter {
    /// The cursor that no end has taken yet.
    fresh: Option<Cursor>,
    front: Option<Cursor>,
    back: Option<Cursor>,
    /// The only direction that is left, since an error of a key: where the ends meet is not known.
    only: Option<bool>,
    is_done: bool,
}

impl Iter {
    pub(crate) fn new(cursor: Cursor) -> Iter {
        Iter { fresh: Some(cursor), front: None, back: None, only: None, is_done: false }
    }

    /// The keys without their values, which are not copied; large ones that stand apart from the
    /// tables are not even read.
    #[must_use]
    pub fn keys(mut self) -> Keys {
        let ends = [&mut self.fresh, &mut self.front, &mut self.back];
        ends.into_iter().flatten().for_each(Cursor::show_keys_only);
        Keys(self)
    }

    /// Goes over a key from one end; what `take` makes of it.
    #[inline]
    fn step<T>(
        &mut self,
        forward: bool,
        take: impl FnOnce(crate::EntryRef<'_>) -> T,
    ) -> Option<Result<T>> {
        if self.is_done || self.only.is_some_and(|only| only != forward) {
            return None;
        }
        let (own, other) = match forward {
            true => (&mut self.front, &self.back),
            false => (&mut self.back, &self.front),
        };
        let cursor = own.get_or_insert_with(|| match self.fresh.take() {
            Some(cursor) => placed(cursor, forward),
            None => placed(other.as_ref().expect("one end has the first cursor").twin(), forward),
        });
        if let Err(error) = cursor.step(forward) {
            self.is_done = !cursor.is_at_refused() || other.is_some();
            self.only = Some(forward);
            return Some(Err(error));
        }
        let has_met = match other.as_ref().and_then(Cursor::row) {
            None => false,
            reached => has_met(cursor.row(), reached, forward),
        };
        let row = if has_met { None } else { cursor.shown_row() };
        let Some(row) = row else {
            self.is_done = true;
            (self.front, self.back) = (None, None);
            return None;
        };
        Some(Ok(take(row)))
    }

    /// Counts nothing of it so far: its rows are thrown away, and will be read again.
    #[cfg(feature = "tokio")]
    pub(crate) fn discard_tally(&mut self) {
        let cursors = [&mut self.fresh, &mut self.front, &mut self.back];
        cursors.into_iter().flatten().for_each(|cursor| cursor.tally().discard());
    }
}

fn placed(mut cursor: Cursor, forward: bool) -> Cursor {
    if !forward {
        cursor.seek_to_end();
    }
    cursor
}

/// Whether the other end has gone over this row already.
#[inline]
fn has_met(
    row: Option<crate::EntryRef<'_>>,
    reached: Option<crate::EntryRef<'_>>,
    forward: bool,
) -> bool {
    let (Some(row), Some(reached)) = (row, reached) else { return false };
    if forward { row.key >= reached.key } else { row.key <= reached.key }
}

#[inline]
fn copied(row: crate::EntryRef<'_>) -> (Key, Value) {
    (Key::from(row.key), Value(PinnedItem::copy(row.value, row.expiry(), row.seqno())))
}

impl Iterator for Iter {
    type Item = Result<(Key, Value)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.step(true, copied)
    }
}

impl DoubleEndedIterator for Iter {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false, copied)
    }
}

impl FusedIterator for Iter {}

/// The keys of an interval; see [`Iter::keys`].
#[derive(Debug)]
pub struct Keys(Iter);

impl Iterator for Keys {
    type Item = Result<Key>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(true, |row| Key::from(row.key))
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.step(false, |row| Key::from(row.key))
    }
}

impl FusedIterator for Keys {}
