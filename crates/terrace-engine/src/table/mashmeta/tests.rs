//! Tries of many shapes against a sorted list of keys.

use std::collections::BTreeSet;

use terrace_env::SeededRng;

use super::*;
use crate::table::format::filter::Filter;
use crate::table::format::index::{IndexBuilder, shortest_separator};

/// Some keys, ascending, and how they lie in blocks.
#[derive(Debug, Default)]
struct Keys {
    keys: Vec<Vec<u8>>,
    /// For each block: how many keys begin in it, and its last version if the key goes on.
    blocks: Vec<(usize, Option<SeqNo>)>,
}

const FRAME_BYTES: u64 = 100;

impl Keys {
    fn in_blocks(keys: &[&str], blocks: &[(usize, Option<u64>)]) -> Keys {
        Keys {
            keys: keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
            blocks: blocks.iter().map(|(count, seqno)| (*count, seqno.map(SeqNo))).collect(),
        }
    }

    /// Keys of up to a few letters, so that they begin alike and are beginnings of each other, or
    /// long ones; blocks of a few of them, and now and then a key over several blocks.
    fn random(rng: &mut SeededRng) -> Keys {
        let letters: Vec<u8> = match rng.index(4) {
            0 => vec![0, 255],
            1 => b"0123456789".to_vec(),
            2 => b"abc".to_vec(),
            _ => (0..=255).collect(),
        };
        let count = if rng.one_in(20) { 4000 } else { 1 + rng.index(400) };
        let bytes_max = 1 + rng.index(12);
        let shared: Vec<u8> = (0..rng.index(100)).map(|_| rng.pick(&letters)).collect();
        let mut keys = BTreeSet::new();
        for _ in 0..count {
            let bytes = rng.index(bytes_max + 1);
            let rest = (0..bytes).map(|_| rng.pick(&letters));
            keys.insert(shared.iter().copied().chain(rest).collect::<Vec<u8>>());
        }
        if rng.one_in(3) {
            // A node with as many children as there can be.
            let all = (0..=255).map(|byte| [&shared[..], b"x", &[byte]].concat());
            keys.extend(all.chain([[&shared[..], b"x"].concat()]));
        }
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        let mut blocks = Vec::new();
        let mut left = keys.len();
        let per_block = 1 + rng.index(20);
        while left > 0 {
            let begun = (1 + rng.index(per_block)).min(left);
            left -= begun;
            let mut goes_on = rng.one_in(4).then_some(1000);
            blocks.push((begun, goes_on.map(SeqNo)));
            while goes_on.is_some() {
                let is_over = rng.one_in(2);
                let begun = if is_over { rng.index(3).min(left) } else { 0 };
                left -= begun;
                goes_on = goes_on.filter(|_| !is_over).map(|seqno| seqno - 100);
                blocks.push((begun, goes_on.map(SeqNo)));
                goes_on = goes_on.filter(|seqno| *seqno > 100);
                if goes_on.is_none() && blocks.last().is_some_and(|(_, last)| last.is_some()) {
                    blocks.push((0, None));
                }
            }
        }
        Keys { keys, blocks }
    }

    fn payload(&self) -> Vec<u8> {
        let mut builder = MashMetaBuilder::default();
        let mut keys = self.keys.iter();
        for (begun, goes_on_after) in &self.blocks {
            keys.by_ref().take(*begun).for_each(|key| builder.add(key));
            builder.end_block(FRAME_BYTES, *goes_on_after);
        }
        builder.finish()
    }

    fn trie(&self) -> MashMeta {
        MashMeta::decode(&self.payload(), self.data_bytes()).unwrap()
    }

    fn data_bytes(&self) -> u64 {
        FRAME_BYTES * self.blocks.len() as u64
    }

    /// The block in which key `index` begins.
    fn block_of(&self, index: usize) -> usize {
        let mut end = 0;
        let begins = |(begun, _): &(usize, Option<SeqNo>)| {
            end += begun;
            index < end
        };
        self.blocks.iter().position(begins).unwrap_or(self.blocks.len())
    }

    /// The block in which a version at or below `seqno` of key `index` is looked for.
    fn block_of_version(&self, index: usize, seqno: SeqNo) -> usize {
        let mut block = self.block_of(index);
        let begun: usize = self.blocks[..=block].iter().map(|(begun, _)| begun).sum();
        while index + 1 == begun
            && self.blocks[block].1.is_some_and(|last| last > seqno)
            && (block == self.block_of(index) || self.blocks[block].0 == 0)
        {
            block += 1;
        }
        block
    }

    /// The same for the key below one before which there are `count`.
    fn check_below(&self, trie: &MashMeta, key: &[u8], count: usize, context: &str) {
        let below = count.checked_sub(1).map(|index| &self.keys[index]);
        assert_eq!(trie.key_below(Some(key)).as_ref(), below, "{context}");
        assert_eq!(trie.key_below(None).as_ref(), self.keys.last(), "{context}");
    }

    /// Whether the trie answers as the list does, for some key.
    fn check(&self, trie: &MashMeta, key: &[u8], seqno: SeqNo, context: &str) {
        let context = format!("{context}, {:?} at {seqno}", key.escape_ascii().to_string());
        match self.keys.binary_search_by(|own| own.as_slice().cmp(key)) {
            Ok(index) => {
                let block = self.block_of_version(index, seqno);
                assert_eq!(trie.find(key, seqno), Some(block), "{context}");
                assert_eq!(trie.seek(key, seqno), block, "{context}");
                assert_eq!(trie.next_key(key).as_deref(), Some(key), "{context}");
                self.check_below(trie, key, index, &context);
            }
            Err(index) => {
                assert_eq!(trie.next_key(key).as_ref(), self.keys.get(index), "{context}");
                self.check_below(trie, key, index, &context);
                assert_eq!(trie.find(key, seqno), None, "{context}");
                assert_eq!(trie.seek(key, seqno), self.block_of(index), "{context}");
            }
        }
    }
}

#[test]
fn random_tries_answer_as_the_list_of_their_keys_does() {
    for seed in 0..400 {
        check_seed(seed);
    }
}

fn check_seed(seed: u64) {
    let mut rng = SeededRng::new(seed);
    let keys = Keys::random(&mut rng);
    let trie = keys.trie();
    let context = format!("seed {seed}");
    assert_eq!(trie.block_count(), keys.blocks.len(), "{context}");
    assert_eq!(trie.key_count(), keys.keys.len() as u64, "{context}");
    for key in &keys.keys {
        for target in [&key[..], &[key, &[0][..]].concat(), &key[..key.len().saturating_sub(1)]] {
            for seqno in [0, 500, 600, 1000, u64::MAX] {
                keys.check(&trie, target, SeqNo(seqno), &context);
            }
        }
        let mut other = key.clone();
        if !other.is_empty() {
            let at = rng.index(other.len());
            other[at] = other[at].wrapping_add(rng.pick(&[1, 255]));
        }
        keys.check(&trie, &other, SeqNo::MAX, &context);
    }
    for target in [&b""[..], &[255; 120]] {
        keys.check(&trie, target, SeqNo::MAX, &context);
    }
    assert!(trie.keys().eq(keys.keys.iter().cloned()), "{context}");
    let mut begun = 0;
    for (block, (count, goes_on_after)) in keys.blocks.iter().enumerate() {
        begun += count;
        assert_eq!(trie.last_key(block), keys.keys[begun - 1], "{context}, block {block}");
        assert_eq!(trie.goes_on_after(block), *goes_on_after, "{context}, block {block}");
        assert_eq!(trie.keys_begun_in(block), *count, "{context}, block {block}");
        let handle = Handle { offset: FRAME_BYTES * block as u64, bytes: FRAME_BYTES };
        assert_eq!(trie.handle(block), handle, "{context}");
        assert_eq!(trie.block_at(handle.offset), Some(block), "{context}");
        assert_eq!(trie.block_at(handle.offset + 1), None, "{context}");
    }
    assert_eq!(trie.block_at(keys.data_bytes()), None, "{context}");
}

/// The paper's figure 8, without its first parenthesis: that of the six keys.
#[test]
fn the_papers_six_keys_have_the_papers_shape() {
    let names = ["hello", "hunda", "hundred", "hunk", "huntee", "hunter"];
    let keys = Keys::in_blocks(&names, &[(2, None), (2, None), (2, None)]);
    let parts = Parts::decode(&keys.payload(), keys.data_bytes()).unwrap();
    let signs = (0..parts.parentheses.len()).map(|at| parts.parentheses.get(at).unwrap());
    let text: String = signs.map(|bit| if bit == 1 { '(' } else { ')' }).collect();
    // The root's two children; e-l-l-o; u-n; the three behind it; d's two; a; r-e-d; k; t-e; e; r.
    assert_eq!(text, "(()()()())()((()(())()()))()(()))");
    assert_eq!(parts.prefix, b"h");
    let trie = keys.trie();
    for (index, name) in names.iter().enumerate() {
        assert_eq!(trie.find(name.as_bytes(), SeqNo::MAX), Some(index / 2), "{name}");
    }
    for absent in ["h", "hunt", "hundre", "hunters", "i", "", "hell", "hunz"] {
        assert_eq!(trie.find(absent.as_bytes(), SeqNo::MAX), None, "{absent}");
    }
}

#[test]
fn a_key_over_many_blocks_is_found_from_its_first() {
    let keys = Keys::in_blocks(
        &["a", "b", "c"],
        &[(2, Some(90)), (0, Some(70)), (0, Some(50)), (0, None), (1, None)],
    );
    let trie = keys.trie();
    for (key, seqno, block) in [
        ("a", 0, 0),
        ("b", u64::MAX, 0),
        ("b", 90, 0),
        ("b", 89, 1),
        ("b", 70, 1),
        ("b", 69, 2),
        ("b", 49, 3),
        ("b", 0, 3),
        ("c", 0, 4),
    ] {
        assert_eq!(trie.find(key.as_bytes(), SeqNo(seqno)), Some(block), "{key} at {seqno}");
    }
    assert_eq!(trie.seek(b"bb", SeqNo::MAX), 4);
    assert_eq!(trie.seek(b"d", SeqNo::MAX), 5);
}

#[test]
fn one_key_and_none_but_the_empty_one_make_a_trie() {
    for key in ["", "a", "a long key that nothing shares"] {
        let trie = Keys::in_blocks(&[key], &[(1, None)]).trie();
        assert_eq!(trie.find(key.as_bytes(), SeqNo::MAX), Some(0), "{key:?}");
        assert_eq!(trie.find(b"b", SeqNo::MAX), None, "{key:?}");
        assert_eq!(trie.last_key(0), key.as_bytes(), "{key:?}");
    }
}

/// A forged trie gives an error, or answers; it does not panic, and it does not search for ever.
#[test]
fn what_is_flipped_or_cut_is_refused_or_harmless() {
    for seed in 0..6 {
        let mut rng = SeededRng::new(seed);
        let mut keys = Keys::random(&mut rng);
        while keys.keys.len() > 120 {
            keys = Keys::random(&mut rng);
        }
        let payload = keys.payload();
        let mut refused = 0;
        for bit in 0..payload.len() * 8 {
            let mut flipped = payload.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match MashMeta::decode(&flipped, keys.data_bytes()) {
                Err(_) => refused += 1,
                Ok(trie) => ask_everything(&trie, &keys),
            }
        }
        assert!(refused > payload.len(), "seed {seed}: {refused} of {} bytes", payload.len());
        for bytes in 0..payload.len() {
            let cut = MashMeta::decode(&payload[..bytes], keys.data_bytes());
            assert!(cut.is_err(), "seed {seed}, cut to {bytes}");
        }
        assert!(MashMeta::decode(&payload, keys.data_bytes() + 1).is_err(), "other data bytes");
        let longer = [&payload[..], &[0]].concat();
        assert!(MashMeta::decode(&longer, keys.data_bytes()).is_err(), "left over");
    }
}

fn ask_everything(trie: &MashMeta, keys: &Keys) {
    for key in &keys.keys {
        let block = trie.seek(key, SeqNo(700));
        assert!(block <= trie.block_count());
        let found = trie.find(key, SeqNo(700));
        assert!(found.is_none_or(|block| block < trie.block_count()));
    }
    for block in 0..trie.block_count() {
        let _ = (trie.last_key(block), trie.handle(block), trie.goes_on_after(block));
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_mark_off_by_one_is_found() {
    use terrace_env::{SimEnv, SimOptions};
    let checked = || {
        let options = SimOptions { planted: vec![PlantedBug::MarkOffByOne], ..SimOptions::new(1) };
        SimEnv::run(options, |_| check_seed(1))
    };
    assert!(std::panic::catch_unwind(checked).is_err());
}

/// Bytes of the trie, and of a filter of ten bits a key and an index, for keys of which `per_block`
/// lie in a block.
fn sizes(keys: &BTreeSet<Vec<u8>>, per_block: usize) -> (usize, usize) {
    let mut builder = MashMetaBuilder::default();
    let mut index = IndexBuilder::default();
    let mut separator = Vec::new();
    let all: Vec<&Vec<u8>> = keys.iter().collect();
    for (number, chunk) in all.chunks(per_block).enumerate() {
        chunk.iter().for_each(|key| builder.add(key));
        builder.end_block(4096, None);
        match all.get((number + 1) * per_block) {
            Some(next) => shortest_separator(chunk[chunk.len() - 1], next, &mut separator),
            None => separator.clone_from(chunk[chunk.len() - 1]),
        }
        index.add(4096, &separator, None);
    }
    let hashes: Vec<u64> = keys.iter().map(|key| crate::table::filter_hash(key)).collect();
    let mut beside = Vec::new();
    Filter::build(&hashes, 10).encode(&mut beside);
    index.encode(&mut beside);
    let payload = builder.finish();
    let trie = MashMeta::decode(&payload, 4096 * index.count()).unwrap();
    assert!(
        trie.memory_bytes() < payload.len() * 4 / 3,
        "{} of {}",
        trie.memory_bytes(),
        payload.len()
    );
    (payload.len(), beside.len())
}

/// Figure 21(a): keys that share what they begin with.
#[test]
fn a_trie_is_smaller_than_filter_and_index_where_keys_share_what_they_begin_with() {
    let mut rng = SeededRng::new(7);
    let decimal: BTreeSet<Vec<u8>> =
        (0..100_000).map(|_| format!("{:016}", rng.next_u64() % 160_000).into_bytes()).collect();
    let (trie, beside) = sizes(&decimal, 34);
    assert!(trie * 100 <= beside * 38, "{trie} of {beside} bytes");
    // The rows of a table, as databases of rows keep them.
    let rows = |row: u64| [b"t\0\0\0\0\0\0\0\x51_r", &row.to_be_bytes()[..]].concat();
    let rows: BTreeSet<Vec<u8>> = (0..60_000).filter(|row| row % 10 != 3).map(rows).collect();
    let (trie, beside) = sizes(&rows, 34);
    assert!(trie * 100 <= beside * 38, "{trie} of {beside} bytes");
    // Beside them an index on a column, of whose keys each ends with a byte that tells nothing of
    // the next.
    let index = (0..20_000u64).map(|row| {
        let city = format!("city{:03}", row * 7919 % 500);
        [b"t\0\0\0\0\0\0\0\x51_i\0\x01", city.as_bytes(), &[0], &row.to_be_bytes()].concat()
    });
    let both: BTreeSet<Vec<u8>> = rows.into_iter().chain(index).collect();
    let (trie, beside) = sizes(&both, 34);
    assert!(trie * 100 <= beside * 55, "{trie} of {beside} bytes");
}
