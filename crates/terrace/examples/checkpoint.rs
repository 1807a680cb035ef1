//! A copy of an open database at one moment, made by hard links while writers go on, checked, and
//! opened.
//!
//! ```text
//! copied
//! the copy: no damage found
//! in the copy: before
//! in the original: after
//! ```

use std::error::Error;
use std::path::PathBuf;

use terrace::{CheckDepth, Db, check};

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().into(), PathBuf::from);
    let db = Db::open(dir.join("original"))?;
    db.put("key", "before")?;

    let copy = dir.join("copy");
    db.checkpoint(&copy)?;
    println!("copied");
    db.put("key", "after")?;

    // Reads every byte of it; nobody may have it open for writing meanwhile.
    let report = check(&copy, CheckDepth::Full, |_, _| ())?;
    println!("the copy: {}", report.to_string().lines().last().unwrap_or_default());

    // The copy is a database of its own: it may be written to as well.
    let copy = Db::open(copy)?;
    for (name, db) in [("copy", &copy), ("original", &db)] {
        if let Some(value) = db.get("key")? {
            println!("in the {name}: {}", value.escape_ascii());
        }
    }
    Ok(())
}
