//! One round: the machines of a world, from their start to the moment at which all of them stop.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_env::{DiskImage, ObjectFaults, ObjectImage, SeededRng, SharedEnv, SimEnv, SimOptions};

use super::checks;
use super::ledger::{Ledger, Shared};
use super::openers::Owner;
use super::plan::{Plan, draw_policy};
use super::readers::Reader;
use crate::Error;
use crate::store::tests::by_seed::Tally;

/// What the object store is called.
pub const URL: &str = "sim://store";

/// What is left when all machines have stopped.
#[derive(Clone)]
pub struct Rest {
    pub disk: DiskImage,
    pub objects: ObjectImage,
    pub ledger: Ledger,
}

impl Rest {
    /// Before anything was there.
    pub fn nothing() -> Rest {
        let ledger = Ledger::new("/db");
        Rest { disk: DiskImage::new(), objects: ObjectImage::new(), ledger }
    }
}

/// The machines while they run.
pub struct Round<'a> {
    pub sim: Arc<SimEnv>,
    pub env: SharedEnv,
    pub plan: &'a Plan,
    pub random: &'a mut SeededRng,
    pub tally: &'a mut Tally,
    pub ledger: Shared,
    pub owner: Option<Owner>,
    /// Owners that have lost the database, and perhaps do not know it yet.
    pub zombies: Vec<Owner>,
    pub readers: Vec<Reader>,
    pub has_faults: bool,
}

/// Runs the machines on what is left of the round before, until they stop: at some change of the
/// disk or of the store, or at the end of the steps.
pub fn run(
    plan: &Plan,
    random: &mut SeededRng,
    tally: &mut Tally,
    rest: Rest,
    sim: SimOptions,
) -> Rest {
    let ledger = Shared::new(rest.ledger);
    let stopped: Arc<Mutex<Option<Rest>>> = Arc::default();
    // Half of the rounds end at the end of their steps.
    let most = 64 << random.below(8);
    let stops_at = if random.one_in(2) { u64::MAX } else { random.below(most) };
    let (known, at_stop) = (ledger.clone(), Arc::clone(&stopped));
    let sim = SimOptions {
        disk: rest.disk,
        objects: rest.objects,
        switch_one_in: plan.switch_one_in,
        steps_max: 2_000_000,
        object_delay_max: plan.delay_max,
        linger_max: Duration::from_secs(24 * 3600),
        on_io: Some(Box::new(move |point| {
            if point.index == stops_at {
                let (disk, objects) = (point.disk.clone(), point.objects.clone());
                let rest = Rest { disk, objects, ledger: known.get().clone() };
                *at_stop.lock().expect("one thread runs at a time") = Some(rest);
            }
        })),
        ..sim
    };
    let has_stopped = {
        let stopped = Arc::clone(&stopped);
        move || stopped.lock().expect("one thread runs at a time").is_some()
    };
    let ended = SimEnv::run(sim, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let mut round = Round {
            sim,
            env,
            plan,
            random: &mut *random,
            tally: &mut *tally,
            ledger: ledger.clone(),
            owner: None,
            zombies: Vec::new(),
            readers: Vec::new(),
            has_faults: false,
        };
        round.begin();
        for _ in 0..plan.steps {
            if has_stopped() {
                break;
            }
            round.step();
            round.check();
        }
        round.end()
    });
    let stopped = stopped.lock().expect("the run has ended").take();
    *tally.entry(if stopped.is_some() { "stopped" } else { "ended" }).or_default() += 1;
    let mut rest = stopped.unwrap_or(ended);
    rest.disk = rest.disk.crash(draw_policy(random), random.next_u64());
    checks::look_from_elsewhere(&rest.objects, &mut rest.ledger);
    rest
}

impl Round<'_> {
    pub fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn begin(&mut self) {
        if self.random.one_in(2) {
            self.set_faults(true);
        }
        self.open_owner();
        self.refuse_retired();
    }

    /// Stops all machines between two steps.
    fn end(&mut self) -> Rest {
        if self.random.one_in(3) {
            self.close_owner();
        }
        let rest = Rest {
            disk: self.sim.disk(),
            objects: self.sim.object_image(),
            ledger: self.ledger.get().clone(),
        };
        self.sim.set_object_faults(ObjectFaults::default());
        self.owner = None;
        self.zombies.clear();
        self.readers.clear();
        rest
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..28 => self.write(),
            28..30 => self.spoil_cache(),
            30..34 => self.flush(),
            34..38 => self.compact(),
            38..42 => self.settle(),
            42..50 => self.pass(),
            50..53 => self.take_snapshot(),
            53..56 => self.look_at_snapshot(),
            56 => self.copy_locally(),
            57..60 => self.reopen(),
            60..64 => self.copy_owner(),
            64..68 => self.take_over(),
            68..72 => self.write_as_zombie(),
            72..75 => self.retire_zombie(),
            75..79 => self.open_reader(),
            79..84 => self.catch_up(),
            84..88 => self.look_at_reader(),
            88..90 => self.drop_reader(),
            90..92 => self.make_checkpoint(),
            92..94 => self.look_at_checkpoint(),
            94 => self.remove_checkpoint(),
            95 => self.clone_database(),
            96..98 => self.set_faults(!self.has_faults),
            98 => self.store_away(),
            _ => self.long_pause(),
        }
    }

    pub fn set_faults(&mut self, on: bool) {
        self.has_faults = on;
        let faults = if on { self.plan.faults() } else { ObjectFaults::default() };
        self.sim.set_object_faults(faults);
    }

    /// Does something while the store does what it should.
    pub fn without_faults<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.has_faults;
        self.set_faults(false);
        let made = act(self);
        self.set_faults(before);
        made
    }

    /// Panics unless the store is to blame for this error.
    pub fn excuse(&mut self, what: &str, error: &Error) {
        assert!(self.has_faults && matches!(error, Error::Io(_)), "{what}: {error}");
        self.count("failed");
    }

    /// Lets the owner feed its next moment.
    fn pass(&mut self) {
        self.env.sleep(PERIODS * super::plan::PERIOD);
        self.settle();
    }

    /// Long enough for the owner to give up on readers that do not come.
    fn long_pause(&mut self) {
        self.env.sleep(2 * crate::cloud::PIN_STILL_MAX);
        self.settle();
    }

    /// The store is away for a while.
    fn store_away(&mut self) {
        self.sim.set_objects_away(true);
        self.write();
        let pause = Duration::from_secs(1 + self.random.below(100));
        self.env.sleep(pause);
        self.sim.set_objects_away(false);
    }
}

/// The owner mirrors at least once in so many periods.
const PERIODS: u32 = 2;
