//! What the gate asks of writers, given what the tree owes. Pure: debt in, ruling out.
//!
//! Every kind of debt has a mark from which writers are slowed down and a mark at which they would
//! have to stop; where it stands between the two is its *share*, from 0 to 1. The price of a byte
//! grows with the share, in units of the time in which background work pays off a byte:
//!
//! ```text
//!  price of a byte, in the time that            x
//!  it takes to drain one            price = ─────────
//!  9 ┤                         ╭            1 - x
//!    │                         │
//!    │                        ╭╯
//!    │                       ╭╯     at x = 0    nothing: no step where the slow-down begins
//!  3 ┤                    ╭──╯      at x = 1/2  writers come in as fast as work goes out
//!    │                ╭───╯         at x = 0.9  nine times slower: the debt falls
//!  1 ┤- - - - - ╭─────╯             at x = 1    the stop, if the debt has one
//!    │    ╭─────╯
//!  0 ┼────┴─────┬───────┬──────┬
//!    0         1/2     3/4    0.9  1  share
//! ```
//!
//! So a steady load that is too fast settles where price and drain meet, at about half of the way,
//! on a fast machine as on a slow one, and reaches the stop only if background work slows down by
//! a factor of nine within the way.

use crate::compaction::pick::LevelShape;
use crate::l0::Fill;
use crate::options::Options;
use crate::store::gate::ledger::Cause;

/// Beyond this share the price grows no more: it is nine times the drain.
const SHARE_MAX: f64 = 0.9;

/// What the tree owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// What L0 holds, and its marks. Stops.
    pub l0: Fill,
    /// Bytes of frozen memtables.
    pub frozen_bytes: u64,
    /// The most frozen memtables that one drange has.
    pub frozen_count: u64,
    /// Bytes by which levels are larger than they should be, all levels together.
    pub level_bytes: u64,
    /// Bytes that the log takes.
    pub log_bytes: u64,
    /// Whether the log is kept for a moment in the object store, so that no flush makes it shorter.
    pub log_awaits_moment: bool,
    /// Bytes of the value log that may be dead, and how many are allowed to be.
    pub value_dead_bytes: u64,
    /// See [`Debt::value_dead_bytes`]; nothing is asked without a bound.
    pub value_dead_bytes_allowed: Option<u64>,
    /// What the range takes on the local disk, if that has a bound.
    pub local: Option<LocalSpace>,
    /// Bytes of memtables of the whole process.
    pub memory_bytes: u64,
    /// Bytes that memtables of the whole process may take.
    pub memory_bytes_max: u64,
}

/// What a range takes on a local disk of which it may take a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalSpace {
    /// Bytes of its tables, its values and its log there, of what jobs will have written, and of
    /// what is removed and not deleted yet.
    pub bytes: u64,
    /// Bytes that they may take.
    pub bytes_max: u64,
    /// Whether some of it goes by itself: compactions are due that take it away, or jobs under way
    /// hold what is removed. What readers hold does not count: nobody knows when they let go.
    pub drains: bool,
}

impl LocalSpace {
    /// From where on writers are slowed down, and where they stop. What is written then and deleted
    /// a little later may take a tenth more.
    fn band(&self) -> Band {
        Band { slow: self.bytes_max / 10 * 9, stop: self.bytes_max }
    }

    /// Whether writers are slowed down.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.bytes > self.band().slow
    }
}

/// From where on a debt slows writers down, and where it would be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// At or below this amount a debt costs nothing.
    pub slow: u64,
    /// At this amount it is full.
    pub stop: u64,
}

impl Band {
    /// Where `amount` stands, from 0 to 1.
    #[must_use]
    pub fn share(self, amount: u64) -> f64 {
        if amount <= self.slow {
            return 0.0;
        }
        let span = self.stop.saturating_sub(self.slow).max(1);
        ((amount - self.slow) as f64 / span as f64).min(1.0)
    }
}

/// The marks of one range.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of frozen bytes. Stops.
    pub frozen_bytes: Band,
    /// Stops, so that a read does not meet ever more memtables, however small.
    pub frozen_count_stop: u64,
    /// Of the levels' bytes. Does not stop: a deep tree that is out of shape is slower to read,
    /// and the writers are slowed down to a ninth of what it takes in.
    pub level_bytes: Band,
    /// Of the log's bytes. Does not stop: what holds the log is frozen when it is too long, and
    /// that stops. But it does if the log waits for the object store.
    pub log_bytes: Band,
}

impl Limits {
    /// The marks that follow from the options.
    #[must_use]
    pub fn of(options: &Options, shape: &LevelShape) -> Limits {
        let memtable = options.memtable_bytes as u64;
        // Memtables are frozen when an entry does not fit any more, so they are not quite full:
        // half of an allowance below the sum is what that many hold at the least.
        let waiting = options.frozen_memtables_max - options.memtables_kept;
        let frozen = (waiting as u64).saturating_mul(memtable);
        let frozen = frozen.saturating_sub(memtable / 2);
        let log_slow = options.log_bytes_max.saturating_add(2 * options.log_segment_bytes);
        Limits {
            frozen_bytes: Band { slow: frozen / 2, stop: frozen },
            frozen_count_stop: (options.frozen_memtables_max as u64).saturating_mul(4),
            level_bytes: Band {
                slow: shape.level_bytes_base.saturating_mul(4),
                stop: shape.level_bytes_base.saturating_mul(16),
            },
            log_bytes: Band {
                slow: log_slow,
                stop: log_slow.saturating_add(options.log_bytes_max),
            },
        }
    }
}

/// How fast background work pays off, as measured: the time for a KiB of what writers bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainRates {
    /// Out of memtables.
    pub flush_nanos_per_kib: u64,
    /// Out of L0.
    pub l0_nanos_per_kib: u64,
    /// Out of the value log, by giving space back.
    pub values_nanos_per_kib: u64,
}

/// What is asked of writers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ruling {
    /// They wait until this is over.
    pub stop: Option<Cause>,
    /// They pay this much time for a KiB, because of the dearest debt.
    pub pace: Option<(Cause, u64)>,
}

/// Decides what is asked of writers. Pure.
#[must_use]
pub fn rule(debt: &Debt, limits: &Limits, rates: &DrainRates) -> Ruling {
    let l0 = Band { slow: debt.l0.slow, stop: debt.l0.stop };
    let memory = Band { slow: debt.memory_bytes_max / 4 * 3, stop: debt.memory_bytes_max };
    let shares = [
        (Cause::Memtables, limits.frozen_bytes.share(debt.frozen_bytes), rates.flush_nanos_per_kib),
        (Cause::L0, l0.share(debt.l0.used), rates.l0_nanos_per_kib),
        (Cause::Levels, limits.level_bytes.share(debt.level_bytes), rates.l0_nanos_per_kib),
        (Cause::Values, value_share(debt), rates.values_nanos_per_kib),
        (Cause::LocalDisk, local_share(debt), rates.l0_nanos_per_kib),
        (Cause::LogBytes, limits.log_bytes.share(debt.log_bytes), rates.flush_nanos_per_kib),
        (Cause::Memory, memory.share(debt.memory_bytes), rates.flush_nanos_per_kib),
    ];
    let has_frozen = debt.frozen_count > 0;
    let is_full = |cause: Cause, share: f64| match cause {
        Cause::Memtables => share >= 1.0 || debt.frozen_count >= limits.frozen_count_stop,
        Cause::L0 => share >= 1.0,
        Cause::LogBytes => share >= 1.0 && debt.log_awaits_moment,
        // Only while jobs are there to end the stop.
        Cause::LocalDisk => share >= 1.0 && debt.local.is_some_and(|local| local.drains),
        // Only while a flush of this range is there to end the stop.
        Cause::Memory => share >= 1.0 && has_frozen,
        _ => false,
    };
    let stop = shares.iter().find(|(cause, share, _)| is_full(*cause, *share));
    let prices = shares.iter().map(|(cause, share, drain)| (*cause, price(*share, *drain)));
    let dearest = prices.reduce(|best, next| if next.1 > best.1 { next } else { best });
    Ruling { stop: stop.map(|(cause, _, _)| *cause), pace: dearest.filter(|(_, price)| *price > 0) }
}

/// Where the bytes on the local disk stand.
fn local_share(debt: &Debt) -> f64 {
    debt.local.map_or(0.0, |local| local.band().share(local.bytes))
}

/// Where the dead part of the value log stands. It does not stop: what holds space may be a
/// snapshot, and a writer that waits ends none.
fn value_share(debt: &Debt) -> f64 {
    let Some(allowed) = debt.value_dead_bytes_allowed else { return 0.0 };
    let band = Band { slow: allowed / 16 * 15, stop: allowed / 16 * 17 };
    band.share(debt.value_dead_bytes)
}

/// The price of a KiB at `share` of a debt that drains at `drain` for a KiB.
fn price(share: f64, drain: u64) -> u64 {
    let share = share.min(SHARE_MAX);
    (drain as f64 * share / (1.0 - share)) as u64
}

#[cfg(test)]
mod tests {
    //! Goal: the price is smooth, monotone and bounded, and each debt stops where it should.
    //! Method: the whole curve in steps, and debts drawn at random.

    use super::*;

    const RATES: DrainRates = DrainRates {
        flush_nanos_per_kib: 8_000,
        l0_nanos_per_kib: 20_000,
        values_nanos_per_kib: 20_000,
    };

    fn limits() -> Limits {
        let options = Options::default();
        Limits::of(&options, &LevelShape::of(&options))
    }

    fn rows(used: u64) -> Fill {
        Fill { used, start: 6, slow: 12, stop: 24 }
    }

    fn calm() -> Debt {
        Debt {
            memory_bytes_max: 1 << 30,
            value_dead_bytes_allowed: Some(1 << 30),
            ..Debt::default()
        }
    }

    #[test]
    fn a_tree_that_owes_nothing_asks_for_nothing() {
        assert_eq!(rule(&calm(), &limits(), &RATES), Ruling::default());
        let at_the_mark = Debt { l0: rows(12), frozen_count: 1, ..calm() };
        assert_eq!(rule(&at_the_mark, &limits(), &RATES), Ruling::default());
    }

    #[test]
    fn the_price_grows_smoothly_from_nothing() {
        let mut before = 0;
        for step in 0..=1000u64 {
            let now = price(step as f64 / 1000.0, 10_000);
            assert!(now >= before, "never cheaper with more debt");
            assert!(now - before <= 10_000 / 9, "no step is a cliff: {before} to {now}");
            before = now;
        }
        assert_eq!(price(0.0, 10_000), 0);
        assert_eq!(price(0.5, 10_000), 10_000, "half of the way is as fast as the drain");
        assert!((89_990..=90_010).contains(&price(1.0, 10_000)), "the bound is nine times");
    }

    #[test]
    fn every_debt_has_its_cause() {
        let stopped = |debt| rule(&debt, &limits(), &RATES).stop;
        let paced = |debt| rule(&debt, &limits(), &RATES).pace.map(|(cause, _)| cause);
        assert_eq!(stopped(Debt { l0: rows(24), ..calm() }), Some(Cause::L0));
        assert_eq!(stopped(Debt { l0: rows(23), ..calm() }), None);
        assert_eq!(paced(Debt { l0: rows(13), ..calm() }), Some(Cause::L0));
        let frozen = |bytes, count| Debt { frozen_bytes: bytes, frozen_count: count, ..calm() };
        assert_eq!(stopped(frozen(180 << 20, 3)), Some(Cause::Memtables));
        assert_eq!(stopped(frozen(1 << 20, 12)), Some(Cause::Memtables), "too many to search");
        assert_eq!(stopped(frozen(120 << 20, 2)), None);
        assert_eq!(paced(frozen(120 << 20, 2)), Some(Cause::Memtables));
        assert_eq!(paced(Debt { level_bytes: 2 << 30, ..calm() }), Some(Cause::Levels));
        assert_eq!(stopped(Debt { level_bytes: u64::MAX, ..calm() }), None);
        assert_eq!(paced(Debt { log_bytes: 1 << 30, ..calm() }), Some(Cause::LogBytes));
        assert_eq!(stopped(Debt { log_bytes: u64::MAX, ..calm() }), None);
        let kept = |log_bytes| Debt { log_bytes, log_awaits_moment: true, ..calm() };
        assert_eq!(stopped(kept(1 << 20)), None);
        assert_eq!(stopped(kept(u64::MAX)), Some(Cause::LogBytes));
        let dead = |bytes| Debt { value_dead_bytes: bytes, ..calm() };
        assert_eq!(paced(dead(15 << 26)), None);
        assert_eq!(paced(dead(1 << 30)), Some(Cause::Values));
        assert_eq!(stopped(dead(u64::MAX)), None);
        let without_bound = Debt { value_dead_bytes_allowed: None, ..dead(u64::MAX) };
        assert_eq!(paced(without_bound), None);
        let local = |bytes, drains| Debt {
            local: Some(LocalSpace { bytes, bytes_max: 1 << 30, drains }),
            ..calm()
        };
        assert_eq!(paced(local(7 << 27, true)), None);
        assert_eq!(paced(local(15 << 26, true)), Some(Cause::LocalDisk));
        assert_eq!(stopped(local(15 << 26, true)), None);
        assert_eq!(stopped(local(1 << 30, true)), Some(Cause::LocalDisk));
        assert_eq!(stopped(local(1 << 30, false)), None, "no compaction would end the stop");
        let full = Debt { memory_bytes: 1 << 30, ..calm() };
        assert_eq!(stopped(full), None, "nothing of this range is there to be flushed");
        assert_eq!(stopped(Debt { frozen_count: 1, ..full }), Some(Cause::Memory));
    }

    #[test]
    fn more_debt_never_asks_for_less() {
        let mut state = 20_261_122u64;
        println!("seed {state}");
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % bound
        };
        for _ in 0..20_000 {
            let less = Debt {
                l0: rows(below(30)),
                frozen_bytes: below(250 << 20),
                frozen_count: below(14),
                level_bytes: below(6 << 30),
                log_bytes: below(2 << 30),
                log_awaits_moment: below(2) > 0,
                value_dead_bytes: below(2 << 30),
                value_dead_bytes_allowed: (below(2) > 0).then_some(1 << 30),
                local: Some(LocalSpace {
                    bytes: below(2 << 30),
                    bytes_max: 1 << 30,
                    drains: below(2) > 0,
                }),
                memory_bytes: below(2 << 30),
                memory_bytes_max: 1 << 30,
            };
            let mut more = less;
            match below(8) {
                0 => more.l0.used += below(5),
                1 => more.frozen_bytes += below(64 << 20),
                2 => more.frozen_count += below(3),
                3 => more.level_bytes += below(1 << 30),
                4 => more.log_bytes += below(1 << 30),
                5 => more.value_dead_bytes += below(1 << 30),
                6 => more.local.iter_mut().for_each(|local| local.bytes += below(1 << 30)),
                _ => more.memory_bytes += below(1 << 30),
            }
            let asked = |debt| rule(debt, &limits(), &RATES);
            let (first, second) = (asked(&less), asked(&more));
            let price = |ruling: Ruling| ruling.pace.map_or(0, |(_, price)| price);
            assert!(price(second) >= price(first), "{less:?} {more:?}");
            assert!(price(second) <= 9 * RATES.l0_nanos_per_kib + 9);
            assert!(second.stop.is_some() || first.stop.is_none(), "{less:?} {more:?}");
        }
    }
}
