//! Puts, gets, and walks over keys in their order.
//!
//! ```text
//! user:1 is Ada
//! user:2 = Grace
//! user:1 = Ada
//! there is no user:3
//! ```

use std::error::Error;

use terrace::Db;

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("users").into());

    let db = Db::open(dir)?;
    db.put("user:1", "Ada")?;
    db.put("user:2", "Grace")?;

    if let Some(name) = db.get("user:1")? {
        println!("user:1 is {}", name.escape_ascii());
    }
    for row in db.prefix("user:").rev() {
        let (key, value) = row?;
        println!("{} = {}", key.escape_ascii(), value.escape_ascii());
    }
    if !db.contains_key("user:3")? {
        println!("there is no user:3");
    }

    // Dropping the last handle closes the database, too; this way an error is seen.
    db.close()?;
    Ok(())
}
