//! A listing in pages, the newest first, that does not change while it is read: every page shows
//! the same moment, whatever is written meanwhile.
//!
//! ```text
//! page 1: 2026-11-09 2026-11-08 2026-11-07 2026-11-06
//! page 2: 2026-11-05 2026-11-04 2026-11-03 2026-11-02
//! page 3: 2026-11-01
//! and now the last one is 2026-11-10
//! ```

use std::error::Error;
use std::ops::Bound;

use terrace::{Db, Key, Result, View};

/// The last `count` keys of a prefix that come before `before`, the last one first. Takes a
/// database, a keyspace, or one of the two at a snapshot.
fn page(view: &View, prefix: &str, before: Option<&Key>, count: usize) -> Result<Vec<Key>> {
    match before {
        None => view.prefix(prefix).keys().rev().take(count).collect(),
        Some(before) => {
            let range = (Bound::Included(prefix.as_bytes()), Bound::Excluded(&**before));
            view.range(range).keys().rev().take(count).collect()
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("shop").into());
    let db = Db::open(dir)?;
    let orders = db.keyspace("orders")?;
    orders.clear()?;
    orders.put("2026-10-31", "of another month")?;
    for day in 1..10 {
        orders.put(format!("2026-11-0{day}"), "a bicycle")?;
    }

    let snapshot = db.snapshot();
    let then = orders.at(&snapshot);
    let mut last = None;
    for number in 1.. {
        let rows = page(&then, "2026-11-", last.as_ref(), 4)?;
        if rows.is_empty() {
            break;
        }
        let shown: Vec<String> = rows.iter().map(|key| key.escape_ascii().to_string()).collect();
        println!("page {number}: {}", shown.join(" "));
        last = rows.last().cloned();
        // The pages that follow do not see this.
        orders.put("2026-11-10", "another bicycle")?;
        orders.delete("2026-11-01")?;
    }
    // For as long as a snapshot lives, what it shows takes space.
    drop((then, snapshot));

    if let Some(newest) = page(&orders, "2026-11-", None, 1)?.first() {
        println!("and now the last one is {}", newest.escape_ascii());
    }
    Ok(())
}
