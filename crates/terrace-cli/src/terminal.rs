//! The standard streams, the environment, and progress bars.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, Read, StdoutLock, Write};

pub(crate) use indicatif::HumanCount;
use indicatif::{ProgressBar, ProgressStyle};

use crate::clock::Stopwatch;
use crate::failure::{Failure, Outcome};

/// Says on standard error why a command failed.
pub(crate) fn complain(failure: &Failure) {
    let text = failure.to_string();
    if !text.is_empty() {
        note(&text);
    }
}

/// Says something on standard error that is not output.
pub(crate) fn note(text: &str) {
    // If standard error is closed, there is nobody to tell.
    let _ = writeln!(io::stderr(), "terrace: {text}");
}

/// The environment variable of this name.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Shows what the server logs on standard error.
pub(crate) fn show_log() {
    let colors = io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(colors);
    // A second subscriber would be refused, and the first one does.
    let _ = subscriber.try_init();
}

/// Asks a person for a yes; without a terminal there is nobody to ask.
pub(crate) fn ask(question: &str) -> Outcome<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    // A question that cannot be shown is answered by nobody.
    let _ = write!(io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("standard input cannot be read: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Everything on standard input.
pub(crate) fn read_input() -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| Failure::failed(format!("standard input cannot be read: {error}")))?;
    Ok(bytes)
}

/// Whether a person types at a terminal, and reads there.
pub(crate) fn has_person() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Standard input as a stream.
pub(crate) fn input() -> Box<dyn Read> {
    Box::new(io::stdin().lock())
}

/// Standard output, gathered into large writes.
pub(crate) struct Output {
    inner: BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output { inner: BufWriter::with_capacity(64 * 1024, io::stdout().lock()) }
    }

    /// Whether a person looks at it.
    pub(crate) fn is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Outcome {
        self.inner.write_all(bytes).map_err(|error| Failure::from_output(&error))
    }

    pub(crate) fn line(&mut self, line: impl std::fmt::Display) -> Outcome {
        writeln!(self.inner, "{line}").map_err(|error| Failure::from_output(&error))
    }

    /// Hands over what was gathered. Without this a failure to write would go unseen.
    pub(crate) fn finish(&mut self) -> Outcome {
        self.inner.flush().map_err(|error| Failure::from_output(&error))
    }
}

/// How far a long command is, on standard error; silent if that is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    stopwatch: Stopwatch,
}

impl Progress {
    /// Of `total` bytes; `None` if nobody knows how many there will be.
    pub(crate) fn of_bytes(total: Option<u64>) -> Progress {
        let style = match total {
            Some(_) => "{bar:32} {percent:>3} %  {msg}  {eta} left",
            None => "{spinner} {bytes}  {msg}",
        };
        Progress::new(total, style)
    }

    /// Of `total` operations.
    pub(crate) fn of_operations(total: u64) -> Progress {
        Progress::new(Some(total), "{bar:32} {percent:>3} %  {msg}  {eta} left")
    }

    /// Of bytes whose number is said on the way.
    pub(crate) fn of_share() -> Progress {
        Progress::new(Some(0), "{bar:32} {percent:>3} %  {bytes} of {total_bytes}  {eta} left")
    }

    /// `position` of `total` bytes is behind.
    pub(crate) fn set_share(&self, position: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(position);
    }

    fn new(total: Option<u64>, style: &str) -> Progress {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        // A style that indicatif cannot read would only look plain.
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Progress { bar, stopwatch: Stopwatch::start() }
    }

    /// So many bytes are behind; `what` says of what.
    pub(crate) fn set_bytes(&self, bytes: u64, what: &'static str) {
        self.bar.set_position(bytes);
        self.bar.set_message(what);
    }

    /// `position` of the total is behind, which were `count` things.
    pub(crate) fn set(&self, position: u64, count: u64, things: &str) {
        self.bar.set_position(position);
        let rate = rate(count, self.stopwatch.elapsed().as_secs_f64());
        let message = format!("{} {things}, {}/s", HumanCount(count), HumanCount(rate));
        self.bar.set_message(message);
    }

    /// Takes the bar away and returns how long it stood.
    pub(crate) fn finish(&self) -> std::time::Duration {
        self.bar.finish_and_clear();
        self.stopwatch.elapsed()
    }
}

/// A number of bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Whole things in a second.
pub(crate) fn rate(count: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (count as f64 / seconds) as u64 } else { 0 }
}
