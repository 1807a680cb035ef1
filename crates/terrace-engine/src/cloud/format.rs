//! The bytes of the feed, of pins and of checkpoints. All integers are little-endian.
//!
//! ```text
//! every object
//!    0 preamble      16   magic, version 1
//!   16 database      16   the checksum starts from it
//!   32 number         8   of the feed, or of the pin; the checksum, too
//!   40 …                  as below
//!    . checksum       4   of everything before it
//!
//! feed/N, magic "terrfeed"              pin/N/held, magic "terrpins"
//!   40 epoch          8                   40 nonce         16   drawn by its maker
//!   48 nonce         16   of the owner    56 counter        8   grows at each renewal
//!   64 kind           1                   64 state          1   0 everything, 1 from a number
//!   65 extent         1   0 to 2                                on, 2 what a checkpoint names,
//!   66 zeros          6                                         3 released
//!   72 collected      8   snapshots       65 zeros          7
//!   80 first pin      8   snapshots       72 from           8
//!   88 count             varint           80 name              length varint, bytes
//!    . edits             each: length
//!                        varint, bytes  pin/N/fate, magic "terrfate"
//!                                         40 nonce         16   of whoever decided it
//! pin/N/checkpoint, magic "terrckpt"      56 fate          1   0 dropped, 1 sealed
//!   40 epoch          8   of the feed     57 zeros          7
//!   48 from           8   the number at which it was made
//!   56 at             8   milliseconds since 1970
//!   64 name              length varint, bytes
//!    . snapshot          length varint, bytes
//! ```
//! Kinds of the feed: 1 a fence, 2 edits, 3 a snapshot, which is one edit, 4 a stone, which stands
//! where a snapshot was collected. A fence and a stone have no edits. A fence has one more than the
//! number up to which its author has everything in the place of `collected`, or 0 if it does not
//! say. `extent` says how much of the database the feed comes to with this object: 0 some, 1 all
//! that there was at one moment, 2 all of it, of a database that was closed. Behind a fence nothing
//! is closed any more.
//!
//! What an edit consists of is not known here.

use terrace_base::{
    ByteReader, Checksum, CodecError, Epoch, PREAMBLE_BYTES, Preamble, PreambleError, SeqNo,
    put_bytes, put_varint,
};

use super::CheckpointName;

const FEED: Preamble = Preamble { magic: *b"terrfeed", version: 1 };
const PIN: Preamble = Preamble { magic: *b"terrpins", version: 1 };
const FATE: Preamble = Preamble { magic: *b"terrfate", version: 1 };
const CHECKPOINT: Preamble = Preamble { magic: *b"terrckpt", version: 1 };

/// Epochs, numbers and counters lie below: they can be counted on from, whatever an object says.
const NUMBER_END: u64 = 1 << 56;

/// Who wrote an object of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    /// The epoch of its owner.
    pub epoch: Epoch,
    /// Drawn by the owner when it opened: two that want the same epoch differ in it.
    pub nonce: u128,
}

/// An object of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedObject {
    /// Who wrote it.
    pub author: Author,
    /// What it says.
    pub what: FeedContent,
}

/// What an object of the feed says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedContent {
    /// From here on the feed belongs to the author.
    Fence {
        /// The author has everything up to this number, and nothing of earlier owners behind it, if
        /// it says so.
        through: Option<SeqNo>,
    },
    /// What changed, in its order.
    Edits {
        /// The edits.
        edits: Vec<Vec<u8>>,
        /// How much of the database the feed comes to.
        extent: Extent,
    },
    /// All that the feed comes to, so that it can be read from here on.
    Snapshot {
        /// The edit that begins an empty version.
        edit: Vec<u8>,
        /// How far collection is.
        collected: Collected,
        /// How much of the database the feed comes to.
        extent: Extent,
    },
    /// There was a snapshot, which was collected.
    Stone,
}

/// How much of a database its feed comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Some of it: the rest lies with its owner.
    Some,
    /// All that there was at one moment, as the store alone has it.
    Moment,
    /// As [`Extent::Moment`], and the owner has closed it: there is nothing else.
    Closed,
}

/// How far collection is: the next owner goes on from here, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Objects of the feed below this number are gone, but for fences and stones.
    pub feed: u64,
    /// Pins below this number count no more.
    pub pins: u64,
}

/// What a reader needs, or a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinObject {
    /// Drawn by its maker.
    pub nonce: u128,
    /// Grows at each renewal.
    pub counter: u64,
    /// What must stay.
    pub holds: Holds,
}

/// What a pin holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// All that is there.
    Everything,
    /// What any version of the feed names from this number on.
    From(u64),
    /// What this checkpoint names; all that is there, until it is sealed. It is not renewed.
    Checkpoint(CheckpointName),
    /// Nothing any more, for ever.
    Nothing,
}

/// What was decided of a pin, once and for ever, by whoever came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FateObject {
    /// Drawn by whoever decided it.
    pub nonce: u128,
    /// What it was.
    pub fate: Fate,
}

/// What may be decided of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// An owner of the database has dropped it: it holds nothing any more.
    Dropped,
    /// It holds what its checkpoint names until that is removed.
    Sealed,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointObject {
    /// What it is called.
    pub name: CheckpointName,
    /// The epoch of the feed at that time.
    pub epoch: Epoch,
    /// The number of the feed at which it was made.
    pub from: u64,
    /// The number of its pin.
    pub pin: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// All that the feed came to.
    pub snapshot: Vec<u8>,
}

pub(super) fn begin(preamble: Preamble, database: u128, number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&preamble.encode());
    out.extend_from_slice(&database.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out
}

pub(super) fn finish(mut out: Vec<u8>, database: u128, number: u64) -> Vec<u8> {
    let checksum = Checksum::at(database, number).bytes(&out).finish();
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Checks all around what an object says, and gives that, with the reader at offset 40.
pub(super) fn open(
    preamble: Preamble,
    bytes: &[u8],
    database: u128,
    number: u64,
) -> Result<ByteReader<'_>, PreambleError> {
    let (content, checksum) = bytes
        .split_last_chunk::<4>()
        .ok_or(CodecError { offset: 0, what: "an object ends within its header" })?;
    if u32::from_le_bytes(*checksum) != Checksum::at(database, number).bytes(content).finish() {
        let what = "wrong checksum, or an object of another name or database";
        return Err(CodecError { offset: content.len(), what }.into());
    }
    preamble.check(&mut ByteReader::new(content))?;
    let mut reader = ByteReader::new(content);
    reader.take(PREAMBLE_BYTES)?;
    if reader.u128()? != database || reader.u64()? != number {
        return Err(reader.error("an object of another name or database").into());
    }
    Ok(reader)
}

pub(super) fn number(reader: &mut ByteReader<'_>) -> Result<u64, CodecError> {
    let number = reader.u64()?;
    if number < NUMBER_END { Ok(number) } else { Err(reader.error("a number beyond all bounds")) }
}

pub(super) fn author(reader: &mut ByteReader<'_>) -> Result<Author, CodecError> {
    Ok(Author { epoch: Epoch(number(reader)?), nonce: reader.u128()? })
}

pub(super) fn zeros(reader: &mut ByteReader<'_>, count: usize) -> Result<(), CodecError> {
    let is_zero = reader.take(count)?.iter().all(|byte| *byte == 0);
    if is_zero { Ok(()) } else { Err(reader.error("reserved bytes are not zero")) }
}

fn name(reader: &mut ByteReader<'_>) -> Result<CheckpointName, CodecError> {
    let error = reader.error("not the name of a checkpoint");
    let text = str::from_utf8(reader.bytes()?).map_err(|_| error)?;
    CheckpointName::new(text).ok_or(error)
}

/// The bytes of `feed/N`.
#[must_use]
pub fn encode_feed(database: u128, number: u64, object: &FeedObject) -> Vec<u8> {
    let mut out = begin(FEED, database, number);
    out.extend_from_slice(&object.author.epoch.0.to_le_bytes());
    out.extend_from_slice(&object.author.nonce.to_le_bytes());
    let nothing = Collected { feed: 0, pins: 0 };
    let (kind, extent, collected, edits): (u8, Extent, Collected, &[Vec<u8>]) = match &object.what {
        FeedContent::Fence { through } => {
            let feed = through.and_then(|through| through.0.checked_add(1));
            let feed = feed.filter(|feed| *feed < NUMBER_END).unwrap_or(0);
            (1, Extent::Some, Collected { feed, pins: 0 }, &[])
        }
        FeedContent::Edits { edits, extent } => (2, *extent, nothing, edits),
        FeedContent::Snapshot { edit, collected, extent } => {
            (3, *extent, *collected, std::slice::from_ref(edit))
        }
        FeedContent::Stone => (4, Extent::Some, nothing, &[]),
    };
    let extent = match extent {
        Extent::Some => 0,
        Extent::Moment => 1,
        Extent::Closed => 2,
    };
    out.extend_from_slice(&[kind, extent, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&collected.feed.to_le_bytes());
    out.extend_from_slice(&collected.pins.to_le_bytes());
    put_varint(&mut out, edits.len() as u64);
    edits.iter().for_each(|edit| put_bytes(&mut out, edit));
    finish(out, database, number)
}

/// The inverse of [`encode_feed`].
pub fn decode_feed(database: u128, at: u64, bytes: &[u8]) -> Result<FeedObject, PreambleError> {
    let mut reader = open(FEED, bytes, database, at)?;
    let author = author(&mut reader)?;
    let kind = reader.u8()?;
    let extent = match reader.u8()? {
        0 => Extent::Some,
        1 => Extent::Moment,
        2 => Extent::Closed,
        _ => return Err(reader.error("no feed comes to so much").into()),
    };
    zeros(&mut reader, 6)?;
    let collected = Collected { feed: number(&mut reader)?, pins: number(&mut reader)? };
    let count = reader.varint_usize()?;
    // Each takes a byte at least, so a count that cannot be allocates nothing.
    let mut edits = Vec::with_capacity(count.min(reader.rest().len()));
    for _ in 0..count {
        edits.push(reader.bytes()?.to_vec());
    }
    reader.finish()?;
    let is_plain = collected == Collected { feed: 0, pins: 0 };
    let is_empty = is_plain && extent == Extent::Some;
    let what = match (kind, edits.len()) {
        (1, 0) if collected.pins == 0 && extent == Extent::Some => {
            FeedContent::Fence { through: collected.feed.checked_sub(1).map(SeqNo) }
        }
        (2, _) if is_plain => FeedContent::Edits { edits, extent },
        (3, 1) => {
            let edit = edits.pop().unwrap_or_default();
            FeedContent::Snapshot { edit, collected, extent }
        }
        (4, 0) if is_empty => FeedContent::Stone,
        _ => return Err(reader.error("no object of the feed is like this").into()),
    };
    Ok(FeedObject { author, what })
}

/// The bytes of `pin/N/held`.
#[must_use]
pub fn encode_pin(database: u128, at: u64, pin: &PinObject) -> Vec<u8> {
    let mut out = begin(PIN, database, at);
    out.extend_from_slice(&pin.nonce.to_le_bytes());
    out.extend_from_slice(&pin.counter.to_le_bytes());
    let (state, from, name): (u8, u64, &str) = match &pin.holds {
        Holds::Everything => (0, 0, ""),
        Holds::From(number) => (1, *number, ""),
        Holds::Checkpoint(name) => (2, 0, name.as_str()),
        Holds::Nothing => (3, 0, ""),
    };
    out.extend_from_slice(&[state, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&from.to_le_bytes());
    put_bytes(&mut out, name.as_bytes());
    finish(out, database, at)
}

/// The inverse of [`encode_pin`].
pub fn decode_pin(database: u128, at: u64, bytes: &[u8]) -> Result<PinObject, PreambleError> {
    let mut reader = open(PIN, bytes, database, at)?;
    let nonce = reader.u128()?;
    let counter = number(&mut reader)?;
    let state = reader.u8()?;
    zeros(&mut reader, 7)?;
    let from = number(&mut reader)?;
    let holds = match (state, from) {
        (2, 0) => Holds::Checkpoint(name(&mut reader)?),
        (state, from) => {
            if !reader.bytes()?.is_empty() {
                return Err(reader.error("a name where there is none").into());
            }
            match (state, from) {
                (0, 0) => Holds::Everything,
                (1, from) => Holds::From(from),
                (3, 0) => Holds::Nothing,
                _ => return Err(reader.error("no pin is like this").into()),
            }
        }
    };
    reader.finish()?;
    Ok(PinObject { nonce, counter, holds })
}

/// The bytes of `pin/N/fate`.
#[must_use]
pub fn encode_fate(database: u128, at: u64, object: FateObject) -> Vec<u8> {
    let mut out = begin(FATE, database, at);
    out.extend_from_slice(&object.nonce.to_le_bytes());
    let fate = match object.fate {
        Fate::Dropped => 0,
        Fate::Sealed => 1,
    };
    out.extend_from_slice(&[fate, 0, 0, 0, 0, 0, 0, 0]);
    finish(out, database, at)
}

/// The inverse of [`encode_fate`].
pub fn decode_fate(database: u128, at: u64, bytes: &[u8]) -> Result<FateObject, PreambleError> {
    let mut reader = open(FATE, bytes, database, at)?;
    let nonce = reader.u128()?;
    let fate = match reader.u8()? {
        0 => Fate::Dropped,
        1 => Fate::Sealed,
        _ => return Err(reader.error("no pin has such a fate").into()),
    };
    zeros(&mut reader, 7)?;
    reader.finish()?;
    Ok(FateObject { nonce, fate })
}

/// The bytes of `pin/N/checkpoint`.
#[must_use]
pub fn encode_checkpoint(database: u128, checkpoint: &CheckpointObject) -> Vec<u8> {
    let mut out = begin(CHECKPOINT, database, checkpoint.pin);
    out.extend_from_slice(&checkpoint.epoch.0.to_le_bytes());
    out.extend_from_slice(&checkpoint.from.to_le_bytes());
    out.extend_from_slice(&checkpoint.at_ms.to_le_bytes());
    put_bytes(&mut out, checkpoint.name.as_str().as_bytes());
    put_bytes(&mut out, &checkpoint.snapshot);
    finish(out, database, checkpoint.pin)
}

/// The inverse of [`encode_checkpoint`].
pub fn decode_checkpoint(
    database: u128,
    at: u64,
    bytes: &[u8],
) -> Result<CheckpointObject, PreambleError> {
    let mut reader = open(CHECKPOINT, bytes, database, at)?;
    let epoch = Epoch(number(&mut reader)?);
    let from = number(&mut reader)?;
    let at_ms = reader.u64()?;
    let name = name(&mut reader)?;
    let snapshot = reader.bytes()?.to_vec();
    reader.finish()?;
    Ok(CheckpointObject { name, epoch, from, pin: at, at_ms, snapshot })
}

#[cfg(test)]
mod tests {
    //! Goal: the bytes are those of the specimens, for ever, and nothing else is taken for them.

    use super::*;
    use crate::tests::specimens;

    const DATABASE: u128 = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    const AUTHOR: Author = Author { epoch: Epoch(7), nonce: 0xfeed };

    fn feed_objects() -> Vec<FeedObject> {
        let collected = Collected { feed: 9, pins: 2 };
        let edits = vec![b"one".to_vec(), Vec::new(), vec![5; 300]];
        [
            FeedContent::Fence { through: None },
            FeedContent::Edits { edits, extent: Extent::Some },
            FeedContent::Edits { edits: Vec::new(), extent: Extent::Closed },
            FeedContent::Snapshot { edit: b"all".to_vec(), collected, extent: Extent::Moment },
            FeedContent::Stone,
        ]
        .map(|what| FeedObject { author: AUTHOR, what })
        .into()
    }

    fn pins() -> Vec<PinObject> {
        let name = CheckpointName::new("nightly").unwrap();
        [Holds::Everything, Holds::From(12), Holds::Checkpoint(name), Holds::Nothing]
            .map(|holds| PinObject { nonce: 0xabc, counter: 3, holds })
            .into()
    }

    fn checkpoint() -> CheckpointObject {
        let name = CheckpointName::new("nightly").unwrap();
        let snapshot = b"all".to_vec();
        CheckpointObject { name, epoch: Epoch(7), from: 12, pin: 3, at_ms: 1000, snapshot }
    }

    type Decodes = Box<dyn Fn(&[u8]) -> Result<(), PreambleError>>;

    fn of_feed((number, object): (u64, FeedObject)) -> (Vec<u8>, Decodes) {
        let bytes = encode_feed(DATABASE, number, &object);
        let decode = move |bytes: &[u8]| {
            decode_feed(DATABASE, number, bytes).map(|read| assert_eq!(read, object))
        };
        (bytes, Box::new(decode))
    }

    /// Every object, with what reads it and asserts that it is the same.
    fn all() -> Vec<(Vec<u8>, Decodes)> {
        let mut all: Vec<(Vec<u8>, Decodes)> = Vec::new();
        all.extend((1..).zip(feed_objects()).map(of_feed));
        for (reader, pin) in (1..).zip(pins()) {
            let bytes = encode_pin(DATABASE, reader, &pin);
            let decode = move |bytes: &[u8]| {
                decode_pin(DATABASE, reader, bytes).map(|read| assert_eq!(read, pin))
            };
            all.push((bytes, Box::new(decode)));
        }
        for fate in [Fate::Dropped, Fate::Sealed] {
            let object = FateObject { nonce: 0xfeed, fate };
            let decode = move |bytes: &[u8]| {
                decode_fate(DATABASE, 4, bytes).map(|read| assert_eq!(read, object))
            };
            all.push((encode_fate(DATABASE, 4, object), Box::new(decode)));
        }
        let decode = |bytes: &[u8]| {
            decode_checkpoint(DATABASE, 3, bytes).map(|read| assert_eq!(read, checkpoint()))
        };
        all.push((encode_checkpoint(DATABASE, &checkpoint()), Box::new(decode)));
        // The last ones are those that came last.
        let what = FeedContent::Fence { through: Some(SeqNo(41)) };
        all.push(of_feed((6, FeedObject { author: AUTHOR, what })));
        all
    }

    #[test]
    fn objects_are_the_specimens() {
        let written: Vec<u8> = all().into_iter().flat_map(|(bytes, _)| bytes).collect();
        let mut specimen = &specimens::assert_as_ever("cloud/testdata/v1.objects", &written)[..];
        for (bytes, decode) in all() {
            let (one, rest) = specimen.split_at(bytes.len());
            decode(one).unwrap();
            specimen = rest;
        }
        assert!(specimen.is_empty());
    }

    #[test]
    fn what_is_cut_or_changed_is_refused() {
        for (whole, decode) in all() {
            for length in 0..whole.len() {
                assert!(decode(&whole[..length]).is_err(), "{length}");
            }
            for bit in 0..whole.len() * 8 {
                let mut changed = whole.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&changed).is_err(), "{bit}");
            }
            assert!(decode(&[&whole[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn an_object_of_another_place_is_refused() {
        let fence = encode_feed(DATABASE, 5, &feed_objects()[0]);
        assert!(decode_feed(DATABASE, 6, &fence).is_err());
        assert!(decode_feed(DATABASE + 1, 5, &fence).is_err());
        assert!(decode_pin(DATABASE, 5, &fence).is_err());
    }

    /// What a hostile store says, with a checksum that fits.
    #[test]
    fn what_cannot_be_is_refused_under_a_good_checksum() {
        for (whole, decode) in all() {
            let number = u64::from_le_bytes(whole[32..40].try_into().unwrap());
            let content = whole.len() - 4;
            let sealed = |mut bytes: Vec<u8>| {
                bytes.truncate(content);
                finish(bytes, DATABASE, number)
            };
            for byte in 0..content {
                let mut changed = whole.clone();
                changed[byte] = 0xff;
                // Either it is refused, or something else is read: nothing panics.
                let decode = std::panic::AssertUnwindSafe(&decode);
                let is_other = decode_any(&sealed(changed.clone()), number);
                assert!(is_other || decode(&sealed(changed)).is_err(), "{byte}");
            }
        }
        let mut huge = begin(FEED, DATABASE, 1);
        huge.extend_from_slice(&[0; 24]);
        huge.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
        huge.extend_from_slice(&[0; 16]);
        put_varint(&mut huge, u64::MAX);
        assert!(decode_feed(DATABASE, 1, &finish(huge, DATABASE, 1)).is_err());
    }

    /// Whether the bytes are an object of some kind.
    fn decode_any(bytes: &[u8], number: u64) -> bool {
        decode_feed(DATABASE, number, bytes).is_ok()
            || decode_pin(DATABASE, number, bytes).is_ok()
            || decode_fate(DATABASE, number, bytes).is_ok()
            || decode_checkpoint(DATABASE, number, bytes).is_ok()
    }

    #[test]
    fn an_object_of_a_later_version_is_unsupported() {
        let mut later = encode_feed(DATABASE, 1, &feed_objects()[0]);
        later[8] = 2;
        later[10] = 2;
        later.truncate(later.len() - 4);
        let later = finish(later, DATABASE, 1);
        assert_eq!(decode_feed(DATABASE, 1, &later), Err(PreambleError::Unsupported));
    }
}
