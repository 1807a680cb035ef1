//! Damaged tables: what is damaged is noticed, and nothing wrong is ever answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_base::{Checksum, SeqNo, TableUid, compare_internal};

use super::golden::naming_model;
use super::*;
use crate::Error;
use crate::iter::{Cursor, Stream};
use crate::survey::{TablePart, TableSurvey};
use crate::table::format::footer::{FOOTER_BYTES, Footer, Handle};

/// A table of a few blocks with something of everything.
fn model() -> Model {
    let mut rng = SeededRng::new(11);
    let mut model = Model::default();
    for number in 0..24u64 {
        let key = format!("key{:03}", number / 2);
        let value: Vec<u8> = (0..rng.index(40)).map(|at| (at / 6) as u8).collect();
        model.put(key.as_bytes(), number + 10, &value);
    }
    for seqno in 1000..1020 {
        model.put(b"key005", seqno, b"one of many versions");
    }
    let mut entry = model.all()[3].clone();
    entry.seqno = SeqNo(500);
    entry.kind = EntryKind::Tombstone;
    entry.expiry = Expiry::from_stored(1_000_000);
    entry.value.clear();
    model.insert(entry);
    let (start, end) = (b"key002".to_vec(), b"key004".to_vec());
    model.range_tombstones.push(Deleted { start, end, seqno: SeqNo(3) });
    model
}

fn specimen(compression: Compression) -> (Model, Vec<u8>) {
    let model = model();
    let (_, bytes) = build(&model, UID, &options(300, compression));
    (model, bytes)
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Corruption(_) | Error::Unsupported(_))
}

/// Reads everything in every way. Answers must be right or refused; returns whether any was
/// refused, or the filter was.
fn read_everything(model: &Model, bytes: Vec<u8>, context: &str) -> bool {
    let mut refused = false;
    let mut refuse = |error: Error| {
        assert!(is_refusal(&error), "{context}: {error:?}");
        refused = true;
    };
    let reader = match open(bytes, 100_000) {
        Ok(reader) => reader,
        Err(error) => {
            refuse(error);
            return true;
        }
    };
    for read_point in [SeqNo(15), SeqNo::MAX] {
        for number in 0..13 {
            let key = format!("key{number:03}").into_bytes();
            let expected = model.get(&key, read_point).map(|entry| entry.as_ref());
            if expected.is_some() {
                assert!(reader.may_contain(filter_hash(&key)), "{context}");
            }
            match reader.get(&key, read_point, ReadMode::BLOCK) {
                Ok(found) => {
                    let found = found.as_ref().map(|found| found.entry(&key));
                    assert_eq!(found, expected, "{context}");
                }
                Err(error) => refuse(error),
            }
        }
        let visible = model.visible(read_point);
        let mut cursor = reader.cursor(read_point, ReadMode::BLOCK);
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
    match reader.stream(None) {
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
    assert_eq!(Deleted::all_of(reader.range_tombstones()), model.range_tombstones, "{context}");
    match reader.verify(None) {
        Ok(_) => assert!(reader.filter_damage().is_none(), "{context}"),
        Err(error) => refuse(error),
    }
    refused
}

#[test]
fn every_flipped_bit_is_detected_and_never_answered_wrongly() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (model, bytes) = specimen(compression);
        assert!(!read_everything(&model, bytes.clone(), "intact"));
        let mut flipped = bytes.clone();
        for bit in 0..bytes.len() * 8 {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let context = format!("{compression:?}, bit {bit} of {} bytes", bytes.len());
            assert!(read_everything(&model, flipped.clone(), &context), "{context}: undetected");
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_other_length_is_detected() {
    let (_, bytes) = specimen(Compression::Lz4);
    for length in 0..bytes.len() {
        let error = open(bytes[..length].to_vec(), 0).unwrap_err();
        assert!(error.is_corruption(), "cut to {length}: {error:?}");
    }
    for extra in [1, 128, 4096] {
        for fill in [0, 0xff] {
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + extra, fill);
            assert!(open(longer, 0).unwrap_err().is_corruption(), "{extra} more");
        }
    }
}

#[test]
fn zeroed_and_foreign_pages_are_detected() {
    let (model, bytes) = specimen(Compression::None);
    let (_, other) = build(&model, TableUid(99), &options(300, Compression::None));
    assert_eq!(bytes.len(), other.len());
    for page in 0..bytes.len().div_ceil(512) {
        let place = page * 512..bytes.len().min(page * 512 + 512);
        let mut zeroed = bytes.clone();
        zeroed[place.clone()].fill(0);
        assert!(read_everything(&model, zeroed, &format!("page {page} zeroed")));
        let mut foreign = bytes.clone();
        foreign[place.clone()].copy_from_slice(&other[place]);
        assert!(read_everything(&model, foreign, &format!("page {page} of another table")));
    }
}

/// Where everything of an intact table lies: data blocks first.
fn handles(bytes: &[u8]) -> Vec<Handle> {
    let reader = open(bytes.to_vec(), 0).unwrap();
    let mut handles: Vec<Handle> =
        (0..reader.index.block_count()).map(|block| reader.index.handle(block)).collect();
    let footer = &reader.footer;
    handles.extend([footer.filter, footer.index].into_iter().filter(|handle| !handle.is_none()));
    handles.extend(Some(footer.range_tombstones).filter(|handle| !handle.is_none()));
    handles.extend(reader.list_places().map(|place| place.handle));
    handles.push(footer.properties);
    handles
}

fn place(handle: Handle) -> std::ops::Range<usize> {
    handle.offset as usize..(handle.offset + handle.bytes) as usize
}

#[test]
fn blocks_that_changed_places_are_detected() {
    let mut model = Model::default();
    for number in 0..100 {
        model.put(format!("{number:04}").as_bytes(), 7, b"values of one size");
    }
    let (_, bytes) = build(&model, UID, &options(300, Compression::None));
    let (_, other) = build(&model, TableUid(UID.0 + 1), &options(300, Compression::None));
    let blocks: Vec<Handle> = handles(&bytes);
    let mut swaps = 0;
    for a in 0..blocks.len() {
        let mut foreign = bytes.clone();
        foreign[place(blocks[a])].copy_from_slice(&other[place(blocks[a])]);
        let error = open(foreign, 0).and_then(|reader| reader.verify(None)).unwrap_err();
        assert!(error.is_corruption(), "block {a} of another table: {error:?}");
        for b in a + 1..blocks.len() {
            if blocks[a].bytes != blocks[b].bytes {
                continue;
            }
            let mut swapped = bytes.clone();
            swapped[place(blocks[a])].copy_from_slice(&bytes[place(blocks[b])]);
            swapped[place(blocks[b])].copy_from_slice(&bytes[place(blocks[a])]);
            let reader = open(swapped, 0).unwrap();
            assert!(reader.verify(None).unwrap_err().is_corruption(), "{a} and {b}");
            let error = reader.get(b"0000", SeqNo::MAX, ReadMode::BLOCK);
            assert!(a > 0 || error.unwrap_err().is_corruption());
            swaps += 1;
        }
    }
    assert!(swaps > 10, "{swaps} pairs of one size");
}

#[test]
fn a_table_that_is_not_the_expected_one_is_refused() {
    let (_, bytes) = specimen(Compression::Lz4);
    let length = bytes.len() as u64;
    let file: Arc<dyn TableFile> = Arc::new(MemoryTableFile::new("specimen.table", bytes));
    let open = |expected| TableReader::open(file.clone(), Arc::new(BlockCache::new(0)), expected);
    assert!(open(Some((UID, length))).is_ok());
    for wrong in [(TableUid(1), length), (UID, length + 1), (UID, length - 1), (UID, 0)] {
        let error = open(Some(wrong)).unwrap_err();
        assert!(error.is_corruption(), "{error:?}");
        assert!(error.to_string().contains("specimen.table"), "{error}");
    }
    let reader = open(None).unwrap();
    let hash = reader.verify(None).unwrap().hash;
    assert!(reader.verify(Some(hash)).is_ok());
    assert!(reader.verify(Some(hash ^ 1)).unwrap_err().is_corruption());
}

#[test]
fn a_damaged_filter_costs_speed_and_no_answers() {
    let (model, mut bytes) = specimen(Compression::None);
    let filter = handles(&bytes)[handles(&bytes).len() - 4];
    bytes[filter.offset as usize] ^= 1;
    assert!(read_everything(&model, bytes.clone(), "filter"));
    let reader = open(bytes, 0).unwrap();
    assert_eq!(reader.filter_damage().unwrap().offset, filter.offset);
    assert!(reader.may_contain(filter_hash(b"absent")));
    assert!(reader.get(b"key003", SeqNo::MAX, ReadMode::BLOCK).unwrap().is_some());
    assert!(reader.verify(None).is_err());
}

#[test]
fn damage_names_its_file_and_offset() {
    let (_, mut bytes) = specimen(Compression::None);
    let block = handles(&bytes)[2];
    bytes[block.offset as usize + 20] ^= 0x10;
    let reader = open(bytes, 0).unwrap();
    match reader.verify(None) {
        Err(Error::Corruption(corruption)) => {
            assert_eq!(corruption.offset, block.offset);
            assert_eq!(corruption.file.to_str(), Some("specimen.table"));
        }
        other => panic!("{other:?}"),
    }
}

/// Writes the checksum of a frame anew, as a forger would.
fn seal_again(bytes: &mut [u8], handle: Handle) {
    let frame = &mut bytes[place(handle)];
    let covered = frame.len() - 4;
    let checksum = Checksum::at(UID.0, handle.offset).bytes(&frame[..covered]).finish();
    frame[covered..].copy_from_slice(&checksum.to_le_bytes());
}

/// Whether a stream gives exactly the model's entries; they are in order in any case.
fn holds_the_entries(model: &Model, reader: &Arc<TableReader>) -> bool {
    let mut stream = reader.stream(None).unwrap();
    let mut entries: Vec<Entry> = Vec::new();
    while let Some(entry) = stream.entry() {
        entries.push(entry.to_entry());
        stream.advance().unwrap();
    }
    let in_order = |pair: &[Entry]| {
        compare_internal(&pair[0].key, pair[0].seqno, &pair[1].key, pair[1].seqno).is_lt()
    };
    assert!(entries.windows(2).all(in_order));
    entries.iter().eq(model.entries.values())
}

/// Whether every get and both scans answer as the model does.
fn answers_are_right(model: &Model, reader: &Arc<TableReader>) -> bool {
    let visible = model.visible(SeqNo::MAX);
    let gets = visible.iter().all(|entry| {
        reader.may_contain(filter_hash(&entry.key))
            && reader.get(&entry.key, SeqNo::MAX, ReadMode::BLOCK).is_ok_and(|found| {
                found.map(|found| found.entry(&entry.key).to_entry()).as_ref() == Some(entry)
            })
    });
    let scan = |forward: bool| -> crate::Result<Vec<Entry>> {
        let mut cursor = reader.cursor(SeqNo::MAX, ReadMode::BLOCK);
        let mut entries = Vec::new();
        let mut stands = if forward { cursor.seek(b"")? } else { cursor.seek_back(None)? };
        while let Some(entry) = cursor.entry() {
            assert!(stands, "a move says that it came to nothing");
            entries.push(entry.to_entry());
            stands = if forward { cursor.next()? } else { cursor.prev()? };
        }
        assert!(!stands, "a move says that it came to something");
        if !forward {
            entries.reverse();
        }
        Ok(entries)
    };
    let is_all = |scan: crate::Result<Vec<Entry>>| {
        scan.is_ok_and(|entries| entries.iter().eq(visible.iter().copied()))
    };
    gets && is_all(scan(true)) && is_all(scan(false))
}

#[test]
fn a_full_check_finds_what_a_forger_of_checksums_broke() {
    let (model, bytes) = specimen(Compression::None);
    let handles = handles(&bytes);
    let [filter, index, range_tombstones, properties] = handles[handles.len() - 4..] else {
        panic!("the specimen has all parts");
    };
    let hash = open(bytes.clone(), 0).unwrap().verify(None).unwrap().hash;
    let mut forged = bytes.clone();
    for (part, handle) in
        [("filter", filter), ("index", index), ("properties", properties), ("data", handles[0])]
    {
        let mut found = 0;
        for bit in place(handle).start * 8..(place(handle).end - 5) * 8 {
            forged[bit / 8] ^= 1 << (bit % 8);
            seal_again(&mut forged, handle);
            let context = format!("{part}, bit {bit}");
            let reader = open(forged.clone(), 100_000);
            if let Ok(reader) = &reader {
                assert!(reader.verify(Some(hash)).is_err(), "{context}: another hash");
            }
            match reader.and_then(|reader| reader.verify(None).map(|_| reader)) {
                Err(error) => {
                    assert!(is_refusal(&error), "{context}: {error:?}");
                    found += 1;
                }
                // What the check lets through must not matter to anyone, unless it is content.
                Ok(reader) if !holds_the_entries(&model, &reader) => assert_eq!(part, "data"),
                Ok(reader) => assert!(answers_are_right(&model, &reader), "{context}"),
            }
            forged[bit / 8] ^= 1 << (bit % 8);
            seal_again(&mut forged, handle);
        }
        assert!(found > 0, "{part}");
        assert!(forged == bytes);
    }
    assert_eq!(open(bytes, 0).unwrap().range_tombstones().len(), 1);
    assert!(!range_tombstones.is_none());
}

#[test]
fn the_properties_are_those_of_the_entries_or_damaged() {
    let (_, bytes) = specimen(Compression::None);
    let handle = *handles(&bytes).last().unwrap();
    let intact = open(bytes.clone(), 0).unwrap().properties().clone();
    let changes: [fn(&mut TableProperties); 12] = [
        |properties| properties.block_count += 1,
        |properties| properties.entry_count += 1,
        |properties| properties.key_count -= 1,
        |properties| properties.tombstone_count = 3,
        |properties| properties.merge_operand_count = 1,
        |properties| properties.raw_key_bytes -= 1,
        |properties| properties.raw_value_bytes += 1,
        |properties| properties.least_seqno.0 += 1,
        |properties| properties.greatest_seqno.0 += 1,
        |properties| properties.smallest[3] = b'!',
        |properties| properties.largest[3] = b'~',
        |properties| properties.data_bytes -= 1,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut properties = intact.clone();
        change(&mut properties);
        let mut payload = Vec::new();
        properties.encode(&mut payload);
        let mut forged = bytes.clone();
        assert_eq!(payload.len(), place(handle).len() - 5, "change {number}");
        forged[place(handle).start..place(handle).end - 5].copy_from_slice(&payload);
        seal_again(&mut forged, handle);
        let outcome = open(forged, 0).and_then(|reader| reader.verify(None));
        assert!(outcome.unwrap_err().is_corruption(), "change {number}");
    }
}

/// Goes through everything and ignores what is answered; every walk must come to an end.
fn exercise(bytes: Vec<u8>, context: &str) {
    let Ok(reader) = open(bytes, 100_000) else { return };
    let _ = reader.verify(None);
    for read_point in [SeqNo(0), SeqNo(15), SeqNo(1010), SeqNo::MAX] {
        for number in 0..13 {
            let key = format!("key{number:03}").into_bytes();
            if let Ok(Some(found)) = reader.get(&key, read_point, ReadMode::BLOCK) {
                let _ = found.entry(&key);
            }
        }
        let mut cursor = reader.cursor(read_point, ReadMode::BLOCK);
        for forward in [true, false] {
            let placed = if forward { cursor.seek(b"") } else { cursor.seek_back(None) };
            if placed.is_err() {
                continue;
            }
            let mut steps = 0;
            while let Some(seqno) = cursor.entry().map(|entry| entry.seqno) {
                let _ = cursor.older(seqno);
                if cursor.entry().is_none() {
                    break;
                }
                let moved = if forward { cursor.next() } else { cursor.prev() };
                if moved.is_err() {
                    break;
                }
                steps += 1;
                assert!(steps < 100_000, "{context}: a walk without end");
            }
        }
    }
    if let Ok(mut stream) = reader.stream(None) {
        let mut steps = 0;
        while stream.entry().is_some() && stream.advance().is_ok() {
            steps += 1;
            assert!(steps < 100_000, "{context}: a stream without end");
        }
    }
}

#[test]
fn forged_tables_never_panic_and_never_loop() {
    let specimens = [Compression::None, Compression::Lz4, Compression::Zstd]
        .map(|compression| specimen(compression).1);
    let numbers = [0u64, 1, 0x7f, 0x80, 0xff, 0xffff, 1 << 31, (1 << 32) - 1, 1 << 63, u64::MAX];
    for seed in 0..6000u64 {
        let mut rng = SeededRng::new(seed);
        let mut bytes = specimens[(seed % 3) as usize].clone();
        let handles = handles(&bytes);
        let handle = if rng.one_in(4) { handles[0] } else { rng.pick(&handles) };
        let payload = place(handle).start..place(handle).end - 5;
        for _ in 0..rng.index(4) + 1 {
            let at = payload.start + rng.index(payload.len());
            match rng.index(4) {
                0 => bytes[at] ^= 1 << rng.index(8),
                1 => bytes[at] = rng.next_u64() as u8,
                2 => {
                    let number = rng.pick(&numbers).to_le_bytes();
                    let end = payload.end.min(at + rng.pick(&[2, 4, 8]));
                    bytes[at..end].copy_from_slice(&number[..end - at]);
                }
                // Bytes of another place of the same block.
                _ => {
                    let from = payload.start + rng.index(payload.len());
                    let count = rng.index(16).min(payload.end - at).min(payload.end - from);
                    bytes.copy_within(from..from + count, at);
                }
            }
        }
        if rng.one_in(8) {
            bytes[payload.end] = rng.index(4) as u8;
        }
        seal_again(&mut bytes, handle);
        exercise(bytes, &format!("seed {seed}"));
    }
}

#[test]
fn forged_footers_never_panic() {
    let (_, specimen) = specimen(Compression::None);
    let footer_at = specimen.len() - FOOTER_BYTES;
    for seed in 0..3000u64 {
        let mut rng = SeededRng::new(seed);
        let mut bytes = specimen.clone();
        for _ in 0..rng.index(3) + 1 {
            let at = footer_at + 16 + rng.index(FOOTER_BYTES - 20);
            bytes[at] = if rng.one_in(2) { rng.next_u64() as u8 } else { bytes[at] ^ 1 };
        }
        let checksum = Checksum::at(UID.0, footer_at as u64)
            .bytes(&bytes[footer_at..footer_at + FOOTER_BYTES - 4])
            .finish();
        bytes[footer_at + FOOTER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        exercise(bytes, &format!("seed {seed}"));
    }
    let footer: &[u8; FOOTER_BYTES] = specimen[footer_at..].try_into().unwrap();
    assert!(Footer::decode(footer, specimen.len() as u64).is_ok());
}

/// Goal: no damage to lists gives a wrong list, or keeps entries from being read. Method: every bit
/// of them is flipped.
#[test]
fn a_damaged_list_is_noticed_and_keeps_no_entry_back() {
    let model = naming_model();
    let (_, bytes) = build(&model, UID, &options(300, Compression::None));
    let footer = open(bytes.clone(), 0).unwrap().footer.clone();
    let asked: BTreeSet<FileId> =
        open(bytes.clone(), 0).unwrap().properties().named.iter().map(|one| one.segment).collect();
    let mut flipped = bytes.clone();
    for bit in place(footer.names).start * 8..place(footer.names).end * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        let reader = open(flipped.clone(), 0).unwrap();
        let error = reader.named_values(&asked).unwrap_err();
        assert!(error.is_corruption(), "bit {bit}: {error:?}");
        assert!(holds_the_entries(&model, &reader) && answers_are_right(&model, &reader));
        assert!(reader.verify(None).unwrap_err().is_corruption(), "bit {bit}");
        let survey = TableSurvey::open(Arc::clone(&reader.file), Some(UID)).unwrap();
        let parts: Vec<TablePart> = survey.damage.iter().map(|(part, _)| *part).collect();
        assert_eq!(parts, [TablePart::Names], "bit {bit}");
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn lists_that_are_not_those_of_the_entries_are_told_with_what_to_do() {
    let (_, bytes) = build(&naming_model(), UID, &options(300, Compression::None));
    let names = open(bytes.clone(), 0).unwrap().footer.names;
    // The first list begins behind the form: its first offset becomes another one.
    let mut forged = bytes.clone();
    forged[place(names).start + 1] ^= 1;
    seal_again(&mut forged, names);
    let reader = open(forged, 0).unwrap();
    let asked = reader.properties().named.iter().map(|one| one.segment).collect();
    assert!(reader.named_values(&asked).is_ok(), "nobody can tell but by the entries");
    match reader.verify(None) {
        Err(Error::Corruption(found)) => {
            assert_eq!(found.file.to_str(), Some("specimen.table"));
            assert_eq!(found.offset, names.offset);
            for word in ["lacks", "and has", "the first at offset", "terrace repair"] {
                assert!(found.detail.contains(word), "{}", found.detail);
            }
        }
        other => panic!("{other:?}"),
    }
}

/// Without footer and index, blocks and what stands behind lists are found all the same.
#[test]
fn a_survey_without_a_footer_goes_on_behind_lists() {
    let model = naming_model();
    let (_, mut bytes) = build(&model, UID, &options(300, Compression::None));
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let file: Arc<dyn TableFile> = Arc::new(MemoryTableFile::new("specimen.table", bytes));
    let survey = TableSurvey::open(file, Some(UID)).unwrap();
    assert!(survey.footer.is_none());
    let properties = survey.properties.as_ref().expect("they stand behind the lists");
    assert_eq!(properties.entry_count, model.entries.len() as u64);
    let content = |block| survey.block(block).unwrap().unwrap().entries().unwrap();
    let entries: Vec<Entry> = survey.blocks.iter().flat_map(content).collect();
    assert!(entries.iter().eq(model.entries.values()));
}
