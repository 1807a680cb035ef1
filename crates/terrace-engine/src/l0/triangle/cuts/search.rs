//! The search for a slice's end: guesses from sampled keys, and what the rows say of each.

use std::ops::Range;

use terrace_base::KeyRange;

use super::ends::End;
use super::{CutTurn, Rows};

/// What is said about an end.
pub(super) enum Judged {
    /// The end is too near, by this number of bytes.
    Near(u64),
    /// The end is too far away, by this number of bytes.
    Far(u64),
    Fits,
}

/// The search for an end.
pub(super) struct Search {
    start: Vec<u8>,
    /// The first of the ends that are looked at, and the one behind the last.
    all: Range<usize>,
    /// Those before are too near, those behind too far.
    pub candidates: Range<usize>,
    /// About which value of [`End::before`] is looked for.
    target: u64,
}

/// So often the next guess follows from what the last one was too near or too far by; then halves
/// are taken.
const GUESSES: usize = 4;

impl Search {
    /// Among the ends behind `start`, up to `until`, one that has about `aim` bytes before it.
    pub fn new(turn: &CutTurn, start: &[u8], until: Option<&[u8]>, aim: u64) -> Search {
        let all = turn.first_behind(start)..turn.place(until) + 1;
        let before = all.start.checked_sub(1).map_or(0, |last| turn.ends[last].before);
        let (start, candidates) = (start.to_vec(), all.clone());
        Search { start, all, candidates, target: before.saturating_add(aim) }
    }

    /// The last end that is too near.
    pub fn near(&self) -> Option<usize> {
        (self.candidates.start > self.all.start).then(|| self.candidates.start - 1)
    }

    /// Looks whether one of the candidates fits; if not, none is left, and the one behind them, if
    /// it is one of all, was the last to be found too far.
    pub fn narrow(
        &mut self,
        turn: &CutTurn,
        mut judge: impl FnMut(&CutTurn, usize) -> Judged,
    ) -> bool {
        for round in 0.. {
            let Range { start, end } = self.candidates;
            if start >= end {
                break;
            }
            let ends = &turn.ends[start..end];
            let guess = match round < GUESSES {
                true => ends.partition_point(|end| end.before < self.target),
                false => ends.len() / 2,
            };
            let guess = start + guess.min(ends.len() - 1);
            let before = turn.ends[guess].before;
            match judge(turn, guess) {
                Judged::Fits => return true,
                Judged::Near(by) => {
                    self.target = before.saturating_add(by);
                    self.candidates.start = guess + 1;
                }
                Judged::Far(by) => {
                    self.target = before.saturating_sub(by);
                    self.candidates.end = guess;
                }
            }
        }
        false
    }

    /// Asks `rows` for more ends between the last one that is too near and the first one that is
    /// too far. Whether there are any.
    pub fn refine(&mut self, turn: &mut CutTurn, rows: &(impl Rows + ?Sized)) -> bool {
        let place = self.candidates.start;
        if place >= self.all.end {
            return false;
        }
        let left = match self.near() {
            Some(near) => {
                turn.ends[near].key.clone().expect("only the last end is behind all keys")
            }
            None => self.start.clone(),
        };
        let between = KeyRange::new(left, turn.ends[place].key.clone());
        if turn.interval_at(between.start()).is_some_and(|keys| keys.hull(&between) == *keys) {
            return false;
        }
        let mut keys = rows.keys_within(&between);
        keys.retain(|key| {
            let is_inside = turn.interval_at(key).is_some_and(|keys| keys.start() < key.as_slice());
            key.as_slice() > between.start() && between.contains(key) && !is_inside
        });
        keys.sort_unstable();
        keys.dedup();
        let count = keys.len() as u64;
        let before = place.checked_sub(1).map_or(0, |last| turn.ends[last].before);
        let step = (turn.ends[place].before - before) / (count + 1);
        let ends = keys
            .into_iter()
            .zip(1..)
            .map(|(key, nth)| End { key: Some(key), before: before + step * nth });
        turn.ends.splice(place..place, ends);
        self.candidates = place..place + count as usize;
        self.all.end += count as usize;
        count > 0
    }
}
