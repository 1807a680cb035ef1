use std::sync::Arc;

use super::PinObjects;
use crate::Result;
use crate::cloud::format::{CheckpointObject, Fate, Holds};
use crate::cloud::{CloudNames, CloudStore};

/// All pins of a database that count at one time, for whoever asks what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinCensus {
    /// Those that hold something, in ascending order of their numbers.
    pub pins: Vec<(u64, PinSeen)>,
    /// The first number that is free.
    pub end: u64,
}

/// What a pin holds, as somebody else sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinSeen {
    /// All that is there: a reader that begins, or a checkpoint that is being made or removed.
    Everything,
    /// A reader needs what any version of the feed names from this number on.
    From(u64),
    /// What this checkpoint names.
    Checkpoint(Box<CheckpointObject>),
}

impl PinCensus {
    /// Reads the pins of a database from `first` on, which the feed has as its first pin. Those
    /// that an owner has dropped hold nothing.
    ///
    /// Cost: up to three requests a pin, and one for the first free number.
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn read(store: &Arc<CloudStore>, names: CloudNames, first: u64) -> Result<PinCensus> {
        let objects = PinObjects { store: Arc::clone(store), names };
        let mut census = PinCensus { pins: Vec::new(), end: first };
        while let Some(pin) = objects.read(census.end)? {
            let number = census.end;
            let seen = match (&pin.holds, objects.fate(number)?) {
                (Holds::Nothing, _) | (_, Some(Fate::Dropped)) => None,
                (Holds::Everything, _) => Some(PinSeen::Everything),
                (Holds::From(from), _) => Some(PinSeen::From(*from)),
                (Holds::Checkpoint(_), None) => Some(PinSeen::Everything),
                (Holds::Checkpoint(_), Some(Fate::Sealed)) => {
                    let checkpoint = objects.checkpoint(number)?.map(Box::new);
                    Some(checkpoint.map_or(PinSeen::Everything, PinSeen::Checkpoint))
                }
            };
            census.pins.extend(seen.map(|seen| (number, seen)));
            census.end += 1;
        }
        Ok(census)
    }
}
