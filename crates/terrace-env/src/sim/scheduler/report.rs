use std::fmt::Write;

use super::core::Core;
use super::wait::{Reason, State, ThreadId};

/// Lines of the textual trace that a failure shows.
const TRACE_LINES_SHOWN: usize = 50;

/// One line for each thread: its name, what it waits for and what it holds.
pub(super) fn threads(core: &Core) -> String {
    let mut text = String::new();
    for (&id, thread) in &core.threads {
        let waits = match &thread.state {
            State::Ready => "could run".to_string(),
            State::Waiting { reason, deadline } => {
                let until = deadline.map_or(String::new(), |at| format!(", until {at:?}"));
                format!("{}{until}", describe(core, reason))
            }
        };
        let holds = match thread.holds.as_slice() {
            [] => String::new(),
            held => {
                let held: Vec<String> = held.iter().map(ToString::to_string).collect();
                format!("; holds {}", held.join(", "))
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  thread {} '{}' {waits}{holds}", id.0, thread.name);
    }
    text
}

fn describe(core: &Core, reason: &Reason) -> String {
    match reason {
        Reason::Point(point, mode) => format!("waits for {point}{mode}"),
        Reason::Join(target) => {
            let name = core.threads.get(target).map_or("", |thread| thread.name.as_str());
            format!("waits for the end of thread {} '{name}'", target.0)
        }
        Reason::Sleep => "sleeps".to_string(),
        Reason::HeldUp => "is held up at a yield point".to_string(),
    }
}

/// What a thread's panic said.
pub(super) fn panic_text(
    core: &Core,
    id: ThreadId,
    payload: &(dyn std::any::Any + Send),
) -> String {
    let name = core.threads.get(&id).map_or("", |thread| thread.name.as_str());
    let what = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a payload that is no text");
    format!("thread {} '{name}' panicked: {what}", id.0)
}

/// The message with which a failed run ends.
pub(super) fn failure(core: &Core, seed: u64, message: &str) -> String {
    let mut text = format!(
        "simulation of seed {seed} failed after {} calls at {:?}: {message}",
        core.steps, core.now
    );
    let lines = core.trace.lines();
    if !lines.is_empty() {
        text.push_str("\nthe end of its trace:");
        for line in &lines[lines.len().saturating_sub(TRACE_LINES_SHOWN)..] {
            text.push_str("\n  ");
            text.push_str(line);
        }
    }
    text
}
