use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};

use crate::Operation;
use crate::sim::random::SeededRng;

/// What can go wrong with a request to a simulated object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectFault {
    /// 500: the request is done or not, and the answer does not say which.
    ServerError,
    /// 503: the request is not done; whoever asked cannot know.
    Unavailable,
    /// 429: the request is not done.
    TooManyRequests,
    /// 403: the request is not done. Credentials have expired, or a clock is wrong.
    Denied,
    /// 408: the request is not done; whoever asked cannot know.
    TimedOut,
    /// The connection breaks before the request arrives.
    Reset,
    /// The bytes of a get, or the names of a list, end too early.
    Truncated,
    /// A get returns its bytes with one bit changed.
    FlippedBit,
    /// A change is done, and its answer is lost.
    LostAnswer,
    /// A put fails, and is done some requests later. One that is conditional takes the name only if
    /// it is free then.
    LatePut,
    /// A delete fails, and is done some requests later, whatever has the name then.
    LateDelete,
    /// A list lacks names that are there.
    MissingNames,
    /// The store is away ([`SimEnv::set_objects_away`](crate::SimEnv::set_objects_away)): nothing
    /// is done. It has no rate.
    Away,
}

impl ObjectFault {
    /// All of them.
    pub const ALL: [ObjectFault; 13] = [
        ObjectFault::ServerError,
        ObjectFault::Unavailable,
        ObjectFault::TooManyRequests,
        ObjectFault::Denied,
        ObjectFault::TimedOut,
        ObjectFault::Reset,
        ObjectFault::Truncated,
        ObjectFault::FlippedBit,
        ObjectFault::LostAnswer,
        ObjectFault::LatePut,
        ObjectFault::LateDelete,
        ObjectFault::MissingNames,
        ObjectFault::Away,
    ];

    /// Whether it can happen to such a request.
    #[must_use]
    pub fn hits(self, operation: Operation) -> bool {
        use Operation::{
            DeleteObject, GetObject, ListObjects, PutObject, PutObjectIfAbsent, UploadObject,
        };
        match self {
            ObjectFault::Truncated => matches!(operation, GetObject | ListObjects),
            ObjectFault::FlippedBit => operation == GetObject,
            ObjectFault::MissingNames => operation == ListObjects,
            ObjectFault::LostAnswer => !matches!(operation, GetObject | ListObjects),
            ObjectFault::LatePut => {
                matches!(operation, PutObject | PutObjectIfAbsent | UploadObject)
            }
            ObjectFault::LateDelete => operation == DeleteObject,
            _ => true,
        }
    }

    /// With what a request fails; `None` if it does not.
    pub(super) fn error(self, random: &mut SeededRng) -> Option<Error> {
        use ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, PermissionDenied,
            ResourceBusy, TimedOut, UnexpectedEof,
        };
        let (kind, why) = match self {
            ObjectFault::ServerError => (ConnectionAborted, "the store answered 500"),
            ObjectFault::Unavailable => (ConnectionAborted, "the store answered 503"),
            ObjectFault::TooManyRequests => (ResourceBusy, "the store answered 429"),
            ObjectFault::Denied => (PermissionDenied, "the store answered 403"),
            ObjectFault::TimedOut => (TimedOut, "the store answered 408"),
            ObjectFault::Reset => (ConnectionReset, "the connection was reset"),
            ObjectFault::Truncated => (UnexpectedEof, "the answer ended too early"),
            ObjectFault::FlippedBit | ObjectFault::MissingNames => return None,
            ObjectFault::LostAnswer => {
                let kind = random.pick(&[TimedOut, ConnectionReset, BrokenPipe]);
                (kind, "the answer was lost")
            }
            ObjectFault::LatePut | ObjectFault::LateDelete => (TimedOut, "no answer in time"),
            ObjectFault::Away => {
                let kind = random.pick(&[ConnectionRefused, TimedOut, ConnectionAborted]);
                (kind, "the store is away")
            }
        };
        Some(Error::new(kind, why))
    }
}

/// How often the requests to simulated object stores go wrong: not at all by default. What happens
/// is counted ([`SimEnv::object_faults`](crate::SimEnv::object_faults)).
///
/// ```
/// use terrace_env::{ObjectFault, ObjectFaults};
///
/// let faults = ObjectFaults::each(100).with(ObjectFault::Denied, 0).with(ObjectFault::Reset, 10);
/// # let _ = faults;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFaults {
    /// Once in how many of the requests that it can happen to; 0 for never.
    rates: BTreeMap<ObjectFault, u32>,
    late_requests_max: u32,
}

impl Default for ObjectFaults {
    fn default() -> ObjectFaults {
        ObjectFaults { rates: BTreeMap::new(), late_requests_max: 20 }
    }
}

impl ObjectFaults {
    /// Each kind of fault happens once in `n` of the requests that it can happen to.
    #[must_use]
    pub fn each(n: u32) -> ObjectFaults {
        ObjectFault::ALL.into_iter().fold(ObjectFaults::default(), |all, kind| all.with(kind, n))
    }

    /// The same, but `fault` happens once in `n` of the requests that it can happen to; never for
    /// 0.
    #[must_use]
    pub fn with(mut self, fault: ObjectFault, n: u32) -> ObjectFaults {
        if n == 0 || fault == ObjectFault::Away {
            self.rates.remove(&fault);
        } else {
            self.rates.insert(fault, n);
        }
        self
    }

    /// The same, but a late change is done at most `requests` requests later; 20 by default.
    #[must_use]
    pub fn late_by_at_most(mut self, requests: u32) -> ObjectFaults {
        self.late_requests_max = requests.max(1);
        self
    }

    /// Whether nothing goes wrong.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.rates.is_empty()
    }

    /// What happens to a request, if anything.
    pub(super) fn draw(&self, operation: Operation, random: &mut SeededRng) -> Option<ObjectFault> {
        let possible = self.rates.iter().filter(|(fault, _)| fault.hits(operation));
        let mut drawn = possible.filter(|(_, n)| random.one_in(**n)).map(|(fault, _)| *fault);
        drawn.next()
    }

    /// Before which of the following requests a late change is done: one comes first at least.
    pub(super) fn draw_lateness(&self, random: &mut SeededRng) -> u32 {
        // Lossless: it is below a `u32`.
        2 + random.below(u64::from(self.late_requests_max)) as u32
    }
}
