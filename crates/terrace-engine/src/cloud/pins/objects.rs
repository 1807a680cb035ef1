use std::sync::Arc;

use terrace_base::PreambleError;
use terrace_env::ObjectName;

use crate::Result;
use crate::cloud::format::{
    CheckpointObject, Fate, FateObject, PinObject, decode_checkpoint, decode_fate, decode_pin,
    encode_checkpoint, encode_fate, encode_pin,
};
use crate::cloud::numbered::{Numbered, read_decoded};
use crate::cloud::{CloudName, CloudNames, CloudStore, Creation};

impl Numbered for PinObject {
    fn name(number: u64) -> CloudName {
        CloudName::Pin(number)
    }

    fn decode(database: u128, number: u64, bytes: Vec<u8>) -> Decoded<PinObject> {
        decode_pin(database, number, &bytes)
    }
}

impl Numbered for FateObject {
    fn name(number: u64) -> CloudName {
        CloudName::Fate(number)
    }

    fn decode(database: u128, number: u64, bytes: Vec<u8>) -> Decoded<FateObject> {
        decode_fate(database, number, &bytes)
    }
}

impl Numbered for CheckpointObject {
    fn name(number: u64) -> CloudName {
        CloudName::Checkpoint(number)
    }

    fn decode(database: u128, number: u64, bytes: Vec<u8>) -> Decoded<CheckpointObject> {
        decode_checkpoint(database, number, &bytes)
    }
}

type Decoded<O> = std::result::Result<O, PreambleError>;

/// The pins of one database, and its checkpoints.
#[derive(Clone, Debug)]
pub(super) struct PinObjects {
    pub store: Arc<CloudStore>,
    pub names: CloudNames,
}

impl PinObjects {
    fn database(&self) -> u128 {
        self.names.database()
    }

    fn name(&self, pin: u64) -> ObjectName {
        self.names.of(&CloudName::Pin(pin))
    }

    /// The pin at a number; `None` if there is none.
    pub fn read(&self, number: u64) -> Result<Option<PinObject>> {
        let decode = |bytes: Vec<u8>| decode_pin(self.database(), number, &bytes);
        read_decoded(&self.store, &self.name(number), decode)
    }

    /// Creates a pin; `false` if the number is taken.
    pub fn create(&self, number: u64, pin: &PinObject) -> Result<bool> {
        let bytes = encode_pin(self.database(), number, pin);
        let creation = self.store.create(&self.name(number), &bytes)?;
        Ok(matches!(creation, Creation::Created { .. }))
    }

    /// Replaces a pin.
    pub fn put(&self, number: u64, pin: &PinObject) -> Result<()> {
        self.store.put(&self.name(number), &encode_pin(self.database(), number, pin))
    }

    /// Deletes a pin and all that belongs to it.
    pub fn delete(&self, number: u64) -> Result<()> {
        self.store.delete(&self.name(number))?;
        self.delete_checkpoint(number)?;
        self.store.delete(&self.names.of(&CloudName::Fate(number)))
    }

    /// What was decided of a pin, if that was done.
    pub fn fate(&self, pin: u64) -> Result<Option<Fate>> {
        let decode = |bytes: Vec<u8>| decode_fate(self.database(), pin, &bytes);
        let read = read_decoded(&self.store, &self.names.of(&CloudName::Fate(pin)), decode)?;
        Ok(read.map(|object| object.fate))
    }

    /// Decides the fate of a pin, unless that was done before; what it is.
    pub fn decide(&self, pin: u64, nonce: u128, fate: Fate) -> Result<Fate> {
        let bytes = encode_fate(self.database(), pin, FateObject { nonce, fate });
        match self.store.create(&self.names.of(&CloudName::Fate(pin)), &bytes)? {
            Creation::Created { .. } => Ok(fate),
            // The only deletion of a fate comes after the pin counts no more.
            Creation::Taken(_) => Ok(self.fate(pin)?.unwrap_or(Fate::Dropped)),
        }
    }

    /// The checkpoint of a pin, valid or not; `None` if there is none.
    pub fn checkpoint(&self, pin: u64) -> Result<Option<CheckpointObject>> {
        let object = self.names.of(&CloudName::Checkpoint(pin));
        read_decoded(&self.store, &object, |bytes| decode_checkpoint(self.database(), pin, &bytes))
    }

    /// Stores the checkpoint of a pin, which is nobody else's.
    pub fn put_checkpoint(&self, checkpoint: &CheckpointObject) -> Result<()> {
        let name = self.names.of(&CloudName::Checkpoint(checkpoint.pin));
        self.store.put_whole(&name, &encode_checkpoint(self.database(), checkpoint))
    }

    pub fn delete_checkpoint(&self, pin: u64) -> Result<()> {
        self.store.delete(&self.names.of(&CloudName::Checkpoint(pin)))
    }

    /// Creates `pin` at the first number that is free, from `first` on; that number.
    pub fn take(&self, first: u64, pin: &PinObject) -> Result<u64> {
        // What a list shows was taken, and so was all below it.
        let mut number = self.listed()?.last().map_or(first, |last| first.max(last + 1));
        while !self.create(number, pin)? {
            number += 1;
        }
        Ok(number)
    }

    /// The numbers of pins that a list shows, ascending. Some may be missing, and some may be gone.
    pub fn listed(&self) -> Result<Vec<u64>> {
        let listed = self.store.list(&self.names.pin_prefix())?;
        let number = |name| match self.names.parse(name) {
            Some(
                CloudName::Pin(number) | CloudName::Fate(number) | CloudName::Checkpoint(number),
            ) => Some(number),
            _ => None,
        };
        let mut numbers: Vec<u64> =
            listed.iter().filter_map(|object| number(&object.name)).collect();
        numbers.dedup();
        Ok(numbers)
    }
}
