//! What a crash at a moment of a run may take away, and what not.

use std::time::Duration;

use terrace_engine::options::Durability;

use super::order::Placed;
use super::record::{Outcome, Record, What};

/// What was promised at one moment, as places in the commit order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// Survives a killed process: everything that was acknowledged.
    pub kill: u64,
    /// Survives a power cut: everything that was acknowledged as synced, and all before it.
    pub cut: u64,
    /// The last number whose write had begun, so that it may be there.
    pub begun: u64,
}

/// What had been promised when the disk had been changed `io` times and virtual time was `at`.
/// `base` was there, durably, when the run began.
#[must_use]
pub fn promise_at(
    record: &Record,
    order: &[Placed<'_>],
    base: u64,
    durability: Durability,
    io: u64,
    at: Duration,
) -> Promise {
    let mut promise = Promise { kill: base, cut: base, begun: base };
    for placed in order {
        if placed.event.begun.io > io {
            // What comes later in the order cannot be there without this one.
            break;
        }
        promise.begun = placed.last;
    }
    for placed in order {
        let Some(ended) = placed.event.ended.filter(|ended| ended.io <= io) else { continue };
        if !matches!(placed.write.outcome, Outcome::Written { .. }) {
            continue;
        }
        promise.kill = promise.kill.max(placed.last);
        let is_old = match durability {
            // The sync may begin a period after the acknowledgement, and itself takes its time.
            Durability::Interval(period) => ended.at + 2 * period < at,
            Durability::Buffered | Durability::Sync => false,
            other => panic!("the oracle does not know what {other:?} promises"),
        };
        if placed.write.is_synced || is_old {
            promise.cut = promise.cut.max(placed.last);
        }
    }
    for event in &record.events {
        if event.ended.is_none_or(|ended| ended.io > io) {
            continue;
        }
        match event.what {
            What::Durable => {
                let acknowledged = order.iter().filter(|placed| {
                    let ended = placed.event.ended;
                    ended.is_some_and(|ended| ended.tick < event.begun.tick)
                        && matches!(placed.write.outcome, Outcome::Written { .. })
                });
                let last = acknowledged.map(|placed| placed.last).max();
                promise.cut = promise.cut.max(last.unwrap_or(0));
            }
            // What an open finds it makes durable before it builds on it.
            What::Opened { seqno } => promise.cut = promise.cut.max(seqno),
            _ => {}
        }
    }
    promise
}
