use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Corruption, LogPosition, SeqNo, WallTime};
use terrace_env::{PlantedBug, is_planted};

use super::format::{LogContent, LogObject, LogRecords, StoredRecord, encode_fence, records_in};
use super::objects::LogObjects;
use crate::cloud::format::Author;
use crate::cloud::numbered::Placed;
use crate::version::StoreLog;
use crate::wal::format::RecordHeader;
use crate::wal::{ReadRecord, Visit};
use crate::{Error, Result};

/// What was read stays in memory up to so many bytes; the rest is read again when it is needed. In
/// tests that is nearly all of it.
pub(super) const KEPT_BYTES: usize = if cfg!(test) { 200 } else { 128 << 20 };

/// Records of one chain that are asked for behind a point are read so many objects longer: one may
/// have moved to a later number than those that follow on it.
const OBJECTS_BEHIND_POINT: usize = 16;

/// Up to where the records behind a moment are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogPoint {
    /// All of them.
    #[default]
    End,
    /// Those that were gathered until then, by the owner's clock.
    Time(WallTime),
    /// Those up to this number.
    Number(SeqNo),
}

impl fmt::Display for LogPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogPoint::End => f.write_str("the end of the log"),
            LogPoint::Time(time) => write!(f, "{time:#}"),
            LogPoint::Number(number) => write!(f, "number {}", number.0),
        }
    }
}

impl LogPoint {
    /// Whether all records of an object lie behind the point.
    fn is_before(self, records: &LogRecords) -> bool {
        match self {
            LogPoint::End => false,
            LogPoint::Time(time) => records.gathered > time,
            LogPoint::Number(number) => {
                let first = records_in(&records.bytes, records.chain, records.base).next();
                first.is_some_and(|first| first.is_ok_and(|it| it.header.first_seqno > number))
            }
        }
    }

    /// Whether a record lies behind the point, wholly or in part.
    fn cuts(self, header: &RecordHeader) -> bool {
        match self {
            LogPoint::End | LogPoint::Time(_) => false,
            LogPoint::Number(number) => {
                header.first_seqno.0 + u64::from(header.seqno_count) > number.0 + 1
            }
        }
    }
}

/// The records behind a moment, as far as they follow on it without a gap.
#[derive(Debug)]
pub struct LogRun {
    objects: LogObjects,
    /// Where the moment is, and where the records end.
    from: LogPosition,
    end: LogPosition,
    chain: u64,
    pieces: Vec<RunPiece>,
    point: LogPoint,
    /// The first number that was not read: the one behind the fence, if the log was fenced.
    next: u64,
}

#[derive(Debug)]
struct RunPiece {
    number: u64,
    base: LogPosition,
    gathered: WallTime,
    object: Option<Arc<Vec<u8>>>,
}

/// Takes a record, with the name and the bytes of the object that it stands in.
pub type VisitStored<'a> = dyn FnMut(&Path, &Arc<Vec<u8>>, StoredRecord) -> Result<()> + 'a;

/// Objects of one chain, in the order of their numbers.
#[derive(Debug, Default)]
struct Found {
    pieces: Vec<(LogPosition, RunPiece)>,
    kept_bytes: usize,
}

impl Found {
    fn add(&mut self, number: u64, records: LogRecords) {
        let LogRecords { base, end, gathered, bytes, .. } = records;
        self.kept_bytes += bytes.len();
        let object = (self.kept_bytes <= KEPT_BYTES).then(|| Arc::new(bytes));
        self.pieces.push((end, RunPiece { number, base, gathered, object }));
    }

    /// Those that follow on a position without a gap, and where they end.
    fn behind(mut self, from: LogPosition) -> (Vec<RunPiece>, LogPosition) {
        self.pieces.sort_by_key(|(_, piece)| piece.base);
        let (mut pieces, mut end) = (Vec::new(), from);
        for (piece_end, piece) in self.pieces {
            let follows = piece.base <= end || is_planted(PlantedBug::LogWithGaps);
            if piece_end > end && follows {
                end = piece_end;
                pieces.push(piece);
            } else if piece_end > end {
                break;
            }
        }
        (pieces, end)
    }
}

impl LogRun {
    /// Reads the log behind the moment that says `moment`, or only looks for its end from `number`
    /// on, and fences it in the name of `author`. `on_bytes` hears of the bytes of each object.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's. A fence may be there then.
    pub fn take(
        objects: &LogObjects,
        moment: StoreLog,
        author: Author,
        mut on_bytes: impl FnMut(u64),
    ) -> Result<LogRun> {
        let mut found = Found::default();
        let next = read_and_fence(objects, moment, author, |number, of, records| {
            on_bytes(records.bytes.len() as u64);
            if of.epoch == moment.epoch && records.chain == moment.chain {
                found.add(number, records);
            }
        })?;
        let (pieces, end) = found.behind(moment.position);
        let (objects, point) = (objects.clone(), LogPoint::End);
        let StoreLog { chain, position: from, .. } = moment;
        Ok(LogRun { objects, from, end, chain, pieces, point, next })
    }

    /// Reads the log behind the moment that says `moment`, up to a point, and changes nothing:
    /// others may write it meanwhile.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn read(objects: &LogObjects, moment: StoreLog, point: LogPoint) -> Result<LogRun> {
        let mut found = Found::default();
        let mut next = moment.number;
        let mut count_behind = 0;
        for (number, object) in objects.read_each(moment.number..) {
            let Some(object) = object? else { break };
            next = number + 1;
            // What comes behind a later owner's object came too late.
            if object.author.epoch > moment.epoch {
                break;
            }
            let is_of_owner = object.author.epoch == moment.epoch;
            let records = object.records().filter(|records| records.chain == moment.chain);
            let Some(records) = records.filter(|_| is_of_owner) else { continue };
            if !point.is_before(&records) {
                found.add(number, records);
                continue;
            }
            count_behind += 1;
            if count_behind == OBJECTS_BEHIND_POINT {
                break;
            }
        }
        let (pieces, end) = found.behind(moment.position);
        let StoreLog { chain, position: from, .. } = moment;
        Ok(LogRun { objects: objects.clone(), from, end, chain, pieces, point, next })
    }

    /// When the last of its records were gathered, by their owner's clock; `None` if there are no
    /// records, or that is not known.
    #[must_use]
    pub fn gathered(&self) -> Option<WallTime> {
        self.pieces.last().map(|piece| piece.gathered).filter(|time| time.0 > 0)
    }

    /// Where the records end.
    #[must_use]
    pub fn end(&self) -> LogPosition {
        self.end
    }

    /// Where the moment is.
    #[must_use]
    pub fn from(&self) -> LogPosition {
        self.from
    }

    /// The first number that nobody has used.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// As [`LogRun::visit`], as a replay hands records over.
    pub fn replay(&self, visit: &mut Visit<'_>) -> Result<()> {
        self.visit(&mut |file, buffer, record| {
            visit(ReadRecord {
                position: record.position,
                file,
                offset: record.offset,
                header: &record.header,
                buffer,
                body: record.body,
            })
        })
    }

    /// Hands over all records up to the point, in the append order.
    ///
    /// Errors: those of `visit`; `Outdated` if an object is gone by now, `Corruption` if it is not
    /// any more what it was; the environment's.
    pub fn visit(&self, visit: &mut VisitStored<'_>) -> Result<()> {
        let mut position = self.from;
        let dropped = self.pieces.iter().filter(|piece| piece.object.is_none());
        let mut read_again = self.objects.read_each(dropped.map(|piece| piece.number));
        for piece in &self.pieces {
            let name = PathBuf::from(self.objects.name(piece.number).as_str());
            let object = match &piece.object {
                Some(object) => Some(Arc::clone(object)),
                None => {
                    let read = read_again.next().map(|(_, object)| object).transpose()?;
                    let records = read.flatten().and_then(LogObject::records);
                    records.map(|records| Arc::new(records.bytes))
                }
            };
            let Some(object) = object else {
                return Err(Error::Outdated(format!(
                    "{} was there a moment ago, and is gone: somebody else has the database by now, \
                     or its archive has let go of this; try again",
                    name.display()
                )));
            };
            for record in records_in(&object, self.chain, piece.base) {
                let record = record.map_err(|error| Corruption::from_codec(&name, 0, &error))?;
                if record.position < position {
                    continue;
                }
                if self.point.cuts(&record.header) {
                    return Ok(());
                }
                position = LogPosition(record.position.0 + record.header.padded_bytes());
                visit(&name, &object, record)?;
            }
        }
        Ok(())
    }
}

/// Hands over the records that stand behind a moment, each with its author, and fences the end; the
/// number behind the fence. What came too late has left a stone on return: its author, or an owner
/// between the two, may want the number yet.
fn read_and_fence(
    objects: &LogObjects,
    moment: StoreLog,
    author: Author,
    mut take: impl FnMut(u64, Author, LogRecords),
) -> Result<u64> {
    let mut at = match moment.number {
        // Without a moment nobody says where the log is: what an earlier owner left lies below.
        0 => objects.greatest_listed()?.max(1),
        number => number,
    };
    let mut fence: Option<Author> = None;
    let mut late = Vec::new();
    let mut take = |number, object: LogObject| {
        let of = object.author;
        match object.what {
            LogContent::Fence => fence = Some(of),
            LogContent::Stone => {}
            LogContent::Records(records) => {
                let is_late = fence.is_some_and(|fence| fence != of) || of.epoch < moment.epoch;
                match is_late {
                    true => late.push((number, of)),
                    false => take(number, of, records),
                }
            }
        }
    };
    loop {
        let mut gaps = 0;
        for (number, object) in objects.read_each(at..) {
            match object? {
                Some(object) => take(number, object),
                None if is_planted(PlantedBug::LogWithGaps) && gaps < 4 => {
                    gaps += 1;
                    continue;
                }
                None => break,
            }
            at = number + 1;
        }
        let fence = encode_fence(objects.names.database(), at, author);
        match objects.create(at, &fence)? {
            Placed::There { .. } => break,
            Placed::Taken(Some(object)) => take(at, object),
            Placed::Taken(None) => {
                return Err(Error::Fenced(format!(
                    "the log in {} was written from elsewhere while it was read; see that only one \
                     has the database open, and try again",
                    objects.store.url()
                )));
            }
        }
        at += 1;
    }
    for (number, of) in late {
        objects.put_stone(number, of)?;
    }
    Ok(at + 1)
}
