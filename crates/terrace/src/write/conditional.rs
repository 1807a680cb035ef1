use smallvec::SmallVec;
use terrace_base::SeqNo;
use terrace_engine::store::{PinnedItem, Update};

use crate::keyspace::Keyspace;
use crate::keyspace::handle::check_key;
use crate::view::Value;
use crate::write::Batch;
use crate::{Error, Result, WriteOptions};

/// What a compare-and-swap came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Cas {
    /// The key held what was expected, and holds the new value now.
    Swapped,
    /// It did not, and nothing was written. What it holds instead; `None` if it is not there.
    Mismatch(Option<Value>),
}

impl Cas {
    /// Whether the new value was written.
    #[must_use]
    pub fn is_swapped(&self) -> bool {
        matches!(self, Cas::Swapped)
    }
}

/// Writes that depend on what is there. For keys of several keyspaces, and for conditions on more
/// than a few keys, there are transactions.
impl Keyspace {
    /// Sets `key` to `new` if it holds `expected`, with no other write of the key in between.
    /// `None` is a key that is not there: as `expected` it makes the call an insertion, as `new` a
    /// deletion. An expired key is not there.
    ///
    /// ```
    /// use terrace::Cas;
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// assert!(db.compare_and_swap("leader", None, Some(b"me"))?.is_swapped());
    /// match db.compare_and_swap("leader", None, Some(b"you"))? {
    ///     Cas::Mismatch(Some(value)) => assert_eq!(value, "me"),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert!(db.compare_and_swap("leader", Some(b"me"), None)?.is_swapped());
    /// assert!(db.get("leader")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: those of writes; `NeedsIo` if the call may not wait and the value is on the disk.
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Cas> {
        self.compare_and_swap_with(key, expected, new, &WriteOptions::new())
    }

    /// As [`Keyspace::compare_and_swap`], for some time or in another class of durability.
    pub fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: &WriteOptions,
    ) -> Result<Cas> {
        let key = key.as_ref();
        let mut outcome = Cas::Swapped;
        self.update_many(&[key], options, |old, batch| {
            let current = old[0].take();
            if current.as_deref() != expected {
                outcome = Cas::Mismatch(current);
                return Ok::<(), Error>(());
            }
            outcome = Cas::Swapped;
            match new {
                Some(value) => drop(batch.put_living(self, key, value, options.life())),
                // To put nothing in place of nothing is done already.
                None if current.is_none() => {}
                None => drop(batch.delete(self, key)),
            }
            Ok(())
        })?;
        Ok(outcome)
    }

    /// Sets `key` to what `change` makes of its value, with no other write of the key in between;
    /// returns that. `None` is a key that is not there, and deletes it. A value that goes at some
    /// time still goes then.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// let count = |old: Option<&[u8]>| {
    ///     let old = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_be_bytes);
    ///     Some((old + 1).to_be_bytes().to_vec())
    /// };
    /// db.update("visits", count)?;
    /// let visits = db.update("visits", count)?;
    /// assert!(visits.is_some_and(|visits| visits == 2u64.to_be_bytes()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `change` may be called more than once, and must not call the database. Errors: those of
    /// writes; `Merge` if the value cannot be folded.
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Value>> {
        let key = key.as_ref();
        let mut new = None;
        let number = self.update_many(&[key], &WriteOptions::new(), |old, batch| {
            let old = old[0].take();
            let value = change(old.as_deref());
            let expiry = old.as_ref().and_then(Value::expiry);
            match (&value, &expiry) {
                (Some(value), Some(expiry)) => drop(batch.put_until(self, key, value, *expiry)),
                (Some(value), None) => drop(batch.put(self, key, value)),
                (None, _) if old.is_none() => {}
                (None, _) => drop(batch.delete(self, key)),
            }
            new = value.map(|value| (value, expiry));
            Ok::<(), Error>(())
        })?;
        let number = number.unwrap_or_default();
        Ok(new.map(|(value, expiry)| Value(PinnedItem::copy(&value, expiry, number))))
    }

    /// Reads `keys`, lets `decide` fill a batch, and writes that, with no other write of these keys
    /// in between. Returns the number of the write; `None` if `decide` left the batch empty, and
    /// nothing was written. The batch may write only in this keyspace, and near the keys that are
    /// read: name every key that may be written among them.
    ///
    /// ```
    /// use terrace::{Error, WriteOptions};
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// // Whoever comes first leads, and says so in two places.
    /// db.update_many(&["leader", "term"], &WriteOptions::new(), |old, batch| {
    ///     if old[0].is_none() {
    ///         batch.put(&db, "leader", "me").put(&db, "term", "1");
    ///     }
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `decide` may be called again if room had to be made, and begins with an empty batch each
    /// time; it must not call the database. If it fails, nothing is written, and its error is the
    /// answer. Errors: those of writes; `NeedsIo` if the call may not wait and a value is on the
    /// disk; `Merge` if a value cannot be folded.
    pub fn update_many<K: AsRef<[u8]>, E: From<Error>>(
        &self,
        keys: &[K],
        options: &WriteOptions,
        mut decide: impl FnMut(&mut [Option<Value>], &mut Batch) -> Result<(), E>,
    ) -> Result<Option<SeqNo>, E> {
        keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
        let number = self.space().number;
        let stored: SmallVec<[_; 1]> = keys.iter().map(|key| number.stored(key.as_ref())).collect();
        let stored: SmallVec<[&[u8]; 4]> = stored.iter().map(|key| key.as_slice()).collect();
        let mut failure = None;
        let mut batch = Batch::new();
        let updated = self.shared.store.update_numbered(&stored, &options.engine(), |old| {
            batch.clear();
            failure = None;
            let mut old: SmallVec<[Option<Value>; 4]> = old
                .iter_mut()
                .map(|item| item.take().map(|item| Value(PinnedItem::from(item))))
                .collect();
            let decided = decide(&mut old, &mut batch);
            let checked =
                decided.and_then(|()| Ok(batch.checked(self.shared.owner()).map(drop)?));
            if let Err(error) = checked {
                failure = Some(error);
                return Ok(Update::Keep);
            }
            Ok(if batch.is_empty() { Update::Keep } else { Update::Write(batch.take()) })
        });
        let updated = updated.map_err(Error::from)?;
        if let Some(error) = failure {
            return Err(error);
        }
        self.space().counters.decided(updated.is_some());
        if updated.is_some() {
            batch.count();
        }
        Ok(updated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Expiry, WallTime};

    #[test]
    fn what_is_not_there_can_be_expected_and_be_the_new_value() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let cas = |expected: Option<&str>, new: Option<&str>| {
            let expected = expected.map(str::as_bytes);
            db.compare_and_swap("k", expected, new.map(str::as_bytes)).unwrap()
        };
        let found = |outcome| match outcome {
            Cas::Mismatch(current) => {
                current.map(|value| String::from_utf8(value.into_vec()).unwrap())
            }
            Cas::Swapped => panic!("it was swapped"),
        };
        assert!(cas(None, None).is_swapped());
        assert_eq!(found(cas(Some("1"), Some("2"))), None);
        assert!(cas(None, Some("1")).is_swapped());
        assert_eq!(found(cas(None, Some("2"))).as_deref(), Some("1"));
        assert_eq!(found(cas(Some("2"), None)).as_deref(), Some("1"));
        assert!(cas(Some("1"), Some("")).is_swapped());
        assert_eq!(found(cas(None, Some("2"))).as_deref(), Some(""), "empty is something");
        assert!(cas(Some(""), None).is_swapped());
        assert!(db.get("k").unwrap().is_none());

        let past = WriteOptions::new().expires_at(Expiry::at(WallTime(1)));
        db.put_with("k", "old", &past).unwrap();
        assert_eq!(found(cas(Some("old"), Some("new"))), None, "it has expired");
        assert!(cas(None, Some("new")).is_swapped());
        let swapped = db.compare_and_swap_with("k", Some(b"new"), Some(b"newer"), &past).unwrap();
        assert!(swapped.is_swapped());
        assert!(db.get("k").unwrap().is_none(), "it has expired, too");
        let long = vec![0; 70_000];
        let refused = db.compare_and_swap(&long, None, None);
        assert_eq!(refused.unwrap_err().kind(), crate::ErrorKind::Invalid);
    }

    #[test]
    fn an_update_keeps_the_expiry_and_deletes_by_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let far = Expiry::at(WallTime(u64::MAX / 2));
        db.put_with("k", "1", &WriteOptions::new().expires_at(far)).unwrap();
        let new = db.update("k", |old| Some([old.unwrap_or_default(), b"2"].concat())).unwrap();
        let stored = db.get("k").unwrap().unwrap();
        assert_eq!((&*stored, stored.expiry()), (&b"12"[..], Some(far)));
        assert_eq!(
            new.map(|new| (new.seqno(), new.into_vec())),
            Some((stored.seqno(), b"12".to_vec()))
        );
        assert_eq!(db.update("k", |_| None).unwrap(), None);
        assert!(db.get("k").unwrap().is_none());
        assert_eq!(db.update("k", |old| old.map(<[u8]>::to_vec)).unwrap(), None);
    }

    #[test]
    fn a_decision_that_fails_writes_nothing_and_is_the_answer() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let failed = db.update_many(&["k"], &WriteOptions::new(), |_, batch| {
            batch.put(&db, "k", "v");
            Err(Error::not_found("nothing to do"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "nothing to do");
        let refused = db.update_many(&["k"], &WriteOptions::new(), |_, batch| {
            batch.put(&db, vec![0; 70_000], "v");
            Ok::<(), Error>(())
        });
        assert_eq!(refused.unwrap_err().kind(), crate::ErrorKind::Invalid);
        assert!(db.get("k").unwrap().is_none());
    }

    #[test]
    fn counting_threads_lose_no_step() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let add = || {
            let mut seen: Option<Vec<u8>> = None;
            loop {
                let count = seen.as_ref().map_or(0, |seen| seen.len());
                let next = vec![b'x'; count + 1];
                match db.compare_and_swap("n", seen.as_deref(), Some(&next)).unwrap() {
                    Cas::Swapped => return,
                    Cas::Mismatch(current) => seen = current.map(Value::into_vec),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..200).for_each(|_| add()));
            }
        });
        assert_eq!(db.get("n").unwrap().unwrap().len(), 400);
    }
}
