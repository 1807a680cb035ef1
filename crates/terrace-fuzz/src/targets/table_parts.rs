//! The parts of a table, each by itself: what lies inside their frames.

use terrace_base::{
    ByteReader, Entry, EntryKind, Epoch, Expiry, FileId, KeyRange, SeqNo, TableUid, WallTime,
};
use terrace_engine::range_tombstone::{Fragments, RangeTombstone};
use terrace_engine::table::TableProperties;
use terrace_engine::table::format::block::BlockView;
use terrace_engine::table::format::block_builder::BlockBuilder;
use terrace_engine::table::format::filter::{Filter, filter_hash};
use terrace_engine::table::format::footer::{FOOTER_BYTES, Footer};
use terrace_engine::table::format::index::{Index, IndexBuilder};
use terrace_engine::table::format::names::{ListFrame, are_lists, decode_lists, encode_lists};
use terrace_engine::table::format::range_tombstones as range_tombstones_format;

use super::Target;
use super::manifest::sample_values;
use crate::notes::{note, note_result, note_size};

/// Data blocks.
pub const BLOCK: Target = Target {
    name: "block",
    about: "data blocks: layout, entries, keys, searches",
    run: block,
    seeds: block_seeds,
    executions: 700_000,
    ..Target::DEFAULT
};

/// Filters.
pub const FILTER: Target = Target {
    name: "filter",
    about: "filters",
    run: filter,
    seeds: || {
        let hashes: Vec<u64> = (0..60_u64).map(|key| filter_hash(&key.to_be_bytes())).collect();
        [(0, 10), (1, 1), (60, 10), (30, 48)]
            .map(|(keys, bits)| {
                let mut out = Vec::new();
                Filter::build(&hashes[..keys], bits).encode(&mut out);
                out
            })
            .to_vec()
    },
    executions: 2_500_000,
    bytes_max: 1024,
    ..Target::DEFAULT
};

/// Indexes. The first eight bytes are the bytes of data blocks that there are; 0 for those that the
/// index says.
pub const INDEX: Target = Target {
    name: "index",
    about: "indexes: separators, searches",
    run: index,
    seeds: index_seeds,
    executions: 900_000,
    ..Target::DEFAULT
};

/// Footers and properties. The first byte chooses, and says whether a footer is sealed again.
pub const FOOTER: Target = Target {
    name: "footer",
    about: "footers and properties",
    run: footer,
    seeds: footer_seeds,
    words: &[b"terr.tbl"],
    executions: 2_500_000,
    bytes_max: 1024,
    ..Target::DEFAULT
};

/// Frames of lists of names. The first byte says how many lists there are, and each of as many
/// bytes behind it how many names are in one.
pub const NAMES: Target = Target {
    name: "names",
    about: "lists of the values that a table points to",
    run: names,
    seeds: names_seeds,
    executions: 900_000,
    bytes_max: 1024,
    ..Target::DEFAULT
};

/// Range tombstones.
pub const RANGE_TOMBSTONES: Target = Target {
    name: "range_tombstones",
    about: "range tombstones, and what they cover",
    run: range_tombstones,
    seeds: range_tombstone_seeds,
    executions: 300_000,
    bytes_max: 1024,
    memory_per_byte: 512,
    ..Target::DEFAULT
};

fn block(data: &[u8]) {
    let view = BlockView::parse(data);
    note_result("block", &view);
    let Ok(view) = view else { return };
    note_size("entries", view.count());
    let mut key = Vec::new();
    let mut entries = Vec::new();
    let mut is_whole = true;
    for index in 0..view.count() {
        let entry = view.entry(index);
        note_result("entry", &entry);
        let Ok(entry) = entry else {
            is_whole = false;
            continue;
        };
        view.key_into(index, &entry, &mut key);
        let value = entry.value(data).to_vec();
        assert!(key.len() + value.len() <= 2 * data.len() + 8, "an entry lies in its block");
        let mut again = key.clone();
        view.next_key_into(index, &entry, &mut again);
        assert_eq!(key, again);
        let (seqno, kind, expiry) = (entry.seqno, entry.kind, entry.expiry);
        let owned = Entry { key: key.clone(), seqno, kind, expiry, value };
        entries.push((owned, entry.same_key));
    }
    let layout = view.check_layout();
    note_result("layout", &layout);
    for at in [0, data.len() / 2, data.len().saturating_sub(9)] {
        note_result("seek", &view.seek(&data[at..], SeqNo(7)));
    }
    let in_order = entries.windows(2).all(|pair| {
        let (a, b) = (&pair[0].0, &pair[1].0);
        terrace_base::compare_internal(&a.key, a.seqno, &b.key, b.seqno).is_lt()
            && (pair[1].1 == (a.key == b.key))
    });
    if layout.is_ok() && is_whole && in_order {
        note("in order");
        check_ordered_block(&view, &entries);
    }
}

/// A block that a builder could have written: everything in it is found, and building it anew
/// gives the same entries.
fn check_ordered_block(view: &BlockView<'_>, entries: &[(Entry, bool)]) {
    let mut builder = BlockBuilder::default();
    for (index, (entry, same_key)) in entries.iter().enumerate() {
        let found = view.seek(&entry.key, entry.seqno).expect("a block that was checked");
        assert_eq!(found.index, index, "an entry is found where it stands");
        assert!(found.same_key.is_some_and(|found| found.seqno == entry.seqno));
        assert!(builder.try_add(entry.as_ref(), *same_key, usize::MAX), "it has room");
    }
    let mut built = Vec::new();
    builder.finish(&mut built);
    let view = BlockView::parse(&built).expect("just built");
    view.check_layout().expect("just built");
    let mut key = Vec::new();
    for (index, (entry, same_key)) in entries.iter().enumerate() {
        let decoded = view.entry(index).expect("just built");
        view.key_into(index, &decoded, &mut key);
        assert_eq!((&key, decoded.seqno), (&entry.key, entry.seqno));
        assert_eq!((decoded.kind, decoded.expiry), (entry.kind, entry.expiry));
        assert_eq!((decoded.value(&built), decoded.same_key), (&entry.value[..], *same_key));
    }
}

fn filter(data: &[u8]) {
    let decoded = Filter::decode(data);
    note_result("filter", &decoded);
    if let Ok(filter) = decoded {
        note_size("lines", filter.memory_bytes());
        let mut again = Vec::new();
        filter.encode(&mut again);
        assert_eq!(again, data, "a filter has one coding");
        let admitted = (0..64_u64).filter(|key| filter.may_contain(key << 58 | key)).count();
        note_size("admitted", admitted);
    }
}

fn index(data: &[u8]) {
    let Some((claimed, payload)) = data.split_first_chunk::<8>() else { return };
    let stored = stored_index(payload);
    let data_bytes = match u64::from_le_bytes(*claimed) {
        0 => stored.iter().fold(0_u64, |sum, block| sum.saturating_add(block.0)),
        claimed => claimed,
    };
    let decoded = Index::decode(payload, data_bytes);
    note_result("index", &decoded);
    let Ok(index) = decoded else { return };
    note_size("blocks", index.block_count());
    assert_eq!(index.block_count(), stored.len());
    let mut builder = IndexBuilder::default();
    let mut end = 0;
    for (at, (frame_bytes, seqno, separator)) in stored.iter().enumerate() {
        let handle = index.handle(at);
        assert_eq!((handle.offset, handle.bytes), (end, *frame_bytes), "blocks lie back to back");
        end += frame_bytes;
        let goes_on = (*seqno != 0).then_some(SeqNo(*seqno));
        assert_eq!((index.separator(at), index.goes_on_after(at)), (*separator, goes_on));
        // A separator stands at or above everything in its block, and below the next.
        assert_eq!(index.seek(separator, SeqNo(*seqno)), at, "a separator leads to its block");
        let above = [*separator, &[0]].concat();
        let expected = stored.partition_point(|(_, seqno, other)| {
            let (key, seqno) = (above.as_slice(), SeqNo(*seqno));
            terrace_base::compare_internal(other, seqno, key, SeqNo::MAX).is_lt()
        });
        assert_eq!(index.seek(&above, SeqNo::MAX), expected, "a search agrees with a scan");
        builder.add(*frame_bytes, separator, goes_on);
    }
    assert_eq!(end, data_bytes);
    let mut again = Vec::new();
    builder.encode(&mut again);
    assert_eq!(again, payload, "an index has one coding");
}

/// What an index says of each block: bytes, number, separator.
fn stored_index(payload: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut reader = ByteReader::new(payload);
    let mut blocks = Vec::new();
    if reader.varint().is_ok() {
        while let (Ok(bytes), Ok(seqno), Ok(key)) =
            (reader.varint(), reader.varint(), reader.bytes())
        {
            blocks.push((bytes, seqno, key));
        }
    }
    blocks
}

fn footer(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    if choice % 4 == 3 {
        let decoded = TableProperties::decode(rest);
        note_result("properties", &decoded);
        if let Ok(properties) = decoded {
            let mut encoded = Vec::new();
            properties.encode(&mut encoded);
            assert_eq!(TableProperties::decode(&encoded).as_ref(), Ok(&properties));
            assert!(!properties.bounds().is_empty() || properties.smallest == properties.largest);
            let _ = properties.spans(rest);
        }
        return;
    }
    let Some((_, last)) = rest.split_last_chunk::<FOOTER_BYTES>() else { return };
    let mut bytes = *last;
    let file_bytes = if choice % 4 == 0 {
        rest.len() as u64
    } else {
        // As if the file had the size that the footer says.
        u64::from_le_bytes(*bytes[16..].first_chunk().expect("a footer is longer"))
    };
    if choice % 4 > 0 {
        seal_footer(&mut bytes, file_bytes);
    }
    let decoded = Footer::decode(&bytes, file_bytes);
    note_result("footer", &decoded);
    if let Ok(footer) = decoded {
        let (filter, index, tombstones) = (footer.filter, footer.index, footer.range_tombstones);
        let mut end = footer.data_bytes;
        for part in [filter, index, tombstones, footer.names, footer.properties] {
            assert_eq!(part.offset, end, "parts lie back to back");
            end = part.offset.checked_add(part.bytes).expect("parts lie in the file");
        }
        assert_eq!(end + FOOTER_BYTES as u64, file_bytes, "and end where the footer begins");
        let mut again = Vec::new();
        footer.encode(&mut again);
        // A later writer may have set compatible features and its own version.
        assert_eq!(again[..88], bytes[..88]);
    }
}

fn seal_footer(bytes: &mut [u8; FOOTER_BYTES], file_bytes: u64) {
    let uid = u128::from_le_bytes(*bytes.first_chunk().expect("a footer is longer"));
    let offset = file_bytes.wrapping_sub(FOOTER_BYTES as u64);
    let checksum = terrace_base::Checksum::at(uid, offset).bytes(&bytes[..FOOTER_BYTES - 4]);
    bytes[FOOTER_BYTES - 4..].copy_from_slice(&checksum.finish().to_le_bytes());
}

fn names(data: &[u8]) {
    let Some((&lists, rest)) = data.split_first() else { return };
    let (counts, payload) = rest.split_at(usize::from(lists).min(rest.len()));
    // The greatest stands for more than there can be.
    let count = |byte: &u8| if *byte == 0xff { u64::MAX } else { u64::from(*byte) };
    let decoded = decode_lists(payload, counts.iter().map(count));
    note_result("names", &decoded);
    let Ok(decoded) = decoded else { return };
    assert!(decoded.iter().all(|list| list.is_sorted()), "the offsets of a list ascend");
    assert!(are_lists(payload) || decoded.iter().all(Vec::is_empty), "it has the form of lists");
    let ids = (1..).map(|counter| FileId { epoch: Epoch(1), counter });
    let named: Vec<_> = ids.zip(decoded).collect();
    if let [(_, again)] = &encode_lists(&named)[..] {
        assert_eq!(again, payload, "a list has one coding");
    }
}

fn names_seeds() -> Vec<Vec<u8>> {
    let seed = |lists: &[&[u64]]| {
        let ids = (1..).map(|counter| FileId { epoch: Epoch(1), counter });
        let named: Vec<_> = ids.zip(lists.iter().map(|list| list.to_vec())).collect();
        let counts = lists.iter().map(|list| list.len() as u8);
        let (_, payload) = encode_lists(&named).remove(0);
        [lists.len() as u8].into_iter().chain(counts).chain(payload).collect()
    };
    vec![
        seed(&[&[64]]),
        seed(&[&[64, 1100, 2136], &[128, 128], &[1 << 40]]),
        vec![1, 0xff, 0, 1],
        vec![1, 2, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1],
    ]
}

fn range_tombstones(data: &[u8]) {
    let decoded = range_tombstones_format::decode(data);
    note_result("range tombstones", &decoded);
    let Ok(decoded) = decoded else { return };
    note_size("count", decoded.len());
    let mut again = Vec::new();
    range_tombstones_format::put_count(&mut again, decoded.len());
    for (start, end, seqno) in &decoded {
        range_tombstones_format::put_range_tombstone(&mut again, start, end, *seqno);
    }
    assert_eq!(again, data, "range tombstones have one coding");
    let all = || decoded.iter().map(|&(start, end, seqno)| RangeTombstone { start, end, seqno });
    let fragments = Fragments::new(all());
    // One that stands twice counts once.
    let different = decoded.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(fragments.len(), different + usize::from(!decoded.is_empty()));
    let points = [SeqNo::ZERO, SeqNo(7), SeqNo(1 << 40), SeqNo::MAX];
    // Every bound is a key at which the answer changes.
    for key in decoded.iter().flat_map(|(start, end, _)| [*start, *end]).take(64) {
        for point in points {
            let covers =
                |one: &RangeTombstone<'_>| one.start <= key && key < one.end && one.seqno <= point;
            let expected = all().filter(covers).map(|one| one.seqno).max();
            assert_eq!(fragments.newest_covering(key, point), expected, "what covers a key");
        }
    }
    if let Some((start, _, _)) = decoded.get(decoded.len() / 2) {
        let clip = KeyRange::new(*start, None);
        let clipped = fragments.clip(&clip);
        assert!(clipped.iter().all(|one| one.start >= *start));
        assert_eq!(
            clipped.newest_covering(start, SeqNo::MAX),
            fragments.newest_covering(start, SeqNo::MAX)
        );
    }
}

/// Entries with everything that entries can have.
pub(super) fn sample_entries() -> Vec<Entry> {
    let entry = |key: &[u8], seqno, kind, expiry: Option<u64>, value: &[u8]| Entry {
        key: key.to_vec(),
        seqno: SeqNo(seqno),
        kind,
        expiry: expiry.map(|at| Expiry::at(WallTime(at))),
        value: value.to_vec(),
    };
    vec![
        entry(b"", 3, EntryKind::Value, None, b"of the empty key"),
        entry(b"user:1", 1 << 40, EntryKind::Value, Some(4_102_444_800_000), b"newest"),
        entry(b"user:1", 70, EntryKind::MergeOperand, None, b"+1"),
        entry(b"user:1", 7, EntryKind::Value, None, &[b'v'; 40]),
        entry(b"user:10-a-long-name", 8, EntryKind::Tombstone, None, b""),
        entry(b"user:10-a-long-name-2", 9, EntryKind::ValuePointer, None, &[1; 16]),
        entry(b"user:10-a-long-name-3", 10, EntryKind::Value, None, b""),
        entry(&[0xff; 20], 11, EntryKind::Value, Some(1), b"long ago"),
    ]
}

/// A block of these entries.
pub(super) fn build_block(entries: &[Entry]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    let mut before: Option<&Entry> = None;
    for entry in entries {
        let same_key = before.is_some_and(|before| before.key == entry.key);
        builder.try_add(entry.as_ref(), same_key, usize::MAX);
        before = Some(entry);
    }
    let mut block = Vec::new();
    builder.finish(&mut block);
    block
}

fn block_seeds() -> Vec<Vec<u8>> {
    let entries = sample_entries();
    vec![build_block(&entries), build_block(&entries[1..7]), build_block(&entries[..1])]
}

fn index_seeds() -> Vec<Vec<u8>> {
    [0, 1, 9, 70]
        .map(|blocks: u64| {
            let mut builder = IndexBuilder::default();
            for block in 0..blocks {
                let goes_on = (block % 5 == 3).then_some(SeqNo(1000 - block));
                let separator = format!("separator/{:03}", block - block % 5 / 4);
                builder.add(100 + block, separator.as_bytes(), goes_on);
            }
            let mut out = vec![0; 8];
            builder.encode(&mut out);
            out
        })
        .to_vec()
}

fn footer_seeds() -> Vec<Vec<u8>> {
    let footer = Footer::lay_out(TableUid(99), 40, [70, 30, 0, 0, 50]);
    let mut file = vec![0; 190];
    footer.encode(&mut file);
    let mut with_names = vec![0; 190];
    Footer::lay_out(TableUid(99), 40, [70, 20, 0, 30, 30]).encode(&mut with_names);
    let mut properties = vec![3];
    TableProperties {
        entry_count: 8,
        key_count: 6,
        tombstone_count: 1,
        merge_operand_count: 1,
        range_tombstone_count: 2,
        raw_key_bytes: 90,
        raw_value_bytes: 100,
        least_seqno: SeqNo(3),
        greatest_seqno: SeqNo(1 << 40),
        expiries: Some((Expiry::at(WallTime(1)), Expiry::at(WallTime(u64::MAX)))),
        smallest: vec![],
        largest: vec![0xff; 20],
        largest_is_exclusive: true,
        created: WallTime(5),
        named: sample_values(1).0.named,
        lists: vec![ListFrame { segments: 1, bytes: 30 }],
        block_count: 2,
        data_bytes: 40,
    }
    .encode(&mut properties);
    vec![
        [&[0], &file[..]].concat(),
        [&[1], &file[190..]].concat(),
        [&[0], &with_names[..]].concat(),
        [&[1], &with_names[190..]].concat(),
        properties,
    ]
}

fn range_tombstone_seeds() -> Vec<Vec<u8>> {
    let several: [&[(&str, &str, u64)]; 3] = [
        &[],
        &[("", "z", 4), ("a", "c", 9), ("a", "b", 7), ("a", "c", 7), ("b", "d", 1 << 41)],
        &[("0", "1", 1), ("0", "2", 1), ("00", "3", 8), ("5", "\u{7f}", 8)],
    ];
    several
        .map(|tombstones| {
            let mut out = Vec::new();
            range_tombstones_format::put_count(&mut out, tombstones.len());
            for (start, end, seqno) in tombstones {
                let (start, end) = (start.as_bytes(), end.as_bytes());
                range_tombstones_format::put_range_tombstone(&mut out, start, end, SeqNo(*seqno));
            }
            out
        })
        .to_vec()
}
