//! How reads reach the bytes: without waiting, through the cache, past it, over slow stores.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_env::Latch;

use super::*;
use crate::Error;
use crate::iter::{Cursor, Stream};

/// A file that counts its reads, answers late, and has nothing at hand unless told so.
#[derive(Debug)]
struct SlowFile {
    inner: Arc<MemoryTableFile>,
    reads: AtomicU64,
    tries: AtomicU64,
    is_at_hand: bool,
    prefetched: Latch<Vec<ByteInterval>>,
}

impl SlowFile {
    fn new(bytes: Vec<u8>, is_at_hand: bool) -> Arc<SlowFile> {
        let inner = Arc::new(MemoryTableFile::new("slow.table", bytes));
        let (reads, tries) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(SlowFile { inner, reads, tries, is_at_hand, prefetched: Latch::new(Vec::new()) })
    }

    fn counts(&self) -> (u64, u64) {
        (self.reads.swap(0, Ordering::Relaxed), self.tries.swap(0, Ordering::Relaxed))
    }
}

impl TableFile for SlowFile {
    fn read(&self, intervals: &[ByteInterval]) -> ReadTicket {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let (inner, intervals) = (Arc::clone(&self.inner), intervals.to_vec());
        ReadTicket::pending(Box::new(move || inner.read(&intervals).wait()))
    }

    fn try_read(&self, interval: ByteInterval) -> crate::Result<Option<Vec<u8>>> {
        self.tries.fetch_add(1, Ordering::Relaxed);
        if self.is_at_hand { self.inner.try_read(interval) } else { Ok(None) }
    }

    fn prefetch(&self, interval: ByteInterval) {
        self.prefetched.lock().push(interval);
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn name(&self) -> PathBuf {
        self.inner.name()
    }
}

fn model() -> Model {
    let mut model = Model::default();
    for number in 0..2000u64 {
        model.put(format!("key{number:05}").as_bytes(), number + 1, &[number as u8; 100]);
    }
    model
}

fn specimen(is_at_hand: bool) -> (Arc<SlowFile>, Arc<BlockCache>, Arc<TableReader>) {
    let (_, bytes) = build(&model(), UID, &options(1000, Compression::Lz4));
    let file = SlowFile::new(bytes, is_at_hand);
    let cache = Arc::new(BlockCache::new(10_000_000));
    let reader = TableReader::open(file.clone(), Arc::clone(&cache), None).unwrap();
    assert_eq!(file.counts(), (2, 0), "an open reads the footer, and then all parts at once");
    (file, cache, reader)
}

#[test]
fn without_waiting_a_read_needs_the_cache_or_a_file_at_hand() {
    let (file, cache, reader) = specimen(false);
    let key = b"key00700";
    let outcome = reader.get(key, SeqNo::MAX, ReadMode::NO_WAIT);
    assert!(matches!(outcome, Err(Error::NeedsIo)), "{outcome:?}");
    assert_eq!(file.counts(), (0, 1));
    let mut cursor = reader.cursor(SeqNo::MAX, ReadMode::NO_WAIT);
    assert!(matches!(cursor.seek(key), Err(Error::NeedsIo)));
    assert!(cursor.entry().is_none(), "after an error a cursor stands nowhere");

    assert!(reader.get(key, SeqNo::MAX, ReadMode::BLOCK).unwrap().is_some());
    assert_eq!(file.counts(), (1, 1));
    let found = reader.get(key, SeqNo::MAX, ReadMode::NO_WAIT).unwrap().unwrap();
    assert_eq!(found.value(), [188; 100]);
    cursor.seek(key).unwrap();
    assert_eq!(cursor.entry().unwrap().key, key);
    assert_eq!(file.counts(), (0, 0), "both were answered from the cache");
    // The block ends somewhere, and then the cursor needs the disk and stands nowhere.
    let error = loop {
        if let Err(error) = cursor.next() {
            break error;
        }
    };
    assert!(matches!(error, Error::NeedsIo));
    assert!(cursor.entry().is_none());
    assert!(cache.hits() > 0 && cache.misses() > 0);

    let (file, _, reader) = specimen(true);
    assert!(reader.get(key, SeqNo::MAX, ReadMode::NO_WAIT).unwrap().is_some());
    assert_eq!(file.counts(), (0, 1), "the file had it at hand");
}

#[test]
fn a_cache_that_is_not_to_be_filled_answers_and_stays_as_it_is() {
    let (file, cache, reader) = specimen(false);
    let past = ReadMode { fills_cache: false, ..ReadMode::BLOCK };
    for _ in 0..2 {
        assert!(reader.get(b"key00700", SeqNo::MAX, past).unwrap().is_some());
        assert_eq!((file.counts(), cache.used_bytes()), ((1, 0), 0));
    }
    assert!(reader.get(b"key00700", SeqNo::MAX, ReadMode::BLOCK).unwrap().is_some());
    assert_eq!(file.counts(), (1, 0));
    assert!(reader.get(b"key00700", SeqNo::MAX, past).unwrap().is_some());
    assert_eq!(file.counts(), (0, 0), "what is cached is used");
    let filled = cache.used_bytes();
    let mut cursor = reader.cursor(SeqNo::MAX, past);
    let mut stands = cursor.seek(b"").unwrap();
    while stands {
        stands = cursor.next().unwrap();
    }
    assert_eq!(cache.used_bytes(), filled);
}

#[test]
fn a_cursor_that_goes_forward_asks_for_what_comes_next() {
    let (file, _, reader) = specimen(false);
    let mode = ReadMode { ahead_bytes: 4096, ..ReadMode::BLOCK };
    let mut cursor = reader.cursor(SeqNo::MAX, mode);
    let mut stands = cursor.seek(b"").unwrap();
    while stands {
        stands = cursor.next().unwrap();
    }
    let asked = std::mem::take(&mut *file.prefetched.lock());
    let end = |one: &ByteInterval| one.offset + one.bytes as u64;
    assert!(asked.len() > 2 && asked.iter().all(|one| end(one) < file.bytes()));
    for pair in asked.windows(2) {
        assert!(pair[0].offset < pair[1].offset && pair[1].offset <= end(&pair[0]), "{pair:?}");
    }
    let (first, last) = (asked[0].offset, end(asked.last().unwrap()));
    let bytes = reader.bytes_within(&terrace_base::KeyRange::all());
    assert!(first < 4096 && last >= bytes, "{first} to {last} of {bytes}");
    // Back at the start it asks anew, and without being told to it asks for nothing.
    cursor.seek(b"").unwrap();
    cursor.seek(b"key00100").unwrap();
    assert!(!std::mem::take(&mut *file.prefetched.lock()).is_empty());
    let mut cursor = reader.cursor(SeqNo::MAX, ReadMode::BLOCK);
    cursor.seek(b"").unwrap();
    assert!(file.prefetched.lock().is_empty());
}

#[test]
fn streams_read_large_pieces_and_leave_the_cache_alone() {
    let (file, cache, reader) = specimen(false);
    let mut stream = reader.stream(None).unwrap();
    let mut count = 0;
    while stream.entry().is_some() {
        count += 1;
        stream.advance().unwrap();
    }
    assert_eq!(count, 2000);
    let (reads, tries) = file.counts();
    assert!(reads <= 2 && tries == 0, "{reads} reads");
    assert_eq!((cache.used_bytes(), cache.hits(), cache.misses()), (0, 0, 0));
}

#[test]
fn a_pinned_entry_outlives_reader_and_cache() {
    let (_, cache, reader) = specimen(false);
    let found = reader.get(b"key00001", SeqNo::MAX, ReadMode::BLOCK).unwrap().unwrap();
    drop((cache, reader));
    assert_eq!(found.value(), [1; 100]);
    assert_eq!((found.seqno(), found.kind(), found.expiry()), (SeqNo(2), EntryKind::Value, None));
}

#[test]
fn memory_is_reported() {
    let (_, _, reader) = specimen(false);
    // 2000 keys of 10 bits and about 30 bytes a block.
    let bytes = reader.memory_bytes();
    assert!((5_000..40_000).contains(&bytes), "{bytes}");
}

#[test]
fn readers_are_shared_between_threads_and_cursors_move_to_another() {
    fn shared<T: Send + Sync>() {}
    fn movable<T: Send>() {}
    shared::<TableReader>();
    shared::<BlockCache>();
    shared::<PinnedEntry>();
    movable::<TableCursor>();
    movable::<TableStream>();
    movable::<TableBuilder>();
}
