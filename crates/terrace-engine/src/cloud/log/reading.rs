use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Corruption, LogPosition};
use terrace_env::{PlantedBug, is_planted};

use super::format::{LogContent, LogObject, LogRecords, StoredRecord, encode_fence, records_in};
use super::objects::LogObjects;
use crate::cloud::format::Author;
use crate::cloud::numbered::Placed;
use crate::version::StoreLog;
use crate::{Error, Result};

/// What was read stays in memory up to so many bytes; the rest is read again when it is needed.
const KEPT_BYTES: usize = 64 << 20;

/// The records behind a moment, as far as they follow on it without a gap; and the log is fenced.
#[derive(Debug)]
pub struct LogRun {
    objects: LogObjects,
    /// Where the moment is, and where the records end.
    from: LogPosition,
    end: LogPosition,
    chain: u64,
    pieces: Vec<RunPiece>,
    /// The number behind the fence.
    next: u64,
}

#[derive(Debug)]
struct RunPiece {
    number: u64,
    base: LogPosition,
    object: Option<Arc<Vec<u8>>>,
}

/// Takes a record, with the name and the bytes of the object that it stands in.
pub type VisitStored<'a> = dyn FnMut(&Path, &Arc<Vec<u8>>, StoredRecord) -> Result<()> + 'a;

impl LogRun {
    /// Reads the log behind the moment that says `moment`, or only looks for its end from `number`
    /// on, and fences it in the name of `author`.
    ///
    /// Errors: `Corruption`, `Unsupported`; the environment's. A fence may be there then.
    pub fn take(objects: &LogObjects, moment: StoreLog, author: Author) -> Result<LogRun> {
        let mut found = Vec::new();
        let mut kept_bytes = 0;
        let next = read_and_fence(objects, moment, author, |number, of, records| {
            if of.epoch != moment.epoch || records.chain != moment.chain {
                return;
            }
            let LogRecords { base, end, bytes, .. } = records;
            kept_bytes += bytes.len();
            let object = (kept_bytes <= KEPT_BYTES).then(|| Arc::new(bytes));
            found.push((end, RunPiece { number, base, object }));
        })?;
        found.sort_by_key(|(_, piece)| piece.base);
        let (from, mut end) = (moment.position, moment.position);
        let mut pieces = Vec::new();
        for (piece_end, piece) in found {
            let follows = piece.base <= end || is_planted(PlantedBug::LogWithGaps);
            if piece_end > end && follows {
                end = piece_end;
                pieces.push(piece);
            } else if piece_end > end {
                break;
            }
        }
        Ok(LogRun { objects: objects.clone(), from, end, chain: moment.chain, pieces, next })
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

    /// Hands over all records, in the append order.
    ///
    /// Errors: those of `visit`; `Corruption` if an object is not any more what it was; the
    /// environment's.
    pub fn visit(&self, visit: &mut VisitStored<'_>) -> Result<()> {
        let mut position = self.from;
        for piece in &self.pieces {
            let name = PathBuf::from(self.objects.name(piece.number).as_str());
            let read_again = match &piece.object {
                Some(_) => None,
                None => self.objects.read(piece.number)?.and_then(LogObject::records),
            };
            let read_again = read_again.map(|records| Arc::new(records.bytes));
            let Some(object) = piece.object.as_ref().or(read_again.as_ref()) else {
                let detail = "an object of the log was there a moment ago, and is gone";
                return Err(Corruption::new(name, 0, detail).into());
            };
            for record in records_in(object, self.chain, piece.base) {
                let record = record.map_err(|error| Corruption::from_codec(&name, 0, &error))?;
                if record.position < position {
                    continue;
                }
                position = LogPosition(record.position.0 + record.header.padded_bytes());
                visit(&name, object, record)?;
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
