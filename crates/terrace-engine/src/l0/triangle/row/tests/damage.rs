//! Damaged containers: what is damaged is noticed, and nothing wrong is ever answered.

use terrace_base::{Entry, EntryKind, Expiry};

use super::*;
use crate::Error;

/// A row with something of everything, in a few pages.
pub(super) fn model() -> Model {
    let mut rng = SeededRng::new(11);
    let mut model = Model::default();
    for number in 0..40u64 {
        let key = format!("key{:03}", number / 2);
        let value: Vec<u8> = (0..rng.index(60)).map(|at| (at / 6) as u8).collect();
        model.put(key.as_bytes(), number + 10, &value);
    }
    for seqno in 1000..1020 {
        model.put(b"key005", seqno, b"one of many versions");
    }
    model.put(b"key007", 2000, &[b'x'; 4500]);
    model.insert(Entry {
        key: b"key001".to_vec(),
        seqno: SeqNo(500),
        kind: EntryKind::Tombstone,
        expiry: Expiry::from_stored(1_000_000),
        value: Vec::new(),
    });
    let (start, end) = (b"key002".to_vec(), b"key004".to_vec());
    model.range_tombstones.push(Deleted { start, end, seqno: SeqNo(3) });
    model
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Corruption(_) | Error::Unsupported(_))
}

/// Reads a row in every way. Answers must be right or refused; returns whether any was refused.
pub(super) fn read_everything(
    model: &Model,
    pages: &Arc<Pages>,
    location: RowLocation,
    expected: (TableUid, u64),
    context: &str,
) -> bool {
    let mut refused = false;
    let mut refuse = |error: Error| {
        assert!(is_refusal(&error), "{context}: {error:?}");
        refused = true;
    };
    let row = match RowReader::open(pages, location, Some(expected), &[]) {
        Ok(row) => row,
        Err(error) => {
            refuse(error);
            return true;
        }
    };
    for read_point in [SeqNo(15), SeqNo::MAX] {
        for number in 0..21 {
            let key = format!("key{number:03}").into_bytes();
            let expected = model.get(&key, read_point).map(|entry| entry.as_ref());
            match row.get(&key, read_point) {
                Ok(found) => {
                    let found = found.as_ref().map(|found| found.entry(&key));
                    assert_eq!(found, expected, "{context}");
                }
                Err(error) => refuse(error),
            }
        }
        let visible = model.visible(read_point);
        let mut cursor = row.cursor(read_point, None);
        let mut outcome = cursor.seek(b"");
        let mut expected = visible.iter();
        while outcome.is_ok() {
            let Some(entry) = cursor.entry() else { break };
            assert_eq!(Some(entry), expected.next().map(|entry| entry.as_ref()), "{context}");
            outcome = cursor.next();
        }
        match outcome {
            Ok(_) => assert!(expected.next().is_none(), "{context}: the scan ended too early"),
            Err(error) => refuse(error),
        }
        let mut outcome = cursor.seek_back(None);
        let mut expected = visible.iter().rev();
        while outcome.is_ok() {
            let Some(entry) = cursor.entry() else { break };
            assert_eq!(Some(entry), expected.next().map(|entry| entry.as_ref()), "{context}");
            outcome = cursor.prev();
        }
        match outcome {
            Ok(_) => assert!(expected.next().is_none(), "{context}: the scan ended too early"),
            Err(error) => refuse(error),
        }
    }
    let mut expected = model.entries.values();
    match row.stream(&KeyRange::all()) {
        Ok(mut stream) => loop {
            let Some(entry) = stream.entry() else {
                assert!(expected.next().is_none(), "{context}: the stream ended too early");
                break;
            };
            assert_eq!(Some(entry), expected.next().map(|entry| entry.as_ref()), "{context}");
            if let Err(error) = stream.advance() {
                refuse(error);
                break;
            }
        },
        Err(error) => refuse(error),
    }
    assert_eq!(Deleted::all_of(row.range_tombstones()), model.range_tombstones, "{context}");
    if let Err(error) = row.verify(None) {
        refuse(error);
    }
    refused
}

/// The content of a container with the one row.
fn specimen() -> (Vec<u8>, RowLocation, (TableUid, u64)) {
    let (recorder, pages) = container(6, 4096);
    let built = build(&pages, &model(), UID, Vec::new());
    assert!(pages.free_pages() <= 1, "the specimen fills its container");
    let (location, expected) = (built.reader.location(), (UID, built.meta.bytes));
    drop((built, pages));
    (content(&recorder.pmem()), location, expected)
}

#[test]
fn every_damaged_byte_is_detected_and_never_answered_wrongly() {
    let (bytes, location, expected) = specimen();
    let model = model();
    let intact = mount(&bytes).unwrap();
    assert!(!read_everything(&model, &intact, location, expected, "intact"));
    let row_end = 4096 + expected.1 as usize;
    let mut damaged = bytes.clone();
    for at in 0..bytes.len() {
        // One bit of each byte, and all of some.
        let flips = if at % 97 == 0 { 0xff } else { 1 << (at % 8) };
        damaged[at] ^= flips;
        let context = format!("byte {at} of {}, {flips:#x}", bytes.len());
        let refused = match mount(&damaged) {
            Ok(pages) => read_everything(&model, &pages, location, expected, &context),
            Err(error) => {
                assert!(is_refusal(&error), "{context}: {error:?}");
                assert!(error.to_string().contains("l0.rows"), "{error}");
                true
            }
        };
        // What the header leaves free says nothing, and neither do free pages.
        let is_dead = (56..4096).contains(&at) || at >= row_end;
        assert_eq!(refused, !is_dead, "{context}");
        damaged[at] ^= flips;
    }
}

#[test]
fn pages_that_changed_places_or_are_of_another_row_are_detected() {
    let (bytes, location, expected) = specimen();
    let model = model();
    let (recorder, pages) = container(6, 4096);
    // Pages of data that hold the same are the same.
    let mut another = model.clone();
    another.put(b"key000", 3000, b"shifts all the others");
    build(&pages, &another, TableUid(99), Vec::new());
    drop(pages);
    let other = content(&recorder.pmem());
    assert_eq!(bytes.len(), other.len());
    let page = |number: usize| number * 4096..(number + 1) * 4096;
    let count = expected.1 as usize / 4096;
    for one in 1..=count {
        let mut foreign = bytes.clone();
        foreign[page(one)].copy_from_slice(&other[page(one)]);
        let pages = mount(&foreign).unwrap();
        let context = format!("page {one} of another row");
        assert!(read_everything(&model, &pages, location, expected, &context), "{context}");
        let mut zeroed = bytes.clone();
        zeroed[page(one)].fill(0);
        let pages = mount(&zeroed).unwrap();
        let context = format!("page {one} zeroed");
        assert!(read_everything(&model, &pages, location, expected, &context), "{context}");
        for another in one + 1..=count {
            let mut swapped = bytes.clone();
            swapped[page(one)].copy_from_slice(&bytes[page(another)]);
            swapped[page(another)].copy_from_slice(&bytes[page(one)]);
            let pages = mount(&swapped).unwrap();
            let context = format!("pages {one} and {another}");
            assert!(read_everything(&model, &pages, location, expected, &context), "{context}");
        }
    }
}

#[test]
fn a_page_that_two_rows_name_is_damage_and_nothing_stays_claimed() {
    let (bytes, location, expected) = specimen();
    let pages = mount(&bytes).unwrap();
    let free = pages.free_pages();
    for number in 1..=(expected.1 / 4096) as u32 {
        let claimed = pages.claim(number).unwrap();
        let error = RowReader::open(&pages, location, Some(expected), &[]).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("l0.rows"), "{error}");
        drop(claimed);
        assert_eq!(pages.free_pages(), free);
    }
    for nowhere in [0, 6, u32::MAX] {
        let error = RowReader::open(&pages, RowLocation(nowhere), None, &[]).unwrap_err();
        assert!(error.is_corruption(), "{error}");
    }
    RowReader::open(&pages, location, Some(expected), &[]).unwrap();
}

#[test]
fn locations_round_trip_and_others_are_no_rows() {
    for number in [0, 1, 0xabcdef, u32::MAX] {
        let location = RowLocation(number).encode();
        assert_eq!(RowLocation::decode(&location), Some(RowLocation(number)));
    }
    for foreign in ["", "row@", "row@1", "row@0000000G", "row@+0000001", "000001-00000001.table"] {
        let location = crate::table::TableLocation::new(foreign);
        assert_eq!(RowLocation::decode(&location), None, "{foreign}");
    }
}
