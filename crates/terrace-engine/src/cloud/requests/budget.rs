use terrace_env::{Latch, SharedEnv, Signal};

/// How many requests of a database may be under way at once.
///
/// A call that blocks holds its place only while its one request runs, so it gives it back without
/// waiting for anybody. A get that was begun ahead holds its place until somebody waits for its
/// answer, and that may be somebody who wants another place first. So gets begun ahead may have
/// half of the places, and only such as are free: the other half always comes back.
pub(super) struct RequestBudget {
    places: Latch<Places>,
    freed: Signal,
    places_max: usize,
}

#[derive(Default)]
struct Places {
    taken: usize,
    /// Of these.
    ahead: usize,
}

/// A place, given back when this is dropped.
pub(super) struct Place<'a> {
    budget: &'a RequestBudget,
    is_ahead: bool,
}

impl RequestBudget {
    /// # Panics
    /// If there is no place at all.
    pub fn new(env: &SharedEnv, places_max: usize) -> RequestBudget {
        assert!(places_max > 0, "no request could be made");
        let places = Latch::new(Places::default());
        RequestBudget { places, freed: env.waits().signal(), places_max }
    }

    /// A place, for a call that blocks; waits for one.
    pub fn take(&self) -> Place<'_> {
        loop {
            let ticket = self.freed.ticket();
            {
                let mut places = self.places.lock();
                if places.taken < self.places_max {
                    places.taken += 1;
                    return Place { budget: self, is_ahead: false };
                }
            }
            self.freed.wait(ticket);
        }
    }

    /// Counts a place as taken for a get that is begun ahead, if there is one for such; it is given
    /// back by [`RequestBudget::give_back`].
    pub fn try_take_ahead(&self) -> bool {
        let mut places = self.places.lock();
        let is_free = places.taken < self.places_max && places.ahead < self.places_max / 2;
        if is_free {
            places.taken += 1;
            places.ahead += 1;
        }
        is_free
    }

    /// Gives a place back that [`RequestBudget::try_take_ahead`] took.
    pub fn give_back_ahead(&self) {
        self.give_back(true);
    }

    fn give_back(&self, is_ahead: bool) {
        {
            let mut places = self.places.lock();
            places.taken -= 1;
            places.ahead -= usize::from(is_ahead);
        }
        self.freed.notify();
    }

    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.places.lock().taken
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.budget.give_back(self.is_ahead);
    }
}
