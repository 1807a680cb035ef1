//! Goal: what a reader or a checkpoint needs is held for as long as it does, and not for ever.
//! Method: makers and the owner one after the other, and inside of each other's steps, on a store
//! in memory whose requests go as the test says.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use terrace_base::{Epoch, FileId, TableUid};
use terrace_env::{SharedEnv, SimEnv, SimOptions};

use super::watched::STILL_MAX;
use super::*;
use crate::cloud::format::{CheckpointObject, Extent, Fate as PinFate, Holds, PinObject};
use crate::cloud::tests::{Fate, ScriptedStore};
use crate::cloud::{
    CheckpointName, CloudFeed, CloudName, CloudNames, CloudStore, FedState, FeedTaker,
};
use crate::{Error, Result};

const NAMES: CloudNames = CloudNames::new(0xda7a);
const LOST: Fate = Fate::Lost(ErrorKind::TimedOut);
const DENIED: Fate = Fate::Refused(ErrorKind::PermissionDenied);

struct World<'a> {
    store: &'a Arc<CloudStore>,
    scripted: &'a ScriptedStore,
    feed: CloudFeed,
    pins: WatchedPins,
}

impl World<'_> {
    fn held(&mut self) -> Held {
        self.pins.read(&tables_of).unwrap()
    }

    /// Feeds an edit; its number.
    fn feed(&mut self) -> u64 {
        self.feed.append(&[b"edit".to_vec()], Extent::Some).unwrap()
    }

    fn reader(&self, nonce: u128) -> ReaderPin {
        pin_and_read(self.store, NAMES, nonce).unwrap().expect("there is a database").0
    }

    fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(self.store, NAMES)
    }

    fn objects(&self) -> PinObjects {
        PinObjects { store: Arc::clone(self.store), names: NAMES }
    }

    fn pass(&self, time: std::time::Duration) {
        self.store.env().sleep(time);
    }
}

fn with_world(test: impl FnOnce(&mut World<'_>) + Send) {
    SimEnv::run(SimOptions::new(11), |env| {
        let env: SharedEnv = env;
        let scripted = ScriptedStore::default();
        let store = Arc::new(CloudStore::new(&env, Arc::new(scripted.clone())));
        let (mut feed, _) =
            CloudFeed::open(&store, NAMES, FeedTaker::new(1, Epoch(0)), None, |_| Ok(())).unwrap();
        feed.begin(b"all", Extent::Some).unwrap();
        let pins = WatchedPins::new(&store, NAMES, 1, feed.collected().pins);
        test(&mut World { store: &store, scripted: &scripted, feed, pins });
    });
}

fn table(counter: u64) -> CloudName {
    CloudName::Table { id: FileId { epoch: Epoch(1), counter }, uid: TableUid(7) }
}

/// A snapshot of these checkpoints is the counters of the tables that it names, a byte each.
fn tables_of(checkpoint: &CheckpointObject) -> Result<BTreeSet<CloudName>> {
    Ok(checkpoint.snapshot.iter().map(|counter| table(u64::from(*counter))).collect())
}

fn named(name: &str) -> CheckpointName {
    CheckpointName::new(name).unwrap()
}

fn make(checkpoints: &Checkpoints, nonce: u128, name: &str) -> Result<CheckpointObject> {
    checkpoints.make(nonce, named(name), 1000, |_: &FedState| Ok(vec![3, 4]))
}

#[test]
fn a_reader_holds_what_is_dropped_behind_it() {
    with_world(|world| {
        assert_eq!(world.held(), Held::default());
        let mut reader = world.reader(5);
        assert_eq!(reader.number(), 1);
        let before = world.feed.number();
        let dropped_at = world.feed();
        let held = world.held();
        assert!(held.holds(&table(1), dropped_at) && !held.holds(&table(1), before));
        reader.narrow(dropped_at).unwrap();
        assert!(!world.held().holds(&table(1), dropped_at));
        // It never goes back.
        reader.narrow(before).unwrap();
        assert!(!world.held().holds(&table(1), dropped_at));
        reader.release().unwrap();
        assert_eq!((world.held(), world.pins.first()), (Held::default(), 2));
    });
}

#[test]
fn a_reader_that_begins_holds_everything() {
    with_world(|world| {
        let mut pin = ReaderPin::take(world.store, NAMES, 5, 1).unwrap();
        assert!(world.held().holds(&table(1), 1));
        pin.narrow(2).unwrap();
        assert!(!world.held().holds(&table(1), 2));
    });
}

#[test]
fn of_several_readers_the_one_furthest_back_counts() {
    with_world(|world| {
        let mut first = world.reader(5);
        world.feed();
        let mut second = world.reader(6);
        let dropped_at = world.feed();
        assert_eq!([first.number(), second.number()], [1, 2]);
        second.narrow(dropped_at).unwrap();
        assert!(world.held().holds(&table(1), dropped_at));
        second.release().unwrap();
        world.held();
        assert_eq!(world.pins.first(), 1, "a living pin stands before the dead one");
        first.release().unwrap();
        assert_eq!((world.held(), world.pins.first()), (Held::default(), 3));
    });
}

#[test]
fn a_pin_that_stands_still_is_dropped_and_its_reader_hears_of_it() {
    with_world(|world| {
        let mut lively = world.reader(5);
        let mut still = world.reader(6);
        let dropped_at = world.feed();
        for _ in 0..4 {
            assert!(world.held().holds(&table(1), dropped_at));
            world.pass(STILL_MAX / 3);
            lively.renew().unwrap();
        }
        lively.narrow(dropped_at).unwrap();
        assert!(!world.held().holds(&table(1), dropped_at));
        let error = still.renew().unwrap_err();
        assert!(matches!(error, Error::Outdated(_)), "{error}");
        lively.renew().unwrap();
        assert!(!world.held().holds(&table(1), dropped_at), "what was dropped stays so");
        // The next owner hears of it from the store.
        world.pins = WatchedPins::new(world.store, NAMES, 2, 1);
        world.held();
        world.pass(STILL_MAX);
        lively.renew().unwrap();
        assert!(!world.held().holds(&table(1), dropped_at));
    });
}

#[test]
fn pins_below_the_first_one_are_deleted_and_count_no_more() {
    with_world(|world| {
        for nonce in 5..9 {
            world.reader(nonce).release().unwrap();
        }
        world.held();
        assert_eq!(world.pins.first(), 5);
        assert!(!world.pins.delete_below(1, 8).unwrap());
        assert_eq!(world.objects().listed().unwrap(), [1, 2, 3, 4], "no snapshot says so yet");
        world.feed.set_first_pin(5);
        world.feed.begin(b"all", Extent::Some).unwrap();
        // Somebody who had read the feed before takes a number that counts no more, and sees it.
        assert!(world.pins.delete_below(5, 3).unwrap());
        assert!(!world.pins.delete_below(5, 3).unwrap());
        assert_eq!(world.objects().listed().unwrap(), [0; 0]);
        let mut late = ReaderPin::take(world.store, NAMES, 9, 1).unwrap();
        let state = CloudFeed::read(world.store, NAMES).unwrap().unwrap();
        assert!(!late.counts(state.mark.collected()));
        late.release().unwrap();
        assert_eq!(world.reader(10).number(), 5);
        // The next owner deletes what the list shows below.
        let mut pins = WatchedPins::new(world.store, NAMES, 2, 5);
        assert!(!pins.delete_below(5, 3).unwrap());
        assert_eq!(world.objects().listed().unwrap(), [5]);
    });
}

#[test]
fn a_checkpoint_holds_what_it_names_until_it_is_removed() {
    with_world(|world| {
        let checkpoints = world.checkpoints();
        assert_eq!(checkpoints.find(&named("monday")).unwrap(), None);
        let made = make(&checkpoints, 5, "monday").unwrap();
        assert_eq!(checkpoints.find(&named("monday")).unwrap().as_ref(), Some(&made));
        assert_eq!(checkpoints.list().unwrap(), [made]);
        let dropped_at = world.feed();
        for _ in 0..3 {
            let held = world.held();
            assert!(held.holds(&table(3), dropped_at) && held.holds(&table(4), dropped_at));
            assert!(!held.holds(&table(5), dropped_at));
            world.pass(STILL_MAX);
        }
        let error = make(&checkpoints, 6, "monday").unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        assert!(checkpoints.find(&named("monday")).unwrap().is_some());
        assert_eq!(checkpoints.remove(&named("monday")).unwrap(), Removal::Removed);
        assert_eq!(checkpoints.remove(&named("monday")).unwrap(), Removal::Missing);
        assert_eq!(checkpoints.find(&named("monday")).unwrap(), None);
        assert_eq!(world.held(), Held::default());
        make(&checkpoints, 7, "monday").unwrap();
    });
}

#[test]
fn a_checkpoint_that_is_not_sealed_is_none_and_is_given_up() {
    with_world(|world| {
        let checkpoints = world.checkpoints();
        // The owner reads the pins while the maker is at work, and later drops the pin.
        let error = checkpoints
            .make(5, named("slow"), 1000, |_| {
                assert!(world.pins.read(&tables_of).unwrap().holds(&table(9), 1));
                world.store.env().sleep(STILL_MAX);
                assert!(!world.pins.read(&tables_of).unwrap().holds(&table(9), 1));
                Ok(vec![3])
            })
            .unwrap_err();
        assert!(matches!(error, Error::Outdated(_)), "{error}");
        assert_eq!(checkpoints.find(&named("slow")).unwrap(), None);
        // What is refused holds nothing afterwards.
        let refuse = |_: &FedState| Err(Error::invalid("no"));
        checkpoints.make(6, named("refused"), 1000, refuse).unwrap_err();
        assert_eq!((world.held(), world.pins.first()), (Held::default(), 3));
        // A checkpoint that was stored and not sealed is none, and takes nobody's name.
        let holds = Holds::Checkpoint(named("half"));
        let pin = PinObject { nonce: 1, counter: 1, holds };
        let pin = world.objects().take(1, &pin).unwrap();
        world.objects().put_checkpoint(&CheckpointObject { pin, ..made_up("half") }).unwrap();
        assert_eq!(checkpoints.find(&named("half")).unwrap(), None);
        assert_eq!(checkpoints.remove(&named("half")).unwrap(), Removal::Missing);
        make(&checkpoints, 8, "half").unwrap();
        world.held();
        world.pass(STILL_MAX);
        world.held();
        assert_eq!(world.pins.first(), 4, "the one that was not sealed was dropped");
    });
}

/// The maker stands still until its pin was dropped, and until that was forgotten.
#[test]
fn a_seal_on_a_pin_that_was_collected_makes_no_checkpoint() {
    with_world(|world| {
        let World { store, feed, pins, .. } = world;
        let checkpoints = Checkpoints::new(store, NAMES);
        let made = checkpoints.make(5, named("late"), 1000, |_| {
            pins.read(&tables_of).unwrap();
            store.env().sleep(STILL_MAX);
            pins.read(&tables_of).unwrap();
            feed.set_first_pin(pins.first());
            feed.begin(b"all", Extent::Some).unwrap();
            while pins.delete_below(feed.first_pin(), 9).unwrap() {}
            Ok(vec![3])
        });
        assert!(matches!(made, Err(Error::Outdated(_))), "{made:?}");
        assert_eq!(checkpoints.find(&named("late")).unwrap(), None);
    });
}

#[test]
fn of_two_checkpoints_that_are_made_at_once_the_first_one_counts() {
    with_world(|world| {
        let checkpoints = world.checkpoints();
        let mut inner = None;
        let outer = checkpoints.make(5, named("twice"), 1000, |_| {
            inner = Some(make(&checkpoints, 6, "twice"));
            Ok(vec![3])
        });
        // The inner one was done when nobody had another one.
        assert!(inner.expect("it was made").is_ok());
        let found = checkpoints.find(&named("twice")).unwrap().expect("there is one");
        assert_eq!((outer.unwrap().pin, found.pin), (1, 1));
        assert_eq!(checkpoints.remove(&named("twice")).unwrap(), Removal::Removed);
        assert_eq!(checkpoints.list().unwrap(), []);
    });
}

/// A pin that holds comes behind those which the successor has deleted.
#[test]
fn a_fenced_owner_that_finds_no_pins_knows_that_it_is_none() {
    with_world(|world| {
        world.reader(5).release().unwrap();
        make(&world.checkpoints(), 6, "kept").unwrap();
        let dropped_at = world.feed();
        let (author, number) = (world.feed.author(), world.feed.number());
        let owns = |world: &World<'_>| CloudFeed::owns(world.store, NAMES, author, number).unwrap();
        assert!(owns(world));
        let (mut next, _) =
            CloudFeed::open(world.store, NAMES, FeedTaker::new(2, Epoch(0)), None, |_| Ok(()))
                .unwrap();
        next.begin(b"all", Extent::Some).unwrap();
        let mut pins = WatchedPins::new(world.store, NAMES, 2, next.first_pin());
        assert!(pins.read(&tables_of).unwrap().holds(&table(3), dropped_at));
        next.set_first_pin(pins.first());
        next.begin(b"all", Extent::Some).unwrap();
        while pins.delete_below(next.first_pin(), 9).unwrap() {}
        assert!(!world.held().holds(&table(3), dropped_at), "it finds none");
        assert!(!owns(world));
    });
}

fn made_up(name: &str) -> CheckpointObject {
    CheckpointObject {
        name: named(name),
        epoch: Epoch(1),
        from: 2,
        pin: 1,
        at_ms: 0,
        snapshot: vec![],
    }
}

#[test]
fn a_fate_is_decided_once() {
    with_world(|world| {
        let objects = world.objects();
        for (pin, first, second) in
            [(1, PinFate::Sealed, PinFate::Dropped), (2, PinFate::Dropped, PinFate::Sealed)]
        {
            assert_eq!(objects.decide(pin, 1, first).unwrap(), first);
            assert_eq!(objects.decide(pin, 2, second).unwrap(), first);
            assert_eq!(objects.fate(pin).unwrap(), Some(first));
        }
    });
}

#[test]
fn a_sealed_checkpoint_that_stands_still_is_held() {
    with_world(|world| {
        make(&world.checkpoints(), 5, "kept").unwrap();
        // An owner that sees it for the first time when it was sealed long ago.
        world.held();
        world.pins = WatchedPins::new(world.store, NAMES, 2, 1);
        assert!(world.held().holds(&table(3), 9));
        world.pass(2 * STILL_MAX);
        assert!(world.held().holds(&table(3), 9));
    });
}

#[test]
fn lost_answers_and_lists_that_lack_names_change_nothing() {
    with_world(|world| {
        // Each request of the taking in turn is done without an answer, or once more.
        for lost in 0..6 {
            let mut script = vec![Fate::Done; lost];
            script.push(LOST);
            world.scripted.script(&script);
            let mut pin = ReaderPin::take(world.store, NAMES, 50 + lost as u128, 1).unwrap();
            assert_eq!(pin.number(), lost as u64 + 1);
            pin.narrow(2).unwrap();
            world.scripted.script(&[]);
        }
        let held = world.held();
        assert!(held.holds(&table(1), 3) && !held.holds(&table(1), 2));
        // Without a list, numbers are gone through one by one.
        world.scripted.set_page(2);
        let pin = world.reader(60);
        assert_eq!(pin.number(), 7);
        // A maker that is refused leaves no pin that holds for ever.
        for denied in 0..12 {
            let mut script = vec![Fate::Done; denied];
            script.push(DENIED);
            world.scripted.script(&script);
            let name = format!("denied-{denied}");
            let made = make(&world.checkpoints(), 70 + denied as u128, &name);
            world.scripted.script(&[]);
            let is_found = world.checkpoints().find(&named(&name)).unwrap().is_some();
            assert!(made.is_err() || is_found, "{denied}");
            assert!(made.is_ok() || !is_found, "{denied}");
        }
    });
}
