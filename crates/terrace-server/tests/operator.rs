//! Goal: an operator makes copies of a running server's database, and nobody else is held up or
//! let in. Method: real connections, real files.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    reason = "the test talks to a real server in real time, and looks at its files"
)]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Client, TestServer, bulk, error_text, ok};
use terrace::{Backups, Db, Durability, Options};
use terrace_server::protocol::Value;
use terrace_server::{Password, ServerOptions};

/// Every operators' command, as it is typed.
const COMMANDS: [&str; 9] = [
    "CHECKPOINT copy",
    "BACKUP",
    "BACKUP CREATE",
    "BACKUP LIST",
    "BACKUP VERIFY 1",
    "BACKUP DELETE 1",
    "COMPACT",
    "CHECK",
    "OPERATION STATUS",
];

fn with_operator_dir(dir: &tempfile::TempDir) -> ServerOptions {
    // One thread for everybody else.
    ServerOptions {
        operator_dir: Some(dir.path().join("operator")),
        blocking_threads_max: 1,
        ..ServerOptions::default()
    }
}

/// A field of a reply of names and values.
fn field(reply: &Value, name: &str) -> Option<Value> {
    let Value::Array(parts) = reply else { panic!("{reply:?} has no fields") };
    parts.chunks(2).find(|pair| pair[0] == bulk(name)).map(|pair| pair[1].clone())
}

fn path(reply: &Value) -> PathBuf {
    match field(reply, "path") {
        Some(Value::Bulk(path)) => String::from_utf8(path).unwrap().into(),
        other => panic!("{other:?} is no path"),
    }
}

/// All files and directories under this one.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

#[test]
fn without_a_directory_every_operators_command_says_what_to_do() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    for command in COMMANDS {
        let reply = client.say(command);
        assert!(error_text(&reply).contains("start it with --operator-dir DIR"), "{reply:?}");
    }
}

#[test]
fn a_client_that_has_not_authenticated_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let password = Password::new(b"secret");
    let server = TestServer::start(ServerOptions { password, ..with_operator_dir(&dir) });
    for command in COMMANDS {
        let mut client = server.connect();
        let reply = client.say(command);
        assert!(error_text(&reply).starts_with("NOAUTH"), "{command}: {reply:?}");
    }
    assert_eq!(tree(&dir.path().join("operator")).len(), 2, "checkpoints and backups, empty");
    let mut client = server.connect();
    assert_eq!(client.say("AUTH secret"), ok());
    assert_eq!(client.say("COMPACT"), ok());
}

#[test]
fn checkpoints_and_backups_are_made_while_the_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(with_operator_dir(&dir));
    let mut client = server.connect();
    assert_eq!(client.say("SET key before"), ok());
    let copied = client.say("CHECKPOINT before-upgrade");
    let copy = path(&copied);
    assert_eq!(copy, dir.path().join("operator/checkpoints/before-upgrade"));
    let twice = client.say("CHECKPOINT before-upgrade");
    assert!(error_text(&twice).contains("is not empty"), "{twice:?}");

    let first = client.say("BACKUP");
    assert_eq!(field(&first, "number"), Some(Value::Integer(1)));
    assert_eq!(client.say("SET key after"), ok());
    let second = client.say("backup create in main rate 1000000000");
    assert_eq!(field(&second, "number"), Some(Value::Integer(2)));
    assert!(path(&second).starts_with(dir.path().join("operator/backups/main")));
    let weekly = client.say("BACKUP CREATE IN weekly FULL LINK");
    assert_eq!(field(&weekly, "number"), Some(Value::Integer(1)));
    let Value::Array(listed) = client.say("BACKUP LIST") else { panic!("a list") };
    assert_eq!(listed.len(), 2);
    let report = client.say("BACKUP VERIFY 2");
    assert_eq!(field(&report, "clean"), Some(Value::Integer(1)), "{report:?}");
    let report = client.say("BACKUP VERIFY 1 IN weekly JSON");
    assert!(matches!(field(&report, "report"), Some(Value::Bulk(text)) if text[0] == b'{'));
    let third = client.say("BACKUP CREATE KEEP 1");
    assert_eq!(field(&third, "deleted"), Some(Value::Integer(2)));
    assert_eq!(client.say("BACKUP DELETE 1 IN weekly"), ok());
    let gone = client.say("BACKUP VERIFY 1");
    assert!(error_text(&gone).contains("there is no backup 1"), "{gone:?}");
    let none = client.say("BACKUP LIST IN monthly");
    assert!(error_text(&none).starts_with("NOBACKUPS"), "{none:?}");
    assert_eq!(tree(&dir.path().join("operator/backups")).len(), {
        // The series that there are, the backup that is left, and its files.
        3 + std::fs::read_dir(path(&third)).unwrap().count()
    });

    let at = std::fs::metadata(dir.path().join("operator")).unwrap().permissions().mode();
    assert_eq!(at & 0o777, 0o700, "nobody else may look into it");
    server.stop().unwrap();
    assert!(Db::open(&copy).unwrap().get("key").unwrap().unwrap() == "before");
    let restored = dir.path().join("restored");
    let backups = Backups::open(dir.path().join("operator/backups/main")).unwrap();
    backups.restore(3, &restored).unwrap();
    assert!(Db::open(&restored).unwrap().get("key").unwrap().unwrap() == "after");
}

#[test]
fn names_that_lead_elsewhere_are_refused_and_touch_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(with_operator_dir(&dir));
    let mut client = server.connect();
    assert_eq!(client.say("SET key value"), ok());
    let before = tree(dir.path());
    let long = "x".repeat(65);
    let names: [&[u8]; 12] = [
        b"",
        b".",
        b"..",
        b"../x",
        b"a/b",
        b"/tmp/x",
        b"a\\b",
        b".x",
        b"-x",
        b"a\0b",
        b"\xff",
        long.as_bytes(),
    ];
    for name in names {
        let requests: [&[&[u8]]; 5] = [
            &[b"CHECKPOINT", name],
            &[b"BACKUP", b"CREATE", b"IN", name],
            &[b"BACKUP", b"LIST", b"IN", name],
            &[b"BACKUP", b"VERIFY", b"1", b"IN", name],
            &[b"BACKUP", b"DELETE", b"1", b"IN", name],
        ];
        for request in requests {
            let reply = client.call(request);
            assert!(error_text(&reply).contains("is no name for files here"), "{reply:?}");
        }
    }
    assert_eq!(tree(dir.path()), before);
    for wrong in [
        "BACKUP CREATE IN",
        "BACKUP CREATE RATE 0",
        "BACKUP CREATE KEEP 0",
        "BACKUP CREATE JSON",
        "BACKUP VERIFY",
        "BACKUP VERIFY x",
        "BACKUP DELETE -1",
        "BACKUP EMPTY",
        "COMPACT a",
        "CHECK XML",
        "OPERATION",
        "OPERATION CANCEL",
        "OPERATION CANCEL 7",
        "CHECKPOINT",
    ] {
        assert!(error_text(&client.say(wrong)).starts_with("ERR"), "{wrong}");
    }
    assert_eq!(tree(dir.path()), before);
}

/// The state of the operation that runs, once there is one.
fn running(client: &mut Client) -> Value {
    for _ in 0..3000 {
        let status = client.say("OPERATION STATUS");
        if field(&status, "running") == Some(bulk("1")) {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no operation runs")
}

/// A server whose next backup takes for ever, and a client that has asked for it.
fn at_work(dir: &tempfile::TempDir, options: ServerOptions) -> (TestServer, Client) {
    let store = Options::new().durability(Durability::Sync);
    let server = TestServer::start_over(options, &store, &[]);
    let mut client = server.connect();
    // More than one piece of a copy, whatever compresses it.
    let mut state = 1_u64;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(3 << 20)
    .collect();
    assert_eq!(client.call(&[b"SET", &b"key"[..], &value]), ok());
    client.send(b"BACKUP CREATE RATE 1\r\n");
    let mut other = server.connect();
    let status = running(&mut other);
    let what = format!("backup in {}", dir.path().join("operator/backups/main").display());
    assert_eq!(field(&status, "what"), Some(bulk(what)));
    (server, client)
}

#[test]
fn one_operation_runs_at_a_time_and_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mut operator) = at_work(&dir, with_operator_dir(&dir));
    let mut other = server.connect();
    // These wait for the disk, on the one thread that there is for all commands but operators'.
    for n in 0..20 {
        assert_eq!(other.say(&format!("SET k{n} v")), ok());
    }
    assert_eq!(other.say("RANGECOUNT - +"), Value::Integer(21));
    for refused in ["CHECK", "COMPACT", "CHECKPOINT x", "BACKUP"] {
        let reply = other.say(refused);
        assert!(error_text(&reply).starts_with("BUSY"), "{refused}: {reply:?}");
    }
    let Value::Bulk(info) = other.say("INFO operation") else { panic!("a text") };
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains("operation_running:1") && info.contains("operation_total_bytes:"));
    let wrong = other.say("OPERATION CANCEL 77");
    assert!(error_text(&wrong).contains("no operation of this number"), "{wrong:?}");
    assert_eq!(other.say("OPERATION CANCEL 1"), ok());
    assert!(error_text(&operator.read()).starts_with("CANCELLED"));
    let status = other.say("OPERATION STATUS");
    assert_eq!(field(&status, "running"), Some(bulk("0")));
    assert!(matches!(field(&status, "last_outcome"), Some(Value::Bulk(why))
        if why.starts_with(b"failed")));
    // What was half made is no backup, and the next one, with a number of its own, takes it away.
    assert_eq!(other.say("BACKUP LIST"), Value::Array(Vec::new()));
    assert_eq!(field(&operator.say("BACKUP"), "number"), Some(Value::Integer(2)));
    assert_eq!(std::fs::read_dir(dir.path().join("operator/backups/main")).unwrap().count(), 1);
}

#[test]
fn a_shutdown_ends_an_operation_and_leaves_no_half_of_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        ServerOptions { shutdown_grace: Duration::from_millis(50), ..with_operator_dir(&dir) };
    let (server, _operator) = at_work(&dir, options);
    server.stop().unwrap();
    let backups = Backups::open(dir.path().join("operator/backups/main")).unwrap();
    assert!(backups.list().unwrap().is_empty());
}

#[test]
fn a_keyspace_is_compacted_and_the_database_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::start(with_operator_dir(&dir));
    let mut client = server.connect();
    assert_eq!(client.say("SELECT 3"), ok());
    for n in 0..100 {
        assert_eq!(client.say(&format!("SET k{n:03} value")), ok());
    }
    assert_eq!(client.say("RANGEDEL k050 +"), ok());
    assert_eq!(client.say("COMPACT k000 k010"), ok());
    assert_eq!(client.say("COMPACT"), ok());
    assert_eq!(client.say("COMPACT b a"), ok(), "an empty interval is nothing to do");
    let size = server.db.keyspace("3").unwrap().approximate_size(..).unwrap();
    assert_eq!((size.entry_count, size.memory_bytes), (50, 0), "{size:?}");
    let report = client.say("CHECK");
    assert_eq!(field(&report, "clean"), Some(Value::Integer(1)), "{report:?}");
    assert!(matches!(field(&client.say("CHECK JSON"), "report"), Some(Value::Bulk(text))
        if text.starts_with(b"{\"table_count\":")));

    // A byte of a table is not what it was.
    let files = std::fs::read_dir(server.dir.path()).unwrap().map(|file| file.unwrap().path());
    let mut tables = files.filter(|file| file.extension().is_some_and(|name| name == "table"));
    let table = tables.next().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let report = client.say("CHECK");
    assert_eq!(field(&report, "clean"), Some(Value::Integer(0)), "{report:?}");
    assert_ne!(field(&report, "findings"), Some(Value::Integer(0)));
}
