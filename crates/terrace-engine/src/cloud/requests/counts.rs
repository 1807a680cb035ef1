use std::sync::atomic::{AtomicU64, Ordering};

use crate::explain::note;

/// A kind of request, as stores charge for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum RequestKind {
    /// An object is stored in one request.
    Put,
    /// A request of an object that comes in parts: its beginning, a part, its end.
    UploadPart,
    /// An object, or an interval of it, is read.
    Get,
    /// The size of an object is asked for.
    Head,
    /// An object is deleted, or an upload given up.
    Delete,
    /// Names are listed.
    List,
}

impl RequestKind {
    /// Every kind.
    pub const ALL: [RequestKind; 6] = [
        RequestKind::Put,
        RequestKind::UploadPart,
        RequestKind::Get,
        RequestKind::Head,
        RequestKind::Delete,
        RequestKind::List,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Put => "put",
            RequestKind::UploadPart => "upload_part",
            RequestKind::Get => "get",
            RequestKind::Head => "head",
            RequestKind::Delete => "delete",
            RequestKind::List => "list",
        }
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RequestCount {
    /// Requests, failed ones included: a store may charge for them.
    pub requests: u64,
    /// Of these, those that failed. An object that is not there, or that is there already, is an
    /// answer and no failure.
    pub failures: u64,
    /// Bytes of objects that went to the store, or came from it.
    pub bytes: u64,
}

/// Requests by kind. Counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RequestCounts {
    /// [`RequestKind::Put`].
    pub put: RequestCount,
    /// [`RequestKind::UploadPart`].
    pub upload_part: RequestCount,
    /// [`RequestKind::Get`].
    pub get: RequestCount,
    /// [`RequestKind::Head`].
    pub head: RequestCount,
    /// [`RequestKind::Delete`].
    pub delete: RequestCount,
    /// [`RequestKind::List`].
    pub list: RequestCount,
}

impl RequestCounts {
    /// Those of one kind.
    #[must_use]
    pub fn of(&self, kind: RequestKind) -> RequestCount {
        match kind {
            RequestKind::Put => self.put,
            RequestKind::UploadPart => self.upload_part,
            RequestKind::Get => self.get,
            RequestKind::Head => self.head,
            RequestKind::Delete => self.delete,
            RequestKind::List => self.list,
        }
    }

    fn of_mut(&mut self, kind: RequestKind) -> &mut RequestCount {
        match kind {
            RequestKind::Put => &mut self.put,
            RequestKind::UploadPart => &mut self.upload_part,
            RequestKind::Get => &mut self.get,
            RequestKind::Head => &mut self.head,
            RequestKind::Delete => &mut self.delete,
            RequestKind::List => &mut self.list,
        }
    }

    /// All requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        RequestKind::ALL.iter().map(|kind| self.of(*kind).requests).sum()
    }

    /// Those that were made since these were counted, which were counted before.
    #[must_use]
    pub fn since(&self, earlier: &RequestCounts) -> RequestCounts {
        let mut counts = RequestCounts::default();
        for kind in RequestKind::ALL {
            let (now, before) = (self.of(kind), earlier.of(kind));
            *counts.of_mut(kind) = RequestCount {
                requests: now.requests.saturating_sub(before.requests),
                failures: now.failures.saturating_sub(before.failures),
                bytes: now.bytes.saturating_sub(before.bytes),
            };
        }
        counts
    }

    /// These and others.
    #[must_use]
    pub fn and(&self, others: &RequestCounts) -> RequestCounts {
        let mut counts = *self;
        for kind in RequestKind::ALL {
            let (both, other) = (counts.of_mut(kind), others.of(kind));
            both.requests += other.requests;
            both.failures += other.failures;
            both.bytes += other.bytes;
        }
        counts
    }

    /// These, each number so many times.
    #[must_use]
    pub fn times(&self, times: f64) -> RequestCounts {
        let more = |number: u64| (number as f64 * times).round() as u64;
        let mut counts = *self;
        for kind in RequestKind::ALL {
            let count = counts.of_mut(kind);
            (count.requests, count.failures) = (more(count.requests), more(count.failures));
            count.bytes = more(count.bytes);
        }
        counts
    }

    /// Requests that services charge for as those that store: lists too.
    #[must_use]
    pub fn that_store(&self) -> u64 {
        self.put.requests + self.upload_part.requests + self.list.requests
    }

    /// Requests that services charge for as those that read.
    #[must_use]
    pub fn that_read(&self) -> u64 {
        self.get.requests + self.head.requests
    }

    /// Bytes that went to the store.
    #[must_use]
    pub fn bytes_up(&self) -> u64 {
        self.put.bytes + self.upload_part.bytes
    }

    /// Bytes that came from the store.
    #[must_use]
    pub fn bytes_down(&self) -> u64 {
        self.get.bytes
    }
}

/// Counts requests while they are made, and notes them for the read that makes them, if it is being
/// explained.
#[derive(Debug, Default)]
pub(super) struct Counters([Counter; RequestKind::ALL.len()]);

#[derive(Debug, Default)]
struct Counter {
    requests: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    // Order: each is a figure by itself.
    pub fn add_request(&self, kind: RequestKind) {
        self.0[kind as usize].requests.fetch_add(1, Ordering::Relaxed);
        note(|notes| notes.requests.of_mut(kind).requests += 1);
    }

    pub fn add_failure(&self, kind: RequestKind) {
        self.0[kind as usize].failures.fetch_add(1, Ordering::Relaxed);
        note(|notes| notes.requests.of_mut(kind).failures += 1);
    }

    pub fn add_bytes(&self, kind: RequestKind, bytes: u64) {
        self.0[kind as usize].bytes.fetch_add(bytes, Ordering::Relaxed);
        note(|notes| notes.requests.of_mut(kind).bytes += bytes);
    }

    pub fn counts(&self) -> RequestCounts {
        let mut counts = RequestCounts::default();
        for kind in RequestKind::ALL {
            let counter = &self.0[kind as usize];
            *counts.of_mut(kind) = RequestCount {
                requests: counter.requests.load(Ordering::Relaxed),
                failures: counter.failures.load(Ordering::Relaxed),
                bytes: counter.bytes.load(Ordering::Relaxed),
            };
        }
        counts
    }
}
