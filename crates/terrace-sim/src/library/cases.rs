//! What seeds stand for.

use std::sync::Arc;

use terrace_env::SeededRng;

use crate::run::Case;
use crate::setup::{Setup, Through};
use crate::workload::{Generator, KeyForm, Purpose, Shape, ValueForm};

/// Clients at once, or one that also opens the database anew.
#[must_use]
pub fn race(seed: u64) -> Case {
    let mut random = SeededRng::stream(seed, 56);
    if random.one_in(3) {
        return drawn(seed, &mut random, Purpose::Steps, &[(1, 60), (1, 120), (1, 200)]);
    }
    drawn(seed, &mut random, Purpose::Race, &[(2, 12), (3, 25), (4, 25), (3, 60)])
}

/// Few operations, to be stopped everywhere.
#[must_use]
pub fn crash(seed: u64) -> Case {
    let mut random = SeededRng::stream(seed, 57);
    drawn(seed, &mut random, Purpose::Crash, &[(1, 20), (1, 40), (2, 12), (3, 8)])
}

fn drawn(
    seed: u64,
    random: &mut SeededRng,
    purpose: Purpose,
    clients_and_steps: &[(u64, usize)],
) -> Case {
    // Drawn apart, so that seeds keep what else they draw.
    let filtered = SeededRng::stream(seed, 62).one_in(2);
    let setup = Setup { through: Through::Library, filtered, ..Setup::draw(random) };
    let mut shape = Shape::draw(random, purpose, setup.block_bytes(), setup.segment_bytes());
    shape.key_form = KeyForm::Spaces;
    shape.key_count = random.pick(&[4, 8, 24, 80]);
    if shape.value_form == ValueForm::Segment {
        shape.value_form = ValueForm::Block;
    }
    // Most of what the other suites do is done by few operations here; what spans keyspaces is not.
    let weights = &mut shape.weights;
    let share = |weight: u32| (weight / 8).max(u32::from(weight > 0));
    (weights.write, weights.update) = (share(weights.write), share(weights.update).max(4));
    (weights.get, weights.scan) = (share(weights.get), share(weights.scan));
    (weights.batch, weights.keyspace) = (12, random.pick(&[2, 6, 12]));
    weights.checkpoint = random.pick(&[0, 1, 2]);
    weights.divide = 0;
    let (clients, steps) = clients_and_steps[random.index(clients_and_steps.len())];
    let clients =
        (0..clients).map(|client| Generator::new(seed, client, shape.clone()).list(steps));
    Case { seed, setup: Arc::new(setup), clients: clients.collect() }
}
