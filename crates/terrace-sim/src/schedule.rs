//! Clients at once, under many schedules.

use std::sync::Arc;

use terrace_env::SeededRng;

use crate::failed::Failed;
use crate::metamorphic::check;
use crate::run::{Case, Run};
use crate::setup::Setup;
use crate::workload::{Coverage, Generator, Purpose, Shape};

/// The case of a seed: three or more clients over the same few keys.
#[must_use]
pub fn case(seed: u64) -> (Case, Coverage) {
    let mut random = SeededRng::stream(seed, 51);
    let at_latches = !random.one_in(3);
    let setup = Setup { at_latches, ..Setup::draw(&mut random) };
    let shape = Shape::draw(&mut random, Purpose::Race, setup.block_bytes(), setup.segment_bytes());
    let setup = setup.with_dranges_of(&mut random, &shape);
    let clients = 3 + random.below(3);
    let steps = [6, 12, 25, 60][random.index(4)];
    let mut coverage = Coverage::default();
    let clients = (0..clients).map(|client| {
        let mut generator = Generator::new(seed, client, shape.clone());
        let operations = generator.list(steps);
        coverage.merge(generator.coverage());
        operations
    });
    let clients = clients.collect();
    (Case { seed, setup: Arc::new(setup), clients }, coverage)
}

/// Runs the case of a seed and judges it.
pub fn run_seed(seed: u64, coverage: &mut Coverage) -> Result<Run, Failed> {
    let (case, reached) = case(seed);
    coverage.merge(&reached);
    let done = check(&case).map_err(|violation| Failed::new(&case, violation))?;
    crate::run::cover(&done, coverage);
    Ok(done)
}
