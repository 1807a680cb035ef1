use std::fmt;
use std::io;

/// Why a command does not end with code 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for is not there, or damage or a violation was found. Code 1.
    Negative(String),
    /// The command line is wrong in a way that clap does not see. Code 2.
    Usage(String),
    /// Something failed. Code 3.
    Failed(String),
    /// Stored bytes are damaged, and the command was about something else. Code 3.
    Damaged(String),
    /// Whoever reads the output has gone, as `head` does. Nothing to complain about: code 0.
    ReaderGone,
    /// Ctrl-C. Code 130, as shells have it.
    Interrupted(String),
}

/// The result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The table of exit codes for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    not there (get, delete), not as expected (put --if-…), damage found (check, inspect),
       something was lost (repair), or a promise broken (sim)
  2    the command line is wrong
  3    something failed; the text on standard error says what to do
  130  ended by Ctrl-C; what was reported until then is stored";

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::ReaderGone => 0,
            Failure::Negative(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Failed(_) | Failure::Damaged(_) => 3,
            Failure::Interrupted(_) => 130,
        }
    }

    /// The same exit code without anything more to say.
    pub(crate) fn silent(self) -> Failure {
        let nothing = String::new();
        match self {
            Failure::Negative(_) => Failure::Negative(nothing),
            Failure::Usage(_) => Failure::Usage(nothing),
            Failure::Failed(_) => Failure::Failed(nothing),
            Failure::Damaged(_) => Failure::Damaged(nothing),
            Failure::Interrupted(_) => Failure::Interrupted(nothing),
            Failure::ReaderGone => Failure::ReaderGone,
        }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Failure {
        Failure::Failed(text.into())
    }

    /// A failure of writing to standard output.
    pub(crate) fn from_output(error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::ReaderGone
        } else {
            Failure::Failed(format!("standard output cannot be written: {error}"))
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Negative(text)
            | Failure::Usage(text)
            | Failure::Failed(text)
            | Failure::Damaged(text)
            | Failure::Interrupted(text) => f.write_str(text),
            Failure::ReaderGone => Ok(()),
        }
    }
}

impl From<terrace::Error> for Failure {
    fn from(error: terrace::Error) -> Failure {
        match error.kind() {
            terrace::ErrorKind::Corruption => Failure::Damaged(format!(
                "{error}; run `terrace check --data DIR` to see all that is damaged"
            )),
            terrace::ErrorKind::Locked => Failure::Failed(format!(
                "{error}; if a server has the directory open, use --connect ADDR instead of --data"
            )),
            _ => Failure::Failed(error.to_string()),
        }
    }
}
