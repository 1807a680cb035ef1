use std::fmt;
use std::io;
use std::path::Path;

use terrace_engine::Error as EngineError;
use terrace_engine::merge::{MergeError, OperandError};

use crate::keyspace;

/// The result of a call to the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call was refused or failed. The text says what to do; [`Error::kind`] is for programs.
///
/// ```
/// use terrace::{Db, ErrorKind};
///
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let error = Db::options().read_only().open(directory.path()).expect_err("there is none");
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert!(error.to_string().contains("holds no database"));
/// let error = std::io::Error::from(error);
/// assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
/// ```
pub struct Error(Box<Cause>);

/// What an error holds.
#[derive(Debug)]
enum Cause {
    Engine(EngineError),
    NotFound(String),
}

/// What the caller must do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call is wrong and will stay wrong: change it.
    Invalid,
    /// What the call names is not there.
    NotFound,
    /// What a transaction had read was changed by another write. Nothing was written: begin anew.
    Conflict,
    /// The merge operator refuses the operands of a key: put or delete it. Other keys can be read.
    Merge,
    /// A compaction filter failed: mend it, or open the database without it. Nothing is lost.
    Filter,
    /// Stored bytes are damaged; the text names file and offset. Other keys can be read.
    Corruption,
    /// The disk is full. Nothing was written; try again when there is space.
    NoSpace,
    /// The operating system failed; what is stored is not endangered.
    Io,
    /// Writes are refused since an earlier failure: open the database again.
    Poisoned,
    /// Whether this write happened will be known after the next open.
    Unknown,
    /// The answer needs the disk, and the caller asked not to wait.
    NeedsIo,
    /// The call would have to wait, and the caller asked not to.
    WouldBlock,
    /// Another process has the directory open.
    Locked,
    /// The database was opened for reading only.
    ReadOnly,
    /// The database is closed.
    Closed,
    /// The caller ended the work before it was done.
    Cancelled,
    /// Written by a later version, or by a feature that this one lacks.
    Unsupported,
    /// What a secondary follows was replaced by something else, or its writer was faster all the
    /// time: open it again.
    Outdated,
}

impl Error {
    #[cold]
    pub(crate) fn not_found(text: impl Into<String>) -> Error {
        Error(Box::new(Cause::NotFound(text.into())))
    }

    /// What to do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Cause::NotFound(_) => ErrorKind::NotFound,
            Cause::Engine(error) => kind_of(error),
        }
    }

    /// Whether the same may succeed later, with nothing changed but time or space: `Conflict` (the
    /// transaction, begun anew), `NoSpace`, `NeedsIo` and `WouldBlock` (by a call that may wait),
    /// `Locked`.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use ErrorKind::{Conflict, Locked, NeedsIo, NoSpace, WouldBlock};
        matches!(self.kind(), Conflict | NoSpace | NeedsIo | WouldBlock | Locked)
    }

    /// The key that it is about, if it is about one: of `Conflict`, of `Merge`, of `Filter`, and of
    /// an operand that is refused.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        let stored = match &*self.0 {
            Cause::Engine(EngineError::Merge(error)) => &error.key,
            Cause::Engine(EngineError::Operand(error)) => &error.key,
            Cause::Engine(EngineError::Filter(failure)) => &failure.key,
            Cause::Engine(EngineError::Conflict(conflict)) => &conflict.key,
            _ => return None,
        };
        Some(asked(stored))
    }

    /// The damaged file, and the offset in it in bytes, of a `Corruption`.
    #[must_use]
    pub fn damage(&self) -> Option<(&Path, u64)> {
        match &*self.0 {
            Cause::Engine(EngineError::Corruption(damage)) => Some((&damage.file, damage.offset)),
            _ => None,
        }
    }

    /// What the operating system answered, if that is the cause.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        match &*self.0 {
            Cause::Engine(EngineError::Io(error) | EngineError::NoSpace(error)) => {
                Some(&error.source)
            }
            _ => None,
        }
    }
}

fn kind_of(error: &EngineError) -> ErrorKind {
    match error {
        EngineError::Invalid(_) | EngineError::Operand(_) => ErrorKind::Invalid,
        EngineError::Conflict(_) => ErrorKind::Conflict,
        EngineError::Merge(_) => ErrorKind::Merge,
        EngineError::Filter(_) => ErrorKind::Filter,
        EngineError::Corruption(_) => ErrorKind::Corruption,
        EngineError::NoSpace(_) => ErrorKind::NoSpace,
        EngineError::Poisoned(_) => ErrorKind::Poisoned,
        EngineError::Unknown(_) => ErrorKind::Unknown,
        EngineError::NeedsIo => ErrorKind::NeedsIo,
        EngineError::WouldBlock => ErrorKind::WouldBlock,
        EngineError::Locked(_) => ErrorKind::Locked,
        EngineError::ReadOnly => ErrorKind::ReadOnly,
        EngineError::Closed => ErrorKind::Closed,
        EngineError::Cancelled => ErrorKind::Cancelled,
        EngineError::Unsupported(_) | EngineError::NoCodec(_) => ErrorKind::Unsupported,
        EngineError::Outdated(_) => ErrorKind::Outdated,
        _ => ErrorKind::Io,
    }
}

/// A key as the caller knows it: without the prefix of its keyspace.
fn asked(stored: &[u8]) -> &[u8] {
    keyspace::split(stored).1.unwrap_or(stored)
}

impl From<EngineError> for Error {
    #[cold]
    fn from(error: EngineError) -> Error {
        Error(Box::new(Cause::Engine(error)))
    }
}

impl From<Error> for io::Error {
    /// With the kind that is nearest; the error itself is inside.
    fn from(error: Error) -> io::Error {
        let kind = match error.kind() {
            ErrorKind::Invalid => io::ErrorKind::InvalidInput,
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::Merge | ErrorKind::Corruption => io::ErrorKind::InvalidData,
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::NeedsIo | ErrorKind::WouldBlock => io::ErrorKind::WouldBlock,
            ErrorKind::Locked => io::ErrorKind::ResourceBusy,
            ErrorKind::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::Io => error.io_error().map_or(io::ErrorKind::Other, io::Error::kind),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Engine(EngineError::Merge(error)) => {
                let operator = keyspace::shown_operator(&error.operator);
                MergeError { operator, ..(**error).clone() }.show(asked(&error.key), f)
            }
            Cause::Engine(EngineError::Operand(error)) => {
                let operator = keyspace::shown_operator(&error.operator);
                OperandError { operator, ..(**error).clone() }.show(asked(&error.key), f)
            }
            Cause::Engine(EngineError::Filter(failure)) => failure.show(asked(&failure.key), f),
            Cause::Engine(EngineError::Conflict(conflict)) => {
                conflict.show(asked(&conflict.key), f)
            }
            Cause::Engine(error) => error.fmt(f),
            Cause::NotFound(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Cause::Engine(error) => error.source(),
            Cause::NotFound(_) => None,
        }
    }
}

const _: () = assert!(size_of::<Result<()>>() == size_of::<usize>(), "an answer is one word");
