//! Goal: what can change while a range is open holds for it at once, is told, and is judged as at
//! an open. Method: virtual time and figures.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::events::{Event, EventKind, Listener, Listeners};
use crate::options::{Options, ProcessOptions, Setting};
use crate::process::Process;
use crate::store::Store;
use crate::store::tests::*;
use crate::{Error, Result};

#[derive(Default)]
struct Changes(Mutex<Vec<Setting>>);

impl Listener for Changes {
    fn on(&self, event: &Event) {
        if let EventKind::OptionChanged { setting } = event.kind {
            self.0.lock().expect("nobody panics").push(setting);
        }
    }
}

#[test]
fn a_setting_holds_for_all_ranges_of_the_process_and_is_told() -> Result<()> {
    simulate(1, |env| {
        let process = process(env)?;
        let changes = Arc::new(Changes::default());
        let listeners = Listeners::new().with(Arc::<Changes>::clone(&changes));
        let told = Options { listeners, ..small() };
        let a = Store::open(&process, Path::new("/a"), told)?;
        let b = Store::open(&process, Path::new("/b"), small())?;
        let wanted = [
            Setting::BackgroundIoLimit(Some(1 << 20)),
            Setting::CacheBytes(1 << 20),
            Setting::MemoryBytes(64 << 20),
            Setting::BackgroundThreads(3),
        ];
        for setting in wanted {
            a.set(setting)?;
        }
        assert_eq!(process.settings(), wanted);
        let stats = b.stats();
        assert_eq!(stats.background_io.limit_bytes_per_second, Some(1 << 20));
        assert_eq!((stats.cache_limit_bytes, stats.memory.limit_bytes), (1 << 20, 64 << 20));
        assert_eq!(stats.background_thread_count, 3);
        let nonsense = [
            Setting::BackgroundIoLimit(Some(1)),
            Setting::CacheBytes(64 << 20),
            Setting::MemoryBytes(1 << 20),
        ];
        for setting in nonsense {
            assert!(matches!(a.set(setting), Err(Error::Invalid(_))), "{setting}");
        }
        assert_eq!(process.settings(), wanted, "what is refused changes nothing");
        assert_eq!(*changes.0.lock().expect("nobody panics"), wanted);
        a.close()?;
        assert!(matches!(a.set(wanted[0]), Err(Error::Closed)));
        b.set(Setting::BackgroundIoLimit(None))?;
        b.close()
    })
}

#[test]
fn a_limit_that_is_lifted_lets_go_what_waited_for_it() -> Result<()> {
    simulate(2, |env| {
        let options = ProcessOptions {
            background_io_limit: Some(64 << 10),
            cache_bytes: 0,
            ..ProcessOptions::default()
        };
        let process = Process::start(Arc::clone(env), &options)?;
        let roomy = Options { memtable_bytes: 4 << 20, log_bytes_max: 64 << 20, ..lazy() };
        let store = Store::open(&process, Path::new(DIR), roomy)?;
        for index in 0..2000 {
            put(&store, &format!("{index:05}"), &"v".repeat(500))?;
        }
        store.inner.freeze_all()?;
        store.inner.schedule_flush();
        env.sleep(Duration::from_secs(1));
        assert_eq!(store.stats().flush_count, 0, "a megabyte takes sixteen seconds");
        let began = env.now();
        store.set(Setting::BackgroundIoLimit(None))?;
        store.settle();
        assert_eq!((env.now(), store.stats().flush_count), (began, 1));
        store.close()
    })
}
