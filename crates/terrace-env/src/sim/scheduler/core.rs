use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::gate::Gate;
use super::report;
use super::wait::{Reason, State, ThreadId, WaitPoint};
use crate::sim::random::SeededRng;
use crate::sim::trace::Trace;

/// Calls that a run may still make once it is being torn down. Only destructors call then; a
/// destructor that needs more than this does not end.
const TEARDOWN_STEPS_MAX: u64 = 1_000_000;

/// A timeout from which on no timer is set. About a century.
const FOREVER: Duration = Duration::from_secs(1 << 32);

/// At a yield point a thread is held up once in this many times.
const HOLD_UP_ONE_IN: u32 = 8;

/// It is held up for less than two to this power of calls: as often for a few as for thousands.
const HOLD_UP_BITS: u64 = 12;

/// Once in this many times it is held up for a time instead.
const HOLD_UP_SLEEPS_ONE_IN: u32 = 4;

/// That time is less than two to this power of microseconds; with it, time passes between two
/// steps.
const HOLD_UP_US_BITS: u64 = 22;

/// What bounds a run.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Limits {
    pub switch_one_in: u32,
    pub switch_at_latches: bool,
    pub steps_max: u64,
    pub linger_max: Duration,
    /// A bit for each planted bug.
    #[cfg(feature = "planted-bugs")]
    pub planted: u128,
}

/// All that decides which thread runs next. It knows no operating-system thread: it is told what
/// the running thread does, and answers whose turn it is.
pub(super) struct Core {
    pub now: Duration,
    pub threads: BTreeMap<ThreadId, SimThread>,
    pub trace: Trace,
    pub failure: Option<Failure>,
    pub tearing_down: bool,
    pub main_ended_at: Option<Duration>,
    pub steps: u64,
    /// Draws everything that is not whose turn it is.
    pub chance: SeededRng,
    random: SeededRng,
    limits: Limits,
    /// Threads that could run, the running one included.
    runnable: Vec<ThreadId>,
    timers: BTreeSet<(Duration, ThreadId)>,
    /// Threads that are held up at a yield point, by the count of calls at which they may go on.
    held_up: BTreeSet<(u64, ThreadId)>,
    next_thread: u64,
    /// Calls until the run is stopped as one that makes no progress.
    steps_left: u64,
}

/// One simulated thread that has not ended.
pub(super) struct SimThread {
    pub name: String,
    pub gate: Arc<Gate>,
    pub state: State,
    /// Whether a panic was unwinding its stack when it last gave up its turn.
    pub unwinding: bool,
    /// Whether its last wait was ended by force, see [`Core::choose`].
    pub forced: bool,
    pub holds: Vec<WaitPoint>,
}

/// Why a run failed.
pub(super) struct Failure {
    pub message: String,
    /// Whether a panic of a thread that was unwinding when this was found explains it better.
    pub is_consequence: bool,
}

/// Whose turn it is.
pub(super) enum Choice {
    Thread(ThreadId),
    /// Every thread has ended.
    Nobody,
    /// The run is being torn down and destructors wait for each other for ever.
    Hopeless,
}

impl Core {
    pub fn new(seed: u64, limits: Limits, with_text: bool) -> Core {
        Core {
            now: Duration::ZERO,
            threads: BTreeMap::new(),
            trace: Trace::new(with_text),
            failure: None,
            tearing_down: false,
            main_ended_at: None,
            steps: 0,
            chance: SeededRng::stream(seed, 2),
            random: SeededRng::stream(seed, 1),
            limits,
            runnable: Vec::new(),
            timers: BTreeSet::new(),
            held_up: BTreeSet::new(),
            next_thread: 0,
            steps_left: limits.steps_max,
        }
    }

    pub fn add_thread(&mut self, name: String, gate: Arc<Gate>) -> ThreadId {
        let id = ThreadId(self.next_thread);
        self.next_thread += 1;
        self.trace.line(format_args!("{:?} thread {} '{name}' starts", self.now, id.0));
        let state = State::Ready;
        let thread =
            SimThread { name, gate, state, unwinding: false, forced: false, holds: Vec::new() };
        self.threads.insert(id, thread);
        self.runnable.push(id);
        id
    }

    pub fn thread(&mut self, id: ThreadId) -> &mut SimThread {
        self.threads.get_mut(&id).expect("a thread is listed until it ends")
    }

    /// Counts a call. False if the run has made too many.
    pub fn step(&mut self, id: ThreadId, code: u64) -> bool {
        self.steps += 1;
        self.trace.mix(code);
        self.trace.mix(id.0);
        while self.held_up.first().is_some_and(|&(until, _)| until <= self.steps) {
            self.let_go_on();
        }
        if let Some(left) = self.steps_left.checked_sub(1) {
            self.steps_left = left;
            return true;
        }
        if !self.tearing_down {
            let limit = self.limits.steps_max;
            self.fail(format!("no end after {limit} calls:\n{}", report::threads(self)), false);
            return true;
        }
        false
    }

    /// The thread that takes over from `id`, which could go on; `None` if it does go on.
    pub fn draw_switch(&mut self, id: ThreadId) -> Option<ThreadId> {
        if self.runnable.len() < 2 || !self.random.one_in(self.limits.switch_one_in) {
            return None;
        }
        let target = self.draw_runnable();
        if target == id {
            return None;
        }
        self.thread(id).unwinding = std::thread::panicking();
        Some(target)
    }

    /// Whether `id`, which could go on, is held up at a yield point; it is suspended then.
    pub fn draw_hold_up(&mut self, id: ThreadId) -> bool {
        if self.runnable.len() < 2 || !self.random.one_in(HOLD_UP_ONE_IN) {
            return false;
        }
        if self.random.one_in(HOLD_UP_SLEEPS_ONE_IN) {
            let duration = Duration::from_micros(1 << self.random.below(HOLD_UP_US_BITS));
            self.suspend(id, Reason::HeldUp, Some(duration));
            return true;
        }
        let calls = 1 << self.random.below(HOLD_UP_BITS);
        self.suspend(id, Reason::HeldUp, None);
        self.held_up.insert((self.steps + calls, id));
        true
    }

    /// Lets the thread go on that was to be held up for the shortest time from now; false if there
    /// is none.
    fn let_go_on(&mut self) -> bool {
        let first = self.held_up.pop_first();
        if let Some((_, id)) = first {
            self.wake(id);
        }
        first.is_some()
    }

    fn draw_runnable(&mut self) -> ThreadId {
        let target = self.runnable[self.random.index(self.runnable.len())];
        self.trace.mix(target.0);
        target
    }

    /// Takes the running thread out of those that could run.
    pub fn suspend(&mut self, id: ThreadId, reason: Reason, timeout: Option<Duration>) {
        let timeout = timeout.filter(|&timeout| timeout < FOREVER);
        let deadline = timeout.map(|timeout| self.now.saturating_add(timeout));
        if let Some(deadline) = deadline {
            self.timers.insert((deadline, id));
        }
        self.remove_runnable(id);
        let unwinding = std::thread::panicking();
        let thread = self.thread(id);
        thread.unwinding = unwinding;
        thread.forced = false;
        thread.state = State::Waiting { reason, deadline };
    }

    fn remove_runnable(&mut self, id: ThreadId) {
        let place = self.runnable.iter().position(|&other| other == id);
        self.runnable.swap_remove(place.expect("a running thread could run"));
    }

    fn wake(&mut self, id: ThreadId) {
        let thread = self.thread(id);
        if let State::Waiting { deadline, .. } = std::mem::replace(&mut thread.state, State::Ready)
        {
            if let Some(deadline) = deadline {
                self.timers.remove(&(deadline, id));
            }
            self.runnable.push(id);
        }
    }

    /// Wakes every thread for which `wanted` holds.
    pub fn wake_where(&mut self, wanted: impl Fn(&SimThread) -> bool) {
        let woken: Vec<ThreadId> = self
            .threads
            .iter()
            .filter(|(_, thread)| matches!(thread.state, State::Waiting { .. }) && wanted(thread))
            .map(|(&id, _)| id)
            .collect();
        for id in woken {
            self.wake(id);
        }
    }

    /// Wakes every thread that waits for this lock or signal.
    pub fn wake_point(&mut self, point: u64) {
        self.wake_where(|thread| {
            matches!(&thread.state, State::Waiting { reason: Reason::Point(at, _), .. }
                if at.id == point)
        });
    }

    /// Takes an ended thread off the list and wakes the threads that wait for its end.
    pub fn remove_thread(&mut self, id: ThreadId) {
        self.trace.mix(!id.0);
        self.trace.line(format_args!("{:?} thread {} ends", self.now, id.0));
        self.remove_runnable(id);
        self.threads.remove(&id);
        self.wake_where(|thread| {
            matches!(thread.state, State::Waiting { reason: Reason::Join(target), .. }
                if target == id)
        });
    }

    /// Whose turn it is, after the running thread was suspended or has ended.
    ///
    /// While a thread could run, one of those; else time moves to the earliest timer. If there is
    /// none either, the run has failed and is torn down: from then on threads that wait outside a
    /// destructor are woken to be unwound. What destructors wait for may never come, because the
    /// threads that would bring it are being unwound too; their joins, signals and sleeps are then
    /// ended by force.
    pub fn choose(&mut self) -> Choice {
        loop {
            if !self.runnable.is_empty() {
                return Choice::Thread(self.draw_runnable());
            }
            if self.threads.is_empty() {
                return Choice::Nobody;
            }
            // Nobody is held up for longer than others have something to do.
            if self.let_go_on() {
                continue;
            }
            if let Some(&(at, _)) = self.timers.first() {
                self.advance_to(at);
            } else if !self.tearing_down {
                let what = if self.main_ended_at.is_some() {
                    "the main thread has ended and these wait for ever"
                } else {
                    "deadlock: every thread waits and no timer is set"
                };
                let threads = report::threads(self);
                self.fail(format!("{what}:\n{threads}"), self.is_anybody_unwinding());
            } else if !self.force_one() {
                return Choice::Hopeless;
            }
        }
    }

    fn advance_to(&mut self, at: Duration) {
        self.now = at;
        self.trace.mix(at.as_nanos() as u64); // Of six centuries and more, the low bits.
        while let Some(&(due, id)) = self.timers.first()
            && due <= at
        {
            self.wake(id);
        }
        let ended_at = self.main_ended_at.filter(|_| !self.tearing_down);
        if let Some(ended_at) = ended_at
            && at > ended_at.saturating_add(self.limits.linger_max)
        {
            let linger = self.limits.linger_max;
            let threads = report::threads(self);
            self.fail(
                format!("these still run {linger:?} after the main thread ended:\n{threads}"),
                false,
            );
        }
    }

    /// Ends one wait of a destructor that nobody else will end; false if there is none.
    fn force_one(&mut self) -> bool {
        let Some(left) = self.steps_left.checked_sub(1) else {
            return false;
        };
        self.steps_left = left;
        let found = self.threads.iter().find_map(|(&id, thread)| match &thread.state {
            State::Waiting { reason: Reason::Join(_) | Reason::Sleep, .. } => Some(id),
            State::Waiting { reason: Reason::Point(point, _), .. } => {
                matches!(point.kind, super::WaitKind::Signal).then_some(id)
            }
            State::Waiting { reason: Reason::HeldUp, .. } | State::Ready => None,
        });
        let Some(id) = found else {
            return false;
        };
        self.thread(id).forced = true;
        self.wake(id);
        true
    }

    /// Whether a thread that gave up its turn was unwinding: its panic is not known yet.
    pub fn is_anybody_unwinding(&self) -> bool {
        self.threads.values().any(|thread| thread.unwinding)
    }

    /// Ends the run: this failure is what it will report, unless it already has one.
    pub fn fail(&mut self, message: String, is_consequence: bool) {
        if self.failure.as_ref().is_none_or(|earlier| earlier.is_consequence) {
            let message = match &self.failure {
                Some(earlier) => {
                    format!("{message}\nand before that was reported, {}", earlier.message)
                }
                None => message,
            };
            self.failure = Some(Failure { message, is_consequence });
        }
        if !self.tearing_down {
            self.tearing_down = true;
            self.steps_left = TEARDOWN_STEPS_MAX;
            self.held_up.clear();
            self.wake_where(|thread| !thread.unwinding);
        }
    }
}
