use std::fmt;
use std::sync::Arc;

use terrace_base::{EntryRef, SeqNo};

use crate::Result;
use crate::store::read::begin::At;
use crate::store::read_points::ReadPoint;
use crate::store::report::slow::GetPurpose;
use crate::store::{GetOptions, Inner, Item, Iter, IterOptions, PinnedItem, Store};

/// The range as it was at one sequence number. Pins the number only, no memory and no file;
/// versions that it can see survive flushes and compactions until it is dropped. Clones share it.
///
/// Expiry goes on: an entry that has expired since is gone in the snapshot too.
#[derive(Clone)]
pub struct Snapshot {
    store: Store,
    point: Arc<ReadPoint>,
}

impl Store {
    /// Everything that is visible now, for as long as the snapshot lives.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let Inner { env, read_points, sequencer, .. } = &*self.inner;
        let point = read_points.register(sequencer, env.now());
        Snapshot { store: self.clone(), point: Arc::new(point) }
    }
}

impl Snapshot {
    /// The number that it pins.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.point.seqno()
    }

    /// The value that `key` had.
    pub fn get(&self, key: &[u8], options: &GetOptions) -> Result<Option<Item>> {
        self.get_with(key, options, Item::copy_of)
    }

    /// What `read` makes of the entry that `key` had, without copying the value first.
    pub fn get_with<T>(
        &self,
        key: &[u8],
        options: &GetOptions,
        read: impl FnOnce(&EntryRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let (at, mode) = (At::Number(self.seqno()), options.mode());
        self.inner().get_at(key, at, mode, GetPurpose::Answer, |_, entry| read(entry))
    }

    /// The value that `key` had, by reference; see [`Store::get_pinned_with`].
    #[inline]
    pub fn get_pinned_with<T>(
        &self,
        key: &[u8],
        options: &GetOptions,
        take: impl FnOnce(&EntryRef<'_>, PinnedItem) -> T,
    ) -> Result<Option<T>> {
        let (at, mode) = (At::Number(self.seqno()), options.mode());
        self.inner().get_at(key, at, mode, GetPurpose::Answer, |origin, entry| {
            take(entry, PinnedItem::new(origin, entry))
        })
    }

    /// The values that `keys` had; see [`Store::multi_get`].
    pub fn multi_get(
        &self,
        keys: &[&[u8]],
        options: &GetOptions,
    ) -> Result<Vec<Option<PinnedItem>>> {
        self.inner().multi_get_at(keys, At::Number(self.seqno()), options)
    }

    /// Registers the number once more, with the present as the moment before which no job judges
    /// what has expired.
    pub(in crate::store) fn hold_moment(&self) -> ReadPoint {
        let inner = self.inner();
        inner.read_points.register_iterator_at(&self.point, inner.env.wall_time())
    }

    pub(in crate::store) fn inner(&self) -> &Inner {
        &self.store.inner
    }

    /// The keys and values that the range had.
    pub fn iter(&self, options: IterOptions) -> Result<Iter> {
        Iter::at(&self.store, &self.point, options)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot at {:?}", self.seqno())
    }
}
