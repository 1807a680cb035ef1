//! What a database says of itself: figures, why a key is read as it is, what happens in the
//! background.
//!
//! ```text
//! flushed … bytes
//! write amplification: …
//! …
//! …hidden: tombstone … is the newest entry
//! ```

use std::error::Error;

use terrace::Db;
use terrace::events::{Event, EventKind, Listener};

/// Prints flushes as they happen. It is called on the database's threads: it returns soon, and
/// calls nothing of the database.
struct Flushes;

impl Listener for Flushes {
    fn on(&self, event: &Event) {
        if let EventKind::FlushEnded(flush) = &event.kind {
            println!("flushed {} bytes", flush.row_bytes);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("db").into());
    let db = Db::options().listener(Flushes).open(dir)?;
    for number in 0..10_000_u64 {
        db.put(number.to_be_bytes(), "a value")?;
    }
    db.admin().flush()?;

    let stats = db.admin().stats();
    println!("write amplification: {:.2}", stats.write_amplification());
    // The same for people, with all the rest.
    println!("{stats}");

    db.delete(7_u64.to_be_bytes())?;
    println!("{}", db.admin().explain_get(&db, 7_u64.to_be_bytes())?);
    Ok(())
}
