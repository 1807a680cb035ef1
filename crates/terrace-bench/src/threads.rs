//! The threads of a run: the only place of this crate that starts any.

#![allow(
    clippy::disallowed_methods,
    reason = "the load comes from threads, which are paced in real time"
)]

use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::clock::Moment;

/// A sleeping thread wakes up to this much too late; the rest of a wait it gives its turn away.
const SLEEP_SLACK: Duration = Duration::from_micros(100);

/// Waits until `moment`; returns at once if it has passed.
pub(crate) fn wait_until(moment: Moment) {
    loop {
        let left = moment.since(Moment::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(SLEEP_SLACK) {
            Some(long) if !long.is_zero() => thread::sleep(long),
            _ => thread::yield_now(),
        }
    }
}

/// How often the caller's thread looks around while the others work.
const WATCH_EVERY: Duration = Duration::from_millis(20);

/// Runs `work` on `count` threads, each with its number, and `watch` on this one until all of them
/// are done. A panic of one of them goes on here.
pub(crate) fn run_all<T: Send>(
    count: u64,
    work: impl Fn(u64) -> T + Sync,
    mut watch: impl FnMut(),
) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let handles: Vec<ScopedJoinHandle<'_, T>> =
            (0..count).map(|number| scope.spawn(move || work(number))).collect();
        while !handles.iter().all(ScopedJoinHandle::is_finished) {
            thread::sleep(WATCH_EVERY);
            watch();
        }
        let join = |handle: ScopedJoinHandle<'_, T>| match handle.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).collect()
    })
}
