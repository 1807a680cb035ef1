//! A cursor: the entries of an interval in both directions, where they lie.

use std::ops::ControlFlow;

use terrace_engine::Error as EngineError;
use terrace_engine::store::Iter as EngineIter;

use crate::keyspace::{PREFIX_BYTES, ScanTally};
use crate::view::value::EntryRef;
use crate::{Error, Result};

/// A position between the keys of an interval, as they were at one moment. Made by
/// [`View::cursor`](crate::View::cursor); a new one stands before the first key.
///
/// ```text
///     │ a │ b │ c │        next() gives the key to the right and steps over it,
///     ▲                    prev() the key to the left; so prev() after next() gives the same key
/// ```
/// ```
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path())?;
/// for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
///     db.put(key, value)?;
/// }
/// let mut cursor = db.cursor("b"..);
/// while let Some(row) = cursor.next()? {
///     println!("{} = {}", row.key.escape_ascii(), row.value.escape_ascii());
/// }
/// assert_eq!(cursor.prev()?.map(|row| row.key.to_vec()), Some(b"c".to_vec()));
/// # Ok(())
/// # }
/// ```
///
/// It copies nothing: a row is borrowed until the next step. It holds back neither writers nor
/// background work; but versions that it may still show are kept until it is dropped.
///
/// Errors of a step: `Merge`, and an entry that a later version wrote (`Unsupported`), are of one
/// key, and the next step, in either direction, goes on behind it. After any other error the cursor
/// has lost its place: `seek` places it again.
#[derive(Debug)]
pub struct Cursor {
    source: Source,
    place: Place,
    tally: ScanTally,
}

/// What a cursor walks on.
#[derive(Debug)]
enum Source {
    Open(Box<EngineIter>),
    /// It could not be opened; the error was told if it is gone.
    Failed(Option<Error>),
}

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first key of the interval.
    Start,
    /// Behind the last key of the interval.
    End,
    /// Right before the key that the iterator stands on.
    Before,
    /// Right behind the key that the iterator stands on.
    Behind,
    /// At a key that cannot be shown.
    AtRefused,
    /// Nowhere, since an error.
    Lost,
}

impl Cursor {
    pub(crate) fn new(opened: terrace_engine::Result<EngineIter>, tally: ScanTally) -> Cursor {
        let source = match opened {
            Ok(iter) => Source::Open(Box::new(iter)),
            Err(error) => Source::Failed(Some(error.into())),
        };
        Cursor { source, place: Place::Start, tally }
    }

    /// Another cursor over the same entries, as they were at the same moment.
    pub(crate) fn twin(&self) -> Cursor {
        let tally = self.tally.twin();
        match &self.source {
            Source::Open(iter) => Cursor::new(iter.twin(), tally),
            Source::Failed(_) => Cursor { source: Source::Failed(None), place: Place::Lost, tally },
        }
    }

    /// From the next step on, large values that stand apart from the tables are not read, and show
    /// as empty ones.
    pub(crate) fn show_keys_only(&mut self) {
        if let Source::Open(iter) = &mut self.source {
            iter.show_keys_only();
        }
    }

    /// The key to the right of the cursor, with its value; steps over it. Nothing at the end.
    #[expect(clippy::should_implement_trait, reason = "a row is borrowed from the cursor")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<EntryRef<'_>>> {
        self.step(true)?;
        Ok(self.shown_row())
    }

    /// The key to the left of the cursor, with its value; steps over it. Nothing at the start.
    #[inline]
    pub fn prev(&mut self) -> Result<Option<EntryRef<'_>>> {
        self.step(false)?;
        Ok(self.shown_row())
    }

    /// Stands right before the first key at or above `key`; the interval's ends stay what they are.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.seek_stored(key.as_ref())
    }

    /// Stands before the first key.
    pub fn seek_to_start(&mut self) {
        self.place = Place::Start;
    }

    /// Stands behind the last key.
    pub fn seek_to_end(&mut self) {
        self.place = Place::End;
    }

    /// Gives `visit` every key from here on with its value, until there are no more or it breaks
    /// off. Then the cursor stands behind the last one given.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// # db.put("a", "1234")?;
    /// let mut bytes = 0;
    /// db.cursor(..).for_each(|row| {
    ///     bytes += row.value.len();
    ///     if bytes < 1_000_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    /// })?;
    /// assert_eq!(bytes, 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_each(
        &mut self,
        mut visit: impl FnMut(EntryRef<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        while let Some(row) = self.next()? {
            if visit(row).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the last step met a key that cannot be shown, which is all that it failed of.
    pub(crate) fn is_at_refused(&self) -> bool {
        self.place == Place::AtRefused
    }

    /// The row that the last step went over, if the cursor stands beside it.
    #[inline]
    pub(crate) fn row(&self) -> Option<EntryRef<'_>> {
        let (Source::Open(iter), Place::Before | Place::Behind) = (&self.source, self.place) else {
            return None;
        };
        let entry = iter.entry()?;
        Some(EntryRef::of(&entry.key[PREFIX_BYTES..], &entry))
    }

    /// The same, given out.
    #[inline]
    pub(crate) fn shown_row(&mut self) -> Option<EntryRef<'_>> {
        let (Source::Open(iter), Place::Before | Place::Behind) = (&self.source, self.place) else {
            return None;
        };
        let entry = iter.entry()?;
        let key = &entry.key[PREFIX_BYTES..];
        self.tally.shown(key.len().wrapping_add(entry.value.len()));
        Some(EntryRef::of(key, &entry))
    }

    /// What the cursor comes to in the figures of its keyspace.
    #[cfg(feature = "tokio")]
    pub(crate) fn tally(&mut self) -> &mut ScanTally {
        &mut self.tally
    }

    /// Steps over a key; after it, [`Cursor::row`] is that key.
    #[inline]
    pub(crate) fn step(&mut self, forward: bool) -> Result<()> {
        let Source::Open(iter) = &mut self.source else { return Err(self.failure()) };
        let moved = match (self.place, forward) {
            (Place::Behind | Place::AtRefused, true) => iter.next(),
            (Place::Before | Place::AtRefused, false) => iter.prev(),
            // The key that the cursor stands beside is stepped over again, the other way.
            (Place::Before, true) | (Place::Behind, false) => Ok(()),
            (Place::Start | Place::End | Place::Lost, _) => return self.step_from_end(forward),
        };
        self.settle(moved, forward)
    }

    /// The first step from an end of the interval.
    #[inline(never)]
    fn step_from_end(&mut self, forward: bool) -> Result<()> {
        let Source::Open(iter) = &mut self.source else { return Err(self.failure()) };
        let moved = match (self.place, forward) {
            (Place::Start, true) => iter.seek_to_first(),
            (Place::End, false) => iter.seek_back(None),
            (Place::Start | Place::End, _) => return Ok(()),
            _ => return Err(lost()),
        };
        self.settle(moved, forward)?;
        self.tally.placed();
        Ok(())
    }

    /// Notes where the cursor stands after a move of the iterator.
    #[inline]
    fn settle(&mut self, moved: terrace_engine::Result<()>, forward: bool) -> Result<()> {
        let Source::Open(iter) = &self.source else { return Ok(()) };
        self.place = match (&moved, forward) {
            (Ok(()), true) if iter.is_on_entry() => Place::Behind,
            (Ok(()), false) if iter.is_on_entry() => Place::Before,
            (Ok(()), true) => Place::End,
            (Ok(()), false) => Place::Start,
            (Err(EngineError::Merge(_) | EngineError::Unsupported(_)), _) => Place::AtRefused,
            (Err(_), _) => Place::Lost,
        };
        Ok(moved?)
    }

    fn seek_stored(&mut self, key: &[u8]) -> Result<()> {
        let Source::Open(iter) = &mut self.source else { return Err(self.failure()) };
        let moved = iter.seek(self.tally.space().number.stored(key).as_slice());
        self.settle(moved, true)?;
        self.tally.placed();
        if self.place == Place::Behind {
            self.place = Place::Before;
        }
        Ok(())
    }

    #[cold]
    fn failure(&mut self) -> Error {
        match &mut self.source {
            Source::Failed(error) => error.take().unwrap_or_else(lost),
            Source::Open(_) => lost(),
        }
    }
}

#[cold]
fn lost() -> Error {
    EngineError::invalid("the cursor lost its place by an earlier error: seek again").into()
}
