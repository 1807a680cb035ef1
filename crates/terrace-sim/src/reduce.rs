//! Makes a failing case smaller.
//!
//! # Why
//! A list of two thousand operations that goes wrong says little; five lines that still go wrong
//! say where to look. So what is not needed is left out, again and again: whole clients, halves of
//! a list, quarters, single operations; then what is left is made simpler, and options go back to
//! the usual ones.
//!
//! *Source:* delta debugging (Zeller and Hildebrandt, 2002). *Differs:* operations also shrink in
//! themselves, by [`Operation::simpler`].

use std::sync::Arc;

use crate::run::Case;
use crate::setup::Setup;
use crate::workload::Operation;

/// Makes `case` smaller while `fails` says that it still shows what it showed, at most `tries_max`
/// times. `case` itself is known to fail. Returns the smallest case that failed; cost: a run of
/// `fails` for each try.
pub fn reduce(case: &Case, tries_max: u64, fails: impl FnMut(&Case) -> bool) -> Case {
    let mut reducer = Reducer { best: case.clone(), left: tries_max, fails };
    loop {
        let before = reducer.best.to_string();
        reducer.leave_out_clients();
        reducer.leave_out_operations();
        reducer.simplify_setup();
        reducer.simplify_operations();
        if reducer.left == 0 || reducer.best.to_string() == before {
            return reducer.best;
        }
    }
}

struct Reducer<F> {
    best: Case,
    left: u64,
    fails: F,
}

impl<F: FnMut(&Case) -> bool> Reducer<F> {
    /// Takes `candidate` over if it fails too.
    fn attempt(&mut self, candidate: Case) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let fails = (self.fails)(&candidate);
        if fails {
            self.best = candidate;
        }
        fails
    }

    fn leave_out_clients(&mut self) {
        let mut client = 0;
        while client < self.best.clients.len() && self.best.clients.len() > 1 {
            let mut candidate = self.best.clone();
            candidate.clients.remove(client);
            if !self.attempt(candidate) {
                client += 1;
            }
        }
    }

    fn leave_out_operations(&mut self) {
        for client in 0..self.best.clients.len() {
            let mut count = self.best.clients[client].len().div_ceil(2);
            while count > 0 {
                self.leave_out_runs(client, count);
                count /= 2;
            }
        }
    }

    /// Leaves out `count` operations in a row, from the end to the beginning.
    fn leave_out_runs(&mut self, client: usize, count: usize) {
        let mut end = self.best.clients[client].len();
        while end > 0 {
            let start = end.saturating_sub(count);
            let mut candidate = self.best.clone();
            candidate.clients[client].drain(start..end);
            self.attempt(candidate);
            end = start.min(self.best.clients[client].len());
        }
    }

    /// Puts each setting back to the usual one.
    fn simplify_setup(&mut self) {
        let text = self.best.setup.to_string();
        for word in text.split_whitespace().filter(|word| !word.starts_with("planted=")) {
            let own = self.best.setup.to_string();
            let words: Vec<&str> = own.split_whitespace().filter(|other| *other != word).collect();
            if let Ok(setup) = words.join(" ").parse::<Setup>() {
                let setup = Arc::new(setup);
                self.attempt(Case { setup, ..self.best.clone() });
            }
        }
    }

    fn simplify_operations(&mut self) {
        for client in 0..self.best.clients.len() {
            let mut place = 0;
            while let Some(operation) = self.best.clients[client].get(place) {
                let simpler = operation.simpler();
                if !simpler.into_iter().any(|simpler| self.replace(client, place, simpler)) {
                    place += 1;
                }
                if self.left == 0 {
                    return;
                }
            }
        }
    }

    fn replace(&mut self, client: usize, place: usize, operation: Operation) -> bool {
        let mut candidate = self.best.clone();
        candidate.clients[client][place] = operation;
        self.attempt(candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Change, Generator, Purpose, Shape};
    use terrace_env::SeededRng;

    /// Whether some key is deleted by the first client after something expired there.
    fn goes_wrong(case: &Case) -> bool {
        let mut has_expiry = false;
        case.clients[0].iter().any(|operation| {
            let Operation::Write { changes, .. } = operation else { return false };
            changes.iter().any(|change| match change {
                Change::Put { ttl_ms, .. } => {
                    has_expiry |= ttl_ms.is_some();
                    false
                }
                Change::Delete { .. } => has_expiry,
                Change::Merge { .. } | Change::DeleteRange { .. } | Change::Ingest { .. } => false,
            })
        })
    }

    #[test]
    fn what_is_not_needed_is_left_out() {
        let mut shape = Shape::draw(&mut SeededRng::new(3), Purpose::Steps, 512, 4096);
        (shape.ttl_in, shape.deletes_in) = (5, 5);
        let clients = (0..3).map(|client| Generator::new(3, client, shape.clone()).list(500));
        let setup = Arc::new("class=sync block=64".parse().expect("well formed"));
        let case = Case { seed: 1, setup, clients: clients.collect() };
        assert!(goes_wrong(&case));
        let reduced = reduce(&case, 10_000, goes_wrong);
        assert!(goes_wrong(&reduced));
        assert_eq!((reduced.clients.len(), reduced.len()), (1, 2), "{reduced}");
        assert_eq!(reduced.setup.to_string(), "");
        assert!(reduced.to_string().lines().count() <= 5, "{reduced}");
    }

    #[test]
    fn a_budget_bounds_the_tries() {
        let operations = vec![Operation::Flush; 64];
        let case = Case { seed: 1, setup: Arc::default(), clients: vec![operations] };
        let mut tries = 0;
        let reduced = reduce(&case, 3, |case| {
            tries += 1;
            case.len() > 10
        });
        assert_eq!(tries, 3);
        assert!(reduced.len() < 64);
    }
}
