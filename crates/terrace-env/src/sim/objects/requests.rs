use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_base::hash_bytes;

use super::faults::{ObjectFault, ObjectFaults};
use super::image::{Change, Late, ObjectImage};
use crate::sim::io::{Io, SimDisk};
use crate::sim::options::SimOptions;
use crate::sim::random::SeededRng;
use crate::sim::scheduler::{Call, Scheduler};
use crate::{EnvError, EnvResult, Operation};

/// What the object stores hold, and how a request to them goes.
pub(in crate::sim) struct SimObjects {
    scheduler: Arc<Scheduler>,
    /// Invariant: as that of the disk, never locked while a thread gives up its turn.
    image: Arc<Mutex<ObjectImage>>,
    /// As the image.
    trouble: Mutex<Trouble>,
    /// Whose hook is told of each change.
    disk: Arc<SimDisk>,
    delay_max: Duration,
    pub part_bytes_min: u64,
}

/// What goes wrong.
struct Trouble {
    faults: ObjectFaults,
    is_away: bool,
    counts: BTreeMap<ObjectFault, u64>,
}

/// One request.
#[derive(Clone, Copy)]
pub(in crate::sim) struct Request<'a> {
    pub operation: Operation,
    /// The URL of the object, or of the store with what the names begin with.
    pub url: &'a str,
    /// What is sent.
    pub bytes: &'a [u8],
}

impl<'a> Request<'a> {
    pub fn new(operation: Operation, url: &'a str) -> Request<'a> {
        Request { operation, url, bytes: &[] }
    }

    pub fn error(&self, source: io::Error) -> EnvError {
        EnvError::new(self.operation, Path::new(self.url), source)
    }
}

/// A request whose answer is waited for later.
pub(in crate::sim) struct Begun {
    answered_at: Duration,
    fault: Option<ObjectFault>,
}

/// A request that reads.
pub(in crate::sim) struct Look<T, L> {
    /// What it finds.
    pub look: L,
    /// Makes a wrong answer of a right one; false if that one has nothing to be wrong.
    pub spoil: fn(&mut T, &mut SeededRng) -> bool,
    /// A hash of the answer, for the trace.
    pub hash: fn(&T) -> u64,
}

impl SimObjects {
    pub fn new(
        scheduler: Arc<Scheduler>,
        disk: Arc<SimDisk>,
        image: Arc<Mutex<ObjectImage>>,
        limits: ObjectLimits,
    ) -> SimObjects {
        let ObjectLimits { delay_max, part_bytes_min, faults } = limits;
        let trouble = Mutex::new(Trouble { faults, is_away: false, counts: BTreeMap::new() });
        SimObjects { scheduler, image, trouble, disk, delay_max, part_bytes_min }
    }

    pub fn image(&self) -> ObjectImage {
        self.image.lock().clone()
    }

    pub fn fault_counts(&self) -> BTreeMap<ObjectFault, u64> {
        self.trouble.lock().counts.clone()
    }

    pub fn set_faults(&self, faults: ObjectFaults) {
        self.trouble.lock().faults = faults;
    }

    pub fn set_away(&self, is_away: bool) {
        self.trouble.lock().is_away = is_away;
    }

    /// A request that changes what the store holds. `late`: the change, if it can be done without
    /// whoever asked for it.
    pub fn change<T>(
        &self,
        request: Request<'_>,
        late: Option<&dyn Fn() -> Change>,
        apply: impl FnOnce(&mut ObjectImage) -> io::Result<T>,
    ) -> EnvResult<T> {
        let begun = self.begin(request);
        let fault = match (begun.fault, late) {
            (Some(ObjectFault::LatePut | ObjectFault::LateDelete), None) => None,
            (fault, _) => fault,
        };
        let meet = || match fault {
            None => self.apply(request, apply),
            Some(fault) => {
                let is_done = match fault {
                    ObjectFault::LostAnswer => true,
                    ObjectFault::ServerError => self.draw_either(),
                    _ => false,
                };
                if is_done {
                    // Its answer is lost, whatever it was.
                    let _ = self.apply(request, apply);
                }
                if let (ObjectFault::LatePut | ObjectFault::LateDelete, Some(late)) = (fault, late)
                {
                    self.put_off(request, late());
                }
                Err(self.fail(fault))
            }
        };
        let result = if self.draw_either() {
            let result = meet();
            self.await_answer(begun.answered_at);
            result
        } else {
            self.await_answer(begun.answered_at);
            meet()
        };
        self.end(request, 0, result)
    }

    /// A request that reads.
    pub fn look<T, L: FnOnce(&ObjectImage) -> io::Result<T>>(
        &self,
        request: Request<'_>,
        look: Look<T, L>,
    ) -> EnvResult<T> {
        let begun = self.begin(request);
        self.answer(request, begun, look)
    }

    /// Sends a request; the store answers some time later.
    pub fn begin(&self, request: Request<'_>) -> Begun {
        self.scheduler.enter(Call::Io(request.operation));
        self.land_what_is_due();
        let fault = {
            let trouble = self.trouble.lock();
            let draw = |random: &mut SeededRng| trouble.faults.draw(request.operation, random);
            match trouble.is_away {
                true => Some(ObjectFault::Away),
                // Nothing is drawn without faults.
                false if trouble.faults.is_none() => None,
                false => self.scheduler.draw(draw),
            }
        };
        let mut delay = Duration::ZERO;
        if !self.delay_max.is_zero() {
            let nanos = u64::try_from(self.delay_max.as_nanos()).unwrap_or(u64::MAX - 1);
            delay = Duration::from_nanos(self.scheduler.draw(|random| random.below(nanos + 1)));
        }
        Begun { answered_at: self.scheduler.now() + delay, fault }
    }

    /// Waits for the answer of a request that reads.
    pub fn answer<T, L: FnOnce(&ObjectImage) -> io::Result<T>>(
        &self,
        request: Request<'_>,
        begun: Begun,
        look: Look<T, L>,
    ) -> EnvResult<T> {
        self.await_answer(begun.answered_at);
        let result = match begun.fault {
            Some(fault @ (ObjectFault::FlippedBit | ObjectFault::MissingNames)) => {
                (look.look)(&self.image.lock()).map(|mut found| {
                    if self.scheduler.draw(|random| (look.spoil)(&mut found, random)) {
                        self.count(fault);
                    }
                    found
                })
            }
            Some(fault) => Err(self.fail(fault)),
            None => (look.look)(&self.image.lock()),
        };
        let found = result.as_ref().map_or(0, look.hash);
        self.end(request, found, result)
    }

    /// Whether something that may go either way does.
    pub fn draw_either(&self) -> bool {
        self.scheduler.draw(|random| random.one_in(2))
    }

    /// A random number that is not one of the environment's.
    pub fn draw_u64(&self) -> u64 {
        self.scheduler.draw(SeededRng::next_u64)
    }

    /// Blocks until the store answers.
    fn await_answer(&self, answered_at: Duration) {
        let left = answered_at.saturating_sub(self.scheduler.now());
        if !left.is_zero() {
            self.scheduler.sleep(left);
        }
    }

    fn apply<T>(
        &self,
        request: Request<'_>,
        apply: impl FnOnce(&mut ObjectImage) -> io::Result<T>,
    ) -> io::Result<T> {
        self.disk.before_change(Io::new(request.operation, Path::new(request.url)));
        apply(&mut self.image.lock())
    }

    /// The error of a fault, which is counted.
    fn fail(&self, fault: ObjectFault) -> io::Error {
        self.count(fault);
        let error = self.scheduler.draw(|random| fault.error(random));
        error.expect("what spoils an answer does not fail the request")
    }

    fn count(&self, fault: ObjectFault) {
        *self.trouble.lock().counts.entry(fault).or_default() += 1;
    }

    /// A change that is to be done some requests later.
    fn put_off(&self, request: Request<'_>, change: Change) {
        let trouble = self.trouble.lock();
        let due_in = self.scheduler.draw(|random| trouble.faults.draw_lateness(random));
        let late = Late { due_in, operation: request.operation, key: request.url.into(), change };
        self.image.lock().put_off(late);
    }

    /// Does the late changes whose time has come.
    fn land_what_is_due(&self) {
        let due = self.image.lock().take_due();
        for late in due {
            self.disk.before_change(Io::new(late.operation, Path::new(&late.key)));
            self.image.lock().apply(&late.key, &late.change);
            self.scheduler.trace(|scene, trace| {
                trace.mix(hash_bytes(1, late.key.as_bytes()));
                trace.line(format_args!("{scene} a late {:?} of {}", late.operation, late.key));
            });
        }
    }

    fn end<T>(&self, request: Request<'_>, found: u64, result: io::Result<T>) -> EnvResult<T> {
        self.scheduler.trace(|scene, trace| {
            trace.mix(request.operation as u64);
            trace.mix(hash_bytes(0, request.url.as_bytes()));
            trace.mix(hash_bytes(0, request.bytes));
            trace.mix(found);
            trace.mix(result.as_ref().err().map_or(0, |error| 1 + error.kind() as u64));
            let failure = if result.is_ok() { "" } else { " failed" };
            let (operation, url, count) = (request.operation, request.url, request.bytes.len());
            trace.line(format_args!("{scene} {operation:?}{failure} {url} +{count}"));
        });
        self.scheduler.enter(Call::IoDone(request.operation));
        result.map_err(|error| request.error(error))
    }
}

/// What of the options counts for object stores.
pub(in crate::sim) struct ObjectLimits {
    delay_max: Duration,
    part_bytes_min: u64,
    faults: ObjectFaults,
}

impl ObjectLimits {
    pub fn of(options: &SimOptions) -> ObjectLimits {
        ObjectLimits {
            delay_max: options.object_delay_max,
            part_bytes_min: options.object_part_bytes_min,
            faults: options.object_faults.clone(),
        }
    }
}
