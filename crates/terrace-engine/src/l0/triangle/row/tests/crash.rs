//! T8: a crash at any moment of a build leaves a row that is whole or one that is refused, and leaves
//! alone what was durable. Method: every state that the recorder can think of.

use terrace_env::{PmemCrash, PmemDomain, PmemExploration};

use super::damage::{model, read_everything};
use super::*;

#[test]
fn a_crash_while_a_row_is_built_leaves_it_whole_or_refused_and_others_untouched() {
    let recorder = PmemRecorder::new(16 * 4096);
    let pages = Pages::format(recorder.pmem(), path(), 4096, DATABASE).unwrap();
    let first = build(&pages, &model(), UID, Vec::new());
    let before = place_of(&first);
    drop((first, pages));

    // From here on everything is recorded, over what is durable.
    let recorder = PmemRecorder::over(&content(&recorder.pmem()));
    let pages = Pages::mount(recorder.pmem(), path(), DATABASE).unwrap();
    let first = RowReader::open(&pages, before.0, Some(before.1), &[]).unwrap();
    let mut second_model = model();
    second_model.put(b"key019x", 5000, b"what the first row does not have");
    let predecessor = Predecessor { row: Arc::clone(&first), parts: None };
    let built = build(&pages, &second_model, TableUid(2), vec![predecessor]);
    assert_eq!(recorder.unfenced_lines(), 0, "a row is durable when it is handed over");
    assert_eq!(recorder.counts().needless_flushes, 0);
    assert_eq!(recorder.counts().fences, 1);
    recorder.mark(1);
    let after = place_of(&built);

    let (mut whole, mut refused) = (0u64, 0u64);
    let mut judge = |crash: &PmemCrash<'_>| {
        let pages = Pages::mount(crash.pmem.clone(), path(), DATABASE)
            .map_err(|error| format!("the header: {error}"))?;
        let context = "the row that was durable";
        if read_everything(&model(), &pages, before.0, before.1, context) {
            return Err("what was durable is damaged".to_owned());
        }
        let context = "the row that was being built";
        if !read_everything(&second_model, &pages, after.0, after.1, context) {
            whole += 1;
            return Ok(());
        }
        refused += 1;
        match crash.mark {
            Some(_) => Err("a row that was handed over is not there".to_owned()),
            None => Ok(()),
        }
    };
    let recording = recorder.recording();
    for domain in [PmemDomain::Adr, PmemDomain::Eadr] {
        for seed in 0..2 {
            let report = recording.explore(PmemExploration { domain, seed }, &mut judge);
            let report = report.unwrap_or_else(|violation| panic!("{violation}"));
            assert!(report.points > 5, "{report:?}");
        }
    }
    assert!(whole > 0 && refused > 100, "{whole} whole, {refused} refused");
}

/// Where a row is, and what it is expected to be.
fn place_of(built: &BuiltRow) -> (RowLocation, (TableUid, u64)) {
    (built.reader.location(), (built.meta.uid, built.meta.bytes))
}
