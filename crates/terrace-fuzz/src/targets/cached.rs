//! The files of the persistent cache: metadata of a table, and records of a bucket.

use terrace_engine::cache::persistent::format::{
    BucketShape, RECORD_BYTES, SlotRecord, checksum_of, decode_header, decode_meta, encode_header,
    encode_meta,
};
use terrace_engine::survey::BucketSurvey;

use super::Target;
use crate::notes::{note, note_result, note_size};
use crate::seal;

/// A file of the persistent cache. The first byte says which, and whether its checksum is set
/// right.
pub const CACHED: Target = Target {
    name: "cached",
    about: "metadata and records of the persistent cache",
    run: cached,
    seeds,
    words: &[b"terr.mtc", b"terr.bkt"],
    ..Target::DEFAULT
};

/// The table that files are read for.
const TABLE: u128 = 7;

const SLOT_BYTES: u32 = 4160;

fn cached(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    match choice % 3 {
        0 => meta(rest),
        1 => {
            let mut sealed = rest.to_vec();
            seal::cached_metadata(&mut sealed, TABLE);
            meta(&sealed);
        }
        _ => records(rest),
    }
}

fn meta(file: &[u8]) {
    let decoded = decode_meta(file, TABLE);
    note_result("metadata", &decoded);
    let Ok((offset, tail)) = decoded else { return };
    note("whole");
    assert_eq!(encode_meta(TABLE, offset, tail), file, "metadata have one coding");
}

fn records(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk()
        && let Ok((shape, database)) = decode_header(header)
    {
        note("header");
        assert_eq!(encode_header(shape, database), *header, "a header has one coding");
    }
    // What an inspection shows of the file, whatever is in it.
    if let Ok(survey) = BucketSurvey::read(bytes) {
        note_size("slots", survey.slots.len());
    }
    let (records, _) = bytes.as_chunks::<RECORD_BYTES>();
    let decoded: Vec<SlotRecord> = records
        .iter()
        .filter_map(|record| {
            SlotRecord::decode(record, SLOT_BYTES).map(|decoded| (record, decoded))
        })
        .map(|(record, decoded)| {
            assert_eq!(decoded.encode(), *record, "a record has one coding");
            assert!((1..=SLOT_BYTES).contains(&decoded.bytes), "it says what fits");
            decoded
        })
        .collect();
    note_size("records", decoded.len());
}

fn seeds() -> Vec<Vec<u8>> {
    let tails = [&b""[..], b"a tail", &[9; 300]];
    let metas = tails.into_iter().flat_map(|tail| {
        let file = encode_meta(TABLE, 5000, tail);
        [[&[0], &file[..]].concat(), [&[1], &file[..]].concat()]
    });
    let record = |offset: u64, bytes: &[u8]| {
        let (length, checksum) = (bytes.len() as u32, checksum_of(TABLE, offset, bytes));
        SlotRecord { table: TABLE, offset, bytes: length, checksum }.encode()
    };
    let shape = BucketShape { slot_bytes: SLOT_BYTES, slot_count: 3 };
    let bucket = [
        &encode_header(shape, 11)[..],
        &record(0, b"a block"),
        &[0; RECORD_BYTES],
        &record(1 << 40, &[3; 4101]),
    ];
    metas.chain([[&[2], &bucket.concat()[..]].concat()]).collect()
}
