use terrace::{Batch, Db, Expiry, Keyspace, WriteOptions, limits};

use crate::command::Fail;

/// How many writes a run takes.
const WRITES_MAX: usize = 256;

/// How many bytes of keys and values a run takes, the last write apart.
const BYTES_MAX: usize = 256 * 1024;

/// Plain writes that follow each other in a pipeline, made as one batch.
///
/// A batch costs the log one record and, in the class `sync`, one sync. The replies are written at
/// once, and are not sent before the batch is written; if that fails they turn into errors.
#[derive(Default)]
pub(crate) struct WriteRun {
    batch: Batch,
    count: usize,
    bytes: usize,
}

impl WriteRun {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many replies depend on the run.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= WRITES_MAX || self.bytes >= BYTES_MAX
    }

    /// Adds one write, or nothing if it is over the store's bounds.
    pub(crate) fn put(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<(), Fail> {
        match expiry {
            Some(expiry) => self.batch.put_until(keyspace, key, value, expiry),
            None => self.batch.put(keyspace, key, value),
        };
        if let Some(refused) = self.batch.take_refused() {
            return Err(refused.into());
        }
        self.count += 1;
        self.bytes += key.len() + value.len();
        debug_assert!(self.bytes <= BYTES_MAX + limits::KEY_BYTES_MAX + limits::VALUE_BYTES_MAX);
        Ok(())
    }

    /// Writes the batch and begins a new run, in the same memory.
    pub(super) fn write(&mut self, db: &Db, options: &WriteOptions) -> Result<(), Fail> {
        let written = db.write_with(&self.batch, options);
        self.batch.clear();
        (self.count, self.bytes) = (0, 0);
        written?;
        Ok(())
    }
}
