use std::sync::Arc;

/// A value that was read from a value file, with what stands before it there. Clones share it.
#[derive(Clone, Debug)]
pub struct FetchedValue {
    entry: Entry,
    /// Where the value begins in its entry.
    from: usize,
}

#[derive(Clone, Debug)]
enum Entry {
    /// It was read for whoever asked.
    Read(Arc<Vec<u8>>),
    /// The cache has it too.
    Cached(Arc<[u8]>),
}

impl FetchedValue {
    /// The value that a whole entry ends with.
    pub(super) fn read(entry: Vec<u8>, value_bytes: usize) -> FetchedValue {
        let from = entry.len() - value_bytes;
        FetchedValue { entry: Entry::Read(Arc::new(entry)), from }
    }

    /// The same of an entry that the cache has.
    pub(super) fn cached(entry: Arc<[u8]>, value_bytes: usize) -> FetchedValue {
        let from = entry.len() - value_bytes;
        FetchedValue { entry: Entry::Cached(entry), from }
    }

    /// No value: for whoever wants none.
    #[must_use]
    pub fn none() -> FetchedValue {
        FetchedValue { entry: Entry::Read(Arc::default()), from: 0 }
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.entry {
            Entry::Read(entry) => &entry[self.from..],
            Entry::Cached(entry) => &entry[self.from..],
        }
    }
}
