//! Rows in pages: opened, checked, read in every way.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{ByteReader, KeyRange, SeqNo, TableUid, WallTime, put_bytes, put_varint};
use terrace_engine::iter::{Cursor, Stream};
use terrace_engine::l0::triangle::Pages;
use terrace_engine::l0::triangle::row::format::{
    HEAD_PLACE, Head, ListedPage, METADATA_PLACE, page_checksum,
};
use terrace_engine::l0::triangle::row::{RowBuilder, RowLocation, RowReader, SeekTrail};
use terrace_engine::range_tombstone::{Fragments, RangeTombstone};
use terrace_engine::table::filter_hash;
use terrace_env::PmemRecorder;

use super::Target;
use super::table_file::next_part;
use super::table_parts::sample_entries;
use crate::notes::{note, note_result, note_size};

/// Whole rows. The first byte says whether the rest is the head's page, which is sealed, or the
/// parts of which a row is put together; and whether some of its keys are consumed.
pub const ROW: Target = Target {
    name: "row",
    about: "rows in pages: opened, verified, read in every way",
    run: row,
    seeds: row_seeds,
    words: &[b"terr.row", b"user:", b"\x80\x01"],
    executions: 200_000,
    memory_fixed_bytes: 1 << 20,
    memory_per_byte: 512,
    ..Target::DEFAULT
};

const PAGE_BYTES: usize = 4096;
const DATABASE: u128 = 7;
const UID: TableUid = TableUid(77);
/// Where the head lies: behind the container's header.
const HEAD: RowLocation = RowLocation(1);
/// A walk ends here: what has more entries was made of the parts of a bigger input than there are.
const STEPS_MAX: usize = PAGE_BYTES;

fn row(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let image = match choice & 1 {
        0 => headed(rest),
        _ => assemble(rest),
    };
    let pages = Pages::mount(PmemRecorder::over(&image).pmem(), Path::new("l0.rows"), DATABASE);
    let pages = pages.expect("the container's own header is whole");
    let consumed = if choice & 2 == 0 { Vec::new() } else { vec![KeyRange::prefix(b"user:1")] };
    let opened = RowReader::open(&pages, HEAD, None, &consumed);
    note_result("open", &opened.as_ref().map_err(ToString::to_string));
    let Ok(row) = opened else { return };
    let verified = row.verify(None);
    note_result("verify", &verified.as_ref().map_err(ToString::to_string));
    let seen = walk(&row);
    walk_back(&row);
    search(&row);
    match (verified, seen) {
        (Ok(_), Some(seen)) if consumed.is_empty() => check_verified(&row, &seen),
        _ => {}
    }
    row.release(&[KeyRange::new("user:10", None)]);
    let _ = walk(&row);
}

/// All entries as a stream gives them, unless it fails.
fn walk(row: &Arc<RowReader>) -> Option<Vec<(Vec<u8>, SeqNo)>> {
    let stream = row.stream(&KeyRange::all());
    note_result("stream", &stream.as_ref().map_err(ToString::to_string));
    let mut stream = stream.ok()?;
    let mut seen = Vec::new();
    while let Some(entry) = stream.entry() {
        seen.push((entry.key.to_vec(), entry.seqno));
        assert!(seen.len() <= row.len(), "a stream goes round");
        let advanced = stream.advance();
        note_result("advance", &advanced.as_ref().map_err(ToString::to_string));
        advanced.ok()?;
    }
    note_size("entries", seen.len());
    Some(seen)
}

fn walk_back(row: &Arc<RowReader>) {
    let mut cursor = row.cursor(SeqNo(9), Some(Arc::new(SeekTrail::default())));
    let mut moved = cursor.seek_back(None);
    for step in 0..STEPS_MAX {
        note_result("back", &moved.as_ref().map_err(ToString::to_string));
        let Some(entry) = cursor.entry().filter(|_| moved.is_ok()) else { break };
        assert!(entry.seqno <= SeqNo(9), "a cursor shows nothing above its read point");
        let (key, seqno) = (entry.key.to_vec(), entry.seqno);
        if step % 3 == 0 {
            let _ = cursor.older(seqno);
            moved = cursor.seek(&key);
        }
        if moved.is_ok() && cursor.entry().is_some() {
            moved = cursor.prev();
        }
    }
}

fn search(row: &RowReader) {
    for key in [&b""[..], b"user:1", b"user:10-a-long-name-2", &[0xff; 40]] {
        let got = row.get(key, SeqNo(100));
        note_result("get", &got.as_ref().map_err(ToString::to_string));
        if let Ok(Some(entry)) = got {
            assert!(entry.seqno() <= SeqNo(100), "a get sees nothing above its read point");
        }
        let below = row.bytes_within(&KeyRange::new("", Some(key.to_vec())));
        assert!(below <= row.properties().data_bytes, "a part has no more bytes than the whole");
        let _ = row.range_tombstones().newest_covering(key, SeqNo::MAX);
    }
}

/// What a verified row must answer: the same by every way.
fn check_verified(row: &Arc<RowReader>, seen: &[(Vec<u8>, SeqNo)]) {
    note("verified and read");
    assert_eq!(row.properties().entry_count, seen.len() as u64);
    let mut cursor = row.cursor(SeqNo::MAX, None);
    cursor.seek(b"").expect("a verified row");
    let is_newest =
        |(index, (key, _)): &(usize, &(Vec<u8>, SeqNo))| *index == 0 || seen[index - 1].0 != *key;
    for (_, (key, seqno)) in seen.iter().enumerate().filter(is_newest) {
        let entry = cursor.entry().expect("a cursor shows every key");
        assert_eq!((entry.key, entry.seqno), (key.as_slice(), *seqno));
        cursor.next().expect("a verified row");
    }
    assert!(cursor.entry().is_none(), "and no other");
    for (key, seqno) in seen {
        let got = row.get(key, *seqno).expect("a verified row");
        assert_eq!(got.map(|entry| entry.seqno()), Some(*seqno), "every version is found");
        assert!(row.may_contain(filter_hash(key)), "the filter denies no key");
    }
}

/// The container's header, and no row.
fn empty_container(pages: usize) -> Vec<u8> {
    let recorder = PmemRecorder::new((pages * PAGE_BYTES) as u64);
    let path = Path::new("l0.rows");
    drop(Pages::format(recorder.pmem(), path, PAGE_BYTES as u64, DATABASE).expect("memory"));
    content(&recorder)
}

fn content(recorder: &PmemRecorder) -> Vec<u8> {
    let pmem = recorder.pmem();
    pmem.claim(0, pmem.bytes()).expect("nobody has any of it").to_vec()
}

fn place(image: &mut [u8], page: usize, bytes: &[u8]) {
    image[page * PAGE_BYTES..][..bytes.len()].copy_from_slice(bytes);
}

/// A container in which the head of a row is these bytes, sealed.
fn headed(bytes: &[u8]) -> Vec<u8> {
    let mut head = bytes[..bytes.len().min(PAGE_BYTES)].to_vec();
    head.resize(PAGE_BYTES, 0);
    let uid = u128::from_le_bytes(*head[16..].first_chunk().expect("a page is longer"));
    let (covered, stored) = head.split_last_chunk_mut::<4>().expect("a page is longer");
    *stored = page_checksum(TableUid(uid), HEAD_PLACE, covered).to_le_bytes();
    let mut image = empty_container(5);
    place(&mut image, 1, &head);
    image
}

/// A container with the row that has these parts: how many entries, and the metadata with its
/// length in front, the data.
fn assemble(parts: &[u8]) -> Vec<u8> {
    let mut reader = ByteReader::new(parts);
    let entry_count = reader.varint().unwrap_or(0) as u32;
    let metadata = next_part(&mut reader);
    let data = reader.rest();
    let (metadata_bytes, data_bytes) = (metadata.len() as u64, data.len() as u64);
    let head = Head { uid: UID, entry_count, metadata_bytes, data_bytes };
    let of_metadata = metadata.chunks(PAGE_BYTES).zip(0..).map(|page| (METADATA_PLACE, page));
    let of_data = data.chunks(PAGE_BYTES).zip(0..).map(|page| (0, page));
    let pages: Vec<(u64, (&[u8], u64))> = of_metadata.chain(of_data).collect();
    let mut image = empty_container(2 + pages.len());
    let mut list = Vec::new();
    for (number, (start, (bytes, index))) in (2..).zip(pages) {
        place(&mut image, number, bytes);
        let page = &image[number * PAGE_BYTES..][..PAGE_BYTES];
        let checksum = page_checksum(UID, start + index * PAGE_BYTES as u64, page);
        list.push(ListedPage { number: number as u32, checksum });
    }
    place(&mut image, 1, &head.encode(&list, 0, PAGE_BYTES));
    image
}

/// A container with a row as the builder writes it.
fn built(has_tombstones: bool) -> Vec<u8> {
    let recorder = PmemRecorder::new(8 * PAGE_BYTES as u64);
    let path = Path::new("l0.rows");
    let pages = Pages::format(recorder.pmem(), path, PAGE_BYTES as u64, DATABASE).expect("memory");
    let builder = RowBuilder::new(&pages, UID, WallTime(5), Vec::new());
    let mut builder = builder.with_filter(10);
    for entry in sample_entries() {
        builder.add(entry.as_ref()).expect("there is room");
    }
    let deleted = [(&b"user:1"[..], &b"user:2"[..], 20), (b"z", b"zz", 30)];
    let deleted =
        deleted.map(|(start, end, seqno)| RangeTombstone { start, end, seqno: SeqNo(seqno) });
    let deleted = Fragments::new(deleted.into_iter().filter(|_| has_tombstones));
    drop(builder.finish(&deleted).expect("there is room"));
    drop(pages);
    content(&recorder)
}

/// The parts of a row that the builder wrote, as [`assemble`] takes them.
fn taken_apart(image: &[u8]) -> Vec<u8> {
    let pages: Vec<&[u8]> = image.chunks(PAGE_BYTES).collect();
    let (head, list) = heads(&pages).next().expect("there is a row");
    let bytes: Vec<u8> =
        list.iter().flat_map(|listed| pages[listed.number as usize]).copied().collect();
    let metadata_pages = head.page_counts(PAGE_BYTES).0 as usize;
    let (metadata, data) = bytes.split_at(metadata_pages * PAGE_BYTES);
    let mut parts = Vec::new();
    put_varint(&mut parts, u64::from(head.entry_count));
    put_bytes(&mut parts, &metadata[..head.metadata_bytes as usize]);
    parts.extend_from_slice(&data[..head.data_bytes as usize]);
    parts
}

fn heads<'a>(pages: &'a [&'a [u8]]) -> impl Iterator<Item = (Head, Vec<ListedPage>)> + 'a {
    let decoded = pages.iter().filter_map(|page| Head::decode(page, pages.len() as u64).ok());
    decoded.map(|(head, list, _)| (head, list))
}

fn row_seeds() -> Vec<Vec<u8>> {
    let whole = built(true);
    let is_head = |page: &&[u8]| page.starts_with(b"terr.row");
    let head = whole.chunks(PAGE_BYTES).find(is_head).expect("there is a row");
    vec![
        // The list ends before this.
        [&[0], &head[..128]].concat(),
        [&[1], &taken_apart(&whole)[..]].concat(),
        [&[3], &taken_apart(&whole)[..]].concat(),
        [&[1], &taken_apart(&built(false))[..]].concat(),
    ]
}
