//! One list of operations, many option sets, the same answers.
//!
//! # Why
//! An option may change how fast an answer comes, never the answer. A list of operations is drawn
//! once and run under several random setups; what each run saw is judged against the model, so all
//! of them agree with it and with each other. A bug that shows only with tiny blocks, four dranges
//! and no filter has nowhere to hide.
//!
//! *Source:* the metamorphic tests of Pebble.

use std::sync::Arc;

use terrace_env::SeededRng;

use crate::failed::Failed;
use crate::oracle::{Model, Tolerance, Violation, judge, model_of, orders};
use crate::run::{Case, Run, Scene, run};
use crate::setup::Setup;
use crate::workload::{Coverage, Generator, Purpose, Shape};

/// What a number of cases came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Lists of operations.
    pub lists: u64,
    /// Runs, one for each setup of each list.
    pub runs: u64,
    /// Operations, over all runs.
    pub operations: u64,
    /// What was reached.
    pub coverage: Coverage,
}

impl Report {
    /// Takes over the counts of `other`.
    pub fn merge(&mut self, other: &Report) {
        self.lists += other.lists;
        self.runs += other.runs;
        self.operations += other.operations;
        self.coverage.merge(&other.coverage);
    }
}

/// The list of `seed` with each of `setups` random setups.
#[must_use]
pub fn cases(seed: u64, steps: usize, setups: usize) -> (Vec<Case>, Coverage) {
    let mut random = SeededRng::stream(seed, 50);
    let drawn: Vec<Setup> = (0..setups).map(|_| Setup::draw(&mut random)).collect();
    let first = drawn.first().cloned().unwrap_or_default();
    let (block_bytes, segment_bytes) = (first.block_bytes(), first.segment_bytes());
    let shape = Shape::draw(&mut random, Purpose::Steps, block_bytes, segment_bytes);
    let mut generator = Generator::new(seed, 0, shape.clone());
    let operations = generator.list(steps);
    let cases = drawn.into_iter().map(|setup| Case {
        seed: random.next_u64(),
        setup: Arc::new(setup.with_dranges_of(&mut random, &shape)),
        clients: vec![operations.clone()],
    });
    (cases.collect(), generator.coverage().clone())
}

/// Runs a case without faults and judges it.
pub fn check(case: &Case) -> Result<Run, Violation> {
    let done = run(case, Scene::default())?;
    let found = orders(&done.record, 0, None)?;
    // Every outcome is known, so there is one order.
    let order = &found[0];
    let model = model_of(&Model::default(), order);
    judge(&done.record, order, &model, Tolerance::default())?;
    Ok(done)
}

/// Runs the list of `seed` under several setups.
pub fn sweep(seed: u64, steps: usize, setups: usize, report: &mut Report) -> Result<(), Failed> {
    let (cases, coverage) = cases(seed, steps, setups);
    report.lists += 1;
    report.coverage.merge(&coverage);
    for case in cases {
        let done = check(&case).map_err(|violation| Failed::new(&case, violation))?;
        report.runs += 1;
        report.operations += case.len() as u64;
        crate::run::cover(&done, &mut report.coverage);
    }
    Ok(())
}
