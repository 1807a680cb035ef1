use std::fmt;

use terrace_base::LevelNo;
use terrace_env::ObjectName;

use super::database::{CloudDatabase, decode_edits};
use super::{archive, mirror};
use crate::cloud::{
    CheckpointName, Checkpoints, CloudFeed, CloudName, CloudNames, PinCensus, PinSeen, is_missing,
};
use crate::placement::FarName;
use crate::version::{LogBehind, Version, VersionEdit};
use crate::{Error, Result};

/// Why an object of a database in a store is there, and who needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WhyLive {
    /// The whole name of the object.
    pub object: String,
    /// Its size in bytes; `None` if it is not there.
    pub bytes: Option<u64>,
    /// Who needs it. Without any, the owner deletes it in a collection to come.
    pub reasons: Vec<LiveReason>,
}

/// One reason why an object has to stay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveReason {
    /// The newest version that was fed names it, as a table of this level.
    Level(LevelNo),
    /// The newest version that was fed names it, as a file of values.
    Values,
    /// A checkpoint names it.
    Checkpoint(CheckpointName),
    /// The reader with this pin may need it: it needs what was dropped after this number of the
    /// feed, and when the object was dropped is not known.
    Reader {
        /// The number of its pin.
        pin: u64,
        /// The number of the feed.
        from: u64,
    },
    /// This pin holds all that is there for a moment: a reader begins, or a checkpoint is made.
    HoldsEverything {
        /// Its number.
        pin: u64,
    },
    /// The owner of the database has made it. It may be about to name it; or it has named it long
    /// ago, and deletes it soon.
    OfTheOwner,
    /// The feed is read from its newest snapshot on, and this stands there.
    Feed,
    /// It stands in the log behind the newest moment.
    Log,
    /// It stands in the log behind this checkpoint, the oldest one of the archive.
    Archive(CheckpointName),
    /// It belongs to a pin that counts.
    Pin {
        /// The number of the pin.
        pin: u64,
    },
    /// By it an open proves that the store honours put-if-absent.
    Proof,
}

impl CloudDatabase {
    /// Says who needs an object: `text` is its name, with the database in front or without.
    ///
    /// Cost: a reading of the feed, a request for the object, and up to three for each pin.
    /// Errors: `Invalid` (no object of this database has such a name, or there is no database);
    /// `Corruption`, `Unsupported`; the environment's.
    pub fn why_live(&self, text: &str) -> Result<WhyLive> {
        let Some((object, name)) = typed(self.names, text) else {
            return Err(Error::invalid(format!(
                "{text} is no name of an object of {}; names look like {} and {}",
                self.place().display(),
                CloudName::Feed(1),
                "table/000001-00000002-0123456789abcdef0123456789abcdef"
            )));
        };
        let bytes = match self.store.bytes_of(&object) {
            Ok(bytes) => Some(bytes),
            Err(error) if is_missing(&error) => None,
            Err(error) => return Err(error),
        };
        let Some(state) = CloudFeed::read(&self.store, self.names)? else {
            return Err(Error::invalid(format!("{} holds no database", self.place().display())));
        };
        let first_pin = state.mark.collected().pins;
        let reasons = match &name {
            CloudName::Proof => vec![LiveReason::Proof],
            CloudName::Feed(number) => {
                let is_read = state.mark.newest_snapshot().is_some_and(|first| *number >= first);
                is_read.then_some(LiveReason::Feed).into_iter().collect()
            }
            CloudName::Log(number) => {
                let edits = decode_edits(&state.edits, &self.place())?;
                let log = LogBehind::newest_in(&edits).and_then(LogBehind::in_store);
                let is_needed = log.is_some_and(|log| *number >= log.number);
                let oldest = archive::oldest_base(&Checkpoints::new(&self.store, self.names))?;
                let of_archive = oldest.filter(|(_, log)| *number >= log.number);
                let of_archive = of_archive.map(|(name, _)| LiveReason::Archive(name));
                is_needed.then_some(LiveReason::Log).into_iter().chain(of_archive).collect()
            }
            CloudName::Pin(pin) | CloudName::Fate(pin) | CloudName::Checkpoint(pin) => {
                let counts = *pin >= first_pin;
                counts.then_some(LiveReason::Pin { pin: *pin }).into_iter().collect()
            }
            CloudName::Table { id, .. } | CloudName::Value { id, .. } => {
                let edits = decode_edits(&state.edits, &self.place())?;
                let mut reasons = Vec::from_iter(named_by(&self.version_of(&edits)?, &name));
                let is_named = !reasons.is_empty();
                let census = PinCensus::read(&self.store, self.names, first_pin)?;
                for (pin, seen) in census.pins {
                    reasons.extend(self.held_by(pin, seen, &name, !is_named)?);
                }
                let was_named = edits.iter().any(|edit| names(edit, &name));
                if !was_named && id.epoch >= state.mark.epoch() {
                    reasons.push(LiveReason::OfTheOwner);
                }
                reasons
            }
        };
        Ok(WhyLive { object: object.as_str().to_string(), bytes, reasons })
    }

    /// Why a pin needs a table. What the newest version names was not dropped, and no reader has to
    /// hold it.
    fn held_by(
        &self,
        pin: u64,
        seen: PinSeen,
        name: &CloudName,
        was_dropped: bool,
    ) -> Result<Option<LiveReason>> {
        Ok(match seen {
            PinSeen::Everything => Some(LiveReason::HoldsEverything { pin }),
            PinSeen::From(from) => was_dropped.then_some(LiveReason::Reader { pin, from }),
            PinSeen::Checkpoint(checkpoint) => {
                let edits = decode_edits(&[checkpoint.snapshot], &self.place())?;
                let is_named = edits.iter().any(|edit| names(edit, name));
                is_named.then_some(LiveReason::Checkpoint(checkpoint.name))
            }
        })
    }
}

/// The name of an object as people type it, with the database in front or without.
fn typed(names: CloudNames, text: &str) -> Option<(ObjectName, CloudName)> {
    let own = format!("{:032x}/", names.database());
    let inside = text.find(&own).map_or(text, |at| &text[at + own.len()..]);
    let object = ObjectName::new(format!("{own}{inside}"))?;
    let name = names.parse(&object)?;
    Some((object, name))
}

/// Whether an edit adds a table.
fn names(edit: &VersionEdit, name: &CloudName) -> bool {
    mirror::far_names(edit).iter().any(|far| far.object() == *name)
}

/// Why a version needs a table.
fn named_by(version: &Version, name: &CloudName) -> Option<LiveReason> {
    let is_meant = |location| FarName::of(location).is_some_and(|far| far.object() == *name);
    let rows = version.l0().live().iter().map(|live| (LevelNo(0), live.table.meta()));
    let levels = version
        .runs()
        .flat_map(|(level, run)| run.tables().iter().map(move |table| (level, table.meta())));
    let mut tables = rows.chain(levels);
    if let Some((level, _)) = tables.find(|(_, meta)| is_meant(&meta.location)) {
        return Some(LiveReason::Level(level));
    }
    let mut values = version.values().iter();
    values.any(|file| is_meant(&file.meta().location)).then_some(LiveReason::Values)
}

impl fmt::Display for LiveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveReason::Level(level) => {
                write!(
                    f,
                    "the newest moment of the database has it as a table of level {}",
                    level.0
                )
            }
            LiveReason::Values => {
                f.write_str("the newest moment of the database has it as a file of values")
            }
            LiveReason::Checkpoint(name) => write!(f, "the checkpoint {name} has it"),
            LiveReason::Reader { pin, from } => write!(
                f,
                "the reader with pin {pin} may need it: it has read the feed up to object {from}"
            ),
            LiveReason::HoldsEverything { pin } => write!(
                f,
                "pin {pin} holds all objects for a moment: a reader begins, or a checkpoint is \
                 made or removed"
            ),
            LiveReason::OfTheOwner => {
                f.write_str("its owner has made it, and may be about to name it, or to delete it")
            }
            LiveReason::Feed => {
                f.write_str("the feed is read from its newest snapshot on, and this is part of it")
            }
            LiveReason::Log => {
                f.write_str("the log is read behind the newest moment, and this is part of it")
            }
            LiveReason::Archive(name) => {
                write!(f, "the archive leads over it from checkpoint {name} to later states")
            }
            LiveReason::Pin { pin } => write!(f, "it belongs to pin {pin}, which counts"),
            LiveReason::Proof => {
                f.write_str("each open proves by it that the store honours put-if-absent")
            }
        }
    }
}
