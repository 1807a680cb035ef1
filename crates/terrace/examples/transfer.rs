//! Transactions: two threads move money between accounts, and none of it is lost or made.
//!
//! ```text
//! moved 200 times; 1000 in all
//! refused: there is not enough
//! ```

#![allow(clippy::disallowed_methods, reason = "the movers are threads of the program")]

use std::error::Error;
use std::thread;

use terrace::{Db, Keyspace, Transaction};

type Answer<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn balance(tx: &Transaction, accounts: &Keyspace, name: &str) -> Answer<u64> {
    match tx.get(accounts, name)? {
        Some(balance) => Ok(u64::from_be_bytes(balance[..].try_into()?)),
        None => Ok(0),
    }
}

/// Moves money. If another write changed one of the two accounts between the reads and the commit,
/// nothing of this one happened, and it is begun anew.
fn transfer(db: &Db, accounts: &Keyspace, from: &str, to: &str, amount: u64) -> Answer<()> {
    db.transaction(|tx| {
        let left = balance(tx, accounts, from)?.checked_sub(amount);
        let left = left.ok_or("there is not enough")?;
        tx.put(accounts, from, left.to_be_bytes());
        // The read sees what the transaction itself has written.
        let sum = balance(tx, accounts, to)? + amount;
        tx.put(accounts, to, sum.to_be_bytes());
        Ok(())
    })
}

fn main() -> Answer<()> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("bank").into());
    let db = Db::open(dir)?;
    let accounts = db.keyspace("accounts")?;
    accounts.put("ada", 500_u64.to_be_bytes())?;
    accounts.put("bob", 500_u64.to_be_bytes())?;

    let movers = [("ada", "bob"), ("bob", "ada")].map(|(from, to)| {
        let (db, accounts) = (db.clone(), accounts.clone());
        thread::spawn(move || (0..100).try_for_each(|_| transfer(&db, &accounts, from, to, 1)))
    });
    for mover in movers {
        mover.join().map_err(|_| "a mover panicked")??;
    }
    let all = db.transaction(|tx| {
        Ok::<_, Box<dyn Error + Send + Sync>>(
            balance(tx, &accounts, "ada")? + balance(tx, &accounts, "bob")?,
        )
    })?;
    println!("moved 200 times; {all} in all");

    // An error of the program ends a transaction, too, and undoes it.
    if let Err(error) = transfer(&db, &accounts, "ada", "bob", 1_000_000) {
        println!("refused: {error}");
    }
    Ok(())
}
