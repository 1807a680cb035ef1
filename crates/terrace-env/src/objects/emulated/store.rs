use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::{ObjectsPace, ObjectsProfile, PacedRequest, RequestWay};
use crate::{
    EnvResult, ListPage, ObjectName, ObjectStore, ObjectStores, ObjectUpload, PendingObject, Put,
    SharedEnv,
};

/// The object stores of another environment, at this pace.
#[derive(Debug)]
pub(super) struct EmulatedStores {
    inner: SharedEnv,
    pace: Arc<ObjectsPace>,
}

impl EmulatedStores {
    pub fn new(inner: &SharedEnv, pace: ObjectsPace) -> EmulatedStores {
        EmulatedStores { inner: Arc::clone(inner), pace: Arc::new(pace) }
    }

    pub fn profile(&self) -> &ObjectsProfile {
        self.pace.profile()
    }
}

impl ObjectStores for EmulatedStores {
    fn open(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>> {
        let inner = self.inner.objects().open(url)?;
        let clock = Clock { env: Arc::clone(&self.inner), pace: Arc::clone(&self.pace) };
        Ok(Arc::new(EmulatedStore { inner, clock }))
    }
}

/// Waits for answers.
#[derive(Clone)]
struct Clock {
    env: SharedEnv,
    pace: Arc<ObjectsPace>,
}

impl Clock {
    fn begin(&self, way: RequestWay, bytes: u64) -> PacedRequest {
        self.pace.begin(way, bytes, self.env.now())
    }

    fn wait(&self, request: &PacedRequest) {
        loop {
            let now = self.env.now();
            let answered = self.pace.answered_at(request, now);
            if answered <= now {
                return;
            }
            self.env.sleep(answered - now);
        }
    }

    /// A request that takes its own time at least.
    fn timed<T>(&self, way: RequestWay, bytes: u64, request: impl FnOnce() -> T) -> T {
        let paced = self.begin(way, bytes);
        let answer = request();
        self.wait(&paced);
        answer
    }
}

/// A store at the pace of an emulated one.
struct EmulatedStore {
    inner: Arc<dyn ObjectStore>,
    clock: Clock,
}

impl ObjectStore for EmulatedStore {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn put(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<()> {
        let count = bytes.len() as u64;
        self.clock.timed(RequestWay::Write, count, || self.inner.put(name, bytes))
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<Put> {
        let count = bytes.len() as u64;
        self.clock.timed(RequestWay::Write, count, || self.inner.put_if_absent(name, bytes))
    }

    fn begin_upload(&self, name: &ObjectName) -> EnvResult<Box<dyn ObjectUpload>> {
        let begin = || self.inner.begin_upload(name);
        let inner = self.clock.timed(RequestWay::Write, 0, begin)?;
        Ok(Box::new(EmulatedUpload { inner, clock: self.clock.clone() }))
    }

    /// The time of an answer whose size is not known passes from when it is waited for.
    fn begin_get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> PendingObject {
        let bytes = interval.as_ref().map(|interval| interval.end.saturating_sub(interval.start));
        let begun = self.clock.begin(RequestWay::Read, bytes.unwrap_or(0));
        let pending = self.inner.begin_get(name, interval);
        let clock = self.clock.clone();
        PendingObject::new(Box::new(move || {
            let answer = pending.wait();
            clock.wait(&begun);
            if let (None, Ok(found)) = (bytes, &answer) {
                let rest = clock.pace.begin_bytes(found.len() as u64, clock.env.now());
                clock.wait(&rest);
            }
            answer
        }))
    }

    fn bytes_of(&self, name: &ObjectName) -> EnvResult<u64> {
        self.clock.timed(RequestWay::Read, 0, || self.inner.bytes_of(name))
    }

    fn delete(&self, name: &ObjectName) -> EnvResult<()> {
        self.clock.timed(RequestWay::Write, 0, || self.inner.delete(name))
    }

    fn list(&self, prefix: &str, after: Option<&ObjectName>) -> EnvResult<ListPage> {
        self.clock.timed(RequestWay::Read, 0, || self.inner.list(prefix, after))
    }
}

impl fmt::Debug for EmulatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EmulatedStore({}, {})", self.inner.url(), self.clock.pace.profile())
    }
}

/// An object that comes in parts, each at the store's pace.
struct EmulatedUpload {
    inner: Box<dyn ObjectUpload>,
    clock: Clock,
}

impl ObjectUpload for EmulatedUpload {
    fn append(&mut self, part: &[u8]) -> EnvResult<()> {
        let paced = self.clock.begin(RequestWay::Write, part.len() as u64);
        let answer = self.inner.append(part);
        self.clock.wait(&paced);
        answer
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        let EmulatedUpload { inner, clock } = *self;
        clock.timed(RequestWay::Write, 0, || inner.finish())
    }

    fn abort(self: Box<Self>) -> EnvResult<()> {
        let EmulatedUpload { inner, clock } = *self;
        clock.timed(RequestWay::Write, 0, || inner.abort())
    }
}

impl fmt::Debug for EmulatedUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EmulatedUpload({:?})", self.inner)
    }
}
