//! Goal: a secondary sees all that a writer in another process has acknowledged, in its order,
//! while that one flushes and compacts, is killed, and begins anew. Method: this test runs itself
//! as the writer, which says what was acknowledged on its standard output.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "the writer is a real process")]

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use terrace::{Batch, Db, ErrorKind, KeyspaceOptions, Options, Result, Secondary, merge};

/// Where the writer finds the directory.
const DIRECTORY: &str = "TERRACE_TEST_SECONDARY";
/// Batches that a writer writes before it closes the database.
const BATCHES: u64 = 6000;

fn options() -> Options {
    Options::new().memtable_bytes(256 << 10)
}

/// The writer, if this process is to be that; it goes on where the last one ended.
#[test]
fn write_as_a_child() -> Result<()> {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return Ok(()) };
    let db = options().open(directory)?;
    let adding = KeyspaceOptions::new().merge_operator(merge::ADD_I64_LE);
    let (rows, sums) = (db.keyspace("rows")?, db.keyspace_with("sums", adding)?);
    let first = count_of(&db)? + 1;
    for number in first..first + BATCHES {
        let mut batch = Batch::new();
        batch.put(&db, "count", number.to_le_bytes());
        batch.put(&rows, number.to_be_bytes(), [number as u8; 200]);
        batch.merge(&sums, "sum", (number as i64).to_le_bytes());
        db.write(&batch)?;
        println!("acknowledged {number}");
        if number % 1500 == 0 {
            db.admin().compact(&rows, ..)?;
        }
    }
    db.close()
}

fn count_of(view: &terrace::View) -> Result<u64> {
    let count = view.get("count")?;
    Ok(count.map_or(0, |bytes| u64::from_le_bytes((*bytes).try_into().expect("eight bytes"))))
}

/// A writer in a process of its own.
struct Writer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    fn start(directory: &Path) -> Writer {
        let own = std::env::current_exe().expect("the test has a file");
        let mut child = Command::new(own)
            .args(["write_as_a_child", "--exact", "--nocapture"])
            .env(DIRECTORY, directory)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test can be run");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Writer { child, lines }
    }

    /// The number of the next write that was acknowledged; none if the writer has ended.
    fn next(&mut self) -> Option<u64> {
        for line in self.lines.by_ref() {
            let line = line.expect("it is text");
            // What the runner of tests prints may stand before it.
            let number =
                line.split("acknowledged ").nth(1).and_then(|text| text.trim().parse().ok());
            if number.is_some() {
                return number;
            }
        }
        None
    }

    fn kill(mut self) -> Option<u64> {
        self.child.kill().expect("it runs");
        let last = std::iter::from_fn(|| self.next()).last();
        self.child.wait().expect("it was started");
        last
    }

    fn has_succeeded(mut self) -> bool {
        self.child.wait().expect("it was started").success()
    }
}

/// Checks that the secondary shows a prefix of the writes, and how long that is.
fn shown(secondary: &Secondary) -> Result<u64> {
    let count = count_of(secondary)?;
    let (rows, sums) = (secondary.keyspace("rows")?, secondary.keyspace("sums")?);
    assert!(rows.get((count + 1).to_be_bytes())?.is_none(), "a row of later is there");
    let last = rows.last()?.map(|(key, _)| u64::from_be_bytes(key.as_ref().try_into().unwrap()));
    assert_eq!(last.unwrap_or_default(), count);
    let sum = sums.get("sum")?.map_or(0, |sum| i64::from_le_bytes((*sum).try_into().unwrap()));
    assert_eq!(sum as u64, count * (count + 1) / 2, "an operand is missing, or counts twice");
    Ok(count)
}

fn check_rows(secondary: &Secondary) -> Result<()> {
    let mut expected = 0u64;
    for row in secondary.keyspace("rows")?.iter() {
        let (key, value) = row?;
        expected += 1;
        assert_eq!(key.as_ref(), expected.to_be_bytes());
        assert_eq!(value, [expected as u8; 200].as_slice());
    }
    assert_eq!(expected, count_of(secondary)?);
    Ok(())
}

/// Follows until `acknowledged` gives no more; the last count that was shown.
fn follow(
    secondary: &mut Secondary,
    mut acknowledged: impl FnMut() -> Option<u64>,
    mut last: u64,
) -> Result<u64> {
    while let Some(number) = acknowledged() {
        secondary.catch_up()?;
        let count = shown(secondary)?;
        assert!(count >= number.max(last), "{count} after {number}, and {last} before");
        last = count;
        if number % 512 == 0 {
            check_rows(secondary)?;
        }
    }
    Ok(last)
}

#[test]
fn all_that_another_process_acknowledged_is_visible_after_a_catch_up() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut writer = Writer::start(directory.path());
    let first = writer.next().expect("the writer writes");
    let mut secondary = Options::new().open_secondary(directory.path())?;
    assert!(shown(&secondary)? >= first);
    let mut budget = 2000;
    let while_it_lasts = || {
        budget -= 1;
        writer.next().filter(|_| budget > 0)
    };
    let last = follow(&mut secondary, while_it_lasts, 0)?;
    let old = secondary.keyspace("rows")?;
    let killed_at = writer.kill();
    secondary.catch_up()?;
    let count = shown(&secondary)?;
    assert!(count >= killed_at.unwrap_or_default().max(last), "{count} after {killed_at:?}");
    check_rows(&secondary)?;
    // Another one goes on where that was killed, and ends well.
    let mut writer = Writer::start(directory.path());
    let last = follow(&mut secondary, || writer.next(), count)?;
    assert!(writer.has_succeeded());
    assert!(last >= count + BATCHES);
    secondary.catch_up()?;
    assert_eq!(shown(&secondary)?, last);
    check_rows(&secondary)?;
    assert!(old.last()?.is_some(), "a moment of before can still be read");
    // There is nobody who keeps it open any more.
    let db = Db::options().open(directory.path())?;
    assert_eq!(count_of(&db)?, last);
    db.close()
}

#[test]
fn a_secondary_shows_keyspaces_as_they_are_made_and_dropped() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let missing = Options::new().open_secondary(directory.path()).expect_err("there is none");
    assert_eq!(missing.kind(), ErrorKind::Invalid);
    let db = Db::open(directory.path())?;
    let mut secondary = Options::new().open_secondary(directory.path())?;
    db.keyspace("users")?.put("1", "Ada")?;
    assert_eq!(secondary.keyspace("users").expect_err("not yet").kind(), ErrorKind::NotFound);
    assert!(secondary.catch_up()?);
    assert!(!secondary.catch_up()?);
    let users = secondary.keyspace("users")?;
    assert!(users.get("1")?.is_some_and(|name| name == "Ada"));
    assert_eq!(secondary.keyspaces()?, ["default", "users"]);
    db.drop_keyspace("users")?;
    secondary.catch_up()?;
    assert_eq!(secondary.keyspaces()?, ["default"]);
    assert!(users.get("1")?.is_some_and(|name| name == "Ada"), "a view keeps its moment");
    let refused = secondary.as_db().put("a", "1").expect_err("it only reads");
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    db.put("a", "2")?;
    db.close()?;
    secondary.catch_up()?;
    assert!(secondary.get("a")?.is_some_and(|value| value == "2"));
    Ok(())
}
