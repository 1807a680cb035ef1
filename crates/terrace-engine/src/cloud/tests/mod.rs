//! What the tests of the room share.

mod scripted;

pub(super) use scripted::{Fate, ScriptedStore};
