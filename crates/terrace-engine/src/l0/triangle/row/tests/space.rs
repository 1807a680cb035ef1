//! Rows that do not fit: into the pages that are free, or into a row.

use super::*;
use crate::l0::triangle::row::RowError;

fn model() -> Model {
    let mut model = Model::default();
    for number in 0..300u64 {
        model.put(format!("{number:05}").as_bytes(), number + 1, &[1; 300]);
    }
    model
}

#[test]
fn a_row_that_finds_too_few_pages_gives_all_back() {
    let (_recorder, pages) = container(200, 4096);
    let needed = build(&pages, &model(), UID, Vec::new()).meta.bytes / 4096;
    assert!(needed > 24);
    let mut refused_at_the_end = 0;
    for free in 0..=needed {
        let (_recorder, pages) = container(needed + 5, 4096);
        let taken = pages.take((needed + 4 - free) as usize).unwrap();
        let mut builder = RowBuilder::new(&pages, UID, CREATED, Vec::new());
        let model = model();
        let added = model.entries.values().try_for_each(|entry| builder.add(entry.as_ref()));
        refused_at_the_end += u64::from(added.is_ok() && free < needed);
        let finished = match added {
            Ok(()) => builder.finish(&Fragments::default()),
            Err(error) => {
                drop(builder);
                Err(error)
            }
        };
        match finished {
            Ok(built) => assert!(free == needed && built.is_some(), "{free} of {needed}"),
            Err(error) => {
                assert!(matches!(error, RowError::NoPages), "{error}");
                assert!(free < needed, "{free} of {needed}");
            }
        }
        assert_eq!(pages.free_pages() as u64, free);
        drop(taken);
        assert_eq!(pages.free_pages(), pages.total_pages());
    }
    assert!(refused_at_the_end > 0, "the metadata too may find no pages");
}

#[test]
fn a_builder_says_when_a_row_is_full_and_refuses_what_is_beyond() {
    for (entries_max, data_bytes_max) in [(40, u64::MAX), (1 << 20, 12_000)] {
        let (_recorder, pages) = container(200, 4096);
        let builder = RowBuilder::new(&pages, UID, CREATED, Vec::new());
        let mut builder = builder.with_limits(entries_max, data_bytes_max);
        let (mut full_at, mut refused_at) = (None, None);
        for (index, entry) in model().entries.values().enumerate() {
            if builder.is_full() && full_at.is_none() {
                full_at = Some(index);
            }
            if let Err(error) = builder.add(entry.as_ref()) {
                assert!(matches!(error, RowError::TooLarge), "{error}");
                refused_at = Some(index);
                break;
            }
        }
        let (full_at, refused_at) = (full_at.unwrap(), refused_at.unwrap());
        assert!(full_at >= 28 && full_at + 8 <= refused_at && refused_at <= 40);
        drop(builder);
        assert_eq!(pages.free_pages(), pages.total_pages());
    }
}

#[test]
fn a_list_of_pages_goes_on_over_several_head_pages() {
    // A page of 4096 bytes lists 503 pages at first, then 510.
    for data_pages in [499, 500, 501, 502, 1009, 1010, 1011, 1600] {
        let (_recorder, pages) = container(1700, 4096);
        let mut model = Model::default();
        model.put(b"a", 1, b"first");
        // Fewer by a page, so that the value begins and ends within pages.
        model.put(b"b", 2, &vec![3; (data_pages - 1) * 4096 + 100]);
        model.put(b"c", 3, b"last");
        let built = build(&pages, &model, UID, Vec::new());
        assert_eq!(built.meta.properties.block_count, data_pages as u64);
        let location = built.reader.location();
        drop(built.reader);
        let expected = Some((UID, built.meta.bytes));
        let row = RowReader::open(&pages, location, expected, &[]).unwrap();
        row.verify(Some(built.meta.hash)).unwrap();
        let all: Vec<_> = model.entries.values().cloned().collect();
        assert_eq!(streamed(&row, &KeyRange::all()), all);
        let used = pages.total_pages() - pages.free_pages();
        assert_eq!(used as u64 * 4096, row.file_bytes());
        // The large value's pages go, its neighbours stay.
        let gone = row.release(&[KeyRange::new("b", Some(b"c".to_vec()))]);
        assert!(gone >= data_pages - 2, "{gone} of {data_pages}");
        assert_eq!(row.get(b"a", SeqNo::MAX).unwrap().unwrap().value(), b"first");
        assert_eq!(row.get(b"c", SeqNo::MAX).unwrap().unwrap().value(), b"last");
    }
}
