use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_base::hash_bytes;

use super::image::ObjectImage;
use crate::sim::io::{Io, SimDisk};
use crate::sim::options::SimOptions;
use crate::sim::scheduler::{Call, Scheduler};
use crate::{EnvError, EnvResult, Operation};

/// What the object stores hold, and how a request to them goes.
pub(in crate::sim) struct SimObjects {
    scheduler: Arc<Scheduler>,
    /// Invariant: as that of the disk, never locked while a thread gives up its turn.
    image: Arc<Mutex<ObjectImage>>,
    /// Whose hook is told of each change.
    disk: Arc<SimDisk>,
    delay_max: Duration,
    pub part_bytes_min: u64,
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
}

impl SimObjects {
    pub fn new(
        scheduler: Arc<Scheduler>,
        disk: Arc<SimDisk>,
        image: Arc<Mutex<ObjectImage>>,
        limits: ObjectLimits,
    ) -> SimObjects {
        let ObjectLimits { delay_max, part_bytes_min } = limits;
        SimObjects { scheduler, image, disk, delay_max, part_bytes_min }
    }

    pub fn image(&self) -> ObjectImage {
        self.image.lock().clone()
    }

    /// A request that changes what the store holds.
    pub fn change<T>(
        &self,
        request: Request<'_>,
        apply: impl FnOnce(&mut ObjectImage) -> io::Result<T>,
    ) -> EnvResult<T> {
        let begun = self.begin(request);
        let change = || {
            self.disk.before_change(Io::new(request.operation, Path::new(request.url)));
            apply(&mut self.image.lock())
        };
        let result = if self.draw_either() {
            let result = change();
            self.await_answer(begun);
            result
        } else {
            self.await_answer(begun);
            change()
        };
        self.end(request, 0, result)
    }

    /// A request that reads; the trace is told a hash of what `look` found.
    pub fn look<T>(
        &self,
        request: Request<'_>,
        look: impl FnOnce(&ObjectImage) -> io::Result<T>,
        hash: impl FnOnce(&T) -> u64,
    ) -> EnvResult<T> {
        let begun = self.begin(request);
        self.await_answer(begun);
        self.answer(request, look, hash)
    }

    /// Sends a request; the store answers some time later.
    pub fn begin(&self, request: Request<'_>) -> Begun {
        self.scheduler.enter(Call::Io(request.operation));
        let mut delay = Duration::ZERO;
        if !self.delay_max.is_zero() {
            let nanos = u64::try_from(self.delay_max.as_nanos()).unwrap_or(u64::MAX - 1);
            delay = Duration::from_nanos(self.scheduler.draw(|random| random.below(nanos + 1)));
        }
        Begun { answered_at: self.scheduler.now() + delay }
    }

    /// Blocks until the store answers.
    pub fn await_answer(&self, begun: Begun) {
        let left = begun.answered_at.saturating_sub(self.scheduler.now());
        if !left.is_zero() {
            self.scheduler.sleep(left);
        }
    }

    /// What a request that reads finds now.
    pub fn answer<T>(
        &self,
        request: Request<'_>,
        look: impl FnOnce(&ObjectImage) -> io::Result<T>,
        hash: impl FnOnce(&T) -> u64,
    ) -> EnvResult<T> {
        let result = look(&self.image.lock());
        let found = result.as_ref().map_or(0, hash);
        self.end(request, found, result)
    }

    /// Whether something that may go either way does.
    pub fn draw_either(&self) -> bool {
        self.scheduler.draw(|random| random.one_in(2))
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
}

impl ObjectLimits {
    pub fn of(options: &SimOptions) -> ObjectLimits {
        ObjectLimits {
            delay_max: options.object_delay_max,
            part_bytes_min: options.object_part_bytes_min,
        }
    }
}
