use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use terrace_env::{ObjectName, PendingObject};

use super::{CloudStore, RequestKind};
use crate::Result;

/// A get that was begun. Dropping it gives the answer up.
#[must_use]
pub struct PendingGet {
    store: Arc<CloudStore>,
    name: ObjectName,
    interval: Option<Range<u64>>,
    /// The request, if there was a place for it at once.
    begun: Option<PendingObject>,
}

impl PendingGet {
    pub(super) fn begin(
        store: &Arc<CloudStore>,
        name: &ObjectName,
        interval: Option<Range<u64>>,
    ) -> PendingGet {
        let begun = store.budget.try_take_ahead().then(|| {
            store.counters.add_request(RequestKind::Get);
            store.objects.begin_get(name, interval.clone())
        });
        PendingGet { store: Arc::clone(store), name: name.clone(), interval, begun }
    }

    /// Blocks until the answer is there; makes the request only now if too many were under way.
    ///
    /// Errors: as of [`CloudStore::get`].
    pub fn wait(mut self) -> Result<Vec<u8>> {
        let (name, interval) = (self.name.clone(), self.interval.clone());
        let Some(begun) = self.begun.take() else { return self.store.get(&name, interval) };
        let answer = begun.wait();
        self.store.budget.give_back_ahead();
        let first = self.store.counted(RequestKind::Get, answer);
        self.store.get_after(&name, interval, first)
    }
}

impl Drop for PendingGet {
    fn drop(&mut self) {
        if self.begun.take().is_some() {
            self.store.budget.give_back_ahead();
        }
    }
}

impl fmt::Debug for PendingGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingGet").field("name", &self.name).finish_non_exhaustive()
    }
}
