//! Goal: databases that share resources have one of each, and each lives and ends for itself.
//! Method: two of them, figures of both, one closed before the other.

use terrace::{Db, Options, Result, Setting};

fn fill(db: &Db, round: u32) -> Result<()> {
    for number in 0..20_000u32 {
        db.put(number.to_be_bytes(), [round as u8; 100])?;
    }
    db.admin().flush()
}

#[test]
fn two_databases_share_one_cache_one_limit_and_the_threads() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let sized = Options::new().cache_bytes(1 << 20).memory_bytes(128 << 20).background_threads(2);
    let shared = sized.share()?;
    // What the options of an open say of the same does not count.
    let options = Options::new().cache_bytes(512 << 20).shared(&shared);
    let a = options.open(directory.path().join("a"))?;
    let b = options.open(directory.path().join("b"))?;
    drop((sized, options));
    for (round, db) in [&a, &b].into_iter().enumerate() {
        fill(db, round as u32)?;
        assert_eq!(db.iter().count(), 20_000);
        let stats = db.admin().stats();
        assert_eq!((stats.cache_limit_bytes, stats.memory.limit_bytes), (1 << 20, 128 << 20));
        assert_eq!(stats.background_thread_count, 2);
        assert!(stats.cache_bytes <= 1 << 20, "{}", stats.cache_bytes);
    }
    // Each of them has memtables of its own, and both are charged to one account.
    let used = |db: &Db| db.admin().stats().memory.used_bytes;
    a.put("key", "value")?;
    assert!(used(&b) > 0 && a.admin().stats().memory.pools == b.admin().stats().memory.pools);
    a.admin().set(Setting::BackgroundIoLimit(Some(10 << 20)))?;
    assert_eq!(b.admin().settings(), shared.settings());
    assert_eq!(b.admin().settings()[0], Setting::BackgroundIoLimit(Some(10 << 20)));
    drop(shared);
    a.close()?;
    drop(a);
    fill(&b, 7)?;
    assert_eq!(b.get(7u32.to_be_bytes())?.as_deref(), Some(&[7; 100][..]));
    b.close()
}
