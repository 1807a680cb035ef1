//! What operators have the server do: one thing at a time, and files under one directory only.
//!
//! ```text
//!   DIR/checkpoints/NAME            a copy of the database at one moment
//!       backups/NAME/000001-…/      backups that share what they have in common, by series
//! ```
//! # Invariants
//! 1. A name that a client sends is a file name by the rule of [`Name::new`], so nothing is made,
//!    read or removed beside that directory.
//! 2. At most one operation runs at a time, on a thread that no other command waits for.

#![allow(
    clippy::disallowed_types,
    reason = "the server's threads are tokio's, and nobody waits under this lock"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::net::{self, Instant};

/// How long a name may be.
const NAME_BYTES_MAX: usize = 64;

/// A name of a file that a client may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Name {
    /// What may be a name: 1 to 64 letters, digits, `.`, `-` and `_` of ASCII, the first of them a
    /// letter or a digit. So it is no way to another directory, on no file system, and no option of
    /// a program that is run on it later.
    pub(crate) fn new(name: &[u8]) -> Option<Name> {
        let is_fine = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_".contains(byte);
        let name = str::from_utf8(name).ok().filter(|name| name.len() <= NAME_BYTES_MAX)?;
        let first = name.bytes().next()?;
        let is_name = first.is_ascii_alphanumeric() && name.as_bytes().iter().all(is_fine);
        is_name.then(|| Name(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where operators' files are.
#[derive(Clone, Debug)]
pub(crate) struct OperatorDir(PathBuf);

impl OperatorDir {
    /// Makes the directory, for its owner's eyes only, where it is missing.
    pub(crate) fn make(dir: &Path) -> std::io::Result<OperatorDir> {
        let dir = OperatorDir(dir.to_path_buf());
        for part in [&dir.0, &dir.checkpoints(), &dir.backups()] {
            net::make_private_directory(part)?;
        }
        Ok(dir)
    }

    fn checkpoints(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    fn backups(&self) -> PathBuf {
        self.0.join("backups")
    }

    pub(crate) fn checkpoint(&self, name: &Name) -> PathBuf {
        self.checkpoints().join(&name.0)
    }

    /// The backups of a series.
    pub(crate) fn series(&self, name: &Name) -> PathBuf {
        self.backups().join(&name.0)
    }
}

/// The operation that runs, and the last one that did.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Option<Arc<Running>>,
    last: Option<Ended>,
    begun: u64,
}

/// What is known of an operation that runs.
#[derive(Debug)]
struct Running {
    id: u64,
    what: String,
    since: Instant,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
    is_cancelled: AtomicBool,
    can_be_cancelled: bool,
}

#[derive(Clone, Debug)]
struct Ended {
    id: u64,
    what: String,
    took: Duration,
    outcome: String,
}

/// What came of a wish to end an operation early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// It will end soon.
    Yes,
    /// It is over, or never was.
    NotThere,
    /// It is of a kind that goes on to its end.
    Cannot,
}

/// An operation that this thread carries out; over when it is dropped.
pub(crate) struct Operation<'a> {
    all: &'a Operations,
    running: Arc<Running>,
    outcome: Option<String>,
}

impl Operations {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What runs, in words.
    pub(crate) fn busy_with(&self) -> Option<String> {
        self.state().running.as_ref().map(|running| running.what.clone())
    }

    /// Begins one; none if one runs.
    pub(crate) fn begin(&self, what: String, can_be_cancelled: bool) -> Option<Operation<'_>> {
        let mut state = self.state();
        if state.running.is_some() {
            return None;
        }
        state.begun += 1;
        let running = Arc::new(Running {
            id: state.begun,
            what,
            since: net::now(),
            done_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
            can_be_cancelled,
        });
        tracing::info!(id = running.id, what = running.what, "an operation begins");
        state.running = Some(Arc::clone(&running));
        Some(Operation { all: self, running, outcome: None })
    }

    /// Asks the operation of this number to end early.
    pub(crate) fn cancel(&self, id: u64) -> Cancelled {
        let state = self.state();
        match state.running.as_ref().filter(|running| running.id == id) {
            None => Cancelled::NotThere,
            Some(running) if !running.can_be_cancelled => Cancelled::Cannot,
            Some(running) => {
                running.is_cancelled.store(true, Ordering::Relaxed);
                Cancelled::Yes
            }
        }
    }

    /// What runs and what ran last, by the names of fields.
    pub(crate) fn describe(&self) -> Vec<(&'static str, String)> {
        let state = self.state();
        let mut fields = vec![("running", u8::from(state.running.is_some()).to_string())];
        if let Some(running) = &state.running {
            let bytes = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
            fields.extend([
                ("id", running.id.to_string()),
                ("what", running.what.clone()),
                ("seconds", running.since.elapsed().as_secs().to_string()),
                ("done_bytes", bytes(&running.done_bytes)),
                ("total_bytes", bytes(&running.total_bytes)),
            ]);
        }
        if let Some(last) = &state.last {
            fields.extend([
                ("last_id", last.id.to_string()),
                ("last_what", last.what.clone()),
                ("last_seconds", last.took.as_secs().to_string()),
                ("last_outcome", last.outcome.clone()),
            ]);
        }
        fields
    }
}

impl Operation<'_> {
    /// Notes how far it is; whether it is to go on.
    pub(crate) fn progress(&self, done_bytes: u64, total_bytes: u64) -> bool {
        self.running.done_bytes.store(done_bytes, Ordering::Relaxed);
        self.running.total_bytes.store(total_bytes, Ordering::Relaxed);
        !self.running.is_cancelled.load(Ordering::Relaxed)
    }

    /// Ends it, with what came of it in words.
    pub(crate) fn end(mut self, outcome: String) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| "panicked; please report it".into());
        let (id, what) = (self.running.id, self.running.what.clone());
        tracing::info!(id, what, outcome, "an operation has ended");
        let mut state = self.all.state();
        state.last = Some(Ended { id, what, took: self.running.since.elapsed(), outcome });
        state.running = None;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use super::*;

    fn is_name(name: &[u8]) -> bool {
        Name::new(name).is_some()
    }

    #[test]
    fn a_name_is_a_plain_file_name_and_nothing_else() {
        for name in ["a", "7", "before-upgrade", "2026-11-24_night.1", &"x".repeat(64)] {
            assert!(is_name(name.as_bytes()), "{name}");
        }
        let wrong: &[&[u8]] = &[
            b"",
            b".",
            b"..",
            b"../x",
            b"a/b",
            b"/etc",
            b"a\\b",
            b".hidden",
            b"-rf",
            b"_x",
            b"a b",
            b"a\0",
            b"a\n",
            b"\xff",
            "ä".as_bytes(),
            b"C:",
            b"*",
        ];
        for name in wrong {
            assert!(!is_name(name), "{:?}", name.escape_ascii().to_string());
        }
        assert!(!is_name("x".repeat(65).as_bytes()));
    }

    #[test]
    fn no_bytes_lead_out_of_the_directory() {
        let seed = 0x7e44_ace0_u64;
        println!("seed {seed}");
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize
        };
        // Mostly bytes that names are made of, and those that lead elsewhere.
        let alphabet = b"ab.-_/\\~:\0\xff%2e ..//";
        let dir = OperatorDir(PathBuf::from("/srv/operator"));
        let mut accepted = 0;
        for _ in 0..200_000 {
            let name: Vec<u8> =
                (0..random() % 6).map(|_| alphabet[random() % alphabet.len()]).collect();
            let Some(name) = Name::new(&name) else { continue };
            accepted += 1;
            for (path, parent) in
                [(dir.checkpoint(&name), dir.checkpoints()), (dir.series(&name), dir.backups())]
            {
                let rest: Vec<_> = path.strip_prefix(&parent).unwrap().components().collect();
                assert!(matches!(rest.as_slice(), [Component::Normal(_)]), "{path:?}");
            }
        }
        assert!(accepted > 1000, "{accepted}");
    }

    #[test]
    fn one_operation_runs_at_a_time_and_is_remembered_when_it_is_over() {
        let all = Operations::default();
        let field = |name: &str| {
            all.describe().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        let first = all.begin("first".into(), true).unwrap();
        assert_eq!(all.busy_with().as_deref(), Some("first"));
        assert!(all.begin("second".into(), true).is_none());
        assert!(first.progress(3, 9));
        assert_eq!(
            (field("done_bytes"), field("total_bytes")),
            (Some("3".into()), Some("9".into()))
        );
        assert_eq!(all.cancel(2), Cancelled::NotThere);
        assert_eq!(all.cancel(1), Cancelled::Yes);
        assert!(!first.progress(4, 9));
        first.end("cancelled".into());
        assert_eq!(field("running").as_deref(), Some("0"));
        assert_eq!(field("last_outcome").as_deref(), Some("cancelled"));
        let second = all.begin("second".into(), false).unwrap();
        assert_eq!(all.cancel(1), Cancelled::NotThere, "the number is of one that is over");
        assert_eq!(all.cancel(2), Cancelled::Cannot);
        drop(second);
        assert!(field("last_outcome").unwrap().contains("panicked"));
        assert!(all.busy_with().is_none());
    }
}
