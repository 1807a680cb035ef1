use std::fmt;

use terrace_engine::Error as EngineError;

use crate::keyspace;

/// The result of a call to the library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call was refused or failed. The text says what to do; [`Error::kind`] is for programs.
#[derive(Debug)]
pub struct Error(EngineError);

/// What the caller must do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call is wrong and will stay wrong: change it.
    Invalid,
    /// The merge operator refuses the operands of a key: put or delete it. Other keys can be read.
    Merge,
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
}

impl Error {
    /// What to do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            EngineError::Invalid(_) | EngineError::Operand(_) => ErrorKind::Invalid,
            EngineError::Merge(_) => ErrorKind::Merge,
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
            EngineError::Unsupported(_) => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        }
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Error {
        Error(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // The caller does not know the prefix of the keyspace.
            EngineError::Merge(error) => {
                let (_, key) = keyspace::split(&error.key);
                error.show(key.unwrap_or(&error.key), f)
            }
            EngineError::Operand(error) => {
                let (_, key) = keyspace::split(&error.key);
                error.show(key.unwrap_or(&error.key), f)
            }
            error => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
