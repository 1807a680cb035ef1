use crate::batch::check_key;
use crate::{Db, Item, Result, Update, WriteBatch, WriteOptions};

/// What a compare-and-swap came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CasOutcome {
    /// The key held what was expected, and holds the new value now.
    Swapped,
    /// It did not; nothing was written.
    Mismatch {
        /// What it holds instead; `None` if it is not there.
        current: Option<Item>,
    },
}

impl CasOutcome {
    /// Whether the new value was written.
    #[must_use]
    pub fn is_swapped(&self) -> bool {
        matches!(self, CasOutcome::Swapped)
    }
}

impl Db {
    /// Sets `key` to `new` if it holds `expected`, with no other write of the key in between.
    /// `None` is a key that is not there: as `expected` it makes the call an insertion, as `new` a
    /// deletion. An expired key is not there; the new value does not expire.
    ///
    /// ```
    /// use terrace::{CasOutcome, WriteOptions};
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
    /// let options = WriteOptions::default();
    /// assert!(db.compare_and_swap(b"leader", None, Some(b"me"), &options)?.is_swapped());
    /// match db.compare_and_swap(b"leader", None, Some(b"you"), &options)? {
    ///     CasOutcome::Mismatch { current: Some(item) } => assert_eq!(item.value, b"me"),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert!(db.compare_and_swap(b"leader", Some(b"me"), None, &options)?.is_swapped());
    /// assert_eq!(db.get(b"leader")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// For other conditions, and for several keys, see [`Db::update`]. Errors: as [`Db::write`];
    /// `NeedsIo` if the call may not wait and the value is on the disk.
    pub fn compare_and_swap(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<CasOutcome> {
        check_key(key)?;
        // What cannot be written is refused before anything is compared.
        let mut batch = WriteBatch::new();
        match new {
            Some(value) => batch.put(key, value)?,
            None => batch.delete(key)?,
        }
        let mut outcome = CasOutcome::Swapped;
        self.update(&[key], options, |old| {
            let current = old[0].as_ref();
            if current.map(|item| item.value.as_slice()) != expected {
                outcome = CasOutcome::Mismatch { current: current.cloned() };
                return Update::Keep;
            }
            outcome = CasOutcome::Swapped;
            // To put nothing in place of nothing is done already.
            match current.is_none() && new.is_none() {
                true => Update::Keep,
                false => Update::Write(batch.clone()),
            }
        })?;
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expiry, Options, WallTime};

    #[test]
    fn what_is_not_there_can_be_expected_and_be_the_new_value() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let cas = |expected: Option<&str>, new: Option<&str>| {
            let expected = expected.map(str::as_bytes);
            let options = WriteOptions::default();
            db.compare_and_swap(b"k", expected, new.map(str::as_bytes), &options).unwrap()
        };
        let found = |outcome| match outcome {
            CasOutcome::Mismatch { current } => {
                current.map(|item| String::from_utf8(item.value).unwrap())
            }
            CasOutcome::Swapped => panic!("it was swapped"),
        };
        assert!(cas(None, None).is_swapped());
        assert_eq!(found(cas(Some("1"), Some("2"))), None);
        assert!(cas(None, Some("1")).is_swapped());
        assert_eq!(found(cas(None, Some("2"))).as_deref(), Some("1"));
        assert_eq!(found(cas(Some("2"), None)).as_deref(), Some("1"));
        assert!(cas(Some("1"), Some("")).is_swapped());
        assert_eq!(found(cas(None, Some("2"))).as_deref(), Some(""), "empty is something");
        assert!(cas(Some(""), None).is_swapped());
        assert_eq!(db.get(b"k").unwrap(), None);

        let mut batch = WriteBatch::new();
        batch.put_with_expiry(b"k", b"old", Some(Expiry::at(WallTime(1)))).unwrap();
        db.write(batch, &WriteOptions::default()).unwrap();
        assert_eq!(found(cas(Some("old"), Some("new"))), None, "it has expired");
        assert!(cas(None, Some("new")).is_swapped());
        let long = vec![0; 70_000];
        let refused = db.compare_and_swap(&long, None, None, &WriteOptions::default());
        assert_eq!(refused.unwrap_err().kind(), crate::ErrorKind::Invalid);
    }

    #[test]
    fn counting_threads_lose_no_step() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let add = || {
            let mut seen: Option<Vec<u8>> = None;
            loop {
                let count = seen.as_ref().map_or(0, |seen| seen.len());
                let next = vec![b'x'; count + 1];
                let options = WriteOptions::default();
                let outcome = db.compare_and_swap(b"n", seen.as_deref(), Some(&next), &options);
                match outcome.unwrap() {
                    CasOutcome::Swapped => return,
                    CasOutcome::Mismatch { current } => seen = current.map(|item| item.value),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..200).for_each(|_| add()));
            }
        });
        assert_eq!(db.get(b"n").unwrap().unwrap().len(), 400);
    }
}
