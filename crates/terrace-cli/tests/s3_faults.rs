//! Goal: a database whose store fails now and then, and is away for a while, loses nothing, and is
//! taken over from elsewhere. Method: the real binary and the server that `scripts/s3.sh` starts,
//! with a proxy between them that spoils requests by a seed, which `TERRACE_TEST_SEED` sets.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "directories of databases are looked at")]

mod common;
#[path = "../../terrace-env/tests/proxy/mod.rs"]
mod proxy;

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{Random, Server, fails, run_in, succeeds, terrace, text};
use proxy::Fate;
use tempfile::TempDir;

/// One request in so many is spoiled.
const FAULT_ONE_IN: u64 = 12;

/// Entries of an import, each with this many bytes of value: more than fit into the local bytes.
const ENTRIES: u64 = 2_400;
const VALUE_BYTES: usize = 12 << 10;

/// The least local bytes.
const LOCAL_BYTES: u64 = 16 << 20;

/// The store behind a proxy.
struct Faults {
    endpoint: String,
    url: String,
    spoiled: Arc<AtomicU64>,
    /// Whether the store is away.
    is_away: Arc<AtomicBool>,
}

impl Faults {
    /// With a store of this name. None without a server.
    fn start(name: &str) -> Option<Faults> {
        let Ok(url) = std::env::var("TERRACE_S3_URL") else {
            println!("left out, as TERRACE_S3_URL names no store: run it by scripts/s3.sh");
            return None;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = std::env::var("TERRACE_TEST_SEED").map_or(now, |seed| seed.parse().unwrap());
        println!("TERRACE_TEST_SEED={seed}");
        let asked = AtomicU64::new(seed);
        let (spoiled, is_away) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, away) = (Arc::clone(&spoiled), Arc::clone(&is_away));
        let endpoint = proxy::start(&std::env::var("AWS_ENDPOINT").unwrap(), move |request| {
            if away.load(Ordering::Relaxed) {
                return Fate::Reset;
            }
            let mut random = Random(asked.fetch_add(1 << 32, Ordering::Relaxed));
            if !random.next().is_multiple_of(FAULT_ONE_IN) {
                return Fate::Pass;
            }
            count.fetch_add(1, Ordering::Relaxed);
            match random.next() % 6 {
                0 => Fate::Refuse(500),
                1 => Fate::Refuse(503),
                2 => Fate::Refuse(429),
                3 => Fate::Reset,
                4 if request.method == "GET" => Fate::Truncate,
                _ => Fate::LoseAnswer,
            }
        });
        let url = format!("{}/{name}-{seed:016x}", url.trim_end_matches('/'));
        Some(Faults { endpoint, url, spoiled, is_away })
    }

    fn command(&self) -> std::process::Command {
        let mut command = terrace();
        command.env("AWS_ENDPOINT", &self.endpoint);
        command
    }

    fn options(&self) -> String {
        format!("--cloud-url {} --local-bytes {LOCAL_BYTES} --cloud-mirror 1s", self.url)
    }

    fn run(&self, database: &str, line: &str) -> Output {
        run_in(self.command(), &["--data", database], line, b"")
    }

    /// Imports a round of all entries into the database in `dir`.
    fn import(&self, dir: &Path, round: u64, more: &str) -> Output {
        let line = format!("import DB --format tsv {} {more} -", self.options());
        run_in(self.command(), &["--data", dir.to_str().unwrap()], &line, &entries(round))
    }
}

fn value(round: u64, number: u64) -> String {
    let unit = format!("{round}-{number}-");
    unit.repeat(VALUE_BYTES / unit.len())
}

fn entries(round: u64) -> Vec<u8> {
    let lines = (0..ENTRIES).map(|number| format!("{number:05}\t{}\n", value(round, number)));
    lines.collect::<String>().into_bytes()
}

fn bytes_below(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

#[test]
fn a_store_that_fails_now_and_then_loses_nothing() {
    let Some(store) = Faults::start("faults") else { return };
    let dir = TempDir::new().unwrap();
    let [owner, elsewhere] = ["owner", "elsewhere"].map(|name| dir.path().join(name));
    succeeds(&store.import(&owner, 1, ""));
    let local = bytes_below(&owner);
    assert!(local < LOCAL_BYTES / 10 * 11, "{local} bytes are local");

    // Another directory goes on, and the first one has fallen behind.
    let taken = store.import(&elsewhere, 2, "");
    succeeds(&taken);
    assert!(text(&taken.stderr).contains("goes on here"), "{taken:?}");
    fails(&store.import(&owner, 3, ""), 3);

    for place in [store.url.as_str(), elsewhere.to_str().unwrap()] {
        assert_eq!(succeeds(&store.run(place, "count DB")).trim(), ENTRIES.to_string());
        for number in [0, 7, ENTRIES / 2, ENTRIES - 1] {
            let found = store.run(place, &format!("get DB {number:05}"));
            assert!(succeeds(&found) == value(2, number), "{number} in {place}");
        }
    }
    let check = store.run(elsewhere.to_str().unwrap(), "check DB");
    succeeds(&check);
    let spoiled = store.spoiled.load(Ordering::Relaxed);
    println!("{spoiled} requests were spoiled");
    assert!(spoiled > 10, "{spoiled}");
}

#[test]
fn a_store_that_is_away_holds_up_nothing_that_is_local() {
    let Some(store) = Faults::start("away") else { return };
    let dir = TempDir::new().unwrap();
    let options = store.options();
    let options: Vec<&str> = options.split_whitespace().collect();
    let server = Server::start_with(&dir.path().join("owner"), &mut store.command(), &options);
    let at = server.address.as_str();
    let put = |key: &str, value: &str| {
        succeeds(&run_in(terrace(), &["--connect", at], &format!("put DB {key} {value}"), b""));
    };
    put("before", "1");
    store.is_away.store(true, Ordering::Relaxed);
    for number in 0..20 {
        put(&format!("while-away-{number}"), "2");
        let found = run_in(terrace(), &["--connect", at], "get DB before", b"");
        assert_eq!(succeeds(&found), "1");
    }
    store.is_away.store(false, Ordering::Relaxed);
    // It recovers by itself: a moment comes in which the store has what was written.
    let began = Instant::now();
    loop {
        let found = store.run(&store.url, "get DB while-away-19");
        if found.status.success() && text(&found.stdout) == "2" {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "{found:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
    // The machine is lost, and another one goes on.
    drop(server);
    let taken = store.import(&dir.path().join("new"), 1, "--take-over");
    succeeds(&taken);
    let new = dir.path().join("new");
    let found = store.run(new.to_str().unwrap(), "get DB while-away-19");
    assert_eq!(succeeds(&found), "2");
}

/// Faults that a run of durable writes meets at least.
const FAULTS_MET: u64 = 12;

/// Threads that write beside each other, so that several objects of the log are under way.
const WRITERS: u64 = 4;

/// Moments are seldom, so that nearly all of what is found afterwards comes from the log.
#[test]
fn durable_writes_outlive_the_machine_through_faults() {
    let Some(store) = Faults::start("durable") else { return };
    let dir = TempDir::new().unwrap();
    let [owner, elsewhere] = ["owner", "elsewhere"].map(|name| dir.path().join(name));
    let options = format!(
        "--cloud-url {} --local-bytes {LOCAL_BYTES} --cloud-mirror 10m --cloud-log 5ms \
         --durability durable",
        store.url
    );
    let options: Vec<&str> = options.split_whitespace().collect();
    let server = Server::start_with(&owner, &mut store.command(), &options);
    let at = server.address.as_str();
    let writes = |writer: u64| {
        let mut written = 0;
        while written < 25 || store.spoiled.load(Ordering::Relaxed) < FAULTS_MET {
            let line = format!("put DB {writer}-{written} value-{written}");
            succeeds(&run_in(terrace(), &["--connect", at], &line, b""));
            written += 1;
        }
        written
    };
    let writes = &writes;
    let written: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || writes(writer))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    // The machine is lost with its disk.
    drop(server);
    std::fs::remove_dir_all(&owner).unwrap();

    let options = [&options[..], &["--take-over"]].concat();
    let server = Server::start_with(&elsewhere, &mut store.command(), &options);
    let at = server.address.as_str();
    let run = |line: &str| run_in(terrace(), &["--connect", at], line, b"");
    let count = written.iter().sum::<u64>();
    assert_eq!(succeeds(&run("count DB")).trim(), count.to_string());
    for (writer, written) in (0..).zip(written) {
        let keys = (0..written).map(|number| format!(" {writer}-{number}")).collect::<String>();
        let found = run(&format!("get DB{keys}"));
        let lines = |number: u64| format!("{writer}-{number}\tvalue-{number}\n");
        let expected = (0..written).map(lines).collect::<String>();
        assert_eq!(succeeds(&found), expected, "writer {writer}");
    }
    println!("{count} writes, {} requests spoiled", store.spoiled.load(Ordering::Relaxed));
}
