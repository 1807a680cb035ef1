//! Which simulated thread runs, and what time it is.
//!
//! # Why
//! A race shows only in some orders of events, and the operating system picks the order anew each
//! time. Here the seed picks it: every run is one of many orders, and a seed that fails replays.
//!
//! # How
//! Each simulated thread is a thread of the operating system that waits at its own [`Gate`]
//! except when it is its turn. Every call of the environment begins here; at an ordinary call the
//! seed gives the turn to somebody else once in a few times, at a call that blocks always.
//!
//! ```text
//!   main      ████▏         ▕██▏                ▕███ ends
//!   flush         ▕███▏wait             ▕█▏ends
//!   client              ▕███    ▕██▏sleep     ▕██▏ends
//!             0s                           3s       virtual time jumps when nobody could run
//! ```
//!
//! # Invariants
//! 1. Exactly one simulated thread runs between two calls; one that ends is gone before the next
//!    has its turn. So the state behind the lock of this type changes in an order that depends on
//!    the seed alone, and the lock is never contended.
//! 2. Decisions rest on numbers given out in order (threads, locks), never on addresses, hash
//!    order, the wall clock or the operating system.
//! 3. Virtual time moves only when no thread could run, to the earliest timer.
//! 4. A failed run ends all its threads: those that are not unwinding already are unwound by a
//!    payload of their own, raised at their next call, which no hook reports. While destructors
//!    run, the calls they make work as ever, one thread at a time.
//! 5. Every thread of a run has ended when the run returns.
//!
//! Start reading at `Core::choose` in `core.rs`.

mod core;
mod cpu;
mod gate;
mod report;
mod wait;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use self::core::{Choice, Core};
use self::cpu::OneCpu;
use self::gate::Gate;
use self::wait::Reason;
pub(crate) use self::wait::{Call, ThreadId, WaitKind, WaitPoint};
use super::random::SeededRng;
use super::trace::Trace;
use crate::Job;
use crate::sync::assert_none_held;

pub(super) use self::core::Limits;

/// Gives the simulated threads of one run their turns.
pub(crate) struct Scheduler {
    seed: u64,
    switch_at_latches: bool,
    /// A bit for each planted bug.
    #[cfg(feature = "planted-bugs")]
    planted: u128,
    core: Mutex<Core>,
    /// `Core::tearing_down`, to be read without the lock.
    tearing_down: AtomicBool,
    next_wait_point: AtomicU64,
    /// Where the main thread waits for its turns, and after its end for that of all the others.
    main_gate: Arc<Gate>,
    /// The threads of the operating system that are simulated threads, but for the main one.
    started: Mutex<BTreeMap<ThreadId, JoinHandle<()>>>,
    /// One that has given its last turn away and is about to be gone.
    just_ended: Mutex<Option<JoinHandle<()>>>,
}

/// The thread that runs the closure given to [`Scheduler::run`].
const MAIN: ThreadId = ThreadId(0);

/// The simulated thread that this thread of the operating system is.
struct Current {
    scheduler: Arc<Scheduler>,
    id: ThreadId,
    gate: Arc<Gate>,
    /// Whether it is in a piece of code that must not give its turn away.
    is_undivided: Cell<bool>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Whether the simulation of this thread, if it belongs to one, has planted `bug`.
#[cfg(feature = "planted-bugs")]
pub(crate) fn is_planted(bug: crate::PlantedBug) -> bool {
    let planted = CURRENT.try_with(|current| {
        let current = current.try_borrow().ok()?;
        current.as_ref().map(|current| current.scheduler.planted)
    });
    planted.ok().flatten().is_some_and(|planted| planted & 1 << bug as u8 != 0)
}

/// Called before a simulated thread that holds no latch takes one.
pub(crate) fn before_latch() {
    if let Some(scheduler) = switching_scheduler() {
        scheduler.pause(Call::Latch, Raise::No);
    }
}

/// Called where a simulated thread that holds no latch comes to a
/// [`yield_point`](crate::yield_point).
pub(crate) fn at_yield_point() {
    if let Some(scheduler) = switching_scheduler() {
        scheduler.yield_turn();
    }
}

/// The simulation of this thread, if the thread may lose its turn outside of a call.
fn switching_scheduler() -> Option<Arc<Scheduler>> {
    // A thread that is ending has no place in the simulation any more.
    let switching = CURRENT.try_with(|current| {
        let current = current.try_borrow().ok()?;
        let current = current.as_ref()?;
        let may_switch = current.scheduler.switch_at_latches && !current.is_undivided.get();
        may_switch.then(|| Arc::clone(&current.scheduler))
    });
    switching.ok().flatten()
}

/// Runs `act` without giving the turn of this thread away at a latch.
pub(super) fn undivided<T>(act: impl FnOnce() -> T) -> T {
    let set = |is_undivided| {
        CURRENT.with_borrow(|current| {
            if let Some(current) = current {
                current.is_undivided.set(is_undivided);
            }
        });
    };
    set(true);
    let result = act();
    set(false);
    result
}

/// When something happened, and in which thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub now: Duration,
    pub thread: Option<ThreadId>,
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread {
            Some(thread) => write!(f, "{:?} thread {}", self.now, thread.0),
            None => write!(f, "{:?}", self.now),
        }
    }
}

/// The payload that unwinds the threads of a failed run.
struct TornDown;

/// Whether a call raises [`TornDown`] in a run that is being torn down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Raise {
    Yes,
    /// Not from a destructor.
    No,
}

impl Scheduler {
    pub(in crate::sim) fn new(seed: u64, limits: Limits, with_text: bool) -> Scheduler {
        Scheduler {
            seed,
            switch_at_latches: limits.switch_at_latches,
            #[cfg(feature = "planted-bugs")]
            planted: limits.planted,
            core: Mutex::new(Core::new(seed, limits, with_text)),
            tearing_down: AtomicBool::new(false),
            next_wait_point: AtomicU64::new(0),
            main_gate: Arc::default(),
            started: Mutex::new(BTreeMap::new()),
            just_ended: Mutex::new(None),
        }
    }

    /// Runs `main` as the first simulated thread, and returns what it returned when all threads
    /// have ended. Panics if the run failed.
    pub fn run<R: Send>(self: &Arc<Self>, main: impl FnOnce() -> R + Send) -> R {
        let mut result = None;
        let mut one_cpu = None;
        thread::scope(|scope| {
            let gate = &self.main_gate;
            let id = self.core.lock().add_thread("main".to_string(), Arc::clone(gate));
            let run_main = || {
                one_cpu = OneCpu::bind();
                result = Some(main());
            };
            let scheduler = Arc::clone(self);
            let own_gate = Arc::clone(gate);
            let handle = thread::Builder::new()
                .name("terrace-sim-main".to_string())
                .spawn_scoped(scope, move || scheduler.run_thread(id, own_gate, run_main))
                .expect("the operating system starts the main thread of a simulation");
            gate.set_owner(handle.thread().clone());
            gate.open();
        });
        drop(one_cpu);
        let core = self.core.lock();
        if let Some(failure) = &core.failure {
            let message = report::failure(&core, self.seed, &failure.message);
            drop(core);
            panic!("{message}");
        }
        drop(core);
        result.expect("a run that has not failed ran its main thread to the end")
    }

    /// Starts a simulated thread; it could run at once.
    pub fn spawn(self: &Arc<Self>, name: &str, job: Job) -> std::io::Result<ThreadId> {
        self.enter(Call::Spawn);
        let gate = Arc::new(Gate::default());
        let id = self.lock_core().add_thread(name.to_string(), Arc::clone(&gate));
        let scheduler = Arc::clone(self);
        let own_gate = Arc::clone(&gate);
        let started = thread::Builder::new()
            .name(name.to_string())
            .spawn(move || scheduler.run_thread(id, own_gate, job));
        match started {
            Ok(handle) => {
                gate.set_owner(handle.thread().clone());
                self.started.lock().insert(id, handle);
                self.enter(Call::Spawn);
                Ok(id)
            }
            Err(error) => {
                self.lock_core().remove_thread(id);
                Err(error)
            }
        }
    }

    /// The life of a simulated thread.
    fn run_thread(self: Arc<Self>, id: ThreadId, gate: Arc<Gate>, job: impl FnOnce()) {
        let current = Current {
            scheduler: Arc::clone(&self),
            id,
            gate: Arc::clone(&gate),
            is_undivided: Cell::new(false),
        };
        CURRENT.set(Some(current));
        self.await_turn(&gate);
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            self.raise_if_tearing_down();
            job();
        }));
        CURRENT.set(None);
        *self.just_ended.lock() = self.started.lock().remove(&id);
        self.end_thread(id, result.err());
        if id == MAIN {
            self.await_turn(&gate);
        }
    }

    /// Blocks until this thread has its turn, and until the thread that gave it away by ending is
    /// gone, destructors of its thread-local values included.
    fn await_turn(&self, gate: &Gate) {
        gate.pass();
        let ended = self.just_ended.lock().take();
        if let Some(ended) = ended {
            ended.join().expect("run_thread catches the panics of what it runs");
        }
    }

    fn await_own_turn(&self) {
        CURRENT.with_borrow(|current| {
            let current = current.as_ref().expect("only simulated threads give up their turn");
            self.await_turn(&current.gate);
        });
    }

    fn end_thread(&self, id: ThreadId, panic: Option<Box<dyn Any + Send>>) {
        let mut core = self.core.lock();
        core.thread(id).unwinding = false;
        if let Some(payload) = panic.filter(|payload| !payload.is::<TornDown>()) {
            let message = report::panic_text(&core, id, payload.as_ref());
            let is_consequence = core.is_anybody_unwinding();
            core.fail(message, is_consequence);
            // Its destructor may be anybody's code, and this thread may no longer call.
            std::mem::forget(payload);
        }
        core.remove_thread(id);
        if id == MAIN {
            core.main_ended_at = Some(core.now);
        }
        self.hand_over(core, None);
    }

    /// Gives the turn to the thread that the seed chooses. The caller has ended, or (`me`) was
    /// suspended; if the choice falls on it, it simply goes on.
    fn hand_over(&self, mut core: MutexGuard<'_, Core>, me: Option<ThreadId>) {
        let choice = core.choose();
        self.tearing_down.store(core.tearing_down, Ordering::Relaxed);
        match choice {
            Choice::Thread(target) if Some(target) == me => {}
            Choice::Thread(target) => {
                let gate = Arc::clone(&core.thread(target).gate);
                drop(core);
                gate.open();
                if me.is_some() {
                    self.await_own_turn();
                }
            }
            Choice::Nobody => {
                drop(core);
                self.main_gate.open();
            }
            Choice::Hopeless => self.abandon(&core),
        }
    }

    /// Ends the process: the destructors of a failed run wait for each other for ever, so its
    /// threads cannot be ended, and they borrow from the caller of the run.
    fn abandon(&self, core: &Core) -> ! {
        let message = core.failure.as_ref().map_or("", |failure| failure.message.as_str());
        let report = report::failure(core, self.seed, message);
        let threads = report::threads(core);
        // The test harness captures what the print macros write; this must be seen.
        let _ = writeln!(
            std::io::stderr(),
            "{report}\nand its threads cannot be ended, their destructors block:\n{threads}"
        );
        std::process::abort()
    }

    /// The start of a call: somebody else may get the turn first. False if the call is to be
    /// carried out without the scheduler: its thread is unwinding and none of the simulation's.
    pub fn enter(&self, call: Call) -> bool {
        self.pause(call, Raise::Yes)
    }

    fn pause(&self, call: Call, raise: Raise) -> bool {
        let Some(id) = self.identify() else {
            return false;
        };
        let is_unwinding = thread::panicking();
        if !is_unwinding {
            assert_none_held();
        }
        let mut core = self.lock_core();
        if !core.step(id, call.code()) {
            self.abandon(&core);
        }
        self.tearing_down.store(core.tearing_down, Ordering::Relaxed);
        if (is_unwinding && raise == Raise::No) || self.is_to_be_raised(is_unwinding) {
            drop(core);
        } else if let Some(target) = core.draw_switch(id) {
            let scene = Scene { now: core.now, thread: Some(id) };
            core.trace.line(format_args!("{scene} waits for its turn before {call:?}"));
            let gate = Arc::clone(&core.thread(target).gate);
            drop(core);
            gate.open();
            self.await_own_turn();
        } else {
            drop(core);
        }
        if raise == Raise::Yes {
            self.raise_if_tearing_down();
        }
        true
    }

    /// A yield point: this thread may be held up for so long that others finish whole operations.
    fn yield_turn(&self) {
        self.pause(Call::Yield, Raise::No);
        let Some(id) = self.identify() else { return };
        if thread::panicking() || self.tearing_down.load(Ordering::Relaxed) {
            return;
        }
        let mut core = self.lock_core();
        if core.draw_hold_up(id) {
            self.hand_over(core, Some(id));
        }
    }

    fn is_to_be_raised(&self, is_unwinding: bool) -> bool {
        self.tearing_down.load(Ordering::Relaxed) && !is_unwinding
    }

    fn raise_if_tearing_down(&self) {
        if self.is_to_be_raised(thread::panicking()) {
            // Not `panic!`: the hook would report it.
            panic::resume_unwind(Box::new(TornDown));
        }
    }

    /// Which simulated thread this is; `None` for an unwinding thread that is none. Panics for any
    /// other thread: the simulation could not replay what it does.
    fn identify(&self) -> Option<ThreadId> {
        let known = CURRENT.try_with(|current| {
            let current = current.borrow();
            let current = current.as_ref()?;
            std::ptr::eq(&raw const *current.scheduler, self).then_some(current.id)
        });
        let known = known.ok().flatten();
        assert!(
            known.is_some() || thread::panicking(),
            "a thread that the simulation of seed {} did not start called its environment \
             (or called it after the run)",
            self.seed
        );
        known
    }

    fn lock_core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Blocks this thread until `wake` ends its wait or time runs out; false if it was ended by
    /// force.
    fn block(&self, id: ThreadId, reason: Reason, timeout: Option<Duration>) -> bool {
        let mut core = self.lock_core();
        if self.is_to_be_raised(thread::panicking()) {
            drop(core);
            self.raise_if_tearing_down();
            return false;
        }
        core.suspend(id, reason, timeout);
        self.hand_over(core, Some(id));
        self.raise_if_tearing_down();
        !self.lock_core().thread(id).forced
    }

    /// A new lock or signal. Not a call: constructors may run anywhere.
    pub fn new_wait_point(&self, kind: WaitKind, made_at: &'static Location<'static>) -> WaitPoint {
        WaitPoint { id: self.next_wait_point.fetch_add(1, Ordering::Relaxed), kind, made_at }
    }

    /// Blocks until the lock is given back by somebody; the caller then tries again.
    pub fn block_for_lock(&self, point: &WaitPoint, mode: &'static str) {
        if let Some(id) = self.identify() {
            self.block(id, Reason::Point(*point, mode), None);
        }
    }

    /// Blocks until the signal is given, or for `timeout` at most.
    pub fn block_for_signal(&self, point: &WaitPoint, timeout: Option<Duration>) {
        if let Some(id) = self.identify() {
            self.block(id, Reason::Point(*point, ""), timeout);
        }
    }

    /// The signal was given.
    pub fn notified(&self, point: &WaitPoint) {
        self.wake_waiters(point);
        self.pause(Call::Notify(point.id), Raise::No);
    }

    /// This thread took a lock.
    pub fn acquired(&self, point: &WaitPoint) {
        if let Some(id) = self.identify() {
            self.lock_core().thread(id).holds.push(*point);
        }
    }

    /// This thread gave a lock back.
    pub fn released(&self, point: &WaitPoint) {
        let Some(id) = self.identify() else {
            return;
        };
        let mut core = self.lock_core();
        let holds = &mut core.thread(id).holds;
        if let Some(place) = holds.iter().rposition(|held| held.id == point.id) {
            holds.remove(place);
        }
        core.wake_point(point.id);
        drop(core);
        self.pause(Call::Release(point.id), Raise::No);
    }

    /// Lets all threads that wait at `point` try again.
    pub fn wake_waiters(&self, point: &WaitPoint) {
        self.lock_core().wake_point(point.id);
    }

    /// Blocks this thread until virtual time has moved by `duration`.
    pub fn sleep(&self, duration: Duration) {
        if self.enter(Call::Sleep)
            && let Some(id) = self.identify()
        {
            self.block(id, Reason::Sleep, Some(duration));
        }
    }

    /// Blocks until `target` has ended; false if the run is being torn down.
    pub fn join(&self, target: ThreadId) -> bool {
        if self.enter(Call::Join(target))
            && let Some(id) = self.identify()
        {
            while self.lock_core().threads.contains_key(&target) {
                if !self.block(id, Reason::Join(target), None) {
                    break;
                }
            }
        }
        !self.tearing_down.load(Ordering::Relaxed)
    }

    /// Virtual time; no call.
    pub fn now(&self) -> Duration {
        self.lock_core().now
    }

    /// Draws from the seed something that is not whose turn it is; no call.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut SeededRng) -> T) -> T {
        draw(&mut self.lock_core().chance)
    }

    /// Reads or adds to the trace, given the time and the thread; no call.
    pub(in crate::sim) fn trace<T>(&self, add: impl FnOnce(Scene, &mut Trace) -> T) -> T {
        let thread = CURRENT.try_with(|current| current.borrow().as_ref().map(|own| own.id));
        let core = &mut *self.lock_core();
        add(Scene { now: core.now, thread: thread.ok().flatten() }, &mut core.trace)
    }
}

#[cfg(test)]
mod tests;
