//! Reading a log on while somebody else writes it.
//!
//! # Why
//! A replay reads a log that nobody writes, and judges its end. A secondary reads one that grows
//! under its eyes: the end that it finds is where the writers have come to, and says nothing of
//! damage. What it has read once it need not read again.
//!
//! ```text
//!   segment 7            segment 8                      segment 9: not begun
//!  ┌────────────────┐   ┌───────────────────────────┐  ┌────────────────┐
//!  │ h │ r │ r │ r  │ → │ h │ r │ r │ r ░░░ │ r │    │  │ old bytes      │
//!  └────────────────┘   └───────────────────────────┘  └────────────────┘
//!                        mark ▲       ▲ not whole yet: the next reading goes on here
//! ```
//!
//! # Why nothing is missing
//! Acknowledged is only what is published, and before that every record that stands before it is
//! complete. So the complete records that begin at the mark, without a gap, hold all that was
//! acknowledged when the reading began, as long as the bytes that are read are those of the log.
//! They may not be: a segment that the writer releases becomes another one under another name, and
//! an open that writes the end of the log again replaces segments (decision 33). Both give the file
//! another name before they change a byte of it. So a reading finds the chain of segments twice,
//! before it reads and after it has read: if the first chain stands at the beginning of the second,
//! with the same identities, nobody had changed any of it. Otherwise the caller has to look at the
//! manifest again.
//!
//! A record that was read belongs to the log in any case: its checksum begins with the identity of
//! its segment and its place in it.

use std::path::Path;

use terrace_base::{Corruption, FileId, LogPosition};
use terrace_env::Env;

use super::format::{RECORD_HEADER_BYTES, RecordKind, SEGMENT_HEADER_BYTES, next_likely_record};
use super::local_log::{segment_id, segment_path};
use super::replay::{
    Buffers, Found, HeaderRead, LogFacts, ReadRecord, Window, chain_of, decode_record, read_header,
};
use super::sink::Visit;
use crate::{Error, Result};

/// How much is read at once: little was written since the last time, as a rule.
const WINDOW_BYTES: usize = if cfg!(test) { 1 << 10 } else { 64 << 10 };

/// How often the files are listed anew because one of them was renamed in between.
const LISTINGS_MAX: u32 = 100;

/// The place in a log up to which somebody has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMark {
    /// The segment that the next record is looked for in.
    pub segment: FileId,
    /// Which use of the segment's file it is.
    pub identity: u128,
    /// Everything below was handed over, or lies below the position where a replay starts.
    pub position: LogPosition,
}

/// What came of reading on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOn {
    /// All records up to the mark were handed over.
    To {
        /// Where the next reading goes on; none if the log has no segment yet.
        mark: Option<LogMark>,
        /// Whether these are all that were complete when the reading began. If not, the writer
        /// has released or replaced segments meanwhile.
        is_whole: bool,
    },
    /// What was read before the mark does not stand in the log like that any more: an open wrote
    /// the end of the log again. The log has to be read anew, from its start.
    Rewritten,
}

/// Reads on behind `mark`, or from where `facts` say the log starts, until `bytes_max` bytes of
/// records were handed over; see [`LogStore::read_on`](super::LogStore::read_on).
pub(super) fn read_on(
    env: &dyn Env,
    dir: &Path,
    facts: &LogFacts,
    mark: Option<LogMark>,
    bytes_max: u64,
    visit: &mut Visit<'_>,
) -> Result<ReadOn> {
    if let Some(elsewhere) = facts.directories.first() {
        return Err(Error::Unsupported(format!(
            "the log of this database lies in {}, and a secondary follows a log in the database's \
             own directory only; open the database without a log path of its own to have it followed",
            elsewhere.display()
        )));
    }
    let Some(first) = facts.start.segment else {
        return Ok(ReadOn::To { mark: None, is_whole: true });
    };
    let chain = find_chain(env, dir, facts)?;
    if chain.is_empty() {
        let detail = "the log segment that the manifest names is missing or has no valid header";
        return Err(Corruption::new(segment_path(dir, first), 0, detail).into());
    }
    let Some(mut reading) = Reading::begin(&chain, facts, mark)? else {
        return Ok(ReadOn::Rewritten);
    };
    reading.bytes_left = bytes_max;
    if !reading.read(visit)? {
        return Ok(ReadOn::Rewritten);
    }
    let mark = reading.mark();
    let after = find_chain(env, dir, facts)?;
    let is_same = |(one, other): (&Found, &Found)| {
        one.header.file_id == other.header.file_id && one.header.identity == other.header.identity
    };
    let is_whole = chain.len() <= after.len() && chain.iter().zip(&after).all(is_same);
    let is_to_end = reading.bytes_left > 0;
    if is_whole && is_to_end && facts.durable > mark.position {
        let detail = format!(
            "nothing valid here, but the log was durable up to position {} (it is readable up to {})",
            facts.durable, mark.position
        );
        let path = segment_path(dir, mark.segment);
        return Err(Corruption::new(path, reading.offset(), detail).into());
    }
    Ok(ReadOn::To { mark: Some(mark), is_whole })
}

/// The segments from the start of the log on; none if the first one is not there.
fn find_chain(env: &dyn Env, dir: &Path, facts: &LogFacts) -> Result<Vec<Found>> {
    let mut outcome = Ok(None);
    for _ in 0..LISTINGS_MAX {
        // A file that becomes another segment while it is opened may look like damage.
        outcome = list_chain(env, dir, facts);
        if let Ok(Some(_)) = outcome {
            break;
        }
    }
    outcome?.ok_or_else(|| {
        Error::Outdated(format!(
            "the files of the log in {} were renamed {LISTINGS_MAX} times while they were listed; \
             catch up again",
            dir.display()
        ))
    })
}

/// As [`find_chain`]; `None` if a file lost its name in between.
fn list_chain(env: &dyn Env, dir: &Path, facts: &LogFacts) -> Result<Option<Vec<Found>>> {
    let mut begun = Vec::new();
    for entry in env.fs().list(dir)? {
        let id = segment_id(&entry.name).filter(|_| !entry.is_dir);
        // Each segment has a greater id than those before it.
        let Some(id) = id.filter(|id| Some(*id) >= facts.start.segment) else { continue };
        let path = segment_path(dir, id);
        let file = match env.fs().open(&path) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if let HeaderRead::Begun(header) = read_header(file.as_ref(), &path, id, facts.database)? {
            if header.database != facts.database {
                let detail = "the segment belongs to another database";
                return Err(Corruption::new(path, 72, detail).into());
            }
            begun.push(Found { header, directory: 0, path, file });
        }
    }
    let chain: Vec<_> =
        chain_of(&begun, facts.start).iter().map(|segment| segment.header.file_id).collect();
    begun.retain(|segment| chain.contains(&segment.header.file_id));
    begun.sort_by_key(|segment| segment.header.file_id);
    Ok(Some(begun))
}

/// A walk along the chain.
struct Reading<'a> {
    chain: &'a [Found],
    index: usize,
    position: LogPosition,
    /// Records below are settled, and not handed over.
    settled: LogPosition,
    /// Records are handed over until they have so many bytes.
    bytes_left: u64,
}

impl<'a> Reading<'a> {
    /// Begins at the mark; `None` if the log does not hold any more what was read before it.
    fn begin(
        chain: &'a [Found],
        facts: &LogFacts,
        mark: Option<LogMark>,
    ) -> Result<Option<Reading<'a>>> {
        let settled = facts.start.position;
        let base = chain[0].header.base;
        if base > settled {
            let detail = "the segment does not begin where the log starts";
            return Err(Corruption::new(&chain[0].path, 0, detail).into());
        }
        let reading = |index, position| {
            Some(Reading { chain, index, position, settled, bytes_left: u64::MAX })
        };
        let Some(mark) = mark else { return Ok(reading(0, base)) };
        let is_marked = |found: &Found| {
            found.header.file_id == mark.segment && found.header.identity == mark.identity
        };
        match chain.iter().position(is_marked) {
            Some(index) => Ok(reading(index, mark.position)),
            // What was read is released, and so is whatever stood between that and the start.
            None if mark.position <= settled => Ok(reading(0, base)),
            None => Ok(None),
        }
    }

    /// Hands over what is complete; false if a segment goes on before the place where this stands.
    fn read(&mut self, visit: &mut Visit<'_>) -> Result<bool> {
        let mut buffers = Buffers::default();
        loop {
            let successor = self.chain.get(self.index + 1).map(|next| next.header.base);
            self.read_segment(&mut buffers, successor, visit)?;
            match successor {
                Some(base) if base == self.position && self.bytes_left > 0 => self.index += 1,
                Some(base) if base < self.position => return Ok(false),
                _ => return Ok(true),
            }
        }
    }

    /// Hands over what is complete of the segment that this stands in.
    fn read_segment(
        &mut self,
        buffers: &mut Buffers,
        successor: Option<LogPosition>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let segment = &self.chain[self.index];
        let mut window = Window::of(segment.file.as_ref(), buffers, WINDOW_BYTES);
        while self.bytes_left > 0 && successor.is_none_or(|end| self.position < end) {
            let offset = self.offset();
            if !may_begin(&mut window, offset)? {
                break;
            }
            let at = window.reach(offset)?;
            let rest = window.bytes.get(at..).unwrap_or_default();
            let Ok((header, body)) = decode_record(rest, segment.header.identity, offset) else {
                break;
            };
            if header.kind == RecordKind::Batch && self.position >= self.settled {
                let start = at + RECORD_HEADER_BYTES;
                visit(ReadRecord {
                    position: self.position,
                    file: &segment.path,
                    offset,
                    header: &header,
                    buffer: &window.bytes,
                    body: start..start + body.len(),
                })?;
                self.bytes_left = self.bytes_left.saturating_sub(header.padded_bytes());
            }
            self.position.0 += header.padded_bytes();
        }
        Ok(())
    }

    /// Where in its segment this stands.
    fn offset(&self) -> u64 {
        let base = self.chain[self.index].header.base;
        SEGMENT_HEADER_BYTES + (self.position.0 - base.0)
    }

    fn mark(&self) -> LogMark {
        let header = &self.chain[self.index].header;
        let (segment, identity) = (header.file_id, header.identity);
        LogMark { segment, identity, position: self.position }
    }
}

/// Whether a record may begin at `offset`, by the looks of its header: what an earlier use of the
/// file left there may say any length, and is not worth reading for that.
fn may_begin(window: &mut Window<'_>, offset: u64) -> Result<bool> {
    window.cover(offset, RECORD_HEADER_BYTES)?;
    let header = window.from(offset).get(..RECORD_HEADER_BYTES).unwrap_or_default();
    Ok(next_likely_record(header, 0) == Some(0))
}
