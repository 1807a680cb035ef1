//! Goal: whoever knows the checksums still gets an error or an answer, never a panic, and no memory
//! beyond what the row has. Method: random changes of a row's bytes, sealed again, and all that a
//! reader can be asked.

use terrace_base::Checksum;

use super::damage::model;
use super::*;
use crate::l0::triangle::row::format::{HEAD_PLACE, METADATA_PLACE};
use crate::l0::triangle::row::hints::SearchTrail;
use crate::table::filter_hash;

struct Specimen {
    bytes: Vec<u8>,
    location: RowLocation,
    metadata_pages: usize,
    data_pages: usize,
}

const LIST_AT: usize = 64;

impl Specimen {
    fn new(model: &Model) -> Specimen {
        let (recorder, pages) = container(12, 4096);
        let older = build(&pages, &super::damage::model(), TableUid(8), Vec::new());
        let predecessor = Predecessor { row: Arc::clone(&older.reader), parts: None };
        let built = build(&pages, model, UID, vec![predecessor]);
        let location = built.reader.location();
        let data_pages = built.meta.properties.block_count as usize;
        let metadata_pages = built.meta.bytes as usize / 4096 - 1 - data_pages;
        drop((built, older, pages));
        Specimen { bytes: content(&recorder.pmem()), location, metadata_pages, data_pages }
    }

    fn head_at(&self) -> usize {
        self.location.0 as usize * 4096
    }

    /// Where the pages that the head lists begin, metadata first.
    fn listed(&self) -> Vec<usize> {
        let list = &self.bytes[self.head_at() + LIST_AT..];
        let number = |at: usize| u32::from_le_bytes(*list[8 * at..].first_chunk().unwrap());
        (0..self.metadata_pages + self.data_pages).map(|at| number(at) as usize * 4096).collect()
    }

    /// Makes all checksums fit again.
    fn seal(&self, bytes: &mut [u8]) {
        let checksum = |place, covered: &[u8]| {
            Checksum::at(UID.0, place).bytes(covered).finish().to_le_bytes()
        };
        let head_at = self.head_at();
        for (index, at) in self.listed().into_iter().enumerate() {
            let place = match index.checked_sub(self.metadata_pages) {
                Some(ordinal) => ordinal as u64 * 4096,
                None => METADATA_PLACE + index as u64 * 4096,
            };
            let sealed = checksum(place, &bytes[at..at + 4096]);
            bytes[head_at + LIST_AT + 8 * index + 4..][..4].copy_from_slice(&sealed);
        }
        let sealed = checksum(HEAD_PLACE, &bytes[head_at..head_at + 4092]);
        bytes[head_at + 4092..head_at + 4096].copy_from_slice(&sealed);
    }

    /// Changes a few bytes, most often where they mean something.
    fn forge(&self, rng: &mut SeededRng) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let listed = self.listed();
        for _ in 0..rng.index(3) + 1 {
            let (start, length) = match rng.index(4) {
                // Sizes and counts of the head, or the list.
                0 => (self.head_at() + 32, 28 + 8 * listed.len()),
                // The metadata.
                1 | 2 => (rng.pick(&listed[..self.metadata_pages]), 4096),
                _ => (rng.pick(&listed[self.metadata_pages..]), 4096),
            };
            let at = start + rng.index(length);
            bytes[at] = match rng.index(4) {
                0 => rng.next_u64() as u8,
                1 => rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                2 => bytes[at].wrapping_add(1),
                _ => bytes[at] ^ 1 << rng.index(8),
            };
        }
        self.seal(&mut bytes);
        bytes
    }
}

/// Asks for everything; whether the row could be opened and all of it be read.
fn read(
    rng: &mut SeededRng,
    model: &Model,
    bytes: &[u8],
    location: RowLocation,
) -> crate::Result<()> {
    let pages = mount(bytes)?;
    let random_range = |rng: &mut SeededRng| {
        let (a, b) = (target(rng, model), target(rng, model));
        KeyRange::new(a.clone().min(b.clone()), if rng.one_in(3) { None } else { Some(a.max(b)) })
    };
    let consumed = if rng.one_in(2) { Vec::new() } else { vec![random_range(rng)] };
    let row = RowReader::open(&pages, location, None, &consumed)?;
    let mut outcome = Ok(());
    let mut refuse = |error: crate::Error| {
        assert!(error.is_corruption(), "{error:?}");
        outcome = Err(error);
    };
    let mut trail = SearchTrail::default();
    for _ in 0..8 {
        let key = target(rng, model);
        let read_point = rng.pick(&[SeqNo::MAX, SeqNo(1005), SeqNo::ZERO]);
        let _entry = row.get(&key, read_point).map_err(&mut refuse);
        if let Ok(index) = row.lower_bound(&key).map_err(&mut refuse) {
            assert!(index <= row.len());
            trail.note(&*row, index);
            assert!(trail.within(TableUid(8), 30).end <= 30);
            let _entry = row.get_at(index, &key, read_point).map_err(&mut refuse);
            let _may = row.may_contain(filter_hash(&key));
        }
        let mut cursor = row.cursor(read_point, None);
        let mut standing = match rng.index(3) {
            0 => cursor.seek_back(Some(&key)),
            1 => cursor.seek_back(None),
            _ => cursor.seek(&key),
        };
        let is_forward = rng.one_in(2);
        // A row has a number of keys, and no cursor stands on one of them twice.
        for step in 0.. {
            assert!(step <= row.len(), "a cursor goes round");
            match standing.map_err(&mut refuse) {
                Ok(true) => {}
                _ => break,
            }
            let seqno = SeqNo(rng.next_u64() >> rng.index(64));
            let _older = cursor.older(seqno).map(drop).map_err(&mut refuse);
            standing = if is_forward { cursor.next() } else { cursor.prev() };
        }
    }
    let range = random_range(rng);
    assert!(row.bytes_within(&range) <= row.properties().data_bytes);
    assert_eq!(row.samples(3).map(|(_, bytes)| bytes).sum::<u64>(), row.properties().data_bytes);
    match row.stream(&range) {
        Ok(mut stream) => {
            while stream.entry().is_some() {
                if let Err(error) = stream.advance() {
                    refuse(error);
                    break;
                }
            }
        }
        Err(error) => refuse(error),
    }
    if let Err(error) = row.verify(None) {
        refuse(error);
    }
    row.release(&[random_range(rng)]);
    if !row.is_empty() {
        let _key = row.key(rng.index(row.len())).map_err(&mut refuse);
    }
    outcome
}

#[test]
fn forged_rows_give_errors_or_answers_and_no_panic() {
    let mut small = Model::default();
    small.put(b"k", 5, b"one entry");
    for model in [model(), small] {
        let specimen = Specimen::new(&model);
        let mut sealed = specimen.bytes.clone();
        specimen.seal(&mut sealed);
        assert!(sealed == specimen.bytes, "the test seals as the builder does");
        let (mut refused, mut taken) = (0, 0);
        for seed in 0..3000 {
            let mut rng = SeededRng::new(seed);
            let bytes = specimen.forge(&mut rng);
            match read(&mut rng, &model, &bytes, specimen.location) {
                Ok(()) => taken += 1,
                Err(crate::Error::Corruption(_) | crate::Error::Unsupported(_)) => refused += 1,
                Err(error) => panic!("seed {seed}: {error:?}"),
            }
        }
        assert!(refused > 500 && taken > 20, "{refused} refused, {taken} taken");
    }
}
