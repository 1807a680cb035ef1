//! Models of signals, holds and latches, as everything above uses them.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::WaitFactory;
use crate::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::model::{ALL, Weakened, explore, must_fail};
use crate::{Hold, Latch, Signal};

/// Waits until `condition` holds, as all callers do.
fn wait_until(signal: &Signal, condition: impl Fn() -> bool) {
    loop {
        let ticket = signal.ticket();
        if condition() {
            return;
        }
        signal.wait(ticket);
    }
}

/// A lost wake-up is a deadlock, which the model reports.
fn waiters_and_a_notifier(waiters: usize) {
    let shared = Arc::new((WaitFactory::real().signal(), AtomicBool::new(false)));
    let threads: Vec<_> = (0..waiters)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || wait_until(&shared.0, || shared.1.load(Ordering::Relaxed)))
        })
        .collect();
    // Released by the notification alone.
    shared.1.store(true, Ordering::Relaxed);
    shared.0.notify();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn no_wake_up_is_lost() {
    let name = "signal: one waiter";
    explore(name, ALL, || waiters_and_a_notifier(1));
    must_fail(name, Weakened::Acquires, ALL, || waiters_and_a_notifier(1));
    explore("signal: two waiters", 3, || waiters_and_a_notifier(2));
}

#[test]
fn a_notifier_that_forgets_is_noticed() {
    must_fail("signal: notified before the condition holds", Weakened::Nothing, ALL, || {
        let shared = Arc::new((WaitFactory::real().signal(), AtomicBool::new(false)));
        let other = Arc::clone(&shared);
        let waiter =
            thread::spawn(move || wait_until(&other.0, || other.1.load(Ordering::Acquire)));
        shared.0.notify();
        shared.1.store(true, Ordering::Release);
        waiter.join().unwrap();
    });
}

/// Two threads that wait for each other's turns: both conditions stand behind one signal.
fn turns() {
    let shared = Arc::new((WaitFactory::real().signal(), AtomicU64::new(0)));
    let pass = |shared: &(Signal, AtomicU64), turn: u64| {
        wait_until(&shared.0, || shared.1.load(Ordering::Acquire) == turn);
        shared.1.store(turn + 1, Ordering::Release);
        shared.0.notify();
    };
    let other = Arc::clone(&shared);
    let thread = thread::spawn(move || [1, 3].into_iter().for_each(|turn| pass(&other, turn)));
    pass(&shared, 0);
    pass(&shared, 2);
    thread.join().unwrap();
    assert_eq!(shared.1.load(Ordering::Acquire), 4);
}

#[test]
fn turns_are_passed_on_through_one_signal() {
    explore("signal: turns", 3, turns);
}

/// What a freeze relies on: an exclusive holder meets no half-done write, and a sharer that comes
/// after it sees what it did.
fn sharers_and_a_freeze(holds_exclusively: bool) {
    struct Drange {
        active: Hold<usize>,
        /// How many writes each memtable got; a cell, so that a write during the look is noticed.
        frozen: UnsafeCell<u64>,
        written: [AtomicU64; 2],
    }
    let drange = Arc::new(Drange {
        active: WaitFactory::real().hold(0),
        frozen: UnsafeCell::new(0),
        written: std::array::from_fn(|_| AtomicU64::new(0)),
    });
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let drange = Arc::clone(&drange);
            thread::spawn(move || {
                let active = drange.active.shared();
                if *active == 0 {
                    drange.frozen.with(|_| ());
                }
                drange.written[*active].fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let before = if holds_exclusively {
        let mut active = drange.active.exclusive();
        drange.frozen.with_mut(|_| ());
        *active = 1;
        drange.written[0].load(Ordering::Relaxed)
    } else {
        let _active = drange.active.shared();
        drange.frozen.with_mut(|_| ());
        drange.written[0].load(Ordering::Relaxed)
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let [frozen, fresh] = drange.written.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(frozen, before, "nothing comes into a frozen memtable");
    assert_eq!(frozen + fresh, 2);
}

#[test]
fn an_exclusive_holder_meets_no_half_done_write() {
    let name = "hold: writers and a freeze";
    explore(name, 3, || sharers_and_a_freeze(true));
    must_fail(name, Weakened::Nothing, 3, || sharers_and_a_freeze(false));
}

/// Holds are taken in one order, so a freeze between two of a writer's holds leads to no deadlock.
fn holds_in_order() {
    let holds = Arc::new([WaitFactory::real().hold(0), WaitFactory::real().hold(0)]);
    let freezes: Vec<_> = (0..2)
        .map(|index| {
            let holds = Arc::clone(&holds);
            thread::spawn(move || *holds[index].exclusive() += 1)
        })
        .collect();
    {
        let first = holds[0].shared();
        let second = holds[1].shared();
        assert!(*first <= 1 && *second <= 1);
    }
    freezes.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((*holds[0].shared(), *holds[1].shared()), (1, 1));
}

#[test]
fn holds_in_one_order_never_deadlock() {
    explore("hold: two holds and two freezes", 3, holds_in_order);
}

#[test]
fn a_latch_orders_what_is_done_under_it() {
    explore("latch: two threads", ALL, || {
        let shared = Arc::new((Latch::new(0), UnsafeCell::new(0)));
        let add = |shared: &(Latch<u64>, UnsafeCell<u64>)| {
            let mut count = shared.0.lock();
            *count += 1;
            shared.1.with_mut(|_| ());
        };
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || add(&other));
        add(&shared);
        thread.join().unwrap();
        assert_eq!(*shared.0.lock(), 2);
    });
}
