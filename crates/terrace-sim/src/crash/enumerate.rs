//! Every moment of a run, every way in which it may end.

use std::path::Path;

use terrace_base::WallTime;
use terrace_env::{CrashPolicy, SeededRng};

use super::recovery::{Allowed, Recovered, recover};
use crate::failed::Failed;
use crate::oracle::{Model, Promise, Tolerance, Violation, judge, model_of, orders, promise_at};
use crate::run::{Case, Moment, Run, Scene, run};
use crate::storage::Storage;
use crate::tally::Tally;

/// A part of the store, known by the files that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The segments of the log.
    Log,
    /// The manifest, and the file that names the current one.
    Manifest,
    /// The tables that flushes and compactions write.
    Tables,
}

impl Component {
    /// All of them.
    pub const ALL: &[Component] = &[Component::Log, Component::Manifest, Component::Tables];

    fn wrote(self, path: &Path) -> bool {
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        match self {
            Component::Log => kind == "log",
            Component::Manifest => kind == "manifest" || kind == "CURRENT",
            Component::Tables => kind == "table",
        }
    }
}

/// How thorough an enumeration is.
#[derive(Clone, Copy, Debug)]
pub struct Thoroughness {
    /// Only moments count at which this component is about to change its files.
    pub only: Option<Component>,
    /// Of this number of moments one is crashed; 1 for every one.
    pub moments_in: u32,
    /// Of this number of recoveries one is crashed itself; 0 for none.
    pub again_in: u32,
    /// How often in a row: a crash, one during its recovery, one during the recovery from that.
    pub depth: u32,
    /// How many moments of a recovery are crashed.
    pub moments_of_recovery: u32,
}

impl Thoroughness {
    /// Every moment, and a few of the recoveries to depth 3.
    pub const USUAL: Thoroughness =
        Thoroughness { only: None, moments_in: 1, again_in: 40, depth: 3, moments_of_recovery: 8 };
}

/// Runs a case, crashes it at its moments, and judges what each crash left. Counts the states by
/// how they came about.
pub fn enumerate(case: &Case, how: Thoroughness, tally: &mut Tally) -> Result<(), Failed> {
    let failed = |violation: Violation| Failed::new(case, violation);
    let scene = Scene { with_moments: true, ..Scene::default() };
    let done = run(case, scene).map_err(failed)?;
    Enumeration::of(case, &done).map_err(failed)?.go(how, tally).map_err(failed)
}

/// A run that is crashed again and again.
struct Enumeration<'a> {
    case: &'a Case,
    done: &'a Run,
    model: Model,
    /// What had been promised at each moment.
    promises: Vec<Promise>,
    /// The numbers after which the state may be cut.
    boundaries: Vec<u64>,
}

impl<'a> Enumeration<'a> {
    /// Judges the run itself first: a run that goes wrong without a crash proves nothing by one.
    fn of(case: &'a Case, done: &'a Run) -> Result<Enumeration<'a>, Violation> {
        let found = orders(&done.record, 0, None)?;
        let order = &found[0];
        let model = model_of(&Model::default(), order);
        judge(&done.record, order, &model, Tolerance::default())?;
        let durability = case.setup.options.durability;
        let promises = done
            .moments
            .iter()
            .map(|at| promise_at(&done.record, order, 0, durability, at.index, at.at))
            .collect();
        let boundaries = std::iter::once(0).chain(order.iter().map(|placed| placed.last)).collect();
        Ok(Enumeration { case, done, model, promises, boundaries })
    }

    fn go(&self, how: Thoroughness, tally: &mut Tally) -> Result<(), Violation> {
        let mut random = SeededRng::stream(self.case.seed, 53);
        for (moment, promise) in self.done.moments.iter().zip(&self.promises) {
            let counts = how.only.is_none_or(|component| component.wrote(&moment.path));
            if !counts || !random.one_in(how.moments_in) {
                continue;
            }
            for policy in CrashPolicy::ALL {
                let storage = moment.storage.crash(policy, random.next_u64());
                let name = name_of(policy);
                let state = State { moment, promise, policy, name };
                let recovered = self.judge(&state, storage, &mut random)?;
                tally.count(name);
                if random.one_in(how.again_in) {
                    self.again(&state, &recovered, how, 2, &mut random, tally)?;
                }
            }
            if let Some(torn) = &moment.torn {
                let policy = CrashPolicy::ProcessKill;
                let state = State { moment, promise, policy, name: "killed in a write" };
                self.judge(&state, torn.crash(policy, 0), &mut random)?;
                tally.count(state.name);
            }
        }
        Ok(())
    }

    fn judge(
        &self,
        state: &State<'_>,
        storage: Storage,
        random: &mut SeededRng,
    ) -> Result<Recovered, Violation> {
        let allowed = self.allowed(state);
        let passed = u64::try_from(state.moment.at.as_millis()).unwrap_or(u64::MAX);
        let wall = WallTime(self.done.wall_start.0.saturating_add(passed));
        recover(&self.case.setup, storage, wall, &allowed, random.next_u64())
            .map_err(|violation| violation.within(&state.to_string()))
    }

    fn allowed(&self, state: &State<'_>) -> Allowed<'_> {
        let least = match state.policy {
            CrashPolicy::ProcessKill => state.promise.kill,
            _ => state.promise.cut,
        };
        let begun = state.promise.begun;
        let boundaries = &self.boundaries;
        Allowed { model: &self.model, boundaries, least, most: begun }
    }

    /// Stops a recovery at some of its changes of the disk, and the recovery from that, and so on.
    fn again(
        &self,
        first: &State<'_>,
        recovered: &Recovered,
        how: Thoroughness,
        depth: u32,
        random: &mut SeededRng,
        tally: &mut Tally,
    ) -> Result<(), Violation> {
        let every = recovered.moments.len() as u32 / how.moments_of_recovery.max(1) + 1;
        for (index, storage) in recovered.moments.iter().enumerate() {
            if !random.one_in(every) {
                continue;
            }
            let policy = CrashPolicy::ALL[random.index(CrashPolicy::ALL.len())];
            let crashed = storage.crash(policy, random.next_u64());
            // What a kill left in the system's pages only, a later power cut may take.
            let is_kill = [first.policy, policy].iter().all(|p| *p == CrashPolicy::ProcessKill);
            let worst = if is_kill { CrashPolicy::ProcessKill } else { CrashPolicy::SyncedOnly };
            let state = State { policy: worst, ..*first };
            let mut allowed = self.allowed(&state);
            if first.policy != CrashPolicy::ProcessKill {
                // All that the first crash left is durable: it may neither shrink nor grow.
                (allowed.least, allowed.most) = (recovered.seqno, recovered.seqno);
            }
            // The clock does not go back: what had expired may be gone.
            let (setup, wall) = (&self.case.setup, recovered.wall);
            let next = recover(setup, crashed, wall, &allowed, random.next_u64());
            let next = next.map_err(|violation| {
                let context = format!(
                    "{first}; then {} at change {index} of the recovery, depth {depth}",
                    name_of(policy)
                );
                violation.within(&context)
            })?;
            tally.count(if depth == 2 {
                "crash in a recovery"
            } else {
                "crash at depth 3 and more"
            });
            if depth < how.depth && random.one_in(3) {
                self.again(&state, &next, how, depth + 1, random, tally)?;
            }
        }
        Ok(())
    }
}

/// One way in which a run ended.
#[derive(Clone, Copy)]
struct State<'a> {
    moment: &'a Moment,
    promise: &'a Promise,
    policy: CrashPolicy,
    name: &'static str,
}

impl std::fmt::Display for State<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} before change {}, {}", self.name, self.moment.index, self.moment.what)
    }
}

/// What a crash is called.
#[must_use]
pub fn name_of(policy: CrashPolicy) -> &'static str {
    match policy {
        CrashPolicy::ProcessKill => "killed",
        CrashPolicy::SyncedOnly => "power cut, synced only",
        CrashPolicy::Sectors => "power cut, any sectors",
        CrashPolicy::Pages => "power cut, any pages",
        _ => "another crash",
    }
}
