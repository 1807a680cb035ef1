//! A cache whose entries go by themselves: each stays for a time that its keyspace says, or the
//! write.
//!
//! ```text
//! made the page /
//! took the page / from the cache
//! the short-lived one is gone
//! the kept one stays for ever: true
//! ```

#![allow(clippy::disallowed_methods, reason = "the program waits for real time to pass")]

use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use terrace::{Db, Keyspace, KeyspaceOptions, Value, WriteOptions};

/// The page, out of the cache if it is there.
fn page(cache: &Keyspace, path: &str) -> terrace::Result<Value> {
    loop {
        if let Some(page) = cache.get(path)? {
            return Ok(page);
        }
        println!("made the page {path}");
        cache.put(path, format!("<h1>{path}</h1>"))?;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("cache").into());
    let db = Db::open(dir)?;
    let an_hour = KeyspaceOptions::new().ttl(Duration::from_secs(3600));
    let cache = db.keyspace_with("pages", an_hour)?;
    cache.clear()?;

    page(&cache, "/")?;
    page(&cache, "/")?;
    println!("took the page / from the cache");

    // What has expired is not read any more, and its space comes back by compaction.
    const BRIEFLY: WriteOptions = WriteOptions::new().ttl(Duration::from_millis(1));
    cache.put_with("/now", "it is late", &BRIEFLY)?;
    sleep(Duration::from_millis(50));
    if cache.get("/now")?.is_none() {
        println!("the short-lived one is gone");
    }

    cache.put_with("/about", "us", &WriteOptions::new().no_expiry())?;
    let kept = cache.get("/about")?.is_some_and(|page| page.expires_at().is_none());
    println!("the kept one stays for ever: {kept}");
    Ok(())
}
