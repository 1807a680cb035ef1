//! A store whose process was killed, and how long it takes to read from it again.
//!
//! ```text
//! session ──starts──► the same session up to a step ──► says so, and waits
//!    │ ◄──────────────── a line ───────────────────────┘
//!    │ ── kills it (SIGKILL): the log is left as it is
//!    └── opens the store, reads a record ──► the time of both
//! ```

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use terrace_bench::StoreError;
use terrace_bench::clock::{self, Moment};

use super::Fields;
use crate::engines::Peer;
use crate::footprint;

/// The field of a report with the time from the beginning of an open to the first read.
pub const MILLIS: &str = "restart_ms";

/// What the process that is to be killed says when it has done its steps.
const READY: &str = "ready to be killed";

/// Runs the steps before step number `at` in a process of their own, and kills it.
///
/// Errors: it cannot be started; it ended before it said that it was ready.
pub fn run_and_kill(at: usize) -> Result<(), StoreError> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .args(["--until", &at.to_string()])
        // It waits for the end of its input, and so does not outlive this process.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("a process has an output")?;
    let mut said = String::new();
    let read = BufReader::new(output).read_line(&mut said);
    child.kill()?;
    let status = child.wait()?;
    read?;
    if said.trim() != READY {
        return Err(format!("the process that was to be killed ended by itself: {status}").into());
    }
    Ok(())
}

/// Says that all is done, and waits for the kill.
///
/// Errors: nobody listens any more.
pub fn wait_for_kill() -> Result<(), StoreError> {
    let mut output = std::io::stdout();
    writeln!(output, "{READY}")?;
    output.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Err("whoever was to kill this process went away".into())
}

/// Opens the store in `dir` again and reads this key; how long that took.
///
/// Errors: it does not open; the key is not there any more.
pub fn open_again(
    dir: &Path,
    key: &[u8],
    open: impl FnOnce() -> Result<Box<dyn Peer>, StoreError>,
) -> Result<(Box<dyn Peer>, Fields), StoreError> {
    let bytes = footprint::bytes_below(dir)?;
    let (begun, cpu_before) = (Moment::now(), clock::cpu_time());
    let store = open()?;
    let found = store.get(key)?;
    let millis = Moment::now().since(begun).as_secs_f64() * 1e3;
    let cpu = clock::cpu_time().saturating_sub(cpu_before);
    if found.is_none() {
        return Err("a record that was put before the kill is not there after it".into());
    }
    let fields = [
        (MILLIS, json!(millis)),
        ("restart_cpu_ms", json!(cpu.as_secs_f64() * 1e3)),
        ("bytes_at_kill", json!(bytes)),
    ];
    Ok((store, fields.map(|(name, value)| (name.to_owned(), value)).into()))
}
