//! The tries that stand at the index's place in tables of the object store.

use terrace_base::{ByteReader, SeqNo};
use terrace_engine::table::mashmeta::{MashMeta, MashMetaBuilder};

use super::Target;
use crate::notes::{note_result, note_size};

/// Tries, of tables whose data blocks have the bytes that the trie says.
pub const MASHMETA: Target = Target {
    name: "mashmeta",
    about: "tries of a table's keys: decoding, searches, one coding",
    run: mashmeta,
    seeds,
    executions: 400_000,
    ..Target::DEFAULT
};

fn mashmeta(data: &[u8]) {
    let decoded = MashMeta::decode(data, data_bytes(data));
    note_result("mashmeta", &decoded);
    let Ok(trie) = decoded else { return };
    note_size("blocks", trie.block_count());
    let keys: Vec<Vec<u8>> = trie.keys().collect();
    note_size("keys", keys.len());
    assert_eq!(keys.len() as u64, trie.key_count());
    assert!(keys.is_sorted_by(|one, next| one < next), "keys ascend");
    let mut builder = MashMetaBuilder::default();
    let mut begun = keys.iter();
    let mut end = 0;
    for block in 0..trie.block_count() {
        let handle = trie.handle(block);
        assert_eq!(handle.offset, end, "blocks lie back to back");
        end += handle.bytes;
        for key in begun.by_ref().take(trie.keys_begun_in(block)) {
            assert_eq!(trie.find(key, SeqNo::MAX), Some(block), "a key is where it begins");
            assert_eq!(trie.seek(key, SeqNo::MAX), block);
            builder.add(key);
        }
        builder.end_block(handle.bytes, trie.goes_on_after(block));
    }
    for pair in keys.windows(2) {
        let between = [&pair[0][..], &[0]].concat();
        if between < pair[1] {
            assert_eq!(trie.find(&between, SeqNo::MAX), None, "no key that is not there");
            let next = trie.find(&pair[1], SeqNo::MAX);
            assert_eq!(Some(trie.seek(&between, SeqNo::MAX)), next, "a scan begins at the next");
        }
    }
    assert_eq!(builder.finish(), data, "a trie has one coding");
}

/// The bytes of all blocks, as the trie says.
fn data_bytes(payload: &[u8]) -> u64 {
    let mut reader = ByteReader::new(payload);
    let mut bytes = 0u64;
    if let (Ok(_), Ok(count)) = (reader.u8(), reader.varint()) {
        for _ in 0..count {
            let (Ok(frame_bytes), Ok(_)) = (reader.varint(), reader.varint()) else { break };
            bytes = bytes.saturating_add(frame_bytes);
        }
    }
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let trie = |keys: &[&[u8]], per_block: usize, goes_on: bool| {
        let mut builder = MashMetaBuilder::default();
        for chunk in keys.chunks(per_block) {
            chunk.iter().for_each(|key| builder.add(key));
            builder.end_block(100, goes_on.then_some(SeqNo(9)));
            if goes_on {
                builder.end_block(70, None);
            }
        }
        builder.finish()
    };
    let names: [&[u8]; 6] = [b"hello", b"hunda", b"hundred", b"hunk", b"huntee", b"hunter"];
    let beginnings: [&[u8]; 4] = [b"", b"a", b"aa", b"aab"];
    let wide: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
    let wide: Vec<&[u8]> = wide.iter().map(|key| &key[..]).collect();
    let long = [[b'x'; 300].as_slice(), &[b'y'; 90]].map(<[u8]>::to_vec);
    vec![
        trie(&names, 2, false),
        trie(&names, 3, true),
        trie(&beginnings, 1, true),
        trie(&wide, 40, false),
        trie(&[&long[0], &long[1]], 1, false),
        trie(&[b"one"], 1, false),
    ]
}
