use std::sync::Arc;

/// A value that was read from a value file, with what stands before it there. Clones share it.
#[derive(Clone, Debug)]
pub struct FetchedValue {
    entry: Entry,
    /// Where the value begins in these bytes, and where it ends.
    from: usize,
    end: usize,
}

#[derive(Clone, Debug)]
enum Entry {
    /// It was read for whoever asked, perhaps with what lies around it.
    Read(Arc<Vec<u8>>),
    /// The cache has it too.
    Cached(Arc<[u8]>),
}

impl FetchedValue {
    /// The value that a whole entry ends with.
    pub(super) fn read(entry: Vec<u8>, value_bytes: usize) -> FetchedValue {
        let (from, end) = (entry.len() - value_bytes, entry.len());
        FetchedValue { entry: Entry::Read(Arc::new(entry)), from, end }
    }

    /// The value that ends at `end` of a window of a file.
    pub(super) fn within(window: Arc<Vec<u8>>, end: usize, value_bytes: usize) -> FetchedValue {
        FetchedValue { entry: Entry::Read(window), from: end - value_bytes, end }
    }

    /// The same of an entry that the cache has.
    pub(super) fn cached(entry: Arc<[u8]>, value_bytes: usize) -> FetchedValue {
        let (from, end) = (entry.len() - value_bytes, entry.len());
        FetchedValue { entry: Entry::Cached(entry), from, end }
    }

    /// No value: for whoever wants none.
    #[must_use]
    pub fn none() -> FetchedValue {
        FetchedValue { entry: Entry::Read(Arc::default()), from: 0, end: 0 }
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.entry {
            Entry::Read(bytes) => &bytes[self.from..self.end],
            Entry::Cached(bytes) => &bytes[self.from..self.end],
        }
    }
}
