//! What must be there: the model, what the clients saw, and what a crash may take away.
//!
//! # Why
//! A test that compares a store with itself proves little, and an oracle that lies on the disk
//! that is being damaged proves nothing. This one lives in the memory of the harness: a sorted map
//! with versions ([`Model`]), and a record of what every client began and was told ([`Record`]).
//!
//! # How a run is judged
//! Each acknowledged write says its sequence numbers, and these leave no gap. So the commit order
//! of a run is known afterwards ([`orders`]), and from it the state at every number. Then
//! everything that anybody saw must be the state at one number that was possible at that moment
//! ([`judge`]); and what a crash leaves must be the state at one number too, no later than what had
//! been begun and no earlier than what had been promised ([`promise_at`]). That is more than
//! linearizability of each key: there is no hole, and no batch is there by half.

mod judge;
mod keyspaces;
mod model;
mod order;
mod promise;
mod record;
mod violation;

pub(crate) use judge::moments;
pub use judge::{Tolerance, difference, judge};
pub use keyspaces::{Content, DEFAULT, SpaceId, content_differs, spaces_at};
pub use model::{Found, Model, Row};
pub use order::{Order, Placed, check_order, model_of, number_the_rest, orders};
pub use promise::{Promise, promise_at};
pub use record::{
    Event, EventId, IteratorFacts, Kind, Move, Outcome, Record, Recorder, Seen, Stamp, Walked,
    What, Write,
};
pub use violation::Violation;

#[cfg(test)]
mod tests;
