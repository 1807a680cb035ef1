//! Moments at which no write is under way: for whatever needs the range as a whole.

use std::sync::Arc;

use terrace_base::{LogPosition, MemtableId};
use terrace_env::ExclusiveHold;

use crate::Result;
use crate::drange::{Active, DrangeMap, Frozen};
use crate::store::Inner;
use crate::store::turns::FreezeTurn;
use crate::store::upkeep::freeze::Lacks;

/// Every drange of the range, held exclusively, in their order: whoever has numbers has inserted
/// its entries, and nobody takes numbers.
pub(in crate::store) struct AllHeld<'a> {
    /// What each drange writes to, in their order.
    pub holds: Vec<ExclusiveHold<'a, Active>>,
}

impl<'a> AllHeld<'a> {
    /// Waits for every drange of `map`, which the turn keeps the range's map.
    pub fn of(map: &'a DrangeMap, _turn: &'a FreezeTurn) -> AllHeld<'a> {
        AllHeld { holds: map.list().iter().map(|drange| drange.active.exclusive()).collect() }
    }
}

impl Inner {
    /// Runs `act` while every drange is held. Errors: `Poisoned`, `Closed`, and those of `act`.
    ///
    /// `act` must not freeze, nor touch a hold, but through what it is given.
    pub(in crate::store) fn with_all_held<T>(
        &self,
        act: impl FnOnce(&mut AllHeld<'_>) -> Result<T>,
    ) -> Result<T> {
        // The turn keeps the dranges as they are.
        let turn = self.turns.freeze.lock();
        let map = self.dranges.load_full();
        let mut all = AllHeld::of(&map, &turn);
        self.check_healthy()?;
        act(&mut all)
    }

    /// Freezes every memtable that holds anything; the ones that wait to be flushed then, oldest
    /// first: everything that was written and is not in tables.
    pub(in crate::store) fn freeze_held(&self, all: &mut AllHeld<'_>) -> Result<Vec<Arc<Frozen>>> {
        let fresh = self.fresh_memtables(all.holds.len(), &Lacks::new());
        self.swap_all(all, fresh)?;
        Ok(self.view.load().frozen())
    }

    /// As [`Inner::oldest_position`], for whoever holds every drange.
    pub(in crate::store) fn oldest_position_held(
        &self,
        all: &AllHeld<'_>,
        except: &[MemtableId],
    ) -> LogPosition {
        let active = all.holds.iter().map(|active| active.begin).min();
        let oldest = self.view.load().oldest_frozen(except).into_iter().chain(active).min();
        oldest.expect("a range has at least one drange")
    }
}
