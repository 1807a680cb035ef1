use std::time::Duration;

use super::ObjectsProfile;
use super::line::{Line, TransferId};
use crate::Latch;

/// When requests are answered by an emulated store. Waits for nothing: whoever makes a request asks
/// when its answer comes, and again at that moment, since requests that came later may have put it
/// off. Used by many threads.
#[derive(Debug)]
pub struct ObjectsPace {
    profile: ObjectsProfile,
    lanes: Latch<Lanes>,
}

#[derive(Debug)]
struct Lanes {
    line: Line,
    /// When the next request may begin.
    next: Duration,
}

/// What a request waits for at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestWay {
    /// Something is read there.
    Read,
    /// Something changes there.
    Write,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub struct PacedRequest {
    transfer: TransferId,
    latency: Duration,
    /// It is not answered before.
    at_least: Duration,
}

impl ObjectsPace {
    /// A store of this profile, at rest.
    #[must_use]
    pub fn new(profile: ObjectsProfile) -> ObjectsPace {
        let line = Line::new(profile.bytes_per_s);
        ObjectsPace { profile, lanes: Latch::new(Lanes { line, next: Duration::ZERO }) }
    }

    /// What it is like.
    #[must_use]
    pub fn profile(&self) -> &ObjectsProfile {
        &self.profile
    }

    /// A request begins, with so many bytes of an object on the way there or back. `now`: the time
    /// since any origin, the same one in all calls.
    #[must_use]
    pub fn begin(&self, way: RequestWay, bytes: u64, now: Duration) -> PacedRequest {
        let latency = match way {
            RequestWay::Read => self.profile.read_latency,
            RequestWay::Write => self.profile.write_latency,
        };
        let mut lanes = self.lanes.lock();
        let starts = lanes.next.max(now);
        if let Some(rate) = self.profile.requests_per_s {
            lanes.next = starts + Duration::from_nanos(1_000_000_000_u64.div_ceil(rate));
        }
        let transfer = lanes.line.begin(bytes, now);
        PacedRequest { transfer, latency, at_least: starts + latency }
    }

    /// Bytes pass that belong to a request which was answered already, or was begun before its size
    /// was known.
    #[must_use]
    pub fn begin_bytes(&self, bytes: u64, now: Duration) -> PacedRequest {
        let transfer = self.lanes.lock().line.begin(bytes, now);
        PacedRequest { transfer, latency: Duration::ZERO, at_least: now }
    }

    /// When it is answered, if no other request begins before that.
    #[must_use]
    pub fn answered_at(&self, request: &PacedRequest, now: Duration) -> Duration {
        let passed = self.lanes.lock().line.end_of(request.transfer, now);
        (passed + request.latency).max(request.at_least)
    }
}
