//! A trial: clients work on one range, round after round; in each round calls may fail, and at its
//! end the machine may stop; the next round goes on with the disk that is left.
//!
//! # Why
//! The other suites ask one question at a time, on a fresh disk. A trial is what a machine does to
//! a store over the years, in a second: failures upon failures, on a directory that has a past. It
//! is also what people outside of the project can run: `terrace sim`.
//!
//! ```text
//!   disk ─► clients, with a failing call ─► stop at a moment ─► crashed disk ─► judge ─┐
//!    ▲                                                                                 │
//!    └──────────── model and disk as the recovery found them ◄─────────────────────────┘
//! ```
//!
//! # Invariants
//! 1. The seed and the options decide every byte of the report.
//! 2. A round begins with exactly the state that the last recovery was judged by.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::WallTime;
use terrace_env::{CrashPolicy, Fault, FaultEffect, FaultErrno, FaultPlan, Operation, SeededRng};

use crate::crash::{Allowed, name_of, recover};
use crate::failed::Failed;
use crate::oracle::{Model, Order, Outcome, Violation, What, Write, promise_at};
use crate::run::{Case, Moment, Run, Scene, run};
use crate::setup::Setup;
use crate::storage::Storage;
use crate::sweep::{judged, lasting_class, tolerance_of, wall_at};
use crate::tally::Tally;
use crate::workload::{Generator, Purpose, Shape};

/// The most clients of a trial.
pub const CLIENTS_MAX: u64 = 8;

/// Something that goes wrong in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// The process is killed.
    Kill,
    /// The machine loses power: what was not synced is lost, whole or in parts.
    PowerCut,
    /// A call fails with `EIO`.
    Eio,
    /// A call fails with `ENOSPC`.
    Enospc,
    /// A call fails with `EINTR`.
    Eintr,
    /// Half of a write is written before it fails.
    ShortWrite,
    /// A sync fails, and what it should have made durable is lost.
    FailedSync,
    /// A rename fails.
    FailedRename,
    /// A call takes seconds.
    Delay,
    /// The wall clock is an hour further after a stop.
    ClockJump,
}

impl Trouble {
    /// All of them.
    pub const ALL: &[Trouble] = &[
        Trouble::Kill,
        Trouble::PowerCut,
        Trouble::Eio,
        Trouble::Enospc,
        Trouble::Eintr,
        Trouble::ShortWrite,
        Trouble::FailedSync,
        Trouble::FailedRename,
        Trouble::Delay,
        Trouble::ClockJump,
    ];

    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Kill => "kill",
            Trouble::PowerCut => "power-cut",
            Trouble::Eio => "eio",
            Trouble::Enospc => "enospc",
            Trouble::Eintr => "eintr",
            Trouble::ShortWrite => "short-write",
            Trouble::FailedSync => "failed-sync",
            Trouble::FailedRename => "failed-rename",
            Trouble::Delay => "delay",
            Trouble::ClockJump => "clock-jump",
        }
    }

    /// The trouble with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Trouble> {
        Trouble::ALL.iter().copied().find(|trouble| trouble.name() == name)
    }

    /// The fault of a call, if it is one, in a run of about `calls` calls.
    fn fault(self, random: &mut SeededRng, calls: u64) -> Option<Fault> {
        let any = |random: &mut SeededRng, effect| {
            Some(Fault::any(1 + random.below(calls.max(1)), effect))
        };
        match self {
            Trouble::Kill | Trouble::PowerCut | Trouble::ClockJump => None,
            Trouble::Eio => any(random, FaultEffect::Error(FaultErrno::Io)),
            Trouble::Enospc => any(random, FaultEffect::Error(FaultErrno::NoSpace)),
            Trouble::Eintr => any(random, FaultEffect::Error(FaultErrno::Interrupted)),
            Trouble::Delay => any(random, FaultEffect::Delay(Duration::from_secs(3))),
            Trouble::ShortWrite => {
                let errno = [FaultErrno::Io, FaultErrno::NoSpace][random.index(2)];
                let nth = 1 + random.below(calls.max(4) / 4);
                Some(Fault::nth(Operation::Write, nth, FaultEffect::ShortWrite(errno)))
            }
            Trouble::FailedSync => {
                let what = [Operation::Sync, Operation::Sync, Operation::SyncDir][random.index(3)];
                let nth = 1 + random.below(calls.max(20) / 20);
                Some(Fault::nth(what, nth, FaultEffect::Error(FaultErrno::Io)))
            }
            Trouble::FailedRename => {
                let nth = 1 + random.below(4);
                let effect = FaultEffect::Error(FaultErrno::Io);
                Some(Fault::nth(Operation::Rename, nth, effect))
            }
        }
    }
}

/// What a trial is.
#[derive(Clone, Debug)]
pub struct TrialOptions {
    /// Decides what is left open here.
    pub seed: u64,
    /// Operations of all clients in all rounds together.
    pub steps: u64,
    /// Clients at once, 1 to [`CLIENTS_MAX`].
    pub clients: u64,
    /// What may go wrong.
    pub troubles: Vec<Trouble>,
    /// Options and machine.
    pub setup: Setup,
}

impl TrialOptions {
    /// Two thousand steps of one to four clients with every trouble, under options by the seed.
    #[must_use]
    pub fn new(seed: u64) -> TrialOptions {
        let mut random = SeededRng::stream(seed, 56);
        let setup = Setup { at_latches: random.one_in(2), ..Setup::draw(&mut random) };
        let clients = 1 + random.below(4);
        TrialOptions { seed, steps: 2000, clients, troubles: Trouble::ALL.to_vec(), setup }
    }
}

/// A trial under way.
#[derive(Debug)]
pub struct Trial {
    options: TrialOptions,
    setup: Arc<Setup>,
    shape: Shape,
    generators: Vec<Generator>,
    random: SeededRng,
    storage: Storage,
    model: Model,
    wall: Option<WallTime>,
    /// Whether the last stop left things in the system's pages only.
    was_killed: bool,
    /// Calls of the last round, to place faults in the next.
    calls: u64,
    rounds: u64,
    steps_left: u64,
    tally: Tally,
    trace_hash: u64,
}

/// What a round came to; displayed as a line of the report.
#[derive(Clone, Debug)]
pub struct Round {
    /// Its number, from 1.
    pub number: u64,
    /// Operations.
    pub steps: u64,
    /// Acknowledged writes.
    pub writes: u64,
    /// What failed, and how the round ended.
    pub events: Vec<String>,
    /// The last number that must have survived, that did, and that had been begun.
    pub survived: (u64, u64, u64),
    /// A hash of everything that happened in all rounds so far.
    pub trace_hash: u64,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, found, most) = self.survived;
        write!(
            f,
            "round {:4}  {:4} steps  {:4} writes  recovered {found} of {least}..={most}  trace \
             {:016x}",
            self.number, self.steps, self.writes, self.trace_hash
        )?;
        self.events.iter().try_for_each(|event| write!(f, "\n    {event}"))
    }
}

impl Trial {
    /// A trial that begins with an empty disk.
    #[must_use]
    pub fn new(options: TrialOptions) -> Trial {
        let mut random = SeededRng::stream(options.seed, 57);
        let setup = &options.setup;
        let purpose = if options.clients == 1 { Purpose::Crash } else { Purpose::Race };
        let (block_bytes, segment_bytes) = (setup.block_bytes(), setup.segment_bytes());
        let mut shape = Shape::draw(&mut random, purpose, block_bytes, segment_bytes);
        shape.key_count = [12, 60, 300][random.index(3)];
        let mut setup = options.setup.clone().with_dranges_of(&mut random, &shape);
        let given = &options.setup.options.drange_boundaries;
        if !given.is_empty() {
            setup.options.drange_boundaries.clone_from(given);
        }
        let generator = |client| Generator::new(options.seed, client, shape.clone());
        Trial {
            setup: Arc::new(setup),
            generators: (0..options.clients.clamp(1, CLIENTS_MAX)).map(generator).collect(),
            shape,
            random,
            storage: Storage::default(),
            model: Model::default(),
            wall: None,
            was_killed: false,
            calls: 400,
            rounds: 0,
            steps_left: options.steps,
            tally: Tally::default(),
            trace_hash: 0,
            options,
        }
    }

    /// What the clients do, for the head of a report.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Options and machine, as a text that differs from the usual one.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// What was done so far, by kind.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next round; `None` if all steps are done.
    ///
    /// Errors: a violation, with the case of the round. It may need the disk of the rounds before,
    /// so what shows it again is the trial.
    pub fn round(&mut self) -> Result<Option<Round>, Failed> {
        if self.steps_left == 0 {
            return Ok(None);
        }
        self.rounds += 1;
        let case = self.case();
        let faults = self.faults();
        let failed = |violation: Violation| Failed {
            faults: faults.clone(),
            ..Failed::new(&case, violation)
        };
        let scene = Scene {
            storage: self.storage.clone(),
            wall_start: self.wall,
            with_moments: true,
            faults: faults.clone(),
            with_fault_layer: true,
        };
        let done = run(&case, scene).map_err(failed)?;
        let round = self.finish(&case, &done).map_err(failed)?;
        Ok(Some(round))
    }

    fn case(&mut self) -> Case {
        let clients = self.generators.len() as u64;
        let steps = (40 + self.random.below(400)).min(self.steps_left);
        self.steps_left -= steps;
        let share = |client: u64| steps / clients + u64::from(client < steps % clients);
        let lists = self.generators.iter_mut().zip(0..);
        let lists = lists.map(|(generator, client)| generator.list(share(client) as usize));
        let lists = lists.collect();
        Case { seed: self.random.next_u64(), setup: Arc::clone(&self.setup), clients: lists }
    }

    fn has(&self, trouble: Trouble) -> bool {
        self.options.troubles.contains(&trouble)
    }

    fn faults(&mut self) -> FaultPlan {
        let troubles = &self.options.troubles;
        if troubles.is_empty() || self.random.one_in(3) {
            return FaultPlan::default();
        }
        let trouble = troubles[self.random.index(troubles.len())];
        let fault = trouble.fault(&mut self.random, self.calls);
        FaultPlan { faults: fault.into_iter().collect() }
    }

    /// Judges a run, stops it, judges what is left, and takes that over.
    fn finish(&mut self, case: &Case, done: &Run) -> Result<Round, Violation> {
        let mut events: Vec<String> = Vec::new();
        for fault in &done.injected {
            let (call, path) = (fault.call, fault.path.display());
            events
                .push(format!("call {call}, {:?} of {path}: {:?}", fault.operation, fault.effect));
            self.tally.count(&format!("{:?} with {:?}", fault.operation, fault.effect));
        }
        let tolerance = tolerance_of(&done.injected);
        let orders = judged(done, &self.model, tolerance)?;
        let stop = self.stop(done);
        events.push(stop.to_string());
        self.tally.count(stop.name);
        let class = lasting_class(case, done);
        let storage = stop.storage.crash(stop.policy, self.random.next_u64());
        let wall = wall_at(done, stop.moment.at);
        let seed = self.random.next_u64();
        let mut last = None;
        for (order, model) in &orders {
            let base = self.model.seqno();
            let promise =
                promise_at(&done.record, order, base, class, stop.moment.index, stop.moment.at);
            let is_kill = stop.policy == CrashPolicy::ProcessKill;
            let least = if is_kill { promise.kill } else { promise.cut };
            let boundaries = boundaries(base, order);
            let most = promise.begun;
            let allowed = Allowed { model, boundaries: &boundaries, least, most };
            match recover(&self.setup, storage.clone(), wall, &allowed, seed) {
                Ok(recovered) => {
                    let survived = (least, recovered.seqno, most);
                    self.model = model.clone().cut_at(recovered.seqno).without_history();
                    last = Some(Ok(survived));
                    break;
                }
                Err(violation) => last = Some(Err(violation)),
            }
        }
        let survived = last.expect("there is an order").map_err(|v| v.within(&stop.to_string()))?;
        self.was_killed = stop.policy == CrashPolicy::ProcessKill;
        self.storage = storage;
        let jumps = self.has(Trouble::ClockJump) && self.random.one_in(6);
        if jumps {
            events.push("the clock is an hour further".to_string());
        }
        self.wall = Some(WallTime(wall.0 + if jumps { 3_600_000 } else { 0 }));
        Ok(self.count(case, done, survived, events))
    }

    fn count(
        &mut self,
        case: &Case,
        done: &Run,
        survived: (u64, u64, u64),
        events: Vec<String>,
    ) -> Round {
        self.calls = done.calls;
        let written = |(_, write): &(_, &Write)| matches!(write.outcome, Outcome::Written { .. });
        let writes = done.record.writes().filter(written).count() as u64;
        self.tally.add("operation", case.len() as u64);
        self.tally.add("acknowledged write", writes);
        self.tally.count("round");
        self.trace_hash =
            (self.trace_hash.rotate_left(5) ^ done.trace_hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let steps = case.len() as u64;
        let (number, trace_hash) = (self.rounds, self.trace_hash);
        Round { number, steps, writes, events, survived, trace_hash }
    }

    /// Chooses how a round ends: by a crash at some moment, or by itself.
    fn stop<'a>(&mut self, done: &'a Run) -> Stop<'a> {
        let last = done.moments.last().expect("the end is a moment");
        let end = Stop {
            moment: last,
            storage: &last.storage,
            policy: CrashPolicy::ProcessKill,
            name: "ended by itself",
        };
        let kinds: Vec<Trouble> =
            [Trouble::Kill, Trouble::PowerCut].into_iter().filter(|kind| self.has(*kind)).collect();
        if kinds.is_empty() || self.random.one_in(4) {
            return end;
        }
        let kind = kinds[self.random.index(kinds.len())];
        // What a kill left in the system's pages only, the next open makes durable; before that a
        // power cut may take it.
        let opened = done.record.events.iter().find_map(|event| match event.what {
            What::Opened { .. } => event.ended.map(|ended| ended.io),
            _ => None,
        });
        let from = match (kind, self.was_killed) {
            (Trouble::PowerCut, true) => opened,
            _ => Some(0),
        };
        let Some(from) = from else { return end };
        let first = done.moments.partition_point(|moment| moment.index < from);
        if first >= done.moments.len() {
            return end;
        }
        let moment = &done.moments[first + self.random.index(done.moments.len() - first)];
        if kind == Trouble::PowerCut {
            let all = [CrashPolicy::SyncedOnly, CrashPolicy::Sectors, CrashPolicy::Pages];
            let policy = all[self.random.index(3)];
            return Stop { moment, storage: &moment.storage, policy, name: name_of(policy) };
        }
        let policy = CrashPolicy::ProcessKill;
        match &moment.torn {
            Some(torn) if self.random.one_in(2) => {
                Stop { moment, storage: torn, policy, name: "killed in a write" }
            }
            _ => Stop { moment, storage: &moment.storage, policy, name: "killed" },
        }
    }
}

fn boundaries(base: u64, order: &Order<'_>) -> Vec<u64> {
    std::iter::once(base).chain(order.iter().map(|placed| placed.last)).collect()
}

/// How a round ended.
struct Stop<'a> {
    moment: &'a Moment,
    storage: &'a Storage,
    policy: CrashPolicy,
    name: &'static str,
}

impl fmt::Display for Stop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} before change {}, {}", self.name, self.moment.index, self.moment.what)
    }
}
