//! Two ways to count: by merges, which read nothing, and by updates, which give the new number.
//!
//! ```text
//! front page: 3 hits
//! ticket 1
//! ticket 2
//! ```

use std::error::Error;

use terrace::{Batch, Db, KeyspaceOptions, merge};

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("site").into());
    let db = Db::open(dir)?;

    // A merge is a write like any other: no read goes before it, and many threads may merge into
    // one key at once. The sum is made when the key is read.
    let counting = KeyspaceOptions::new().merge_operator(merge::ADD_I64_LE);
    let hits = db.keyspace_with("hits", counting)?;
    hits.put("front page", 0i64.to_le_bytes())?;
    hits.merge("front page", 1i64.to_le_bytes())?;
    let mut batch = Batch::new();
    batch.merge(&hits, "front page", 1i64.to_le_bytes());
    batch.merge(&hits, "front page", 1i64.to_le_bytes());
    db.write(&batch)?;
    if let Some(count) = hits.get("front page")? {
        let count = i64::from_le_bytes(count[..].try_into()?);
        println!("front page: {count} hits");
    }

    // An update reads the key first, and no other write of it comes in between. Whoever needs the
    // new number counts this way.
    let counters = db.keyspace("counters")?;
    counters.delete("ticket")?;
    for _ in 0..2 {
        let ticket = counters.update("ticket", |old| {
            let last = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_be_bytes);
            Some((last + 1).to_be_bytes().to_vec())
        })?;
        let ticket = ticket.ok_or("an update that puts gives what it put")?;
        println!("ticket {}", u64::from_be_bytes(ticket[..].try_into()?));
    }
    Ok(())
}
