//! Backups of an open database: each whole, the later ones sharing what did not change, any of them
//! restored.
//!
//! ```text
//! backup 1: …
//! backup 2: …
//! backup 1 has no damage found
//! restored: Ada, and no Grace
//! 1 backup is too old
//! ```

use std::error::Error;
use std::path::PathBuf;

use terrace::{BackupOptions, Backups, Db};

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().into(), PathBuf::from);
    let db = Db::open(dir.join("users"))?;
    // Another disk is a better place.
    let backups = Backups::open(dir.join("backups"))?;

    // Slowly, so that the disk has time for others.
    let gently = BackupOptions::new().bytes_per_second(50 << 20);
    db.put("1", "Ada")?;
    let first = backups.create_with(&db, &gently, |_, _| true)?;
    db.put("2", "Grace")?;
    let second = backups.create_with(&db, &gently, |_, _| true)?;
    for report in [&first, &second] {
        println!("backup {}: {} bytes copied", report.backup.number, report.copied_bytes);
    }

    let report = backups.verify(first.backup.number)?.to_string();
    let verdict = report.lines().last().unwrap_or_default();
    println!("backup {} has {verdict}", first.backup.number);

    let target = dir.join("as it was");
    backups.restore(first.backup.number, &target)?;
    let restored = Db::open(target)?;
    let name = restored.get("1")?.ok_or("the first user is gone")?;
    let grace = if restored.contains_key("2")? { "Grace, too" } else { "no Grace" };
    println!("restored: {}, and {grace}", name.escape_ascii());

    println!("{} backup is too old", backups.keep_newest(1)?);
    Ok(())
}
