use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_env::{
    EnvError, EnvResult, ListPage, ListedObject, ObjectName, ObjectStore, Put, SharedEnv, Signal,
};

use super::budget::RequestBudget;
use super::counts::Counters;
use super::{PendingGet, RequestCounts, RequestKind, RetryPolicy};
use crate::{Error, Result};

/// Up to this size an object goes in one request.
pub const ONE_PUT_BYTES_MAX: usize = 64 << 20;
/// The size of the parts of a larger one.
pub const PART_BYTES: usize = 8 << 20;
/// How often a proof is read that is not what it should be.
const PROOF_READS: u32 = 4;

/// Bounds of the requests of one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// How many may be under way at once.
    pub in_flight_max: usize,
    /// How failed ones are repeated.
    pub retry: RetryPolicy,
}

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits { in_flight_max: 64, retry: RetryPolicy::default() }
    }
}

/// An object store as a database uses it. See the module's description. Called by many threads.
pub struct CloudStore {
    pub(super) env: SharedEnv,
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) budget: RequestBudget,
    pub(super) counters: Counters,
    retry: RetryPolicy,
    is_stopped: AtomicBool,
    stopped: Signal,
}

/// What came of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The object is there, with these bytes.
    Created {
        /// Whether an attempt had no answer: should the object be deleted, it may come again.
        may_come_again: bool,
    },
    /// There was another one, which stays as it is: its bytes, unless it has been deleted since.
    Taken(Option<Vec<u8>>),
}

impl CloudStore {
    /// The store behind `objects`, with the usual limits.
    #[must_use]
    pub fn new(env: &SharedEnv, objects: Arc<dyn ObjectStore>) -> CloudStore {
        CloudStore::with_limits(env, objects, RequestLimits::default())
    }

    /// The store behind `objects`.
    ///
    /// # Panics
    /// If the limits allow no request.
    #[must_use]
    pub fn with_limits(
        env: &SharedEnv,
        objects: Arc<dyn ObjectStore>,
        limits: RequestLimits,
    ) -> CloudStore {
        CloudStore {
            env: SharedEnv::clone(env),
            objects,
            budget: RequestBudget::new(env, limits.in_flight_max),
            counters: Counters::default(),
            retry: limits.retry,
            is_stopped: AtomicBool::new(false),
            stopped: env.waits().signal(),
        }
    }

    /// The store's URL, without anything secret.
    #[must_use]
    pub fn url(&self) -> &str {
        self.objects.url()
    }

    /// The environment.
    #[must_use]
    pub fn env(&self) -> &SharedEnv {
        &self.env
    }

    /// All requests so far.
    #[must_use]
    pub fn counts(&self) -> RequestCounts {
        self.counters.counts()
    }

    /// Nothing is tried again from now on: who closes does not wait for a store that is away.
    pub fn stop(&self) {
        // Order: seen by whoever takes the ticket of its wait after this.
        self.is_stopped.store(true, Ordering::SeqCst);
        self.stopped.notify();
    }

    /// Stores an object unless there is one of that name.
    ///
    /// After an error the object may be there all the same, or come later: a name for which this
    /// has failed is never given other bytes. The bytes must be such as nobody else would create.
    pub fn create(&self, name: &ObjectName, bytes: &[u8]) -> Result<Creation> {
        let (put, may_come_again) = self.put_if_absent(name, bytes)?;
        if put == Put::Created {
            return Ok(Creation::Created { may_come_again });
        }
        match self.find(name)? {
            Some(there) if there == bytes => Ok(Creation::Created { may_come_again: true }),
            there => Ok(Creation::Taken(there)),
        }
    }

    /// What came of a conditional put, and whether an attempt had no answer.
    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> Result<(Put, bool)> {
        let is_in_doubt = Cell::new(false);
        let put = self.repeated(None, || {
            let put = self.put_if_absent_once(name, bytes);
            let is_lost = put.as_ref().is_err_and(EnvError::is_unknown_outcome);
            is_in_doubt.set(is_in_doubt.get() || is_lost);
            put
        })?;
        Ok((put, is_in_doubt.get()))
    }

    fn put_if_absent_once(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<Put> {
        let put = self.request(RequestKind::Put, || self.objects.put_if_absent(name, bytes))?;
        self.counters.add_bytes(RequestKind::Put, bytes.len() as u64);
        Ok(put)
    }

    /// Shows that the store lets one of several creators win, by creations of one name, which
    /// nobody ever deletes.
    ///
    /// Errors: `Unsupported` if the store does not: two machines on it would overwrite each other.
    pub fn prove_put_if_absent(&self, name: &ObjectName) -> Result<()> {
        let drawn = [(); 2].map(|()| self.env.random_u128().to_le_bytes());
        let refuses_second =
            || Ok::<_, Error>(self.put_if_absent(name, &drawn[1])?.0 == Put::Taken);
        let is_honoured = match self.put_if_absent(name, &drawn[0])? {
            (Put::Taken, false) => self.get(name, None)? != drawn[0],
            // What took the name may be this one, whose answer was lost.
            (Put::Taken, true) => refuses_second()? && self.get(name, None)? != drawn[1],
            (Put::Created, _) => refuses_second()? && self.has_at_last(name, &drawn[0])?,
        };
        if !is_honoured {
            return Err(Error::Unsupported(format!(
                "the object store {} stored {name} though there was one of that name: without \
                 conditional puts (`If-None-Match: *`) two machines would overwrite each other. \
                 Use a store that honours them, or switch them on",
                self.url()
            )));
        }
        Ok(())
    }

    /// Whether an object has these bytes, for one of several reads: some may be damaged on the way.
    fn has_at_last(&self, name: &ObjectName, bytes: &[u8]) -> Result<bool> {
        for _ in 0..PROOF_READS {
            if self.get(name, None)? == bytes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stores an object that replaces one of the same name, in one request.
    pub fn put(&self, name: &ObjectName, bytes: &[u8]) -> Result<()> {
        self.repeated(None, || self.put_once(name, bytes))
    }

    /// Stores an object whose name is never used again, or only with the same bytes: in one request
    /// up to 64 MiB, in parts if it is larger.
    pub fn put_whole(&self, name: &ObjectName, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= ONE_PUT_BYTES_MAX {
            return self.put(name, bytes);
        }
        self.repeated(None, || self.upload_once(name, bytes))
    }

    fn put_once(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<()> {
        self.request(RequestKind::Put, || self.objects.put(name, bytes))?;
        self.counters.add_bytes(RequestKind::Put, bytes.len() as u64);
        Ok(())
    }

    /// One attempt of an upload in parts. After a failure nobody knows which parts the store has,
    /// so it is given up, and a repetition begins from the front.
    fn upload_once(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<()> {
        let kind = RequestKind::UploadPart;
        let mut upload = self.request(kind, || self.objects.begin_upload(name))?;
        for part in bytes.chunks(PART_BYTES) {
            if let Err(error) = self.request(kind, || upload.append(part)) {
                // If this fails as well the parts stay, which costs money and changes nothing; it
                // is counted, and the failure before it is what the caller hears.
                let _counted = self.request(RequestKind::Delete, || upload.abort());
                return Err(error);
            }
            self.counters.add_bytes(kind, part.len() as u64);
        }
        self.request(kind, || upload.finish())
    }

    /// The bytes of an object; all of it without an interval.
    ///
    /// Errors: [`is_missing`] says whether there is none.
    pub fn get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> Result<Vec<u8>> {
        let first = self.request(RequestKind::Get, || self.objects.get(name, interval.clone()));
        self.get_after(name, interval, first)
    }

    /// As [`CloudStore::get`], whose first attempt has ended already.
    pub(super) fn get_after(
        &self,
        name: &ObjectName,
        interval: Option<Range<u64>>,
        first: EnvResult<Vec<u8>>,
    ) -> Result<Vec<u8>> {
        let bytes = self.repeated(Some(first), || {
            self.request(RequestKind::Get, || self.objects.get(name, interval.clone()))
        })?;
        self.counters.add_bytes(RequestKind::Get, bytes.len() as u64);
        Ok(bytes)
    }

    /// Begins a get whose answer is waited for later.
    pub fn begin_get(
        self: &Arc<Self>,
        name: &ObjectName,
        interval: Option<Range<u64>>,
    ) -> PendingGet {
        PendingGet::begin(self, name, interval)
    }

    /// The bytes of an object, or `None` if there is none.
    pub fn find(&self, name: &ObjectName) -> Result<Option<Vec<u8>>> {
        match self.get(name, None) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The size of an object in bytes. Errors: as of [`CloudStore::get`].
    pub fn bytes_of(&self, name: &ObjectName) -> Result<u64> {
        self.repeated(None, || self.request(RequestKind::Head, || self.objects.bytes_of(name)))
    }

    /// Deletes an object; on return it is gone. One that is not there is no error.
    pub fn delete(&self, name: &ObjectName) -> Result<()> {
        self.repeated(None, || self.request(RequestKind::Delete, || self.objects.delete(name)))
    }

    /// All names that begin with `prefix`, in their order, with their sizes. Some that are there
    /// may be missing.
    pub fn list(&self, prefix: &str) -> Result<Vec<ListedObject>> {
        let mut all: Vec<ListedObject> = Vec::new();
        loop {
            let after = all.last().map(|object| object.name.clone());
            let ListPage { mut objects, is_last } = self.list_page(prefix, after.as_ref())?;
            let is_last = is_last || objects.is_empty();
            all.append(&mut objects);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Names that begin with `prefix` and stand behind `after`, in their order, at most a thousand.
    /// Some that are there may be missing.
    pub fn list_page(&self, prefix: &str, after: Option<&ObjectName>) -> Result<ListPage> {
        self.repeated(None, || self.request(RequestKind::List, || self.objects.list(prefix, after)))
    }

    /// Makes one request, when there is a place for it.
    fn request<T>(&self, kind: RequestKind, ask: impl FnOnce() -> EnvResult<T>) -> EnvResult<T> {
        let answer = {
            let _place = self.budget.take();
            self.counters.add_request(kind);
            ask()
        };
        self.counted(kind, answer)
    }

    /// Counts a failure. That an object is not there is an answer.
    pub(super) fn counted<T>(&self, kind: RequestKind, answer: EnvResult<T>) -> EnvResult<T> {
        answer.inspect_err(|error| {
            if !error.is_not_found() {
                self.counters.add_failure(kind);
            }
        })
    }

    /// The answer of `first` or, while they fail in a way that may pass, of further attempts.
    fn repeated<T>(
        &self,
        first: Option<EnvResult<T>>,
        mut attempt: impl FnMut() -> EnvResult<T>,
    ) -> Result<T> {
        let began = self.env.now();
        let mut failures = 0;
        let mut answer = first.unwrap_or_else(&mut attempt);
        loop {
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            failures += 1;
            let passed = self.env.now().saturating_sub(began);
            let wait = self.retry.wait(failures, passed, self.env.random_u64());
            match wait.filter(|_| error.is_transient()) {
                Some(wait) if self.pause(wait) => answer = attempt(),
                _ => return Err(error.into()),
            }
        }
    }

    /// Waits this long; `false` if nothing is tried any more.
    fn pause(&self, wait: Duration) -> bool {
        let until = self.env.now() + wait;
        loop {
            let ticket = self.stopped.ticket();
            if self.is_stopped.load(Ordering::SeqCst) {
                return false;
            }
            let left = until.saturating_sub(self.env.now());
            if left.is_zero() {
                return true;
            }
            self.stopped.wait_timeout(ticket, left);
        }
    }
}

impl fmt::Debug for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudStore").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Whether this says that an object is not there.
#[must_use]
pub fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io(error) if EnvError::is_not_found(error))
}
