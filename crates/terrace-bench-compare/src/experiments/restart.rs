//! A store whose process was killed, or whose machine was lost, and how long it takes to read from
//! it again.
//!
//! ```text
//! session ──starts──► the same session up to a step ──► says so, and waits
//!    │ ◄──────────────── a line ───────────────────────┘
//!    │ ── kills it (SIGKILL): the log is left as it is
//!    ├── a machine that is lost: deletes the store's directory; the object store and the volume of
//!    │   the log lie beside it
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

/// The field of a report with the same in seconds, for each GB that was put before.
pub const SECONDS_PER_GB: &str = "restart_s_per_gb";

/// The field of a report with the time until the open itself returned.
pub const OPEN_MILLIS: &str = "open_ms";

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

/// Deletes what was in `dir`: the disk of a machine that is lost. How many bytes that were.
///
/// Errors: it cannot be deleted.
pub fn lose(dir: &Path) -> Result<u64, StoreError> {
    let bytes = footprint::bytes_below(dir)?;
    std::fs::remove_dir_all(dir)?;
    std::fs::create_dir(dir)?;
    Ok(bytes)
}

/// Opens the store in `dir` again and reads this key; how long that took, and how long it took for
/// each byte of the `put_bytes` that were put before.
///
/// Errors: it does not open; the key is not there any more.
pub fn open_again(
    dir: &Path,
    key: &[u8],
    put_bytes: f64,
    open: impl FnOnce() -> Result<Box<dyn Peer>, StoreError>,
) -> Result<(Box<dyn Peer>, Fields), StoreError> {
    let bytes = footprint::bytes_below(dir)?;
    let (begun, cpu_before) = (Moment::now(), clock::cpu_time());
    let store = open()?;
    let open_millis = Moment::now().since(begun).as_secs_f64() * 1e3;
    let found = store.get(key)?;
    let millis = Moment::now().since(begun).as_secs_f64() * 1e3;
    let cpu = clock::cpu_time().saturating_sub(cpu_before);
    if found.is_none() {
        return Err("a record that was put before the kill is not there after it".into());
    }
    let fields = [
        (MILLIS, json!(millis)),
        (OPEN_MILLIS, json!(open_millis)),
        (SECONDS_PER_GB, json!(millis / 1e3 / (put_bytes / 1e9))),
        ("restart_cpu_ms", json!(cpu.as_secs_f64() * 1e3)),
        ("bytes_at_kill", json!(bytes)),
    ];
    Ok((store, fields.map(|(name, value)| (name.to_owned(), value)).into()))
}
