//! Goal: a program reads a database that another one mirrors in an object store, keeps a moment of
//! it as a checkpoint, and copies it. Method: an owner and its store, a directory, on the real file
//! system.

use std::path::Path;
use std::time::Duration;

use terrace::{CloudMoment, CloudOptions, Db, ErrorKind, Layout, LiveReason, Options, Result};

fn url(dir: &Path) -> String {
    format!("file://{}", dir.join("store").display())
}

/// Opens the owner, which mirrors what it has.
fn owner(dir: &Path) -> Result<Db> {
    let mut cloud = CloudOptions::new(url(dir), 1 << 30);
    cloud.mirror = Some(Duration::from_secs(1));
    Options::new().layout(Layout::default().cloud(cloud)).open(dir.join("owner"))
}

#[test]
fn a_database_in_a_store_is_read_and_copied_elsewhere() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, url) = (dir.path(), url(dir.path()));
    let db = owner(dir)?;
    db.put("apple", "red")?;
    let users = db.keyspace("users")?;
    users.put("ann", "1")?;
    db.close()?;

    let mut secondary = Options::new().open_secondary(&url)?;
    assert_eq!(secondary.get("apple")?.as_deref(), Some(&b"red"[..]));
    assert_eq!(secondary.keyspace("users")?.get("ann")?.as_deref(), Some(&b"1"[..]));
    let written = secondary.as_db().put("apple", "green").unwrap_err();
    assert_eq!(written.kind(), ErrorKind::ReadOnly);

    let database = Options::new().open_cloud(&url, None)?;
    assert_eq!(Options::new().cloud_databases(&url)?, [database.id()]);
    let made = database.make_checkpoint("monday")?;
    assert_eq!(database.checkpoints()?, [made]);

    let db = owner(dir)?;
    db.put("apple", "green")?;
    db.close()?;
    assert!(secondary.catch_up()?);
    assert_eq!(secondary.get("apple")?.as_deref(), Some(&b"green"[..]));
    let monday = database.open_checkpoint("monday")?;
    assert_eq!(monday.get("apple")?.as_deref(), Some(&b"red"[..]));

    for (out, moment, color) in [
        ("old", CloudMoment::Checkpoint("monday".to_string()), "red"),
        ("new", CloudMoment::Newest, "green"),
    ] {
        let out = dir.join(out);
        database.clone_to(&out, &moment, |_, _| true)?;
        let copy = Db::open(&out)?;
        assert_eq!(copy.get("apple")?.as_deref(), Some(color.as_bytes()));
        assert_eq!(copy.keyspace("users")?.get("ann")?.as_deref(), Some(&b"1"[..]));
        copy.put("apple", "eaten")?;
        copy.close()?;
    }
    assert_eq!(database.why_live("proof")?.reasons, [LiveReason::Proof]);
    assert!(database.remove_checkpoint("monday")?);
    Ok(())
}

#[test]
fn what_cannot_be_is_said() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, url) = (dir.path(), url(dir.path()));
    let refused = Options::new().open(&url).unwrap_err();
    assert!(refused.to_string().contains("open_secondary"), "{refused}");
    let nothing = Options::new().open_secondary(&url).unwrap_err();
    assert!(nothing.to_string().contains("holds no database"), "{nothing}");
    let db = owner(dir)?;
    let database = Options::new().open_cloud(&url, None)?;
    for name in ["", ".hidden", "a/b"] {
        let refused = database.make_checkpoint(name).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{name}");
    }
    let missing = database.open_checkpoint("monday").unwrap_err();
    assert!(missing.to_string().contains("monday"), "{missing}");
    db.close()
}
