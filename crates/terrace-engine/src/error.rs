use std::fmt;

use terrace_base::Corruption;
use terrace_env::{EnvError, Operation};

use crate::compaction::filter::FilterFailure;
use crate::merge::{MergeError, OperandError};
use crate::store::Conflict;

/// The result of a call to the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the engine refused or failed, grouped by what the caller must do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The call is wrong and will stay wrong: a key that is too long, an option out of bounds.
    Invalid(String),
    /// The merge operator refuses an operand of this write, of which nothing was written. The call
    /// is wrong and will stay wrong.
    Operand(Box<OperandError>),
    /// The merge operator refuses the operands of a key, or there is none to fold them. They are
    /// kept; reads of other keys go on.
    Merge(Box<MergeError>),
    /// The compaction filter could not answer, and the compaction that asked it ended. Nothing is
    /// lost.
    Filter(Box<FilterFailure>),
    /// What a transaction had read was written by another one before it could commit. Nothing of it
    /// was written; it may begin anew.
    Conflict(Box<Conflict>),
    /// Stored bytes are not what was written. Reads of other keys go on.
    Corruption(Corruption),
    /// The disk is full. Nothing was acknowledged or lost; reads go on, and writes are taken
    /// again as soon as there is space.
    NoSpace(EnvError),
    /// A call to the operating system failed in a way that does not endanger what is stored.
    Io(EnvError),
    /// A write or a sync failed, so what the disk holds is in doubt: the range takes no more
    /// writes until it is opened again. The text is the first failure.
    Poisoned(String),
    /// The outcome of this write is unknown: it may or may not be found after the next open.
    Unknown(String),
    /// The answer needs the disk, and the caller asked not to wait for it.
    NeedsIo,
    /// The call would have to wait, and the caller asked not to.
    WouldBlock,
    /// The directory is in use by another process.
    Locked(String),
    /// Somebody else has opened the database since, perhaps on another machine: nothing more is
    /// written from here.
    Fenced(String),
    /// The range was opened for reading only.
    ReadOnly,
    /// The range or the process is closing.
    Closed,
    /// The caller wanted the work to end before it was done.
    Cancelled,
    /// The directory, or something in it, was written by a version that this one cannot read.
    Unsupported(String),
    /// What a secondary follows is not what it had opened any more, or changes faster than it can
    /// be read: open it again.
    Outdated(String),
    /// Blocks of a table are compressed in a way that this program was built without.
    NoCodec(String),
}

impl Error {
    /// A wrong call.
    pub fn invalid(text: impl Into<String>) -> Error {
        Error::Invalid(text.into())
    }

    /// Whether stored bytes are damaged.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        matches!(self, Error::Corruption(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(text) => f.write_str(text),
            Error::Operand(error) => error.fmt(f),
            Error::Merge(error) => error.fmt(f),
            Error::Filter(failure) => failure.fmt(f),
            Error::Conflict(conflict) => conflict.fmt(f),
            Error::Corruption(corruption) => corruption.fmt(f),
            Error::NoSpace(error) => write!(
                f,
                "the disk is full, the write was not taken ({error}); \
                 free some space and write again, nothing else is needed"
            ),
            Error::Io(error) => error.fmt(f),
            Error::Poisoned(first) => write!(
                f,
                "writes are refused since an earlier failure ({first}); \
                 reopen the database to go on with what is durable"
            ),
            Error::Unknown(cause) => write!(
                f,
                "the outcome of this write is unknown ({cause}); \
                 reopen the database and read the key to find out"
            ),
            Error::NeedsIo => f.write_str("the answer needs the disk"),
            Error::WouldBlock => f.write_str("the call would have to wait"),
            Error::Locked(text) | Error::Fenced(text) => f.write_str(text),
            Error::ReadOnly => f.write_str("the database was opened for reading only"),
            Error::Closed => f.write_str("the database is closed"),
            Error::Cancelled => f.write_str("stopped before it was done"),
            Error::Unsupported(text) | Error::NoCodec(text) | Error::Outdated(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Corruption(corruption) => Some(corruption),
            Error::NoSpace(error) | Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<EnvError> for Error {
    /// A failed sync leaves what the disk holds in doubt, whatever its cause: it is never an error
    /// that one may try again after.
    fn from(error: EnvError) -> Error {
        match error.operation {
            Operation::Sync | Operation::SyncDir => Error::Poisoned(error.to_string()),
            _ if error.is_no_space() => Error::NoSpace(error),
            _ => Error::Io(error),
        }
    }
}

impl From<Corruption> for Error {
    fn from(corruption: Corruption) -> Error {
        Error::Corruption(corruption)
    }
}
