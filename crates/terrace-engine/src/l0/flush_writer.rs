use std::fmt;
use std::sync::Arc;

use terrace_base::{KeyRange, LevelNo, TableUid};
use terrace_env::SharedEnv;

use super::FlushInput;
use crate::Result;
use crate::ids::FileIds;
use crate::process::TableIo;
use crate::table::{OutputSpec, OutputTables, TableShape, TableStore};
use crate::version::TableMeta;
use crate::yielder::Yielder;

/// Writes what is flushed as tables in files.
pub(super) struct FlushWriter {
    pub env: SharedEnv,
    pub store: Arc<dyn TableStore>,
    pub ids: Arc<FileIds>,
    pub shape: TableShape,
    /// Whose limit the tables obey, if any.
    pub io: Option<TableIo>,
}

impl FlushWriter {
    /// Writes the entries that are left and the range tombstones from `start` on. The tables are
    /// durable then.
    pub fn write(&self, start: &[u8], input: &mut FlushInput<'_, '_>) -> Result<Vec<TableMeta>> {
        let slice = KeyRange::new(start, None);
        let tombstones = input.tombstones.clip(&slice);
        let spec = OutputSpec {
            level: LevelNo(0),
            shape: &self.shape,
            slice: &slice,
            tombstones: &tombstones,
            expected_bytes: input.expected_bytes,
            now: self.env.wall_time(),
        };
        let next_table = Box::new(|| Ok((self.ids.next(), self.new_uid())));
        let mut outputs =
            OutputTables::new(self.store.as_ref(), spec, next_table).limited_by(self.io.clone());
        outputs = outputs.with_hot(input.hot.clone());
        let mut yielder = Yielder::new(self.env.as_ref());
        while let Some(entry) = input.entry()? {
            outputs.add(&entry)?;
            yielder.worked_on(&entry);
            input.advance()?;
        }
        let tables = outputs.finish()?;
        self.store.sync(LevelNo(0))?;
        Ok(tables)
    }

    /// An identity that no table had before.
    pub fn new_uid(&self) -> TableUid {
        TableUid(self.env.random_u128())
    }
}

impl fmt::Debug for FlushWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlushWriter")
            .field("store", &self.store)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
