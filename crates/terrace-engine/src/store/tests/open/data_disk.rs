//! Goal: a container that slows writers down is said to do so, once at the open and in the figures;
//! one on memory is not. Method: ranges on the real environment, and a subscriber that keeps the
//! warnings.

use std::fmt::{self, Debug};
use std::sync::Mutex;

use terrace_env::RealEnv;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::store::tests::*;

/// Keeps the messages of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Opens a range with this L0 in a new directory, and looks at what is said of it: what the
/// container lies on, whether the figures call that slow, and the warnings.
fn said_of(l0: L0Options) -> Result<(Option<&'static str>, bool, Vec<String>)> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let warnings = Warnings::default();
    let process = Process::start(RealEnv::new(), &ProcessOptions::default())?;
    let options = Options { l0, ..small() };
    let store = tracing::subscriber::with_default(warnings.clone(), || {
        Store::open(&process, dir.path(), options)
    })?;
    let (stats, l0) = (store.stats(), store.l0()?);
    let is_slow = stats.l0.container_is_on_data_disk;
    for text in [stats.to_string(), l0.to_string()] {
        assert_eq!(text.contains("plain tables would be faster there"), is_slow, "{text}");
    }
    let container = l0.container.map(|container| {
        assert_eq!(container.is_on_data_disk, is_slow);
        container.medium
    });
    store.close()?;
    let warnings = warnings.0.lock().unwrap().clone();
    Ok((container, is_slow, warnings))
}

#[test]
fn a_container_on_the_disk_of_the_data_is_warned_of_once() -> Result<()> {
    let (medium, is_slow, warnings) = said_of(L0Options::Container { bytes: 1 << 20, path: None })?;
    // Where temporary directories are in memory, nothing slows writers down.
    let expected = medium == Some("file");
    assert_eq!((is_slow, warnings.len()), (expected, usize::from(expected)), "{warnings:?}");
    assert!(warnings.iter().all(|text| text.contains("plain tables are faster")), "{warnings:?}");
    Ok(())
}

#[test]
fn a_container_on_memory_and_plain_tables_are_not_warned_of() -> Result<()> {
    assert_eq!(said_of(L0Options::PLAIN)?, (None, false, Vec::new()));
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return Ok(()) };
    let in_memory = said_of(L0Options::container(memory.path(), 1 << 20))?;
    assert_eq!(in_memory, (Some("emulated"), false, Vec::new()));
    Ok(())
}
