//! Who does what, and what must hold.

use std::collections::BTreeSet;

use stateright::{Model, Property};
use terrace_env::PlantedBug;

use super::owner::{Owner, TABLES_PER_EPOCH};
use super::reading::{Reading, Step};
use super::store::{Content, Object, Outcome, Pin, Store, Table};

/// How many snapshots each owner feeds at most.
const SNAPSHOTS_MAX: u8 = 2;

/// The protocol, with a bug or without, and within bounds.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// What is wrong with it.
    pub bug: Option<PlantedBug>,
    /// How many puts may be without an answer, or land late.
    pub faults_max: u8,
    /// The last number of the feed.
    pub numbers_max: usize,
    /// How many tables each owner names.
    pub tables_max: u8,
    /// Whether somebody takes the database over.
    pub with_opener: bool,
    /// Whether somebody reads it.
    pub with_reader: bool,
}

/// One of the two owners: the first, and the one that takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    First,
    Second,
}

/// Whoever opens the database as its second owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Opener {
    Away,
    Reading(Reading),
    /// The fence is there; it looks whether the feed was whole.
    Fenced(Reading, usize),
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Reader {
    Away,
    Pinned,
    Reading(Reading),
    Looking(Table),
}

/// All of it at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    store: Store,
    first: Owner,
    opener: Opener,
    second: Option<Owner>,
    reader: Reader,
    /// The newest table that was acknowledged, and what it was when the reader began.
    acknowledged: Table,
    least: Table,
    /// What the second owner found.
    found: Option<Table>,
    deleted: bool,
    landed_late: bool,
}

/// A step, named as the engine's function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A compaction is fed, as a new table in the place of the one before.
    Append(Who, Outcome),
    /// A snapshot is fed.
    Begin(Who, Outcome),
    /// What has no answer yet is sent again.
    Resume(Who, Outcome),
    /// One number of the feed is collected.
    CollectBelow(Who),
    /// Collection of tables chooses, and reads the pins.
    ReadPins(Who),
    /// It looks whether it owns the feed, and deletes.
    Delete(Who),
    /// A table is stored that was named before: a planted bug.
    StoreTable(Who),
    /// The opener begins at a number that a list shows.
    OpenAt(usize),
    /// It reads on.
    OpenReadNext,
    /// It fences the end that it has come to.
    OpenFence(Outcome),
    /// It looks whether what it began with is still there.
    OpenIsStillThere,
    /// The reader pins all that there is.
    Pin,
    /// It begins to read.
    ReadAt(usize),
    /// It reads on.
    ReadNext,
    /// It has come to an end, and looks whether what it began with is still there.
    ReadIsStillThere,
    /// What comes late lands.
    Land,
}

impl State {
    fn owner(&mut self, who: Who) -> &mut Owner {
        match who {
            Who::First => &mut self.first,
            Who::Second => self.second.as_mut().expect("it has opened"),
        }
    }

    /// Sends what an owner has pending.
    fn send(&mut self, who: Who, outcome: Outcome, bug: Option<PlantedBug>) {
        let mut store = self.store.clone();
        let owner = self.owner(who);
        let is_edit = matches!(owner.pending, Some(Content::Edits(_)));
        let (is_there, version) = (owner.send(&mut store, outcome, bug), owner.version);
        if is_there && !is_edit && owner.count == 0 && who == Who::Second {
            owner.walk(&store);
        }
        self.store = store;
        if is_there && is_edit {
            self.acknowledged = self.acknowledged.max(version);
        }
    }

    /// Where a reading may begin: a list may lack names.
    fn starts(&self) -> impl Iterator<Item = usize> {
        std::iter::once(1).chain(self.store.snapshots())
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut store = Store::default();
        let own = TABLES_PER_EPOCH;
        store.tables.insert(own);
        store.replace(1, Some(Object { epoch: 1, content: Content::Fence }));
        let mut nothing = Reading::from(1);
        nothing.next = 2;
        let mut first = Owner::behind(&nothing, 1, 1);
        first.version = own;
        first.pending = Some(Content::Snapshot(own));
        first.send(&mut store, Outcome::Answered, None);
        vec![State {
            store,
            first,
            opener: Opener::Away,
            second: None,
            reader: Reader::Away,
            acknowledged: own,
            least: own,
            found: None,
            deleted: false,
            landed_late: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let may_fail = state.store.faults < self.faults_max && !state.store.has_late();
        let faults = [Outcome::AnsweredAtLast, Outcome::Lost, Outcome::Late];
        let outcomes = || {
            let faults = faults.into_iter().filter(move |_| may_fail);
            std::iter::once(Outcome::Answered).chain(faults)
        };
        let owners = [(Who::First, Some(&state.first)), (Who::Second, state.second.as_ref())];
        for (who, owner) in owners.into_iter().filter_map(|(who, owner)| Some((who, owner?))) {
            if owner.unstored.is_some() {
                actions.push(Action::StoreTable(who));
            }
            if owner.is_fenced {
                continue;
            }
            let has_room = owner.next <= self.numbers_max;
            match owner.pending {
                Some(_) => actions.extend(outcomes().map(|done| Action::Resume(who, done))),
                None if owner.snapshot.is_some() && owner.count < self.tables_max && has_room => {
                    actions.extend(outcomes().map(|done| Action::Append(who, done)));
                }
                None => {}
            }
            let may_begin =
                owner.snapshot_count < SNAPSHOTS_MAX && owner.snapshot != Some(owner.next - 1);
            if owner.pending.is_none() && has_room && may_begin {
                actions.extend(outcomes().map(|done| Action::Begin(who, done)));
            }
            if owner.snapshot.is_some_and(|snapshot| owner.collected < snapshot) {
                actions.push(Action::CollectBelow(who));
            }
            let is_fed = owner.pending.is_none() || self.bug == Some(PlantedBug::CollectBeforeFed);
            match &owner.chosen {
                Some(_) => actions.push(Action::Delete(who)),
                None if is_fed && !owner.dropped.is_empty() => actions.push(Action::ReadPins(who)),
                // The planted bug reads them before anything is there to be chosen.
                None if self.bug == Some(PlantedBug::CollectBeforePins) => {
                    actions.push(Action::ReadPins(who));
                }
                None => {}
            }
        }
        match &state.opener {
            Opener::Away if self.with_opener => {
                actions.extend(state.starts().map(Action::OpenAt));
            }
            Opener::Reading(reading) if state.store.read(reading.next).is_some() => {
                actions.push(Action::OpenReadNext);
            }
            Opener::Reading(reading) if reading.next <= self.numbers_max => {
                // The first attempt of a fence may land where it was collected, as any put may.
                actions.push(Action::OpenFence(Outcome::Answered));
                if may_fail {
                    actions.push(Action::OpenFence(Outcome::AnsweredAtLast));
                }
            }
            Opener::Fenced(..) => actions.push(Action::OpenIsStillThere),
            Opener::Away | Opener::Reading(_) | Opener::Done => {}
        }
        match &state.reader {
            Reader::Away if self.with_reader => actions.push(Action::Pin),
            Reader::Pinned => actions.extend(state.starts().map(Action::ReadAt)),
            Reader::Reading(reading) => actions.push(match state.store.read(reading.next) {
                Some(_) => Action::ReadNext,
                None => Action::ReadIsStillThere,
            }),
            Reader::Away | Reader::Looking(_) => {}
        }
        if state.store.has_late() {
            actions.push(Action::Land);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let (mut state, bug) = (before.clone(), self.bug);
        match action {
            Action::Append(who, outcome) => {
                let mut store = state.store.clone();
                state.owner(who).append(&mut store, bug);
                state.store = store;
                state.send(who, outcome, bug);
            }
            Action::Begin(who, outcome) => {
                let owner = state.owner(who);
                owner.pending = Some(Content::Snapshot(owner.version));
                state.send(who, outcome, bug);
            }
            Action::Resume(who, outcome) => state.send(who, outcome, bug),
            Action::CollectBelow(who) => {
                let mut store = state.store.clone();
                state.owner(who).collect_below(&mut store, bug);
                state.store = store;
            }
            Action::ReadPins(who) => {
                let store = state.store.clone();
                state.owner(who).read_pins(&store);
            }
            Action::Delete(who) => {
                let mut store = state.store.clone();
                state.owner(who).delete(&mut store, bug);
                state.deleted |= store.tables != state.store.tables;
                state.store = store;
            }
            Action::StoreTable(who) => {
                let table = state.owner(who).unstored.take();
                state.store.tables.extend(table);
            }
            Action::OpenAt(number) => state.opener = Opener::Reading(Reading::from(number)),
            Action::OpenReadNext => {
                let Opener::Reading(mut reading) = state.opener else { return None };
                state.opener = match reading.read_next(&state.store) {
                    Step::Read => Opener::Reading(reading),
                    Step::Missing | Step::OutOfPlace => Opener::Away,
                };
            }
            Action::OpenFence(outcome) => {
                let Opener::Reading(mut reading) = state.opener else { return None };
                let fence = Object { epoch: 2, content: Content::Fence };
                let number = reading.next;
                state.store.create(number, fence, outcome);
                reading.take(fence);
                state.opener = Opener::Fenced(reading, number);
            }
            Action::OpenIsStillThere => {
                let Opener::Fenced(reading, fence) = state.opener else { return None };
                let is_there =
                    reading.is_still_there(&state.store) || bug == Some(PlantedBug::BelieveMissing);
                if !is_there {
                    state.opener = Opener::Away;
                    return Some(state);
                }
                let mut owner = Owner::behind(&reading, 2, fence);
                owner.pending = Some(Content::Snapshot(owner.version));
                if bug == Some(PlantedBug::OpenDeletesByListing) {
                    state.store.tables = BTreeSet::from([owner.version]);
                }
                (state.found, state.opener) = (reading.table, Opener::Done);
                state.second = Some(owner);
            }
            Action::Pin => {
                state.store.pin = Some(Pin::All);
                (state.reader, state.least) = (Reader::Pinned, state.acknowledged);
            }
            Action::ReadAt(number) => state.reader = Reader::Reading(Reading::from(number)),
            Action::ReadNext => {
                let Reader::Reading(mut reading) = state.reader else { return None };
                state.reader = match reading.read_next(&state.store) {
                    Step::Read => Reader::Reading(reading),
                    Step::Missing | Step::OutOfPlace => Reader::Pinned,
                };
            }
            Action::ReadIsStillThere => {
                let Reader::Reading(reading) = state.reader else { return None };
                let is_there =
                    reading.is_still_there(&state.store) || bug == Some(PlantedBug::BelieveMissing);
                state.reader = match reading.table.filter(|_| is_there) {
                    Some(table) => {
                        state.store.pin = Some(Pin::From(reading.next - 1));
                        Reader::Looking(table)
                    }
                    None => Reader::Pinned,
                };
            }
            Action::Land => {
                let length = state.store.length();
                let before = state.store.clone();
                state.store.land();
                state.landed_late |= state.store != before && state.store.length() == length;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what an owner names is there", |_, state: &State| {
                let has = |owner: &Owner| state.store.tables.contains(&owner.version);
                (state.store.has_epoch(2) || has(&state.first))
                    && state.second.as_ref().is_none_or(has)
            }),
            Property::always("what a reader looks at is there", |_, state: &State| {
                match state.reader {
                    Reader::Looking(table) => state.store.tables.contains(&table),
                    _ => true,
                }
            }),
            Property::always("a reader sees what was acknowledged", |_, state: &State| match state
                .reader
            {
                Reader::Looking(table) => table >= state.least,
                _ => true,
            }),
            Property::always("a successor has what was acknowledged", |_, state: &State| {
                let of_first = |table: Table| table / TABLES_PER_EPOCH == 1;
                let Some(second) = &state.second else { return true };
                let found = state.found.unwrap_or(0);
                !second.is_fenced && (found >= state.acknowledged || !of_first(state.acknowledged))
            }),
            Property::sometimes("somebody takes over", |_, state: &State| state.second.is_some()),
            Property::sometimes("an owner is fenced", |_, state: &State| state.first.is_fenced),
            Property::sometimes("a table goes", |_, state: &State| state.deleted),
            Property::sometimes("a put lands where it was collected", |_, state: &State| {
                state.landed_late
            }),
            Property::sometimes("a reader looks after a collection", |_, state: &State| {
                matches!(state.reader, Reader::Looking(_)) && state.first.collected > 1
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the protocol holds in every order of its steps, and the model sees its planted bugs.

    use stateright::{Checker, HasDiscoveries};

    use super::*;

    /// An owner and a successor, an owner and a reader, and all of them within closer bounds.
    const BOUNDS: [Protocol; 3] = [
        Protocol {
            bug: None,
            faults_max: 1,
            numbers_max: 7,
            tables_max: 2,
            with_opener: true,
            with_reader: false,
        },
        Protocol {
            bug: None,
            faults_max: 1,
            numbers_max: 7,
            tables_max: 3,
            with_opener: false,
            with_reader: true,
        },
        Protocol {
            bug: None,
            faults_max: 0,
            numbers_max: 6,
            tables_max: 1,
            with_opener: true,
            with_reader: true,
        },
    ];

    #[test]
    fn the_protocol_holds_in_every_order() {
        let mut seen = BTreeSet::new();
        for protocol in BOUNDS {
            let checker = protocol.clone().checker().spawn_bfs().join();
            println!("{} states, {} deep", checker.unique_state_count(), checker.max_depth());
            for property in protocol.properties() {
                match property.expectation {
                    stateright::Expectation::Sometimes => {
                        seen.extend(checker.discovery(property.name).map(|_| property.name));
                    }
                    _ => checker.assert_no_discovery(property.name),
                }
            }
        }
        println!("{seen:?}");
        assert_eq!(seen.len(), 5, "the bounds are too close");
    }

    #[test]
    fn planted_bugs_are_found() {
        for bug in PlantedBug::OF_OBJECT_STORE {
            let found = BOUNDS.into_iter().find_map(|bounds| {
                let protocol = Protocol { bug: Some(*bug), ..bounds };
                let checker = protocol.clone().checker().finish_when(HasDiscoveries::AnyFailures);
                let checker = checker.spawn_bfs().join();
                let of_failures = |property: &Property<Protocol>| {
                    let is_always = matches!(property.expectation, stateright::Expectation::Always);
                    is_always.then(|| checker.discovery(property.name))?.map(|_| property.name)
                };
                let failed = protocol.properties().iter().find_map(of_failures)?;
                Some((failed, checker.unique_state_count()))
            });
            println!("{}: {found:?}", bug.name());
            assert!(found.is_some(), "{} is not found", bug.name());
        }
    }
}
