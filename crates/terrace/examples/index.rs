//! A table and an index over it, in two keyspaces that transactions keep in step.
//!
//! ```text
//! user 3 gets the address of user 1: false
//! grace@example.org is user 2
//! after the change: nobody, then user 2
//! ```

use std::error::Error;

use terrace::{Db, Error as StoreError, Keyspace, Result, Value};

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

    /// Gives a user this address, unless another one has it. After a crash both keyspaces know it
    /// or neither does, and no call for the same user or address comes in between.
    fn set_email(&self, user: u64, email: &str) -> Result<bool> {
        let user = user.to_be_bytes();
        self.db.transaction(|tx| {
            if tx.get(&self.by_email, email)?.is_some_and(|other| other != user) {
                return Ok::<_, StoreError>(false);
            }
            if let Some(old) = tx.get(&self.users, user)? {
                tx.delete(&self.by_email, old);
            }
            tx.put(&self.users, user, email).put(&self.by_email, email, user);
            Ok(true)
        })
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
    let is_given = users.set_email(3, "ada@example.org")?;
    println!("user 3 gets the address of user 1: {is_given}");
    let shown = |user: Option<u64>| user.map_or("nobody".into(), |user| format!("user {user}"));

    println!("grace@example.org is {}", shown(users.find("grace@example.org")?));
    users.set_email(2, "hopper@example.org")?;
    let (old, new) = (users.find("grace@example.org")?, users.find("hopper@example.org")?);
    println!("after the change: {}, then {}", shown(old), shown(new));
    Ok(())
}
