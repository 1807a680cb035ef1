use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of a call to the outside.
pub type EnvResult<T> = Result<T, EnvError>;

/// What was asked of the outside. Fault plans name the call that is to fail by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Make a directory.
    CreateDir,
    /// List a directory.
    List,
    /// Make a directory's entries durable.
    SyncDir,
    /// Take the lock of a directory.
    Lock,
    /// Find the real name of a directory.
    Resolve,
    /// Ask for the free space.
    FreeSpace,
    /// Ask which device a file lies on.
    FindDevice,
    /// Open a file for reading.
    Open,
    /// Create a file for writing.
    Create,
    /// Reserve space for a file.
    Preallocate,
    /// Read from a file.
    Read,
    /// Write to a file.
    Write,
    /// Make a file's bytes durable.
    Sync,
    /// Give a file another name.
    Rename,
    /// Give a file a second name.
    Link,
    /// Remove a file.
    Remove,
    /// Start a thread.
    Spawn,
    /// Reach an object store.
    OpenStore,
    /// Store an object.
    PutObject,
    /// Store an object unless there is one.
    PutObjectIfAbsent,
    /// Store an object in parts, or one part of it.
    UploadObject,
    /// Read an object.
    GetObject,
    /// Delete an object.
    DeleteObject,
    /// List objects.
    ListObjects,
}

/// A call to the outside that failed: what was asked, of which file, and why.
#[derive(Debug)]
pub struct EnvError {
    /// What was asked.
    pub operation: Operation,
    /// The file or directory; empty where there is none.
    pub path: PathBuf,
    /// What the operating system (or the simulation) answered.
    pub source: io::Error,
}

impl EnvError {
    /// `operation` on `path` failed with `source`.
    #[must_use]
    pub fn new(operation: Operation, path: &Path, source: io::Error) -> EnvError {
        EnvError { operation, path: path.to_path_buf(), source }
    }

    /// Whether the disk (or the quota) is full, so that the call may succeed later.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }

    /// Whether the call may have been done all the same, or may be done later: the answer of an
    /// object store was lost, or came too late, or was that of a server in trouble.
    #[must_use]
    pub fn is_unknown_outcome(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::TimedOut
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        )
    }

    /// Whether the same call may succeed a little later: an object store is busy or away for a
    /// moment. What is denied, missing or malformed stays so.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.is_unknown_outcome()
            || matches!(
                self.source.kind(),
                io::ErrorKind::ResourceBusy
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable
                    | io::ErrorKind::NetworkDown
                    | io::ErrorKind::Interrupted
            )
    }

    /// Whether the named file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Whether the lock of the directory is held by another process.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.operation == Operation::Lock && self.source.kind() == io::ErrorKind::WouldBlock
    }
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} failed: {}", self.operation, self.path.display(), self.source)
    }
}

impl std::error::Error for EnvError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
