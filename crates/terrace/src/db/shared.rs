use std::sync::Arc;

use terrace_base::WallTime;
use terrace_engine::store::Store;

use crate::keyspace::{Catalog, Owner};

/// What all handles of an open database share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) catalog: Catalog,
}

impl Shared {
    /// The time, by which what is put for a while goes.
    pub(crate) fn now(&self) -> WallTime {
        self.store.process().env().wall_time()
    }

    /// Whose keyspaces these are.
    pub(crate) fn owner(&self) -> &Arc<Owner> {
        self.catalog.owner()
    }
}
