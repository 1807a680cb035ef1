//! A table and an index over it, in two keyspaces that one batch keeps in step.
//!
//! ```text
//! grace@example.org is user 2
//! after the change: nobody, then user 2
//! ```

use std::error::Error;

use terrace::{Batch, Db, Keyspace, Result, Value};

struct Users {
    db: Db,
    /// Number → address.
    users: Keyspace,
    /// Address → number.
    by_email: Keyspace,
}

impl Users {
    fn open(db: Db) -> Result<Users> {
        Ok(Users { users: db.keyspace("users")?, by_email: db.keyspace("by_email")?, db })
    }

    /// Gives a user this address. After a crash either both keyspaces know it or neither does.
    ///
    /// Two calls for one user must not overlap: what `old` says would not hold any more.
    fn set_email(&self, user: u64, email: &str) -> Result<()> {
        let user = user.to_be_bytes();
        let mut batch = Batch::new();
        if let Some(old) = self.users.get(user)? {
            batch.delete(&self.by_email, old);
        }
        batch.put(&self.users, user, email).put(&self.by_email, email, user);
        self.db.write(&batch)?;
        Ok(())
    }

    fn find(&self, email: &str) -> Result<Option<u64>> {
        let number = |user: Value| user[..].try_into().ok().map(u64::from_be_bytes);
        Ok(self.by_email.get(email)?.and_then(number))
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("app").into());
    let users = Users::open(Db::open(dir)?)?;
    users.set_email(1, "ada@example.org")?;
    users.set_email(2, "grace@example.org")?;
    let shown = |user: Option<u64>| user.map_or("nobody".into(), |user| format!("user {user}"));

    println!("grace@example.org is {}", shown(users.find("grace@example.org")?));
    users.set_email(2, "hopper@example.org")?;
    let (old, new) = (users.find("grace@example.org")?, users.find("hopper@example.org")?);
    println!("after the change: {}, then {}", shown(old), shown(new));
    Ok(())
}
