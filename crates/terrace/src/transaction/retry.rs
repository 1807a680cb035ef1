//! Transactions that are repeated until nobody comes between.

use std::time::Duration;

use terrace_base::SeqNo;

use super::handle::Transaction;
use crate::{Db, Error, ErrorKind, Result, WriteOptions};

/// How often a transaction is begun anew before its conflict is told.
const TRIES_MAX: u32 = 1000;

/// The first of them follow at once; later ones wait for some time.
const TRIES_AT_ONCE: u32 = 4;

/// The longest of these waits.
const WAIT_MAX: Duration = Duration::from_millis(2);

impl Db {
    /// Runs `body` in a transaction and commits it; on a conflict, again, until it commits. What
    /// `body` answered; its error undoes the transaction and is handed on.
    ///
    /// ```
    /// use terrace::Db;
    ///
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// let db = Db::open(directory.path())?;
    /// db.put("ada", "5")?;
    /// let amount = |text: &[u8]| std::str::from_utf8(text).unwrap_or("").parse().unwrap_or(0_u64);
    /// let left = db.transaction(|tx| {
    ///     let ada = tx.get(&db, "ada")?.map_or(0, |text| amount(&text));
    ///     let bob = tx.get(&db, "bob")?.map_or(0, |text| amount(&text));
    ///     tx.put(&db, "ada", (ada - 1).to_string()).put(&db, "bob", (bob + 1).to_string());
    ///     Ok::<_, terrace::Error>(ada - 1)
    /// })?;
    /// assert_eq!(left, 4);
    /// assert!(db.get("bob")?.is_some_and(|bob| bob == "1"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `body` may run several times, so it should change nothing outside. Each conflict means that
    /// somebody else's write was done, so all together go on; one that is long may lose again and
    /// again: after a few tries it waits a little before the next (up to 2 ms), and after 1000 it
    /// answers the `Conflict`. Errors: as [`Transaction::commit`].
    pub fn transaction<T, E: From<Error>>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transaction_with(&WriteOptions::new(), body).map(|(value, _)| value)
    }

    /// As [`Db::transaction`], in another class of durability, or without waiting; also the number
    /// of the commit.
    pub fn transaction_with<T, E: From<Error>>(
        &self,
        options: &WriteOptions,
        mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<(T, SeqNo), E> {
        let mut tries = 0;
        loop {
            let mut tx = self.begin();
            let value = body(&mut tx)?;
            tries += 1;
            match tx.commit_with(options) {
                Ok(seqno) => return Ok((value, seqno)),
                Err(error) if error.kind() == ErrorKind::Conflict && tries < TRIES_MAX => {
                    self.wait_before(tries);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Lets others go on before the next of several tries: at random, so that those who met do not
    /// meet again.
    fn wait_before(&self, tries: u32) {
        if tries < TRIES_AT_ONCE {
            return;
        }
        let env = self.store().process().env();
        let micros_max = 1_u128 << (tries - TRIES_AT_ONCE).min(11);
        let micros = env.random_u128() % (micros_max + 1);
        env.sleep(Duration::from_micros(micros as u64).min(WAIT_MAX));
    }
}
