//! Those who have nothing but the store: readers beside the owner, checkpoints, copies.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use terrace_env::ObjectName;

use super::checks::objects_of;
use super::ledger::{Made, Moment};
use super::round::{Round, URL};
use crate::cloud::{CheckpointName, PIN_STILL_MAX};
use crate::store::tests::workload::{Content, content};
use crate::store::tests::{process, small};
use crate::store::{CloudDatabase, Follower, Iter, IterOptions, StoreMoment};
use crate::{Error, Result};

/// A reader that has not come for so long may find that the owner has given it up.
const PATIENCE: Duration = Duration::from_secs(PIN_STILL_MAX.as_secs() * 2 / 3);

/// A process that reads the database in the store.
pub struct Reader {
    follower: Follower,
    moment: Moment,
    /// When it was last brought up to date.
    came: Duration,
    needed: BTreeSet<ObjectName>,
    walk: Option<Walk>,
}

/// An iterator that is moved now and then.
struct Walk {
    iter: Iter,
    expected: Content,
    at: usize,
    needed: BTreeSet<ObjectName>,
}

impl Reader {
    /// What the owner must not delete, as long as the reader comes.
    pub fn needed(&self, now: Duration) -> BTreeSet<ObjectName> {
        let of_walk = self.walk.iter().flat_map(|walk| &walk.needed);
        let needed = self.needed.iter().chain(of_walk);
        if self.is_late(now) { BTreeSet::new() } else { needed.cloned().collect() }
    }

    fn is_late(&self, now: Duration) -> bool {
        now.saturating_sub(self.came) > PATIENCE
    }
}

/// Whether an error is one of a reader that came too late.
fn is_outdated(error: &Error) -> bool {
    matches!(error, Error::Outdated(_))
}

impl Round<'_> {
    fn database(&self) -> Result<CloudDatabase> {
        let id = self.ledger.get().database;
        CloudDatabase::open(&process(&self.env)?, URL, id)
    }

    fn any_reader(&mut self) -> Option<usize> {
        let count = self.readers.len();
        (count > 0).then(|| self.random.index(count))
    }

    pub fn open_reader(&mut self) {
        let came = self.env.now();
        let opened = self.database().and_then(|all| all.follow(StoreMoment::Newest, small()));
        let follower = match opened {
            Ok(follower) => follower,
            // The store has no whole moment of it.
            Err(Error::Unsupported(_)) => return self.count("no moment to read"),
            Err(error) => return self.excuse("a reader", &error),
        };
        let needed = objects_of(follower.store());
        match content(follower.store()) {
            Ok(found) => {
                let mut ledger = self.ledger.get();
                let moment = ledger.moment_of(&found, "a new reader");
                ledger.saw(moment, "a new reader");
                drop(ledger);
                self.readers.push(Reader { follower, moment, came, needed, walk: None });
                self.count("reader");
            }
            Err(error) => self.excuse("a new reader", &error),
        }
    }

    pub fn catch_up(&mut self) {
        let Some(index) = self.any_reader() else { return };
        let came = self.env.now();
        let reader = &mut self.readers[index];
        match reader.follower.catch_up() {
            Ok(_) => {
                // With a new pin, what was shown under the one before is not held any more.
                if reader.is_late(self.env.now()) {
                    reader.walk = None;
                }
                reader.came = came;
            }
            Err(error) => return self.excuse("catching up", &error),
        }
        match content(reader.follower.store()) {
            Ok(found) => {
                let mut ledger = self.ledger.get();
                let moment = ledger.moment_of(&found, "a reader");
                assert!(
                    ledger.leads_to(reader.moment, moment),
                    "a reader goes from moment {} to {moment}",
                    reader.moment
                );
                if ledger.leads_to(ledger.seen, moment) {
                    ledger.seen = moment;
                }
                (reader.moment, reader.needed) = (moment, objects_of(reader.follower.store()));
                drop(ledger);
                self.count("catch-up");
            }
            Err(error) => {
                self.excuse("a reader", &error);
                // Nobody knows what it shows.
                self.readers.remove(index);
            }
        }
    }

    /// Reads all again, or some more of an iterator that was begun long ago.
    pub fn look_at_reader(&mut self) {
        let Some(index) = self.any_reader() else { return };
        let now = self.env.now();
        let (walks, steps) = (self.random.one_in(2), self.random.below(40));
        let reader = &mut self.readers[index];
        let is_late = reader.is_late(now);
        let outcome = match walks {
            true => reader.walk(&self.ledger.get().content(reader.moment), steps),
            false => content(reader.follower.store()).map(|found| {
                self.ledger.get().expect(&found, reader.moment, "a reader that looks again");
            }),
        };
        match outcome {
            Ok(()) => self.count(if walks { "walk" } else { "second look" }),
            Err(error) if is_late && is_outdated(&error) => self.count("late reader"),
            Err(error) => {
                self.excuse("a reader that looks again", &error);
                self.readers[index].walk = None;
            }
        }
    }

    pub fn drop_reader(&mut self) {
        if let Some(index) = self.any_reader() {
            self.readers.remove(index);
        }
    }

    pub fn make_checkpoint(&mut self) {
        let name = {
            let mut ledger = self.ledger.get();
            let name = ledger.new_name("checkpoint");
            ledger.checkpoints.insert(name.clone(), Made::Perhaps);
            name
        };
        let made = self.database().and_then(|all| all.make_checkpoint(named(&name)));
        match made {
            Ok(_) => self.know_checkpoint(&name, true),
            Err(Error::Unsupported(_)) => {
                self.ledger.get().checkpoints.remove(&name);
            }
            Err(error) => self.excuse("making a checkpoint", &error),
        }
    }

    pub fn look_at_checkpoint(&mut self) {
        let names: Vec<String> = self.ledger.get().checkpoints.keys().cloned().collect();
        if !names.is_empty() {
            let name = self.random.index(names.len());
            self.know_checkpoint(&names[name], false);
        }
    }

    /// Opens a checkpoint and compares it with what is known of it.
    fn know_checkpoint(&mut self, name: &str, is_new: bool) {
        let moment = StoreMoment::Checkpoint(named(name));
        let opened = self.database().and_then(|all| all.follow(moment, small()));
        let known = self.ledger.get().checkpoints[name].clone();
        let follower = match (opened, &known) {
            (Ok(follower), _) => follower,
            (Err(Error::Invalid(_)), Made::Perhaps) if !is_new => return,
            (Err(error), _) => return self.excuse("opening a checkpoint", &error),
        };
        let needed = objects_of(follower.store());
        match content(follower.store()) {
            Ok(found) => {
                let mut ledger = self.ledger.get();
                let moment = ledger.moment_of(&found, name);
                match &known {
                    Made::There { moment: before, .. } => assert_eq!(moment, *before, "{name}"),
                    Made::Perhaps if is_new => ledger.saw(moment, name),
                    Made::Perhaps => {}
                }
                ledger.checkpoints.insert(name.to_string(), Made::There { moment, needed });
                drop(ledger);
                self.count("checkpoint");
            }
            Err(error) => self.excuse("a checkpoint", &error),
        }
    }

    pub fn remove_checkpoint(&mut self) {
        let names: Vec<String> = self.ledger.get().checkpoints.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = &names[self.random.index(names.len())];
        let known = self.ledger.get().checkpoints.insert(name.clone(), Made::Perhaps);
        let removed = self.database().and_then(|all| all.remove_checkpoint(&named(name)));
        match (removed, known) {
            (Ok(false), Some(Made::There { .. })) => panic!("{name} was made, and is not there"),
            (Ok(true), _) => {
                self.ledger.get().checkpoints.remove(name);
                self.count("removed");
            }
            (Ok(false), _) => {}
            (Err(error), _) => self.excuse("removing a checkpoint", &error),
        }
    }

    /// Makes a database of its own out of a checkpoint.
    pub fn clone_database(&mut self) {
        let there = {
            let ledger = self.ledger.get();
            let mut all = ledger.checkpoints.iter();
            all.find_map(|(name, made)| match made {
                Made::There { moment, .. } => Some((name.clone(), *moment)),
                Made::Perhaps => None,
            })
        };
        let Some((name, moment)) = there else { return };
        let dir = self.ledger.get().new_name("/clone");
        let from = StoreMoment::Checkpoint(named(&name));
        let cloned = self
            .database()
            .and_then(|all| all.clone_to(from, Path::new(&dir), small(), &mut |_, _| true));
        match cloned {
            Ok(_) => {
                self.expect_copy(&dir, moment);
                self.count("clone");
            }
            Err(error) => self.excuse("a clone", &error),
        }
    }
}

impl Reader {
    /// Goes on by some steps, with an iterator of what is shown now if there is none.
    fn walk(&mut self, shown: &Content, steps: u64) -> Result<()> {
        if self.walk.is_none() {
            let mut iter = self.follower.store().iter(IterOptions::default())?;
            iter.seek_to_first()?;
            let (expected, needed) = (shown.clone(), self.needed.clone());
            self.walk = Some(Walk { iter, expected, at: 0, needed });
        }
        let Some(walk) = &mut self.walk else { return Ok(()) };
        for _ in 0..steps {
            let found = walk.iter.entry().map(|entry| (entry.key.to_vec(), entry.value.to_vec()));
            assert_eq!(found, walk.expected.get(walk.at).cloned(), "an iterator at {}", walk.at);
            if found.is_none() {
                self.walk = None;
                return Ok(());
            }
            walk.iter.next()?;
            walk.at += 1;
        }
        Ok(())
    }
}

pub fn named(name: &str) -> CheckpointName {
    CheckpointName::new(name).expect("a plain name")
}
