use std::sync::Arc;

use super::PinObjects;
use crate::cloud::format::{CheckpointObject, Fate, Holds, PinObject};
use crate::cloud::{CheckpointName, CloudFeed, CloudName, CloudNames, CloudStore, FedState};
use crate::{Error, Result};

/// The checkpoints of one database in the store: what its feed came to at some moment, under a name.
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
    /// are milliseconds since 1970.
    ///
    /// Cost: a reading of the feed, a list, and five requests.
    /// Errors: `Invalid` if there is no database, or one of that name; what `snapshot_of` says;
    /// `Outdated` if it took so long that the owner has given it up; the environment's. After an
    /// error there is no such checkpoint, but its name may be in use until it is removed.
    pub fn make(
        &self,
        nonce: u128,
        name: CheckpointName,
        at_ms: u64,
        snapshot_of: impl FnOnce(&FedState) -> Result<Vec<u8>>,
    ) -> Result<CheckpointObject> {
        let PinObjects { store, names } = &self.objects;
        let before = CloudFeed::read(store, *names)?.ok_or_else(|| self.no_database())?;
        let mut pin = PinObject { nonce, counter: 1, holds: Holds::Checkpoint(name.clone()) };
        let number = self.objects.take(before.mark.collected().pins, &pin)?;
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
        if !self.objects.create_checkpoint(&checkpoint)? {
            return Err(Error::invalid(format!(
                "the database {:032x} in {} has a checkpoint {} already, or one that was not \
                 finished; choose another name, or remove that one",
                names.database(),
                store.url(),
                checkpoint.name
            )));
        }
        match self.objects.decide(pin, nonce, Fate::Sealed)? {
            Fate::Sealed => Ok(checkpoint),
            Fate::Dropped => {
                self.objects.delete_checkpoint(&checkpoint.name)?;
                Err(self.given_up(&checkpoint.name))
            }
        }
    }

    /// The checkpoint of that name, if there is one.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn find(&self, name: &CheckpointName) -> Result<Option<CheckpointObject>> {
        let PinObjects { store, names } = &self.objects;
        let Some(checkpoint) = self.objects.checkpoint(name)? else { return Ok(None) };
        let Some(state) = CloudFeed::read(store, *names)? else { return Ok(None) };
        let is_valid = checkpoint.pin >= state.mark.collected().pins
            && self.is_held(&checkpoint)?
            && self.objects.fate(checkpoint.pin)? == Some(Fate::Sealed);
        Ok(is_valid.then_some(checkpoint))
    }

    /// The checkpoints that a list shows, by name; one that was made a moment ago may be missing.
    ///
    /// Errors: as of [`Checkpoints::find`].
    pub fn list(&self) -> Result<Vec<CheckpointObject>> {
        let PinObjects { store, names } = &self.objects;
        let mut found = Vec::new();
        for object in store.list(&names.checkpoint_prefix())? {
            if let Some(CloudName::Checkpoint(name)) = names.parse(&object.name) {
                found.extend(self.find(&name)?);
            }
        }
        Ok(found)
    }

    /// Removes the checkpoint of that name, or what is left of one that was not finished. What only
    /// it needed is deleted by the owner, some time later.
    ///
    /// Errors: the environment's; it may be removed then, or not.
    pub fn remove(&self, name: &CheckpointName) -> Result<Removal> {
        let Some(checkpoint) = self.objects.checkpoint(name)? else { return Ok(Removal::Missing) };
        if self.is_held(&checkpoint)? {
            let nothing = PinObject { nonce: 0, counter: 2, holds: Holds::Nothing };
            self.objects.put(checkpoint.pin, &nothing)?;
        }
        self.objects.delete_checkpoint(name)?;
        Ok(Removal::Removed)
    }

    /// Whether the pin of a checkpoint says that it is this one's.
    fn is_held(&self, checkpoint: &CheckpointObject) -> Result<bool> {
        let pin = self.objects.read(checkpoint.pin)?;
        Ok(pin.is_some_and(|pin| pin.holds == Holds::Checkpoint(checkpoint.name.clone())))
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
