//! What must hold at any moment, whoever does what.

use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_base::KeyRange;
use terrace_env::{ObjectImage, ObjectName, SharedEnv, SimEnv, SimOptions};

use super::ledger::{Ledger, Made};
use super::openers::inner;
use super::readers::named;
use super::round::{Rest, Round, URL};
use crate::cloud::format::{FeedContent, decode_feed};
use crate::cloud::{CloudFeed, CloudName, CloudNames, CloudStore, PIN_STILL_MAX};
use crate::options::CloudOptions;
use crate::placement::FarName;
use crate::store::cloud::CloudTier;
use crate::store::follow::version_in_store;
use crate::store::tests::cloud::mirror::needed;
use crate::store::tests::workload::content;
use crate::store::tests::{process, put, small};
use crate::store::{CloudDatabase, Store, StoreMoment};
use crate::version::Version;
use crate::version::format::decode_edit;
use crate::{Error, Result};

/// The objects that a version names.
fn objects_in(version: &Version) -> BTreeSet<ObjectName> {
    let names = CloudNames::new(version.database());
    let tables = version.tables().map(|table| table.meta().location.clone());
    let values = version.values().iter().map(|file| file.meta().location.clone());
    let far = tables.chain(values).filter_map(|location| FarName::of(&location));
    far.map(|name| names.of(&name.object())).collect()
}

/// The objects that what a store shows needs.
pub fn objects_of(store: &Store) -> BTreeSet<ObjectName> {
    objects_in(&store.inner.versions.current())
}

/// Panics if some of them are not there.
fn expect_there(objects: &ObjectImage, needed: &BTreeSet<ObjectName>, whose: &str) {
    for name in needed {
        assert!(objects.get(URL, name).is_some(), "{name} is gone, and {whose} needs it");
    }
}

impl Round<'_> {
    /// After each step: all that anybody needs is there.
    pub fn check(&mut self) {
        let objects = self.sim.object_image();
        let now = self.sim.virtual_time();
        if let Some(owner) = &self.owner {
            let current = inner(owner).versions.current();
            expect_there(&objects, &objects_in(&current), "the owner");
        }
        for reader in &self.readers {
            expect_there(&objects, &reader.needed(now), "a reader");
        }
        expect_checkpoints(&objects, &self.ledger.get());
        if self.random.one_in(4) {
            look_from_elsewhere(&objects, &mut self.ledger.get());
            self.count("look from elsewhere");
        }
    }
}

fn expect_checkpoints(objects: &ObjectImage, ledger: &Ledger) {
    for (name, made) in &ledger.checkpoints {
        if let Made::There { needed, .. } = made {
            expect_there(objects, needed, name);
        }
    }
}

/// What is left if all machines are lost at once: whoever has only the store finds all that its
/// feed names there, and a true moment if it has been mirrored.
pub fn look_from_elsewhere(objects: &ObjectImage, ledger: &mut Ledger) {
    let Some(database) = ledger.database else { return };
    expect_checkpoints(objects, ledger);
    let sim = SimOptions { objects: objects.clone(), ..SimOptions::new(1) };
    let look = move || {
        SimEnv::run(sim, |env| {
            let env: SharedEnv = env;
            look(&env, database).unwrap_or_else(|error| panic!("from elsewhere: {error}"))
        })
    };
    // A simulation of its own, in which nothing else goes on.
    let seen = std::thread::scope(|scope| scope.spawn(look).join());
    let (needed, content) = seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    expect_there(objects, &needed, "the feed");
    if let Some(content) = content {
        let moment = ledger.moment_of(&content, "the store");
        ledger.saw(moment, "the store");
    }
}

type Seen = (BTreeSet<ObjectName>, Option<Vec<(Vec<u8>, Vec<u8>)>>);

fn look(env: &SharedEnv, database: u128) -> Result<Seen> {
    let process = process(env)?;
    let tier = CloudTier::new(env, Some(CloudOptions::as_it_is(URL)));
    let names = CloudNames::new(database);
    let Some(state) = CloudFeed::read(tier.store()?, names)? else {
        return Err(Error::invalid("the store holds no database"));
    };
    let edits: Vec<_> =
        state.edits.iter().map(|edit| decode_edit(edit).expect("an edit")).collect();
    let version = version_in_store(&process, &tier, names, &edits)?;
    let whole =
        CloudDatabase::open(&process, URL, Some(database))?.follow(StoreMoment::Newest, small());
    let content = match whole {
        Ok(follower) => Some(content(follower.store())?),
        Err(Error::Unsupported(_)) => None,
        Err(error) => return Err(error),
    };
    Ok((objects_in(&version), content))
}

/// The end of a world: the store does what it should, nobody else is there, and after an open and
/// some work nothing is left that nobody needs.
pub fn finish(
    rest: Rest,
    open: impl FnOnce(&SharedEnv) -> (Store, Ledger) + Send,
    sim: SimOptions,
) {
    let Rest { disk, mut objects, .. } = rest;
    objects.land_late_changes();
    SimEnv::run(SimOptions { disk, objects, ..sim }, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let (store, mut ledger) = open(&env);
        expect_tidy(&env, &sim, &store, &mut ledger)
            .unwrap_or_else(|error| panic!("at the end: {error}"));
    });
}

fn expect_tidy(
    env: &SharedEnv,
    sim: &Arc<SimEnv>,
    store: &Store,
    ledger: &mut Ledger,
) -> Result<()> {
    let id = store.inner.versions.current().database();
    let database = CloudDatabase::open(&process(env)?, URL, Some(id))?;
    let mut held = BTreeSet::new();
    let there = database.checkpoints()?;
    for (name, made) in &ledger.checkpoints {
        let is_there = there.iter().any(|found| found.name.as_str() == name);
        assert!(is_there || matches!(made, Made::Perhaps), "{name} is gone");
    }
    for checkpoint in &there {
        let moment = StoreMoment::Checkpoint(checkpoint.name.clone());
        let follower = database.follow(moment, small())?;
        held.extend(objects_of(follower.store()));
        let (found, name) = (content(follower.store())?, checkpoint.name.as_str());
        match ledger.checkpoints.get(name) {
            Some(Made::There { moment, .. }) => ledger.expect(&found, *moment, name),
            Some(Made::Perhaps) => drop(ledger.moment_of(&found, name)),
            None => panic!("{name} was removed, or never made"),
        }
    }
    collect_all(env, store)?;
    expect_only(sim, store, &held, &database);
    for checkpoint in &there {
        assert!(database.remove_checkpoint(&named(checkpoint.name.as_str()))?);
    }
    collect_all(env, store)?;
    expect_only(sim, store, &BTreeSet::new(), &database);
    expect_short_feed(sim, id);
    assert!(store.check(&mut |_, _| ())?.is_clean());
    Ok(())
}

/// Works until all that can be collected is, dead readers' pins among it.
fn collect_all(env: &SharedEnv, store: &Store) -> Result<()> {
    for round in 0..3 {
        for _ in 0..8 {
            put(store, "z", &round.to_string())?;
            store.flush()?;
            store.settle();
        }
        store.compact(&KeyRange::all())?;
        env.sleep(PIN_STILL_MAX);
        store.settle();
    }
    Ok(())
}

/// No table is there but those that somebody needs.
fn expect_only(sim: &SimEnv, store: &Store, held: &BTreeSet<ObjectName>, database: &CloudDatabase) {
    let mirrors = store.options().cloud.as_ref().is_some_and(|cloud| cloud.mirror.is_some());
    let mut expected = if mirrors { needed(store) } else { objects_of(store) };
    expected.extend(held.iter().cloned());
    let names = CloudNames::new(store.inner.versions.current().database());
    let is_table = |name: &ObjectName| {
        matches!(names.parse(name), Some(CloudName::Table { .. } | CloudName::Value { .. }))
    };
    let there = sim.object_image().list(URL).into_iter().map(|object| object.name);
    let there: BTreeSet<_> = there.filter(is_table).collect();
    let missing: Vec<_> = expected.difference(&there).collect();
    let orphans: Vec<_> = there.difference(&expected).collect();
    assert!(missing.is_empty(), "gone: {missing:?}");
    let why = |name: &&ObjectName| database.why_live(name.as_str());
    let orphans: Vec<_> = orphans.iter().map(why).collect();
    assert!(orphans.is_empty(), "nobody needs {orphans:?}");
}

/// Of the feed and the pins only what counts is there, fences, stones, and what came too late.
fn expect_short_feed(sim: &Arc<SimEnv>, database: u128) {
    let env: SharedEnv = Arc::<SimEnv>::clone(sim);
    let objects = env.objects().open(URL).expect("simulated");
    let (store, names) = (Arc::new(CloudStore::new(&env, objects)), CloudNames::new(database));
    let state = CloudFeed::read(&store, names).expect("no faults").expect("it was fed");
    let newest = state.mark.newest_snapshot().expect("a feed begins with one");
    let (first_pin, image) = (state.mark.collected().pins, sim.object_image());
    for object in image.list(URL) {
        match names.parse(&object.name) {
            Some(CloudName::Feed(number)) if number < newest => {
                let bytes = image.get(URL, &object.name).expect("it was listed");
                let there = decode_feed(database, number, bytes).expect("an object of the feed");
                let may_stay = match there.what {
                    FeedContent::Fence { .. } | FeedContent::Stone => true,
                    // They may come again after they were collected; nobody reads them.
                    FeedContent::Edits { .. } => there.author.epoch < state.mark.epoch(),
                    FeedContent::Snapshot { .. } => false,
                };
                assert!(may_stay, "{} stands before the snapshot {newest}", object.name);
            }
            Some(CloudName::Pin(pin) | CloudName::Fate(pin) | CloudName::Checkpoint(pin)) => {
                assert!(
                    pin >= first_pin,
                    "{} stands before the first pin {first_pin}",
                    object.name
                );
            }
            _ => {}
        }
    }
}
