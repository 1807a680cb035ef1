use std::borrow::Cow;

use terrace::ErrorKind;

/// Which kind of thread a command has to wait on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It looks at a few keys.
    Point,
    /// It may look at every key there is.
    Scan,
    /// An operator's, which may take hours: it gets a thread of its own.
    Operation,
}

/// Why a command has no reply of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fail {
    /// The client gets this error.
    Reply(Cow<'static, str>),
    /// Nothing was done: the command has to run again on a thread that may wait.
    Wait(Weight),
    /// The reply cannot be finished: the connection has to be cut.
    Cut,
}

/// The result of a command: its reply is written, or why not.
pub(crate) type CommandResult = Result<(), Fail>;

pub(crate) const SYNTAX: Fail = fail("ERR syntax error");
pub(crate) const NOT_AN_INTEGER: Fail = fail("ERR value is not an integer or out of range");
pub(crate) const NOT_POSITIVE: Fail = fail("ERR value is out of range, must be positive");
pub(crate) const SHUTTING_DOWN: Fail = fail("SHUTDOWN the server is stopping; ask again later");

pub(crate) const NO_ROOM: Fail = fail(NO_ROOM_TEXT);
/// What a client is told for whose next request or reply there is no memory.
pub(crate) const NO_ROOM_TEXT: &str =
    "ERR all clients together hold too much memory; ask for less at a time, or try again";

/// An error with a fixed text.
pub(crate) const fn fail(text: &'static str) -> Fail {
    Fail::Reply(Cow::Borrowed(text))
}

/// An error with a text made for the occasion.
pub(crate) fn fail_with(text: String) -> Fail {
    Fail::Reply(Cow::Owned(text))
}

/// `text` is what the client sent, so it is shown in part and escaped.
pub(crate) fn shown(text: &[u8], bytes_max: usize) -> String {
    String::from_utf8_lossy(&text[..text.len().min(bytes_max)]).into_owned()
}

impl From<terrace::Error> for Fail {
    fn from(error: terrace::Error) -> Fail {
        let code = match error.kind() {
            ErrorKind::NeedsIo | ErrorKind::WouldBlock => return Fail::Wait(Weight::Point),
            ErrorKind::Corruption => "CORRUPTION",
            ErrorKind::NoSpace => "NOSPACE",
            ErrorKind::Io | ErrorKind::Poisoned => "IOERR",
            ErrorKind::Unknown => "UNKNOWN",
            ErrorKind::ReadOnly | ErrorKind::Locked => "READONLY",
            ErrorKind::Closed => "SHUTDOWN",
            _ => "ERR",
        };
        fail_with(format!("{code} {error}"))
    }
}
