//! Goal: whatever happens to machines, connections and requests, the database in the store is as it
//! was promised, and nothing that anybody needs goes. Method: worlds of an owner, of others who
//! take its database over, of readers and of checkpoints, around one store whose requests fail in
//! every way; all of a world follows from its seed. A model knows what each of them may see.

mod checks;
mod ledger;
mod openers;
mod plan;
mod readers;
mod round;
mod spoiled;

use std::path::Path;

use terrace_env::{SeededRng, SharedEnv, SimOptions};

use self::ledger::Ledger;
use self::plan::Plan;
pub use self::plan::draw_faults;
use self::round::Rest;
use crate::Error;
use crate::store::Store;
#[cfg(feature = "planted-bugs")]
use crate::store::tests::by_seed::hunt;
use crate::store::tests::by_seed::{Tally, each_seed};
use crate::store::tests::process;
use crate::store::tests::workload::content;

const SEEDS: u64 = 200;

/// What so many worlds come to more than twice. The rarest of them, opens that fail, come to about
/// seven.
const EACH_OFTEN: [&str; 18] = [
    "catch-up",
    "checkpoint",
    "clone",
    "failed",
    "local checkpoint",
    "look from elsewhere",
    "open failed",
    "refused a retired one",
    "refused an older copy",
    "removed",
    "reopen",
    "retired",
    "second look",
    "snapshot",
    "stopped",
    "take-over",
    "walk",
    "write of a zombie",
];

/// Runs the world of this seed; what was done in it.
fn world(seed: u64, sim: impl Fn(u64) -> SimOptions) -> Tally {
    let mut random = SeededRng::stream(seed, 71);
    let plan = Plan::draw(&mut random, &mut SeededRng::stream(seed, 72));
    let mut tally = Tally::new();
    let mut rest = Rest::nothing();
    for _ in 0..plan.rounds {
        let sim = sim(random.next_u64());
        rest = round::run(&plan, &mut random, &mut tally, rest, sim);
    }
    let (ledger, options) = (rest.ledger.clone(), plan.options(&mut random));
    let open = |env: &SharedEnv| open_at_last(env, ledger, options);
    checks::finish(rest, open, sim(random.next_u64()));
    tally
}

/// Opens the database where it is, and looks at what it holds.
fn open_at_last(
    env: &SharedEnv,
    mut ledger: Ledger,
    options: crate::options::Options,
) -> (Store, Ledger) {
    let dirs = [Some(ledger.dir.clone()), ledger.contender.clone()];
    let mut refused = Vec::new();
    for dir in dirs.into_iter().flatten() {
        let opened = process(env).and_then(|process| {
            let store = Store::open(&process, Path::new(&dir), options.clone())?;
            let found = content(&store)?;
            Ok((store, found))
        });
        match opened {
            Ok((store, found)) => {
                ledger.opened(&dir, &found);
                return (store, ledger);
            }
            Err(error @ Error::Fenced(_)) => refused.push(error.to_string()),
            Err(error) => panic!("{dir}: {error}"),
        }
    }
    panic!("nobody can open the database: {refused:?}");
}

#[test]
fn whatever_happens_the_store_keeps_what_was_promised() {
    let total = each_seed("worlds", SEEDS, |seed| world(seed, SimOptions::new));
    total.assert_done(&EACH_OFTEN, 2, SEEDS);
}

/// Goal: the worlds are not blind. Method: bugs are planted, one at a time, and each must be found
/// by one of a thousand worlds.
#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_of_the_store_are_found() {
    use terrace_env::PlantedBug;

    hunt("worlds", 1000, PlantedBug::OF_OBJECT_STORE, |seed, bug| {
        world(seed, |seed| SimOptions { planted: vec![bug], ..SimOptions::new(seed) })
    });
}
