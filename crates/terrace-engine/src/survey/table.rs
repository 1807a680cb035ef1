use std::fmt;
use std::sync::Arc;

use terrace_base::{CodecError, Entry, EntryRef, KeyRange, SeqNo, TableUid, compare_internal};

use super::Gap;
use super::frames::{Scan, scan};
use crate::range_tombstone::{Fragments, RangeTombstone};
use crate::table::format::block::BlockView;
use crate::table::format::filter::Filter;
use crate::table::format::footer::{FOOTER_BYTES, Footer, Handle};
use crate::table::format::frame;
use crate::table::format::names::decode_lists;
use crate::table::format::properties::TableProperties;
use crate::table::format::{BLOCK_BYTES_MAX, FormatError, META_BYTES_MAX, range_tombstones};
use crate::table::mashmeta::MashMeta;
use crate::table::{BlockIndex, ByteInterval, TableFile, decode_frame, decompress_frame};
use crate::{Error, Result};

/// The most bytes of a file that are read into memory to find frames without an index.
const SCAN_BYTES_MAX: u64 = 1 << 30;

/// A part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TablePart {
    /// The data blocks.
    Data,
    /// The filter.
    Filter,
    /// The index.
    Index,
    /// The range tombstones.
    RangeTombstones,
    /// A list of the values that the table points to.
    Names,
    /// The properties.
    Properties,
    /// The footer.
    Footer,
}

impl fmt::Display for TablePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TablePart::Data => "a data block",
            TablePart::Filter => "the filter",
            TablePart::Index => "the index",
            TablePart::RangeTombstones => "the range tombstones",
            TablePart::Names => "a list of names of values",
            TablePart::Properties => "the properties",
            TablePart::Footer => "the footer",
        })
    }
}

/// What is left of a table. Its data blocks are read one by one.
pub struct TableSurvey {
    file: Arc<dyn TableFile>,
    /// The table's identity: from the footer, or as the manifest knows it.
    pub uid: Option<TableUid>,
    /// The footer.
    pub footer: Option<Footer>,
    /// The properties.
    pub properties: Option<TableProperties>,
    /// The filter.
    pub filter: Option<Filter>,
    /// Bytes in memory of the index, and the keys that it knows if it is a trie of all of them.
    pub index: Option<(u64, Option<u64>)>,
    /// The range tombstones; none also if nobody knows whether there are any.
    pub range_tombstones: Option<Fragments>,
    /// The data blocks that are known to be there, in their order.
    pub blocks: Vec<SurveyedBlock>,
    /// What is damaged, data blocks that [`TableSurvey::blocks`] lists apart.
    pub damage: Vec<(TablePart, Gap)>,
}

/// Where a data block lies, and which keys it may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedBlock {
    /// Where it lies.
    pub handle: Handle,
    /// Its keys, if the index is there to say so.
    pub keys: Option<KeyRange>,
    /// Which block it is, counting from the first.
    pub index: usize,
}

/// A decoded data block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockContent {
    bytes: Vec<u8>,
}

impl BlockContent {
    /// Calls `visit` with each entry, in internal order. Errors: the checksum was right, but the
    /// block was written wrongly.
    pub fn for_each(
        &self,
        mut visit: impl FnMut(EntryRef<'_>),
    ) -> std::result::Result<(), CodecError> {
        let view = BlockView::parse(&self.bytes)?;
        view.check_layout()?;
        let mut key = Vec::new();
        let mut before: Option<(Vec<u8>, SeqNo)> = None;
        for index in 0..view.count() {
            let entry = view.entry(index)?;
            view.key_into(index, &entry, &mut key);
            let found = EntryRef {
                key: &key,
                seqno: entry.seqno,
                kind: entry.kind,
                expiry: entry.expiry,
                value: entry.value(&self.bytes),
            };
            let in_order = before.as_ref().is_none_or(|(last, seqno)| {
                compare_internal(last, *seqno, found.key, found.seqno).is_lt()
            });
            if !in_order {
                return Err(CodecError { offset: 0, what: "entries out of order" });
            }
            visit(found);
            before = Some((key.clone(), entry.seqno));
        }
        Ok(())
    }

    /// Its entries. Errors: as [`BlockContent::for_each`].
    pub fn entries(&self) -> std::result::Result<Vec<Entry>, CodecError> {
        let mut entries = Vec::new();
        self.for_each(|entry| entries.push(entry.to_entry()))?;
        Ok(entries)
    }

    /// Bytes of the decoded block.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl TableSurvey {
    /// Surveys a table. `expected` is the identity that the manifest knows it by, if it does.
    ///
    /// Errors: [`Error::Unsupported`]; those that are no damage, such as a failing disk.
    pub fn open(file: Arc<dyn TableFile>, expected: Option<TableUid>) -> Result<TableSurvey> {
        let mut survey = TableSurvey {
            file,
            uid: expected,
            footer: None,
            properties: None,
            filter: None,
            index: None,
            range_tombstones: None,
            blocks: Vec::new(),
            damage: Vec::new(),
        };
        survey.read_footer(expected)?;
        match survey.footer.clone() {
            Some(footer) => survey.read_by_footer(&footer)?,
            None => survey.read_by_scan()?,
        }
        Ok(survey)
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn TableFile> {
        &self.file
    }

    /// A data block. Errors, inside: what is wrong with it; outside: those that are no damage, and
    /// `NoCodec`.
    pub fn block(
        &self,
        block: &SurveyedBlock,
    ) -> Result<std::result::Result<BlockContent, CodecError>> {
        let Some(frame) = self.read(block.handle)? else {
            return Ok(Err(CodecError { offset: 0, what: "the table ends too early" }));
        };
        let Some(uid) = self.uid else {
            return Ok(Err(CodecError { offset: 0, what: "nobody knows the table's identity" }));
        };
        let decoded = decode_frame(&frame, uid, block.handle.offset)
            .map_err(FormatError::from)
            .and_then(|(kind, payload)| decompress_frame(kind, payload, BLOCK_BYTES_MAX));
        match decoded {
            Ok(bytes) => Ok(Ok(BlockContent { bytes })),
            Err(FormatError::Damaged(error)) => Ok(Err(error)),
            Err(FormatError::Unsupported(text)) => Err(self.no_codec(&text)),
        }
    }

    fn no_codec(&self, text: &str) -> Error {
        Error::NoCodec(format!("{}: {text}", self.file.name().display()))
    }

    /// Bytes of a frame; none if the file ends before its end.
    fn read(&self, handle: Handle) -> Result<Option<Vec<u8>>> {
        let end = handle.offset.checked_add(handle.bytes);
        if end.is_none_or(|end| end > self.file.bytes()) {
            return Ok(None);
        }
        let interval = ByteInterval { offset: handle.offset, bytes: handle.bytes as usize };
        match self.file.read(&[interval]).wait() {
            Ok(mut buffers) => Ok(buffers.pop()),
            Err(Error::Corruption(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn note(&mut self, part: TablePart, offset: u64, end: u64, what: impl fmt::Display) {
        self.damage.push((part, Gap { offset, end, what: what.to_string() }));
    }

    fn read_footer(&mut self, expected: Option<TableUid>) -> Result<()> {
        let file_bytes = self.file.bytes();
        let offset = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let stored = self.read(Handle { offset, bytes: file_bytes - offset })?.unwrap_or_default();
        let Some(stored) = stored.first_chunk() else {
            self.note(TablePart::Footer, 0, file_bytes, "the file is shorter than a footer");
            return Ok(());
        };
        match Footer::decode(stored, file_bytes) {
            Ok(footer) if expected.is_none_or(|uid| uid == footer.uid) => {
                self.uid = Some(footer.uid);
                self.footer = Some(footer);
            }
            Ok(footer) => {
                let what = format!("this is another table, {:?}", footer.uid);
                self.note(TablePart::Footer, offset, file_bytes, what);
                // Nothing in it is what the manifest means.
                self.uid = None;
            }
            Err(FormatError::Damaged(error)) => {
                self.note(TablePart::Footer, offset, file_bytes, error.what);
            }
            Err(FormatError::Unsupported(text)) => {
                let name = self.file.name();
                return Err(Error::Unsupported(format!("{}: {text}", name.display())));
            }
        }
        Ok(())
    }

    /// Reads a part that is not a data block.
    fn part<T>(
        &mut self,
        part: TablePart,
        handle: Handle,
        decode: impl FnOnce(&[u8]) -> std::result::Result<T, FormatError>,
    ) -> Result<Option<T>> {
        let end = handle.offset.saturating_add(handle.bytes);
        if handle.bytes > (META_BYTES_MAX + frame::TRAILER_BYTES) as u64 {
            self.note(part, handle.offset, end, "a part beyond the bound");
            return Ok(None);
        }
        let (Some(frame), Some(uid)) = (self.read(handle)?, self.uid) else {
            self.note(part, handle.offset, end, "the table ends too early");
            return Ok(None);
        };
        let payload = frame::open_plain(&frame, uid, handle.offset).map_err(FormatError::Damaged);
        match payload.and_then(decode) {
            Ok(decoded) => Ok(Some(decoded)),
            Err(error) => {
                self.note(part, handle.offset, end, error);
                Ok(None)
            }
        }
    }

    fn read_by_footer(&mut self, footer: &Footer) -> Result<()> {
        self.properties =
            self.part(TablePart::Properties, footer.properties, TableProperties::decode)?;
        if footer.range_tombstones.is_none() {
            self.range_tombstones = Some(Fragments::default());
        } else {
            let handle = footer.range_tombstones;
            self.range_tombstones =
                self.part(TablePart::RangeTombstones, handle, decode_range_tombstones)?;
        }
        if !footer.filter.is_none() {
            let decode = |payload: &[u8]| Ok(Filter::decode(payload)?);
            self.filter = self.part(TablePart::Filter, footer.filter, decode)?;
        }
        self.read_names(footer.names)?;
        let decode = |payload: &[u8]| Ok(BlockIndex::decode(payload, footer)?);
        match self.part(TablePart::Index, footer.index, decode)? {
            Some(index) => self.take_index(&index),
            None => {
                let scan = self.scan(footer.data_bytes)?;
                self.take_blocks(scan);
            }
        }
        Ok(())
    }

    /// Reads the lists of names. They are wanted by nobody who has the entries.
    fn read_names(&mut self, all: Handle) -> Result<()> {
        let Some(properties) = &self.properties else { return Ok(()) };
        let counts: Vec<u64> = properties.named.iter().map(|one| one.count).collect();
        let mut counts = counts.into_iter();
        let mut offset = all.offset;
        for frame in properties.lists.clone() {
            let handle = Handle { offset, bytes: u64::from(frame.bytes) };
            offset += handle.bytes;
            if offset > all.offset + all.bytes {
                break;
            }
            let counts = counts.by_ref().take(frame.segments as usize);
            let decode = |payload: &[u8]| Ok(decode_lists(payload, counts)?);
            self.part(TablePart::Names, handle, decode)?;
        }
        if offset != all.offset + all.bytes {
            let what = "the lists of names do not fill their place";
            self.note(TablePart::Names, all.offset, all.offset + all.bytes, what);
        }
        Ok(())
    }

    /// Without a footer: looks for everything.
    fn read_by_scan(&mut self) -> Result<()> {
        let front = self.file.bytes().saturating_sub(FOOTER_BYTES as u64);
        let scan = self.scan(front)?;
        if let Some(handle) = scan.properties {
            self.properties = self.part(TablePart::Properties, handle, TableProperties::decode)?;
        }
        if let Some(handle) = scan.filter {
            let decode = |payload: &[u8]| Ok(Filter::decode(payload)?);
            self.filter = self.part(TablePart::Filter, handle, decode)?;
        }
        let tombstone_count = self.properties.as_ref().map(|known| known.range_tombstone_count);
        match scan.range_tombstones {
            Some(handle) => {
                self.range_tombstones =
                    self.part(TablePart::RangeTombstones, handle, decode_range_tombstones)?;
            }
            None if tombstone_count == Some(0) => {
                self.range_tombstones = Some(Fragments::default());
            }
            None => {}
        }
        if let Some(handle) = scan.index {
            let data_bytes = scan.blocks.last().map_or(0, |last| last.offset + last.bytes);
            let decode = |payload: &[u8]| Ok(BlockIndex::decode_either(payload, data_bytes)?);
            if let Some(index) = self.part(TablePart::Index, handle, decode)? {
                self.take_index(&index);
                return Ok(());
            }
        }
        // Behind the last block that was found others may have stood.
        let offset = scan.blocks.last().map_or(0, |last| last.offset + last.bytes);
        let end = self.file.bytes().max(offset);
        self.take_blocks(scan);
        self.note(TablePart::Data, offset, end, "no index says how far the data goes");
        Ok(())
    }

    fn scan(&self, front_bytes: u64) -> Result<Scan> {
        let Some(uid) = self.uid.filter(|_| front_bytes <= SCAN_BYTES_MAX) else {
            return Ok(Scan::default());
        };
        let bytes = self.read(Handle { offset: 0, bytes: front_bytes })?.unwrap_or_default();
        let scan = scan(&bytes, uid);
        match &scan.no_codec {
            None => Ok(scan),
            Some(text) => Err(self.no_codec(text)),
        }
    }

    fn take_index(&mut self, index: &BlockIndex) {
        self.blocks = blocks_of(index);
        self.index = Some((index.memory_bytes() as u64, index.trie().map(MashMeta::key_count)));
    }

    fn take_blocks(&mut self, scan: Scan) {
        let handles = scan.blocks.into_iter().enumerate();
        self.blocks =
            handles.map(|(index, handle)| SurveyedBlock { handle, keys: None, index }).collect();
        self.damage.extend(scan.gaps.into_iter().map(|gap| (TablePart::Data, gap)));
    }
}

fn decode_range_tombstones(payload: &[u8]) -> std::result::Result<Fragments, FormatError> {
    let decoded = range_tombstones::decode(payload)?.into_iter();
    Ok(Fragments::new(decoded.map(|(start, end, seqno)| RangeTombstone { start, end, seqno })))
}

fn blocks_of(index: &BlockIndex) -> Vec<SurveyedBlock> {
    let mut start = Vec::new();
    let blocks = 0..index.block_count();
    blocks
        .map(|block| {
            let separator = index.separator(block);
            // The smallest key above the separator.
            let above = [&separator[..], &[0]].concat();
            let next = match index.goes_on_after(block) {
                Some(_) => separator.to_vec(),
                None => above.clone(),
            };
            let keys = KeyRange::new(std::mem::replace(&mut start, next), Some(above));
            SurveyedBlock { handle: index.handle(block), keys: Some(keys), index: block }
        })
        .collect()
}

impl fmt::Debug for TableSurvey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableSurvey")
            .field("file", &self.file)
            .field("uid", &self.uid)
            .field("blocks", &self.blocks.len())
            .field("damage", &self.damage)
            .finish_non_exhaustive()
    }
}
