//! Errors of the library, as records keep them.

use terrace::{Error, ErrorKind};

use crate::oracle::{Kind, Outcome, Violation, What};

/// The kind of an error.
pub fn kind_of(error: &Error) -> Kind {
    match error.kind() {
        ErrorKind::Invalid => Kind::Invalid,
        ErrorKind::Conflict => Kind::Conflict,
        ErrorKind::Merge => Kind::Merge,
        ErrorKind::Corruption => Kind::Corruption,
        ErrorKind::NoSpace => Kind::NoSpace,
        ErrorKind::Io => Kind::Io,
        ErrorKind::Poisoned => Kind::Poisoned,
        ErrorKind::Unknown => Kind::Unknown,
        ErrorKind::NeedsIo => Kind::NeedsIo,
        ErrorKind::WouldBlock => Kind::WouldBlock,
        ErrorKind::Locked => Kind::Locked,
        ErrorKind::ReadOnly => Kind::ReadOnly,
        ErrorKind::Closed => Kind::Closed,
        ErrorKind::Unsupported => Kind::Unsupported,
        _ => Kind::Other,
    }
}

/// A call failed that was no write.
pub fn failed(error: &Error) -> What {
    What::Failed { error: kind_of(error), text: error.to_string() }
}

/// What came of a write.
pub fn outcome_of(written: &terrace::Result<u64>) -> Outcome {
    match written {
        Ok(last) => Outcome::Written { last: *last },
        Err(error) if error.kind() == ErrorKind::Unknown => Outcome::Unknown,
        Err(error) => Outcome::Refused { error: kind_of(error), text: error.to_string() },
    }
}

/// A failed call where no fault is injected.
pub fn violation(what: &str) -> impl Fn(Error) -> Violation + '_ {
    move |error| Violation::of_run(format!("{what} failed: {error}"))
}
