//! Objects with dense numbers that an owner creates one after the other, as the feed and the log
//! are made of: how they are read, ahead of need, and created, each number once.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use terrace_base::{Corruption, Epoch, PreambleError};
use terrace_env::ObjectName;

use super::format::Author;
use super::{CloudName, CloudNames, CloudStore, Creation, PendingGet, is_missing};
use crate::{Error, Result};

/// How often an object is read whose bytes are damaged: they may be so on their way only.
const READS_MAX: u32 = 4;

/// So many objects are asked for before they are needed.
const AHEAD_MAX: usize = 16;

/// What stands at a number.
pub trait Numbered: PartialEq + Sized {
    /// The name of the object with this number.
    fn name(number: u64) -> CloudName;

    /// What these bytes are, at this number of this database.
    ///
    /// Errors: they are not what was written there.
    fn decode(
        database: u128,
        number: u64,
        bytes: Vec<u8>,
    ) -> std::result::Result<Self, PreambleError>;
}

/// The numbered objects of one kind of one database.
#[derive(Debug)]
pub struct NumberedObjects<O> {
    /// Where they lie.
    pub store: Arc<CloudStore>,
    /// What they are called.
    pub names: CloudNames,
    kind: PhantomData<fn() -> O>,
}

/// What came of the creation of an object.
#[derive(Debug)]
pub(super) enum Placed<O> {
    /// It stands there.
    There {
        /// Whether a put of it may still land: should the object be deleted, it may come again.
        may_come_again: bool,
    },
    /// Another one stands there; `None` if it has been collected since.
    Taken(Option<O>),
}

impl<O> Clone for NumberedObjects<O> {
    fn clone(&self) -> NumberedObjects<O> {
        NumberedObjects::new(&self.store, self.names)
    }
}

impl<O> NumberedObjects<O> {
    /// Those that `store` has under these names.
    #[must_use]
    pub fn new(store: &Arc<CloudStore>, names: CloudNames) -> NumberedObjects<O> {
        NumberedObjects { store: Arc::clone(store), names, kind: PhantomData }
    }

    /// The error of an owner that found its next number taken by another one, of the epoch `by` if
    /// that is known.
    pub(super) fn overtaken(&self, author: Author, by: Option<Epoch>) -> Error {
        let by = by.map_or_else(String::new, |epoch| format!(", with epoch {}", epoch.0));
        Error::Fenced(format!(
            "the database {:032x} in {} was opened by somebody else{by}, since it was opened here \
             with epoch {}: nothing more can be written from here. Close it, and open it again to \
             take it back",
            self.names.database(),
            self.store.url(),
            author.epoch.0
        ))
    }
}

impl<O: Numbered> NumberedObjects<O> {
    pub(super) fn name(&self, number: u64) -> ObjectName {
        self.names.of(&O::name(number))
    }

    /// What stands at a number; `None` if nothing does.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub(super) fn read(&self, number: u64) -> Result<Option<O>> {
        read_decoded(&self.store, &self.name(number), |bytes| self.decode(number, bytes))
    }

    /// What stands at each of `numbers`, in their order. The further the reading goes, the more of
    /// them are asked for at once: one after the other, each would cost the latency of the store,
    /// and most readings end with the first.
    pub(super) fn read_each<N: Iterator<Item = u64>>(&self, numbers: N) -> ReadAhead<'_, O, N> {
        ReadAhead { objects: self, numbers, asked: VecDeque::new(), window: 1 }
    }

    fn end_read(&self, number: u64, begun: PendingGet) -> Result<Option<O>> {
        let bytes = match begun.wait() {
            Ok(bytes) => bytes,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.decode(number, bytes) {
            Ok(object) => Ok(Some(object)),
            // It may be damaged on its way only.
            Err(_) => self.read(number),
        }
    }

    fn decode(&self, number: u64, bytes: Vec<u8>) -> std::result::Result<O, PreambleError> {
        O::decode(self.names.database(), number, bytes)
    }

    /// Creates the object with this number. `bytes` are such as nobody else would create.
    ///
    /// Errors: the environment's; then it may be there, or may come.
    pub(super) fn create(&self, number: u64, bytes: &[u8]) -> Result<Placed<O>> {
        match self.store.create(&self.name(number), bytes)? {
            Creation::Created { may_come_again } => Ok(Placed::There { may_come_again }),
            Creation::Taken(there) => {
                let decoded = there.and_then(|there| self.decode(number, there).ok());
                // What came with the answer may be damaged on its way.
                let there = if decoded.is_some() { decoded } else { self.read(number)? };
                let ours = self.decode(number, bytes.to_vec()).ok();
                if there.is_some() && there == ours {
                    return Ok(Placed::There { may_come_again: true });
                }
                Ok(Placed::Taken(there))
            }
        }
    }

    /// Deletes what stands at a number.
    ///
    /// Errors: the environment's.
    pub(super) fn delete(&self, number: u64) -> Result<()> {
        self.store.delete(&self.name(number))
    }
}

/// Reads numbers in a given order; see [`NumberedObjects::read_each`].
pub(super) struct ReadAhead<'a, O, Numbers> {
    objects: &'a NumberedObjects<O>,
    numbers: Numbers,
    asked: VecDeque<(u64, PendingGet)>,
    /// How many are asked for with the next one.
    window: usize,
}

impl<O: Numbered, Numbers: Iterator<Item = u64>> Iterator for ReadAhead<'_, O, Numbers> {
    /// What stands at a number, as [`NumberedObjects::read`] has it.
    type Item = (u64, Result<Option<O>>);

    fn next(&mut self) -> Option<Self::Item> {
        let missing = self.window.saturating_sub(self.asked.len());
        let objects = self.objects;
        let begin = |number| (number, objects.store.begin_get(&objects.name(number), None));
        self.asked.extend(self.numbers.by_ref().take(missing).map(begin));
        self.window = (2 * self.window).min(AHEAD_MAX);
        let (number, pending) = self.asked.pop_front()?;
        Some((number, objects.end_read(number, pending)))
    }
}

/// An object, decoded; `None` if there is none.
///
/// Errors: `Corruption` if it is damaged each time; `Unsupported`; the environment's.
pub(super) fn read_decoded<T>(
    store: &CloudStore,
    name: &ObjectName,
    decode: impl Fn(Vec<u8>) -> std::result::Result<T, PreambleError>,
) -> Result<Option<T>> {
    let mut reads = 0;
    loop {
        let Some(bytes) = store.find(name)? else { return Ok(None) };
        reads += 1;
        match decode(bytes) {
            Ok(object) => return Ok(Some(object)),
            Err(_) if reads < READS_MAX => {}
            Err(error) => return Err(undecodable(name, &error)),
        }
    }
}

/// The error for an object that cannot be read.
fn undecodable(name: &ObjectName, error: &PreambleError) -> Error {
    match error {
        PreambleError::Codec(error) => {
            Corruption::from_codec(Path::new(name.as_str()), 0, error).into()
        }
        PreambleError::Unsupported => Error::Unsupported(format!(
            "the object {name} was written by a later version of Terrace; open the database with \
             that version"
        )),
    }
}
