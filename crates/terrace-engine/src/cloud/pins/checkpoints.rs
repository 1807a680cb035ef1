use std::sync::Arc;

use super::PinObjects;
use crate::cloud::format::{CheckpointObject, Fate, FateObject, Holds, PinObject};
use crate::cloud::numbered::NumberedObjects;
use crate::cloud::{CheckpointName, CloudFeed, CloudNames, CloudStore, FedState};
use crate::{Error, Result};

/// The checkpoints of one database in the store: what its feed came to at some moment, under a
/// name.
///
/// Any process may make, find and remove them, the owner's or another one's.
#[derive(Debug)]
pub struct Checkpoints {
    objects: PinObjects,
}

/// What came of the removal of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// There was none of that name.
    Missing,
}

impl Checkpoints {
    /// Those of this database.
    #[must_use]
    pub fn new(store: &Arc<CloudStore>, names: CloudNames) -> Checkpoints {
        Checkpoints { objects: PinObjects { store: Arc::clone(store), names } }
    }

    /// Makes one of what the feed comes to now. `snapshot_of` makes one edit of that, of which all
    /// tables are in the store, or refuses; `nonce` is drawn by the caller for this call; `at_ms`
    /// are milliseconds since 1970. Names of an archive tell its checkpoints apart by themselves,
    /// so that two of the same name are as good as one.
    ///
    /// Cost: three readings of the feed, a list, and a few requests for each pin that is there; for
    /// an archive, nothing for those.
    /// Errors: `Invalid` if there is no database, or one of that name; what `snapshot_of` says;
    /// `Outdated` if it took so long that the owner has given it up; the environment's. After an
    /// error there is no such checkpoint, unless the store did not answer.
    pub fn make(
        &self,
        nonce: u128,
        name: CheckpointName,
        at_ms: u64,
        snapshot_of: impl FnOnce(&FedState) -> Result<Vec<u8>>,
    ) -> Result<CheckpointObject> {
        let first = self.first_pin()?.ok_or_else(|| self.no_database())?;
        if !name.is_of_archive() && self.find(&name)?.is_some() {
            return Err(self.is_there(&name));
        }
        let mut pin = PinObject { nonce, counter: 1, holds: Holds::Checkpoint(name.clone()) };
        let number = self.objects.take(first, &pin)?;
        let made = self.store_and_seal(number, nonce, name, at_ms, snapshot_of);
        if made.is_err() {
            (pin.counter, pin.holds) = (2, Holds::Nothing);
            if let Err(error) = self.objects.put(number, &pin) {
                crate::program_log::debug!(pin = number, %error, "a pin was not released");
            }
        }
        made
    }

    fn store_and_seal(
        &self,
        pin: u64,
        nonce: u128,
        name: CheckpointName,
        at_ms: u64,
        snapshot_of: impl FnOnce(&FedState) -> Result<Vec<u8>>,
    ) -> Result<CheckpointObject> {
        let PinObjects { store, names } = &self.objects;
        let state = CloudFeed::read(store, *names)?.ok_or_else(|| self.no_database())?;
        if pin < state.mark.collected().pins {
            return Err(self.given_up(&name));
        }
        let snapshot = snapshot_of(&state)?;
        let (epoch, from) = (state.mark.epoch(), state.mark.number());
        let checkpoint = CheckpointObject { name, epoch, from, pin, at_ms, snapshot };
        self.objects.put_checkpoint(&checkpoint)?;
        let fate = self.objects.decide(pin, nonce, Fate::Sealed)?;
        // Dropped, and that forgotten since: then the feed says so.
        let counts = self.first_pin()?.is_some_and(|first| pin >= first);
        if fate == Fate::Dropped || !counts {
            return Err(self.given_up(&checkpoint.name));
        }
        if checkpoint.name.is_of_archive() {
            return Ok(checkpoint);
        }
        // Of two that are made at the same time, the first one counts.
        match self.find(&checkpoint.name)? {
            Some(found) if found.pin < pin => Err(self.is_there(&checkpoint.name)),
            _ => Ok(checkpoint),
        }
    }

    /// The checkpoint of that name, if there is one.
    ///
    /// Cost: a reading of the feed, and a request for each pin.
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn find(&self, name: &CheckpointName) -> Result<Option<CheckpointObject>> {
        Ok(self.walk(|held| held == name)?.into_iter().next())
    }

    /// All checkpoints, in the order in which they were begun. Cost and errors: as of
    /// [`Checkpoints::find`].
    pub fn list(&self) -> Result<Vec<CheckpointObject>> {
        self.walk(|_| true)
    }

    /// Removes the checkpoint of that name. What only it needed is deleted by the owner, some time
    /// later.
    ///
    /// Errors: the environment's; it may be removed then, or not.
    pub fn remove(&self, name: &CheckpointName) -> Result<Removal> {
        let found = self.walk(|held| held == name)?;
        found.iter().try_for_each(|checkpoint| self.remove_at(checkpoint.pin))?;
        Ok(if found.is_empty() { Removal::Missing } else { Removal::Removed })
    }

    /// Removes the checkpoint of this pin.
    ///
    /// Errors: the environment's; it may be removed then, or not.
    pub fn remove_at(&self, pin: u64) -> Result<()> {
        self.objects.put(pin, &PinObject { nonce: 0, counter: 2, holds: Holds::Nothing })?;
        self.objects.delete_checkpoint(pin)
    }

    /// The valid checkpoints with such a name, by their pins.
    fn walk(&self, is_meant: impl Fn(&CheckpointName) -> bool) -> Result<Vec<CheckpointObject>> {
        let Some(first) = self.first_pin()? else { return Ok(Vec::new()) };
        // There may be many of them, and each has three objects.
        let mut numbers = Vec::new();
        for (number, pin) in self.numbered::<PinObject>().read_each(first..) {
            let Some(pin) = pin? else { break };
            if matches!(&pin.holds, Holds::Checkpoint(name) if is_meant(name)) {
                numbers.push(number);
            }
        }
        let mut sealed = Vec::new();
        for (number, object) in self.numbered::<FateObject>().read_each(numbers.into_iter()) {
            let is_sealed = object?.is_some_and(|object| object.fate == Fate::Sealed);
            sealed.extend(is_sealed.then_some(number));
        }
        // One that is being removed has no checkpoint.
        let checkpoints = self.numbered::<CheckpointObject>();
        let read = checkpoints.read_each(sealed.into_iter()).map(|(_, object)| object);
        read.filter_map(Result::transpose).collect()
    }

    fn numbered<O>(&self) -> NumberedObjects<O> {
        NumberedObjects::new(&self.objects.store, self.objects.names)
    }

    /// The checkpoint of this pin, if it is valid.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn at(&self, number: u64) -> Result<Option<CheckpointObject>> {
        let pin = self.objects.read(number)?;
        let holds_one = pin.is_some_and(|pin| matches!(pin.holds, Holds::Checkpoint(_)));
        if !holds_one || self.objects.fate(number)? != Some(Fate::Sealed) {
            return Ok(None);
        }
        self.objects.checkpoint(number)
    }

    /// The first pin that counts; `None` if there is no database.
    fn first_pin(&self) -> Result<Option<u64>> {
        let PinObjects { store, names } = &self.objects;
        let state = CloudFeed::read(store, *names)?;
        Ok(state.map(|state| state.mark.collected().pins))
    }

    fn is_there(&self, name: &CheckpointName) -> Error {
        Error::invalid(format!(
            "the database {:032x} in {} has a checkpoint {name} already; choose another name, or \
             remove that one",
            self.objects.names.database(),
            self.objects.store.url()
        ))
    }

    fn no_database(&self) -> Error {
        let PinObjects { store, names } = &self.objects;
        Error::invalid(format!(
            "{} holds nothing of the database {:032x}; check the URL",
            store.url(),
            names.database()
        ))
    }

    fn given_up(&self, name: &CheckpointName) -> Error {
        Error::Outdated(format!(
            "the checkpoint {name} took so long that the owner of the database has given it up; \
             make it again"
        ))
    }
}
