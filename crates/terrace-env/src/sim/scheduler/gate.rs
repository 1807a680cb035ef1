use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

/// Where one thread waits for its turn: opened once, it lets its owner through once.
#[derive(Default)]
pub(super) struct Gate {
    open: AtomicBool,
    owner: OnceLock<Thread>,
}

impl Gate {
    /// Names the thread that waits here; before anybody opens the gate.
    pub fn set_owner(&self, owner: Thread) {
        self.owner.set(owner).expect("a gate gets its owner once, where the thread is started");
    }

    /// Lets the owner through, now or when it comes.
    pub fn open(&self) {
        // Order: what the opener did happens before what the owner does next.
        self.open.store(true, Ordering::Release);
        self.owner.get().expect("the owner is set before the thread can be chosen").unpark();
    }

    /// Blocks the owner until the gate is opened, and closes it again.
    pub fn pass(&self) {
        while !self.open.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}
