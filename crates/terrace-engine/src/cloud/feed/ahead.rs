use std::collections::VecDeque;

use super::FeedObjects;
use crate::Result;
use crate::cloud::PendingGet;
use crate::cloud::format::FeedObject;

/// So many objects are asked for before they are needed.
const AHEAD_MAX: usize = 16;

/// Reads numbers of a feed in a given order. The further the reading goes, the more of them are
/// asked for at once: one after the other, each would cost the latency of the store, and most
/// readings end with the first.
pub(super) struct ReadAhead<'a, Numbers> {
    objects: &'a FeedObjects,
    numbers: Numbers,
    asked: VecDeque<(u64, PendingGet)>,
    /// How many are asked for with the next one.
    window: usize,
}

impl<'a, Numbers: Iterator<Item = u64>> ReadAhead<'a, Numbers> {
    pub fn new(objects: &'a FeedObjects, numbers: Numbers) -> ReadAhead<'a, Numbers> {
        ReadAhead { objects, numbers, asked: VecDeque::new(), window: 1 }
    }
}

impl<Numbers: Iterator<Item = u64>> Iterator for ReadAhead<'_, Numbers> {
    /// What stands at a number, as [`FeedObjects::read`] has it.
    type Item = (u64, Result<Option<FeedObject>>);

    fn next(&mut self) -> Option<Self::Item> {
        let missing = self.window.saturating_sub(self.asked.len());
        let objects = self.objects;
        let begin = |number| (number, objects.begin_read(number));
        self.asked.extend(self.numbers.by_ref().take(missing).map(begin));
        self.window = (2 * self.window).min(AHEAD_MAX);
        let (number, pending) = self.asked.pop_front()?;
        Some((number, objects.end_read(number, pending)))
    }
}
