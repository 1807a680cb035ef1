//! Whether everything that the clients of a run saw could be so.

use std::collections::BTreeMap;

use terrace_base::{KeyRange, WallTime};

use super::keyspaces::content_differs;
use super::model::{Model, Row};
use super::order::{Placed, check_order};
use super::record::{
    Event, IteratorFacts, Kind, Move, Outcome, Record, Seen, Walked as Transacted, What,
};
use super::violation::Violation;

/// Which failures a run may show: depends on the faults that it had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerance {
    /// The disk was full for a while.
    pub no_space: bool,
    /// A call failed for another reason.
    pub io: bool,
    /// A sync or a write failed, so the range takes no more writes.
    pub poisoned: bool,
}

impl Tolerance {
    fn allows(self, kind: Kind) -> bool {
        match kind {
            Kind::NoSpace => self.no_space,
            Kind::Io => self.io,
            Kind::Poisoned | Kind::Unknown => self.poisoned,
            _ => false,
        }
    }
}

/// Judges a run whose writes stand in `order`, after which the range holds what `model` says.
///
/// * The commit order keeps the order of time.
/// * A read sees the state at one number: not below what was acknowledged, or seen by a read that
///   had ended, before it began; not above what had been begun when it ended.
/// * A snapshot and an iterator see exactly the state at their number, for as long as they live.
/// * A conditional write saw exactly the state that it replaced. So did a transaction that
///   committed, at whatever earlier number it read; none is refused if nobody could have come
///   between.
/// * Nothing fails that `tolerance` does not allow.
pub fn judge(
    record: &Record,
    order: &[Placed<'_>],
    model: &Model,
    tolerance: Tolerance,
) -> Result<(), Violation> {
    check_order(order)?;
    let mut judge = Judge {
        model,
        tolerance,
        bounds: Bounds::of(record, order, model.seqno()),
        places: order.iter().map(|placed| (placed.event.begun.tick, placed.first)).collect(),
        iterators: BTreeMap::new(),
    };
    record.events.iter().try_for_each(|event| judge.event(event))
}

/// Between which numbers the state lies that a read at some moment may see.
struct Bounds {
    /// (tick at which it was known, number), both ascending.
    known: Vec<(u64, u64)>,
    /// (tick at which it was begun, the least number begun at or after it), by tick.
    begun: Vec<(u64, u64)>,
    /// What was there before the first write.
    base: u64,
    /// What was there after the last write.
    last: u64,
}

impl Bounds {
    fn of(record: &Record, order: &[Placed<'_>], last: u64) -> Bounds {
        let mut known: Vec<(u64, u64)> = record
            .events
            .iter()
            .filter_map(|event| Some((event.ended?.tick, known_from(&event.what)?)))
            .collect();
        known.sort_unstable();
        let mut greatest = 0;
        for (_, seqno) in &mut known {
            greatest = greatest.max(*seqno);
            *seqno = greatest;
        }
        let mut begun: Vec<(u64, u64)> =
            order.iter().map(|placed| (placed.event.begun.tick, placed.first)).collect();
        begun.sort_unstable();
        let mut least = u64::MAX;
        for (_, first) in begun.iter_mut().rev() {
            least = least.min(*first);
            *first = least;
        }
        let base = order.first().map_or(last, |placed| placed.first - 1);
        Bounds { known, begun, base, last }
    }

    /// Every number up to this one is visible to whatever begins at `tick`.
    fn floor(&self, tick: u64) -> u64 {
        let count = self.known.partition_point(|(at, _)| *at < tick);
        count.checked_sub(1).map_or(self.base, |index| self.known[index].1.max(self.base))
    }

    /// No number above this one is visible to whatever ends at `tick`.
    fn ceiling(&self, tick: u64) -> u64 {
        let index = self.begun.partition_point(|(at, _)| *at < tick);
        // Without a write that began later, anything that there is may be seen.
        self.begun.get(index).map_or(self.last.max(self.floor(tick)), |(_, first)| first - 1)
    }
}

/// A number that is visible to everybody once this has ended.
fn known_from(what: &What) -> Option<u64> {
    let newest = |seen: &[Seen]| seen.iter().filter_map(|s| s.found.map(|f| f.seqno)).max();
    match what {
        What::Write(write) => match write.outcome {
            Outcome::Written { last } => Some(last),
            _ => None,
        },
        What::Kept { seen } | What::GotMany { seen } => newest(seen),
        What::Got { seen, .. } => seen.found.map(|found| found.seqno),
        What::Scanned { iterator, .. } | What::Iterator { facts: iterator, .. } => {
            Some(iterator.seqno)
        }
        What::Snapshot { seqno } | What::Opened { seqno } => Some(*seqno),
        _ => None,
    }
}

struct Judge<'a> {
    model: &'a Model,
    tolerance: Tolerance,
    bounds: Bounds,
    /// The first number of each write, by the tick at which it began.
    places: BTreeMap<u64, u64>,
    iterators: BTreeMap<u64, Walked>,
}

/// An iterator as the model has it: what it shows at each moment by which it may judge expiry, and
/// the key on which it stands.
struct Walked {
    within: KeyRange,
    shows: Vec<Vec<Row>>,
    stands_on: Option<Vec<u8>>,
}

impl Judge<'_> {
    fn event(&mut self, event: &Event) -> Result<(), Violation> {
        let fail = |text: String| Err(Violation::at(event, text));
        match &event.what {
            What::Write(write) => {
                if let Outcome::Refused { error, text } = &write.outcome {
                    let waits = matches!(error, Kind::WouldBlock | Kind::NeedsIo);
                    let is_conflict = *error == Kind::Conflict && write.may_conflict;
                    if !(is_conflict || waits && !write.may_wait || self.tolerance.allows(*error)) {
                        return fail(format!("the write was refused: {text}"));
                    }
                }
                if write.outcome == Outcome::Unknown && !self.tolerance.poisoned {
                    return fail("the outcome of the write is unknown".into());
                }
                match self.places.get(&event.begun.tick) {
                    Some(first) => {
                        self.seen_at(event, &write.seen, first - 1..=first - 1)?;
                        let mut walked = write.walked.iter();
                        walked.try_for_each(|walked| self.walked(event, walked, first - 1))
                    }
                    None => Ok(()),
                }
            }
            What::Kept { seen } | What::GotMany { seen } => {
                self.seen_at(event, seen, self.span(event))
            }
            What::Got { seen, at: Some(seqno) } => {
                self.seen_at(event, std::slice::from_ref(seen), *seqno..=*seqno)
            }
            What::Got { seen, at: None } => {
                self.seen_at(event, std::slice::from_ref(seen), self.span(event))
            }
            What::Snapshot { seqno } | What::Opened { seqno } => self.number(event, *seqno),
            What::Scanned { iterator, backward, limit, rows } => {
                self.facts(event, iterator)?;
                self.scanned(event, iterator, *backward, *limit, rows)
            }
            What::Iterator { id, facts } => {
                self.facts(event, facts)?;
                let within = facts.within.clone();
                let shows = self.shows(facts);
                self.iterators.insert(*id, Walked { within, shows, stands_on: None });
                Ok(())
            }
            What::Moved { id, how, shown } => self.moved(event, *id, how, shown.as_ref()),
            What::Whole { seqno, from, until, content } => {
                content_differs(self.model, *seqno, *from, *until, content).map_or(Ok(()), fail)
            }
            What::Checked { damage: Some(damage) } => fail(format!("a check found: {damage}")),
            What::Failed { error, text } if !self.tolerance.allows(*error) => {
                fail(format!("it failed: {text}"))
            }
            What::Begun if self.tolerance.poisoned => Ok(()),
            What::Begun => fail("it never ended".into()),
            What::Durable | What::Checked { damage: None } | What::Failed { .. } => Ok(()),
        }
    }

    /// The numbers at which a read may have seen the state.
    fn span(&self, event: &Event) -> std::ops::RangeInclusive<u64> {
        let ended = event.ended.map_or(u64::MAX, |ended| ended.tick);
        self.bounds.floor(event.begun.tick)..=self.bounds.ceiling(ended)
    }

    fn number(&self, event: &Event, seqno: u64) -> Result<(), Violation> {
        let span = self.span(event);
        if span.contains(&seqno) {
            return Ok(());
        }
        Err(Violation::at(event, format!("it reads at number {seqno}, not within {span:?}")))
    }

    fn facts(&self, event: &Event, facts: &IteratorFacts) -> Result<(), Violation> {
        match facts.at {
            None => self.number(event, facts.seqno),
            Some(seqno) if seqno == facts.seqno => Ok(()),
            Some(seqno) => {
                let text = format!("it reads at number {}, not at {seqno}", facts.seqno);
                Err(Violation::at(event, text))
            }
        }
    }

    /// Whether there is one number in `span` at which all that was seen is right.
    fn seen_at(
        &self,
        event: &Event,
        seen: &[Seen],
        span: std::ops::RangeInclusive<u64>,
    ) -> Result<(), Violation> {
        let mut numbers = vec![*span.start()];
        for one in seen {
            numbers.extend(self.model.changes_of(&one.key, span.start() + 1, *span.end()));
        }
        let is_right = |one: &Seen, seqno| {
            moments(self.model, std::slice::from_ref(&one.key), seqno, one.from, one.until)
                .into_iter()
                .any(|now| self.model.get(&one.key, seqno, now) == one.found)
        };
        if numbers.iter().any(|&seqno| seen.iter().all(|one| is_right(one, seqno))) {
            return Ok(());
        }
        let shown: Vec<String> = seen
            .iter()
            .map(|one| {
                let wanted = self.model.get(&one.key, *span.end(), one.until);
                format!(
                    "{:?} was {}, at number {} it is {}",
                    one.key.escape_ascii().to_string(),
                    show(one.found),
                    span.end(),
                    show(wanted)
                )
            })
            .collect();
        let text = format!("at no number of {span:?} the state was so: {}", shown.join("; "));
        Err(Violation::at(event, text))
    }

    /// Whether what a transaction walked over was so right before it was written.
    fn walked(&self, event: &Event, walked: &Transacted, seqno: u64) -> Result<(), Violation> {
        let iterator = IteratorFacts { seqno, ..walked.iterator.clone() };
        self.scanned(event, &iterator, walked.backward, walked.limit, &walked.rows)
    }

    /// What an iterator shows, for each moment by which it may judge expiry.
    fn shows(&self, facts: &IteratorFacts) -> Vec<Vec<Row>> {
        let whole = self.model.scan(&facts.within, facts.seqno, facts.from);
        let keys: Vec<Vec<u8>> = whole.iter().map(|(key, _)| key.clone()).collect();
        moments(self.model, &keys, facts.seqno, facts.from, facts.until)
            .into_iter()
            .map(|now| self.model.scan(&facts.within, facts.seqno, now))
            .collect()
    }

    fn scanned(
        &self,
        event: &Event,
        iterator: &IteratorFacts,
        backward: bool,
        limit: u32,
        rows: &[Row],
    ) -> Result<(), Violation> {
        let mut wanted = Vec::new();
        for mut shown in self.shows(iterator) {
            if backward {
                shown.reverse();
            }
            shown.truncate(limit as usize);
            if shown == rows {
                return Ok(());
            }
            wanted = shown;
        }
        let text = format!("at number {}: {}", iterator.seqno, difference(rows, &wanted));
        Err(Violation::at(event, text))
    }

    fn moved(
        &mut self,
        event: &Event,
        id: u64,
        how: &Move,
        shown: Option<&Row>,
    ) -> Result<(), Violation> {
        let Some(walked) = self.iterators.get_mut(&id) else { return Ok(()) };
        let stands_on = walked.stands_on.take();
        let within = &walked.within;
        let wanted = |rows: &[Row]| -> Option<Row> {
            let below = |key: &[u8]| rows.partition_point(|(other, _)| other.as_slice() < key);
            let index = match how {
                Move::Seek(key) => Some(below(key)),
                Move::SeekBack(bound) => bound.as_deref().map_or(rows.len(), below).checked_sub(1),
                Move::Next => stands_on
                    .as_deref()
                    .map(|key| rows.partition_point(|(other, _)| other.as_slice() <= key)),
                Move::Prev => stands_on.as_deref().and_then(|key| below(key).checked_sub(1)),
            };
            index.and_then(|index| rows.get(index)).cloned()
        };
        let last = walked.shows.last().and_then(|rows| wanted(rows));
        walked.shows.retain(|rows| wanted(rows).as_ref() == shown);
        if walked.shows.is_empty() {
            let show = |row: Option<&Row>| {
                row.map_or("nowhere".to_string(), |(key, found)| {
                    format!("{:?} {}", key.escape_ascii().to_string(), show(Some(*found)))
                })
            };
            let text = format!(
                "after {how:?} in {within:?} the iterator stands {}, it should stand {}",
                show(shown),
                show(last.as_ref())
            );
            return Err(Violation::at(event, text));
        }
        walked.stands_on = shown.map(|(key, _)| key.clone());
        Ok(())
    }
}

/// The moments in `from..=until` between which what these keys show differs.
pub(crate) fn moments(
    model: &Model,
    keys: &[Vec<u8>],
    seqno: u64,
    from: WallTime,
    until: WallTime,
) -> Vec<WallTime> {
    let mut moments = vec![from];
    if from < until {
        let expiries = keys.iter().filter_map(|key| model.get(key, seqno, from)?.expiry);
        moments.extend(expiries.filter(|expiry| (from..=until).contains(expiry)));
        moments.sort_unstable();
        moments.dedup();
    }
    moments
}

fn show(found: Option<super::model::Found>) -> String {
    found.map_or("not there".to_string(), |found| {
        let expiry = found.expiry.map_or(String::new(), |at| format!(" until {}", at.0));
        format!(
            "{} bytes ({:04x}) of number {}{expiry}",
            found.bytes, found.hash as u16, found.seqno
        )
    })
}

/// Where two lists of rows part.
#[must_use]
pub fn difference(found: &[Row], wanted: &[Row]) -> String {
    let parts = found.iter().zip(wanted).position(|(one, other)| one != other);
    let index = parts.unwrap_or(found.len().min(wanted.len()));
    let row = |rows: &[Row]| {
        rows.get(index).map_or("nothing".to_string(), |(key, found)| {
            format!("{:?}: {}", key.escape_ascii().to_string(), show(Some(*found)))
        })
    };
    format!(
        "{} keys instead of {}; at place {index} there is {} instead of {}",
        found.len(),
        wanted.len(),
        row(found),
        row(wanted)
    )
}
