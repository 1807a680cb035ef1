use super::latch;
use crate::sim::at_yield_point;

/// A place between two steps of an algorithm that calls neither this crate nor a latch, though
/// other threads may come between the steps. The real environment does nothing here.
///
/// A simulation changes threads inside this crate only, so it would never see what comes between;
/// with [`SimOptions::switch_at_latches`](crate::SimOptions::switch_at_latches) the thread may lose
/// its turn here, for a moment or until others have finished whole operations. This means something
/// in builds with debug assertions only, as it does for latches.
#[inline(always)]
pub fn yield_point() {
    if cfg!(debug_assertions) && latch::is_none_held() {
        at_yield_point();
    }
}
