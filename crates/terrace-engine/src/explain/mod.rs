//! Explanations: what one operation met on its way, and why it answered as it did.
//!
//! # Why
//! "Why is this key not there", "why did this read take five milliseconds": an LSM-tree answers
//! from many places, and the answer alone does not say which. So every get and scan can be told
//! step by step ([`GetExplanation`], [`ScanExplanation`]), on demand, and the slowest operations
//! of the last minutes are kept always ([`SlowOperation`]).
//!
//! # How
//! There is one read path, and an explained read takes it. On its way it passes *notes*
//! (`note`): places that say what was just found out. A note costs one look at a flag of the
//! thread and does nothing unless the thread is recording.
//!
//! A parameter of the read path that compiles away would cost nothing at all; but the path goes
//! through `dyn` seams (`L0State`, `Cursor`), which a type parameter cannot cross, and through
//! block reads deep in a cursor, far from whoever knows that somebody listens. The flag is one
//! instruction and a branch that is never taken.
//!
//! # The slowest operations
//! To time every operation would cost two looks at the clock, 5 to 10 % of a get from memory. So:
//!
//! 1. Of each thread one operation in about [`SAMPLE_EVERY`] is timed, and if it is a get, recorded
//!    step by step. The distance between two is drawn: were it fixed, of gets and puts that take
//!    turns one kind would always be timed and the other never.
//! 2. Whatever had to wait (for a file, the gate, a hold, room, publication, a sync) notes how
//!    long (`waits.rs`): it reads the clock anyway, or pays far more than a look at it.
//!
//! So an operation that was slow for a reason that the store knows is always seen, and is timed
//! from its first wait on; one that was slow for another reason (the processor was elsewhere) is
//! seen with a chance of one in [`SAMPLE_EVERY`]. A scan that was not sampled counts its waits
//! only.
//!
//! # Totals
//! What a read touched is summed up beside its steps ([`ReadTotals`]): sources, filters, blocks.
//! The totals of sampled gets, which are recorded anyway, are kept in sum, so that figures can say
//! what a get costs on average. Of sampled scans only the sources are counted: a cursor that says
//! when it works would make them slower than the others.
//!
//! # Counts
//! What all reads come to is counted by thread ([`ReadCounters`], [`Place`]), since a counter that
//! all threads add to would cost a tenth of a get.
//!
//! # Invariants
//! 1. What is recorded changes no answer, and the verdict is noted where the answer is decided.
//! 2. Which operations are sampled depends on the calls of the thread alone, so that a simulated
//!    run is the same every time: looking at the clock is a call of the environment.
//! 3. No note is taken under a latch, since a note may look at the clock.

mod cursor;
mod get;
mod places;
mod read_counters;
mod recorder;
mod scan;
mod slow;
pub(crate) mod text;
mod totals;
pub(crate) mod waits;
mod watch;

pub use get::{BlockRead, GetExplanation, PagesSearch, Source, Step, StepAnswer, Verdict};
pub use places::Place;
pub use read_counters::{Asked, LevelReads, MyCounts, ReadCounters};
pub use scan::{HiddenCounts, LevelBlocks, ScanEnd, ScanExplanation, SourceTally};
pub use slow::{OperationKind, SLOW_WINDOW, SlowOperation, SlowWait};
pub use totals::ReadTotals;
pub use waits::WaitCause;
pub use watch::SAMPLE_EVERY;

pub(crate) use cursor::observed;
pub(crate) use recorder::{Recorder, Recording, is_recording, note};
pub(crate) use scan::Hidden;
pub(crate) use slow::{Ended, SlowLog};
pub(crate) use watch::ScanWatch;
