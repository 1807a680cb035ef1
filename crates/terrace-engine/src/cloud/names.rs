//! What the objects of a database are called.
//!
//! ```text
//! <32 hex digits>/proof
//! <32 hex digits>/feed/<20 digits>
//! <32 hex digits>/log/<20 digits>
//! <32 hex digits>/table/<epoch>-<counter>-<32 hex digits>
//! <32 hex digits>/value/<epoch>-<counter>-<part>
//! <32 hex digits>/pin/<20 digits>/held
//! <32 hex digits>/pin/<20 digits>/fate
//! <32 hex digits>/pin/<20 digits>/checkpoint
//! ```
//! A name that does not print back to itself is foreign. None of them is the beginning of a longer
//! one that ends at a `/`: where a store is a directory, nothing is a file and a directory at once.

use std::fmt;

use terrace_base::{Epoch, FileId, LogPosition, TableUid};
use terrace_env::ObjectName;

/// The longest name of a checkpoint, in bytes.
const CHECKPOINT_BYTES_MAX: usize = 100;

/// What the names of an archive's checkpoints begin with.
const ARCHIVE: &str = "archive-";

/// The names of the objects of one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloudNames {
    database: u128,
}

/// What an object of a database is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloudName {
    /// Stands there to be found taken.
    Proof,
    /// An object of the version feed.
    Feed(u64),
    /// An object of the log.
    Log(u64),
    /// A table. Its name is never used again.
    Table {
        /// The epoch that made it, and its counter.
        id: FileId,
        /// What its bytes say of themselves.
        uid: TableUid,
    },
    /// A value segment, or one part of several that replaced it. Its name is never used again.
    Value {
        /// The epoch that made it, and its counter.
        id: FileId,
        /// Which part.
        part: u64,
    },
    /// What a reader, or a checkpoint, needs.
    Pin(u64),
    /// What was decided of a pin.
    Fate(u64),
    /// The checkpoint of a pin.
    Checkpoint(u64),
}

/// The name of a checkpoint: up to 100 letters, digits, `.`, `_` and `-`, the first one no dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointName(String);

impl CloudNames {
    /// Those of the database with this id.
    #[must_use]
    pub const fn new(database: u128) -> CloudNames {
        CloudNames { database }
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> u128 {
        self.database
    }

    /// What an object is called.
    #[must_use]
    pub fn of(&self, name: &CloudName) -> ObjectName {
        let text = format!("{:032x}/{name}", self.database);
        ObjectName::new(text).expect("all of these are names")
    }

    /// The inverse of [`CloudNames::of`]; `None` for what is no object of this database.
    #[must_use]
    pub fn parse(&self, name: &ObjectName) -> Option<CloudName> {
        let inside = name.as_str().strip_prefix(&format!("{:032x}/", self.database))?;
        let parsed = CloudName::parse(inside)?;
        (parsed.to_string() == inside).then_some(parsed)
    }

    /// The database whose object this may be, by its name.
    #[must_use]
    pub fn database_of(name: &ObjectName) -> Option<u128> {
        let (first, _) = name.as_str().split_once('/')?;
        let database = u128::from_str_radix(first, 16).ok()?;
        let names = CloudNames::new(database);
        names.parse(name).map(|_| database)
    }

    /// A name that stands behind all of this database's, and before those of any other.
    #[must_use]
    pub fn behind_all(&self) -> ObjectName {
        // A `0` follows directly on the `/` that stands behind the id.
        ObjectName::new(format!("{:032x}0", self.database)).expect("digits are a name")
    }

    /// What all names of tables begin with.
    #[must_use]
    pub fn table_prefix(&self) -> String {
        format!("{:032x}/table/", self.database)
    }

    /// What all names of the log begin with.
    #[must_use]
    pub fn log_prefix(&self) -> String {
        format!("{:032x}/log/", self.database)
    }

    /// What all names of pins begin with, and of what belongs to them.
    #[must_use]
    pub fn pin_prefix(&self) -> String {
        format!("{:032x}/pin/", self.database)
    }

    /// What all names of the feed begin with.
    #[must_use]
    pub fn feed_prefix(&self) -> String {
        format!("{:032x}/feed/", self.database)
    }
}

impl CloudName {
    fn parse(text: &str) -> Option<CloudName> {
        if text == "proof" {
            return Some(CloudName::Proof);
        }
        let (kind, rest) = text.split_once('/')?;
        match kind {
            "feed" => Some(CloudName::Feed(rest.parse().ok()?)),
            "log" => Some(CloudName::Log(rest.parse().ok()?)),
            "table" => {
                let (id, uid) = rest.rsplit_once('-')?;
                let uid = TableUid(u128::from_str_radix(uid, 16).ok()?);
                Some(CloudName::Table { id: FileId::parse(id)?, uid })
            }
            "value" => {
                let (id, part) = rest.rsplit_once('-')?;
                Some(CloudName::Value { id: FileId::parse(id)?, part: part.parse().ok()? })
            }
            "pin" => match rest.split_once('/')? {
                (pin, "held") => Some(CloudName::Pin(pin.parse().ok()?)),
                (pin, "fate") => Some(CloudName::Fate(pin.parse().ok()?)),
                (pin, "checkpoint") => Some(CloudName::Checkpoint(pin.parse().ok()?)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Display for CloudName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloudName::Proof => f.write_str("proof"),
            CloudName::Feed(number) => write!(f, "feed/{number:020}"),
            CloudName::Log(number) => write!(f, "log/{number:020}"),
            CloudName::Table { id, uid } => write!(f, "table/{id}-{:032x}", uid.0),
            CloudName::Value { id, part } => write!(f, "value/{id}-{part}"),
            CloudName::Pin(number) => write!(f, "pin/{number:020}/held"),
            CloudName::Fate(pin) => write!(f, "pin/{pin:020}/fate"),
            CloudName::Checkpoint(pin) => write!(f, "pin/{pin:020}/checkpoint"),
        }
    }
}

impl CheckpointName {
    /// The name, unless it is none.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Option<CheckpointName> {
        let name = name.into();
        let is_plain = name.len() <= CHECKPOINT_BYTES_MAX && !name.contains('/');
        (is_plain && ObjectName::new(name.as_str()).is_some()).then_some(CheckpointName(name))
    }

    /// That of a checkpoint which an owner with this epoch makes for its archive, at a moment
    /// behind which a chain of its log goes on.
    #[must_use]
    pub(crate) fn of_archive(epoch: Epoch, chain: u64, position: LogPosition) -> CheckpointName {
        CheckpointName(format!("{ARCHIVE}{:06}-{chain}-{}", epoch.0, position.0))
    }

    /// Whether an archive's checkpoints are called so, and nobody else's.
    #[must_use]
    pub(crate) fn is_of_archive(&self) -> bool {
        self.0.starts_with(ARCHIVE)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CheckpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CheckpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: CloudNames = CloudNames { database: 0xab };

    fn examples() -> Vec<(CloudName, &'static str)> {
        let id = FileId { epoch: Epoch(7), counter: 41 };
        vec![
            (CloudName::Proof, "proof"),
            (CloudName::Feed(12), "feed/00000000000000000012"),
            (CloudName::Feed(u64::MAX), "feed/18446744073709551615"),
            (CloudName::Log(12), "log/00000000000000000012"),
            (
                CloudName::Table { id, uid: TableUid(0xcafe) },
                "table/000007-00000041-0000000000000000000000000000cafe",
            ),
            (CloudName::Value { id, part: 3 }, "value/000007-00000041-3"),
            (CloudName::Pin(1), "pin/00000000000000000001/held"),
            (CloudName::Fate(1), "pin/00000000000000000001/fate"),
            (CloudName::Checkpoint(1), "pin/00000000000000000001/checkpoint"),
        ]
    }

    #[test]
    fn names_print_and_parse() {
        for (name, text) in examples() {
            let object = NAMES.of(&name);
            assert_eq!(object.as_str(), format!("{:032x}/{text}", 0xab));
            assert_eq!(NAMES.parse(&object), Some(name));
        }
    }

    #[test]
    fn what_does_not_print_back_is_foreign() {
        let base = format!("{:032x}", 0xab);
        let foreign = [
            "feed/12",
            "feed/99999999999999999999",
            "table/000007-00000041",
            "table/7-41-0000000000000000000000000000cafe",
            "table/000007-00000041-0000000000000000000000000000CAFE",
            "value/000007-00000041-03",
            "value/000007-00000041",
            "pin/1/held",
            "pin/00000000000000000001",
            "pin/00000000000000000001/other",
            "pin/1/checkpoint",
            "proofs",
            "other/1",
        ];
        for text in foreign {
            let object = ObjectName::new(format!("{base}/{text}")).unwrap();
            assert_eq!(NAMES.parse(&object), None, "{text}");
        }
        let elsewhere = CloudNames::new(0xac).of(&CloudName::Proof);
        assert_eq!(NAMES.parse(&elsewhere), None, "an object of another database");
    }

    #[test]
    fn a_database_is_known_by_its_objects() {
        for (name, _) in examples() {
            let object = NAMES.of(&name);
            assert_eq!(CloudNames::database_of(&object), Some(0xab));
            assert!(object < NAMES.behind_all());
            assert!(NAMES.behind_all() < CloudNames::new(0xac).of(&name));
        }
        for foreign in ["ab/feed/00000000000000000001", "proof", &format!("{:032x}/x", 0xab)] {
            assert_eq!(CloudNames::database_of(&ObjectName::new(foreign).unwrap()), None);
        }
    }

    #[test]
    fn numbers_of_the_feed_are_in_the_order_of_their_names() {
        let names = [9, 10, 99, 100, u64::MAX].map(|number| NAMES.of(&CloudName::Feed(number)));
        assert!(names.is_sorted());
    }

    #[test]
    fn no_name_is_a_directory_of_another_one() {
        let names: Vec<String> =
            examples().iter().map(|(name, _)| NAMES.of(name).as_str().to_string()).collect();
        for name in &names {
            assert!(names.iter().all(|other| !other.starts_with(&format!("{name}/"))), "{name}");
        }
    }

    #[test]
    fn a_checkpoint_has_a_short_plain_name() {
        let long = "x".repeat(CHECKPOINT_BYTES_MAX + 1);
        for name in ["", ".hidden", "a/b", "a b", "ü", &long] {
            assert_eq!(CheckpointName::new(name), None, "{name}");
        }
        assert_eq!(CheckpointName::new(&long[1..]).unwrap().as_str(), &long[1..]);
        let most = CheckpointName::of_archive(Epoch(u64::MAX), u64::MAX, LogPosition(u64::MAX));
        assert!(CheckpointName::new(most.as_str()).unwrap().is_of_archive());
        assert!(!CheckpointName::new("monday").unwrap().is_of_archive());
    }
}
