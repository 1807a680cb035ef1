//! T8: a crash at any moment of a build leaves a row that is whole or one that is refused, and
//! leaves alone what was durable. Method: every state that the recorder can think of.

use std::ops::Range;

use terrace_env::{PmemCrash, PmemDomain, PmemExploration};

use super::damage::{model, read_everything};
use super::*;

/// What came of the states after crashes while a row was built.
#[derive(Default)]
struct Explored {
    states: u64,
    whole: u64,
    refused: u64,
}

/// Builds a row beside one that is durable, and judges what every crash on the way leaves of both.
fn explore(first_model: &Model, second_model: &Model, seeds: Range<u64>) -> Explored {
    let recorder = PmemRecorder::new(16 * 4096);
    let pages = Pages::format(recorder.pmem(), path(), 4096, DATABASE).unwrap();
    let first = build(&pages, first_model, UID, Vec::new());
    let before = place_of(&first);
    drop((first, pages));

    // From here on everything is recorded, over what is durable.
    let recorder = PmemRecorder::over(&content(&recorder.pmem()));
    let pages = Pages::mount(recorder.pmem(), path(), DATABASE).unwrap();
    let first = RowReader::open(&pages, before.0, Some(before.1), &[]).unwrap();
    let predecessor = Predecessor { row: Arc::clone(&first), parts: None };
    let built = build(&pages, second_model, TableUid(2), vec![predecessor]);
    assert_eq!(recorder.unfenced_lines(), 0, "a row is durable when it is handed over");
    assert_eq!(recorder.counts().needless_flushes, 0);
    assert_eq!(recorder.counts().fences, 1);
    recorder.mark(1);
    let after = place_of(&built);

    let mut explored = Explored::default();
    let mut judge = |crash: &PmemCrash<'_>| {
        let pages = Pages::mount(crash.pmem.clone(), path(), DATABASE)
            .map_err(|error| format!("the header: {error}"))?;
        let context = "the row that was durable";
        if read_everything(first_model, &pages, before.0, before.1, context) {
            return Err("what was durable is damaged".to_owned());
        }
        let context = "the row that was being built";
        if !read_everything(second_model, &pages, after.0, after.1, context) {
            explored.whole += 1;
            return Ok(());
        }
        explored.refused += 1;
        match crash.mark {
            Some(_) => Err("a row that was handed over is not there".to_owned()),
            None => Ok(()),
        }
    };
    let recording = recorder.recording();
    let mut states = 0;
    for domain in [PmemDomain::Adr, PmemDomain::Eadr] {
        for seed in seeds.clone() {
            let report = recording.explore(PmemExploration { domain, seed }, &mut judge);
            let report = report.unwrap_or_else(|violation| panic!("{violation}"));
            states += report.states;
        }
    }
    Explored { states, ..explored }
}

#[test]
fn a_crash_while_a_row_is_built_leaves_it_whole_or_refused_and_others_untouched() {
    let mut second = model();
    second.put(b"key019x", 5000, b"what the first row does not have");
    let Explored { whole, refused, .. } = explore(&model(), &second, 0..2);
    assert!(whole > 0 && refused > 100, "{whole} whole, {refused} refused");
}

/// As many as T8 asks for in the checks of every change.
const STATES: u64 = 200_000;

#[test]
fn no_crash_among_two_hundred_thousand_breaks_a_row() {
    let seed = 8;
    println!("seed {seed}");
    let mut rng = SeededRng::new(seed);
    let mut total = Explored::default();
    while total.states < STATES {
        let [first, second] = [small_model(&mut rng), small_model(&mut rng)];
        let Explored { states, whole, refused } = explore(&first, &second, 0..1);
        total.states += states;
        total.whole += whole;
        total.refused += refused;
    }
    println!("{} states, {} whole, {} refused", total.states, total.whole, total.refused);
    assert!(total.whole > 50 && total.refused > 1000);
}

/// A few keys with values of any size up to a page.
fn small_model(rng: &mut SeededRng) -> Model {
    let mut model = Model::default();
    for seqno in 1..=1 + rng.index(8) as u64 {
        let key = format!("k{}", rng.index(5));
        let value = vec![rng.index(256) as u8; rng.pick(&[0, 10, 300, 4000])];
        model.put(key.as_bytes(), seqno, &value);
    }
    model
}

/// Where a row is, and what it is expected to be.
fn place_of(built: &BuiltRow) -> (RowLocation, (TableUid, u64)) {
    (built.reader.location(), (built.meta.uid, built.meta.bytes))
}
