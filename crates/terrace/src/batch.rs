use terrace_base::Expiry;
use terrace_base::limits::KEY_BYTES_MAX;
use terrace_engine::{Error as EngineError, WriteBatch as EngineBatch};

use crate::keyspace::Keyspace;
use crate::{Error, Result};

/// Entries that are written together or not at all; see [`Db::write`](crate::Db::write).
///
/// Later entries win over earlier ones for the same key. A batch belongs to no keyspace: it is
/// written to that of the handle.
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
/// let mut batch = terrace::WriteBatch::new();
/// batch.put(b"to", b"+10")?;
/// batch.put(b"from", b"-10")?;
/// db.write(batch, &terrace::WriteOptions::default())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// Its keys have the prefix of `keyspace`.
    inner: EngineBatch,
    keyspace: Keyspace,
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Sets `key` to `value`. Errors: `Invalid` if the key is longer than 64 KiB, the value than
    /// 64 MiB, or the batch would be larger than 128 MiB; the batch is then as it was.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with_expiry(key, value, None)
    }

    /// Sets `key` to `value` until `expiry`. Errors: as [`WriteBatch::put`].
    pub fn put_with_expiry(
        &mut self,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<()> {
        check_key(key)?;
        let key = self.keyspace.stored(key);
        Ok(self.inner.put_with_expiry(key.as_slice(), value, expiry)?)
    }

    /// Deletes `key`; it need not exist. Errors: as [`WriteBatch::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        Ok(self.inner.delete(self.keyspace.stored(key).as_slice())?)
    }

    /// Deletes every key from `start` up to, not including, `end`; without an end, every key from
    /// `start` on. Costs one entry, however many keys there are. Errors: as [`WriteBatch::put`].
    pub fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        check_key(start)?;
        check_key(end.unwrap_or_default())?;
        let start = self.keyspace.stored(start);
        Ok(self.inner.delete_range(start.as_slice(), &self.keyspace.stored_end(end))?)
    }

    /// Merges `operand` into `key`: the database's merge operator says what that does to the value,
    /// when it is read. The key need not exist. See [`Db::merge`](crate::Db::merge).
    ///
    /// Errors: as [`WriteBatch::put`]. A database refuses the batch when it is written, if it has
    /// no merge operator or the operator cannot read the operand.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        check_key(key)?;
        Ok(self.inner.merge(self.keyspace.stored(key).as_slice(), operand)?)
    }

    /// An empty batch of this keyspace, in the memory of `buffer`.
    pub(crate) fn reusing(buffer: Vec<u8>, keyspace: Keyspace) -> WriteBatch {
        WriteBatch { inner: EngineBatch::reusing(buffer), keyspace }
    }

    /// The engine's batch; its keys have the prefix of the batch's keyspace.
    pub(crate) fn into_engine(self) -> EngineBatch {
        self.inner
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// The batch with the keys of this keyspace.
    pub(crate) fn into_keyspace(mut self, keyspace: Keyspace) -> EngineBatch {
        if keyspace != self.keyspace {
            self.inner.replace_prefix(&keyspace.0.to_be_bytes());
        }
        self.inner
    }
}

/// Errors: `Invalid` for a key that is too long.
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the key has {} bytes, at most {KEY_BYTES_MAX} are allowed", key.len());
    Err(Error::from(EngineError::invalid(text)))
}
