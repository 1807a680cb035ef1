//! The commit order of a run: where each write stands in it.

use std::collections::BTreeSet;

use super::model::Model;
use super::record::{Event, Outcome, Record, What, Write};
use super::violation::Violation;
use crate::workload::numbers_of;

/// A write with its place in the commit order.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The number of its first entry.
    pub first: u64,
    /// The number of its last entry.
    pub last: u64,
    /// When, and by which client.
    pub event: &'a Event,
    /// What.
    pub write: &'a Write,
}

/// Writes in their commit order: consecutive from the base on.
pub type Order<'a> = Vec<Placed<'a>>;

/// How many writes of unknown outcome one run may leave; more would be more orders than anybody
/// wants to try.
const UNKNOWN_MAX: usize = 8;

/// The orders that a run allows, after `base`, up to the number `upto` if that is known.
///
/// Sequence numbers leave no gap. So if every outcome is known there is one order; a write whose
/// outcome is unknown fills a gap of its length, or follows behind.
pub fn orders<'a>(
    record: &'a Record,
    base: u64,
    upto: Option<u64>,
) -> Result<Vec<Order<'a>>, Violation> {
    let mut known: Order<'a> = Vec::new();
    let mut unknown: Vec<(&Event, &Write)> = Vec::new();
    for (event, write) in record.writes() {
        let numbers = numbers_of(&write.changes);
        match write.outcome {
            _ if numbers == 0 => {}
            Outcome::Written { last } => {
                known.push(Placed { first: last + 1 - numbers, last, event, write });
            }
            Outcome::Unknown | Outcome::Pending | Outcome::Between { .. } => {
                unknown.push((event, write));
            }
            Outcome::Refused { .. } => {}
        }
    }
    known.sort_by_key(|placed| placed.last);
    let mut after = base;
    for placed in &known {
        if placed.first <= after {
            let text = format!(
                "the write got the numbers {}..={}, but {after} had been given out",
                placed.first, placed.last
            );
            return Err(Violation::at(placed.event, text));
        }
        after = placed.last;
    }
    if unknown.len() > UNKNOWN_MAX {
        let (event, _) = unknown[UNKNOWN_MAX];
        return Err(Violation::at(event, format!("{} unknown outcomes", unknown.len())));
    }
    let mut search = Search { known: &known, unknown: &unknown, upto, found: Vec::new() };
    search.go(base, 0, &mut Vec::new());
    if search.found.is_empty() {
        let text = format!(
            "no order of the writes leaves no gap from number {base} up to {}",
            upto.map_or("the last one".to_string(), |upto| upto.to_string())
        );
        return Err(Violation::of_run(text));
    }
    Ok(search.found)
}

/// Gives their numbers to the writes that were acknowledged without ([`Outcome::Between`]): those
/// that nobody else has. No two of these writes may have been under way at once.
pub fn number_the_rest(record: &mut Record) -> Result<(), Violation> {
    let mut taken = BTreeSet::new();
    for (_, write) in record.writes() {
        if let Outcome::Written { last } = write.outcome {
            taken.extend(last + 1 - numbers_of(&write.changes)..=last);
        }
    }
    for event in &mut record.events {
        let What::Write(write) = &event.what else { continue };
        let Outcome::Between { after, upto, may_be_short } = write.outcome else { continue };
        let free: Vec<u64> = (after + 1..=upto).filter(|number| !taken.contains(number)).collect();
        let wanted = numbers_of(&write.changes);
        let count = free.len() as u64;
        let is_short = may_be_short && count == 1;
        let is_one_run = free.first().zip(free.last()).is_some_and(|(a, b)| b - a + 1 == count);
        if !is_one_run || count != wanted && !is_short {
            let text = format!("it should have {wanted} numbers in a row, and left are {free:?}");
            return Err(Violation::at(event, text));
        }
        let What::Write(write) = &mut event.what else { continue };
        if is_short {
            write.changes.drain(..write.changes.len() - 1);
        }
        write.outcome = Outcome::Written { last: free[free.len() - 1] };
    }
    Ok(())
}

/// Tries every way to fill the gaps.
struct Search<'s, 'a> {
    known: &'s [Placed<'a>],
    unknown: &'s [(&'a Event, &'a Write)],
    upto: Option<u64>,
    found: Vec<Order<'a>>,
}

impl<'a> Search<'_, 'a> {
    fn go(&mut self, after: u64, next_known: usize, order: &mut Order<'a>) {
        let next = self.known.get(next_known);
        if let Some(placed) = next.filter(|placed| placed.first == after + 1) {
            order.push(*placed);
            self.go(placed.last, next_known + 1, order);
            order.pop();
            return;
        }
        if next.is_none() && self.upto.is_none_or(|upto| upto == after) {
            self.found.push(order.clone());
        }
        let room = next.map(|placed| placed.first - 1).or(self.upto).unwrap_or(u64::MAX);
        for &(event, write) in self.unknown {
            let last = after + numbers_of(&write.changes);
            let is_used = order.iter().any(|placed| std::ptr::eq(placed.event, event));
            if !is_used && last <= room {
                order.push(Placed { first: after + 1, last, event, write });
                self.go(last, next_known, order);
                order.pop();
            }
        }
    }
}

/// The model after these writes.
#[must_use]
pub fn model_of(base: &Model, order: &[Placed<'_>]) -> Model {
    let mut model = base.clone();
    for placed in order {
        model.apply(&placed.write.changes, placed.write.wall);
    }
    model
}

/// Checks that the commit order keeps the order of time: a write that was acknowledged before
/// another began comes before it.
pub fn check_order(order: &[Placed<'_>]) -> Result<(), Violation> {
    let mut earliest_end = u64::MAX;
    for placed in order.iter().rev() {
        if earliest_end < placed.event.begun.tick {
            let text = format!(
                "the write got the numbers {}..={}, but a later number was acknowledged before \
                 it began",
                placed.first, placed.last
            );
            return Err(Violation::at(placed.event, text));
        }
        if let (Some(ended), What::Write(write)) = (placed.event.ended, &placed.event.what)
            && matches!(write.outcome, Outcome::Written { .. })
        {
            earliest_end = earliest_end.min(ended.tick);
        }
    }
    Ok(())
}
