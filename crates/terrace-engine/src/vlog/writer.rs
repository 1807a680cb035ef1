use terrace_base::{FileId, TableUid};
use terrace_env::{PlantedBug, is_planted};
use xxhash_rust::xxh3::Xxh3;

use super::format::{
    DirectorySegment, ENTRY_HEADER_BYTES, FILE_BYTES_END, FOOTER_BYTES, Footer, RECORDS_PER_FRAME,
    ValueEntry, encode_directory, encode_frame, encode_header, put_entry,
};
use super::{HeldSegment, ValueFileMeta, ValueHome, ValueName, ValuePointer};
use crate::process::TableIo;
use crate::table::{TableStore, TableWriter};
use crate::{Error, Result};

/// Bytes are handed to the store in pieces of at least this size.
const WRITE_BYTES: usize = 128 * 1024;

/// Writes one value file, front to back: the values of a new segment, or what lives of old ones.
///
/// Memory: a piece of some 128 KiB and a value; sixteen bytes for each value that is moved.
pub struct ValueFileWriter {
    writer: Box<dyn TableWriter>,
    id: FileId,
    uid: TableUid,
    out: Vec<u8>,
    written_bytes: u64,
    hash: Xxh3,
    /// The segments, ascending; of those that were moved, also where each value lies.
    segments: Vec<Written>,
    is_rewrite: bool,
}

struct Written {
    id: FileId,
    count: u64,
    bytes: u64,
    /// Offset of the name, and place.
    places: Vec<(u64, u64)>,
}

impl ValueFileWriter {
    /// Begins the file of a new segment, which has the file's id. `uid` is random and was never
    /// used before; `expected_bytes` are reserved if the store can; `io`: who writes, if that is
    /// limited.
    pub fn create(
        store: &dyn TableStore,
        id: FileId,
        uid: TableUid,
        expected_bytes: u64,
        io: Option<&TableIo>,
    ) -> Result<ValueFileWriter> {
        let own = Written { id, count: 0, bytes: 0, places: Vec::new() };
        ValueFileWriter::begin(store, id, uid, expected_bytes, vec![own], false, io)
    }

    /// Begins a file for what lives of these segments, which ascend. The file holds them all, also
    /// one of which no value is added: a table may name it for a part that counts no more.
    pub fn rewrite(
        store: &dyn TableStore,
        id: FileId,
        uid: TableUid,
        expected_bytes: u64,
        segments: &[FileId],
        io: Option<&TableIo>,
    ) -> Result<ValueFileWriter> {
        let moved = |id: &FileId| Written { id: *id, count: 0, bytes: 0, places: Vec::new() };
        let segments = segments.iter().map(moved).collect();
        ValueFileWriter::begin(store, id, uid, expected_bytes, segments, true, io)
    }

    fn begin(
        store: &dyn TableStore,
        id: FileId,
        uid: TableUid,
        expected_bytes: u64,
        segments: Vec<Written>,
        is_rewrite: bool,
        io: Option<&TableIo>,
    ) -> Result<ValueFileWriter> {
        let mut writer = store.create_values(id, expected_bytes)?;
        if let Some(io) = io {
            writer = io.limited(writer);
        }
        let out = encode_header(uid, id).to_vec();
        let hash = Xxh3::new();
        Ok(ValueFileWriter { writer, id, uid, out, written_bytes: 0, hash, segments, is_rewrite })
    }

    /// Adds a new value; what a table has in its place. Errors: the writer's, after which the file
    /// is of no use.
    ///
    /// # Panics
    /// If the file is a rewrite.
    pub fn add(&mut self, entry: &ValueEntry<'_>) -> Result<ValuePointer> {
        assert!(!self.is_rewrite, "a rewrite takes values that have names");
        let name = ValueName { segment: self.id, offset: self.offset() };
        self.put(name, 0, entry)?;
        Ok(ValuePointer { name, bytes: entry.value.len() as u32, checksum: None })
    }

    /// Adds a value that has a name. Errors: as [`ValueFileWriter::add`].
    ///
    /// # Panics
    /// If the file is no rewrite, or not one of the name's segment.
    pub fn add_moved(&mut self, name: ValueName, entry: &ValueEntry<'_>) -> Result<()> {
        assert!(self.is_rewrite, "values of a new segment have no names yet");
        let index = self.segments.binary_search_by_key(&name.segment, |segment| segment.id);
        let index = index.expect("the segment is one of those that are rewritten");
        let place = self.offset() + u64::from(is_planted(PlantedBug::PlaceOffByOne));
        self.put(name, index, entry)?;
        self.segments[index].places.push((name.offset, place));
        Ok(())
    }

    fn put(&mut self, name: ValueName, segment: usize, entry: &ValueEntry<'_>) -> Result<()> {
        let before = self.out.len();
        if self.offset() + (ENTRY_HEADER_BYTES + entry.key.len() + entry.value.len()) as u64
            >= FILE_BYTES_END / 2
        {
            return Err(Error::invalid("a value file would become longer than one can be"));
        }
        put_entry(&mut self.out, name, segment as u32, entry);
        self.segments[segment].count += 1;
        self.segments[segment].bytes += (self.out.len() - before) as u64;
        if self.out.len() >= WRITE_BYTES { self.write_out() } else { Ok(()) }
    }

    /// Where the next byte will lie in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.written_bytes + self.out.len() as u64
    }

    fn write_out(&mut self) -> Result<()> {
        self.hash.update(&self.out);
        self.writer.append(&self.out)?;
        self.written_bytes += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Writes the rest and makes the content durable (the name is made durable by
    /// [`TableStore::sync`]).
    pub fn finish(mut self) -> Result<ValueFileMeta> {
        let entries_end = self.offset();
        let mut segments = Vec::new();
        let written = std::mem::take(&mut self.segments);
        for mut segment in written {
            segment.places.sort_unstable();
            let frames = segment.places.chunks(RECORDS_PER_FRAME);
            let fences = frames.clone().map(|frame| frame[0].0).collect();
            for frame in frames {
                let frame = encode_frame(self.uid, self.offset(), frame);
                self.out.extend_from_slice(&frame);
                if self.out.len() >= WRITE_BYTES {
                    self.write_out()?;
                }
            }
            let Written { id, count, bytes, .. } = segment;
            segments.push(DirectorySegment { id, count, bytes, fences });
        }
        let directory = self.offset();
        let encoded = encode_directory(self.uid, directory, &segments);
        self.out.extend_from_slice(&encoded);
        let footer = Footer {
            uid: self.uid,
            file_bytes: self.offset() + FOOTER_BYTES as u64,
            entries_end,
            directory,
            is_rewritten: self.is_rewrite,
        };
        self.out.extend_from_slice(&footer.encode());
        self.write_out()?;
        let location = self.writer.finish()?;
        let held =
            |one: &DirectorySegment| HeldSegment { id: one.id, count: one.count, bytes: one.bytes };
        Ok(ValueFileMeta {
            id: self.id,
            location,
            uid: self.uid,
            bytes: self.written_bytes,
            hash: self.hash.digest128(),
            segments: segments.iter().map(held).collect(),
            home: ValueHome::File,
        })
    }
}

impl std::fmt::Debug for ValueFileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueFileWriter")
            .field("id", &self.id)
            .field("bytes", &self.offset())
            .finish_non_exhaustive()
    }
}
