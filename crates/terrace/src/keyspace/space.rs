//! What all handles of one keyspace share.

use std::sync::Arc;
use std::time::Duration;

use terrace_env::atomic::{AtomicBool, AtomicU64, Ordering};

use super::entry::Entry;
use super::statistics::Counters;
use super::stored::KeyspaceNo;

/// Which opening of which database something belongs to: compared by its address.
#[derive(Debug)]
pub struct Owner;

impl Owner {
    pub fn new() -> Arc<Owner> {
        Arc::new(Owner)
    }
}

/// A keyspace of an open database.
#[derive(Debug)]
pub struct Space {
    pub number: KeyspaceNo,
    pub name: Arc<str>,
    pub owner: Arc<Owner>,
    /// What it was asked.
    pub counters: Counters,
    /// Which one of the opening it is, by its first handle.
    pub ordinal: u64,
    /// Milliseconds that what is put stays, unless the write says otherwise; 0 for ever.
    ttl_ms: AtomicU64,
    is_dropped: AtomicBool,
}

impl Space {
    pub fn new(name: &str, entry: &Entry, owner: &Arc<Owner>, ordinal: u64) -> Arc<Space> {
        let space = Space {
            number: entry.number,
            name: name.into(),
            owner: Arc::clone(owner),
            counters: Counters::default(),
            ordinal,
            ttl_ms: AtomicU64::new(0),
            is_dropped: AtomicBool::new(false),
        };
        space.set_ttl(entry.ttl);
        Arc::new(space)
    }

    #[inline]
    pub fn ttl(&self) -> Option<Duration> {
        match self.ttl_ms.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(Duration::from_millis(millis)),
        }
    }

    pub fn set_ttl(&self, ttl: Option<Duration>) {
        let millis = |ttl: Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.ttl_ms.store(ttl.map_or(0, millis), Ordering::Relaxed);
    }

    #[inline]
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }

    /// It is being dropped, from before the write that does it; or it is not, as that failed.
    pub fn set_dropped(&self, is_dropped: bool) {
        self.is_dropped.store(is_dropped, Ordering::Release);
    }
}
