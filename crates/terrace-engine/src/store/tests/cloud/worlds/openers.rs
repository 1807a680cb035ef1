//! The owner of the database, and others who open copies of its directory and take it over.

use std::path::Path;
use std::sync::Arc;

use terrace_base::KeyRange;
use terrace_env::JobClass;

use super::ledger::{Line, Moment, Shared};
use super::plan::{PERIOD, Plan, draw_policy};
use super::round::Round;
use crate::options::Options;
use crate::store::tests::workload::{Change, batch_of, content, walk};
use crate::store::tests::{process, small};
use crate::store::{IterOptions, Snapshot, Store, WriteOptions};
use crate::{Error, Result};

/// Whoever has a directory of the database open.
pub struct Owner {
    pub store: Store,
    pub dir: String,
    snapshots: Vec<(Snapshot, Moment)>,
}

/// Writes a batch in the directory of a store. It is in the ledger before and after.
fn write(ledger: &Shared, store: &Store, dir: &str, changes: &[Change]) -> Result<()> {
    let (moment, changes) = ledger.get().begin(dir, changes);
    let outcome = store.write(&batch_of(&changes)?, &WriteOptions::default());
    let is_synced = store.options().durability == crate::options::Durability::Sync;
    ledger.get().end(dir, moment, outcome.is_ok(), is_synced);
    outcome
}

impl Round<'_> {
    pub fn owner(&self) -> &Owner {
        self.owner.as_ref().expect("somebody owns the database between the steps")
    }

    pub fn store(&self) -> Store {
        self.owner().store.clone()
    }

    /// Opens a directory with what is drawn for it; without faults once that has failed by them,
    /// and again where an owner that was overtaken has fed something meanwhile.
    fn open(&mut self, dir: &str) -> Result<Store> {
        let options: Options = self.plan.options(self.random);
        let opened = Store::open(&process(&self.env)?, Path::new(dir), options.clone());
        match opened {
            Err(Error::Fenced(text)) if text.contains("try again") => {
                self.count("contended");
                self.open(dir)
            }
            Err(error @ Error::Io(_)) => {
                self.excuse("an open failed", &error);
                self.count("open failed");
                self.without_faults(|round| {
                    Store::open(&process(&round.env)?, Path::new(dir), options)
                })
            }
            outcome => outcome,
        }
    }

    /// Takes in that a directory was opened, and looks at all that it holds.
    fn is_open(&mut self, store: Store, dir: String) {
        let found = self.without_faults(|_| content(&store)).expect("an owner reads what it has");
        let mut ledger = self.ledger.get();
        ledger.opened(&dir, &found);
        ledger.database = Some(store.inner.versions.current().database());
        ledger.dir.clone_from(&dir);
        ledger.contender = None;
        ledger.copies.retain(|copy| *copy != dir);
        drop(ledger);
        self.owner = Some(Owner { store, dir, snapshots: Vec::new() });
    }

    /// Opens the database where it is: in the directory of its owner, or in the copy that somebody
    /// had begun to open.
    pub fn open_owner(&mut self) {
        let (dir, contender) = {
            let ledger = self.ledger.get();
            (ledger.dir.clone(), ledger.contender.clone())
        };
        let mut dirs = vec![dir];
        dirs.extend(contender);
        if self.random.one_in(2) {
            dirs.reverse();
        }
        let mut refused = Vec::new();
        for dir in dirs {
            match self.open(&dir) {
                Ok(store) => {
                    self.is_open(store, dir);
                    let refused = refused.into_iter().map(|(dir, _)| dir);
                    self.ledger.get().retired.extend(refused);
                    self.count("opened");
                    return;
                }
                Err(error @ Error::Fenced(_)) => refused.push((dir, error.to_string())),
                Err(error) => panic!("{dir} cannot be opened: {error}"),
            }
        }
        panic!("nobody can open the database: {refused:?}");
    }

    /// Directories that have lost the database are refused.
    pub fn refuse_retired(&mut self) {
        let retired = self.ledger.get().retired.clone();
        for dir in retired {
            let is_held = self.zombies.iter().any(|zombie| zombie.dir == dir);
            if is_held || !self.random.one_in(3) {
                continue;
            }
            match self.open(&dir) {
                Err(Error::Fenced(_)) => self.count("refused a retired one"),
                Err(error) => panic!("{dir} has lost the database, but is told: {error}"),
                Ok(_) => panic!("{dir} has lost the database, and can be opened"),
            }
        }
    }

    /// What the owner is told by an error that may be one.
    fn take_outcome(&mut self, what: &'static str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.count(what),
            // Somebody had begun to take over, and was refused in the end.
            Err(Error::Fenced(_)) if self.ledger.get().contender.is_some() => {
                self.count("fenced by nobody");
                self.owner = None;
                self.without_faults(Round::open_owner);
            }
            Err(error) => self.excuse(what, &error),
        }
    }

    pub fn write(&mut self) {
        let changes = self.plan.changes(self.random);
        let Owner { store, dir, .. } = self.owner();
        let outcome = write(&self.ledger, store, dir, &changes);
        self.take_outcome("write", outcome);
    }

    pub fn flush(&mut self) {
        let outcome = self.store().flush();
        self.take_outcome("flush", outcome);
    }

    pub fn compact(&mut self) {
        let group = self.random.below(4);
        let range = match group {
            0 => KeyRange::all(),
            group => KeyRange::new(format!("k{}", group - 1).into_bytes(), None),
        };
        let outcome = self.store().compact(&range);
        self.take_outcome("compact", outcome);
    }

    pub fn settle(&mut self) {
        self.store().settle();
    }

    pub fn take_snapshot(&mut self) {
        let owner = self.owner.as_mut().expect("it is open");
        let moment = self.ledger.get().line(&owner.dir).newest;
        owner.snapshots.push((owner.store.snapshot(), moment));
    }

    pub fn look_at_snapshot(&mut self) {
        let owner = self.owner.as_mut().expect("it is open");
        let Some((snapshot, moment)) = owner.snapshots.pop() else { return };
        let found = snapshot.iter(IterOptions::default()).and_then(walk);
        match found {
            Ok(found) => {
                self.ledger.get().expect(&found, moment, "a snapshot");
                self.count("snapshot");
            }
            Err(error) => self.excuse("a snapshot", &error),
        }
    }

    /// A checkpoint on the owner's disk, which is a database without a store.
    pub fn copy_locally(&mut self) {
        let to = self.ledger.get().new_name("/checkpoint");
        let dir = self.owner().dir.clone();
        let moment = self.ledger.get().line(&dir).newest;
        match self.store().checkpoint(Path::new(&to), &mut |_, _| true) {
            Ok(_) => {
                self.expect_copy(&to, moment);
                self.count("local checkpoint");
            }
            Err(error) => self.take_outcome("local checkpoint", Err(error)),
        }
    }

    /// A directory that was made of the database holds a moment of it, and needs no store.
    pub fn expect_copy(&mut self, dir: &str, moment: Moment) {
        let opened = process(&self.env).and_then(|process| {
            let store = Store::open(&process, Path::new(dir), small())?;
            content(&store)
        });
        let found = opened.unwrap_or_else(|error| panic!("{dir}: {error}"));
        self.ledger.get().expect(&found, moment, dir);
    }

    pub fn close_owner(&mut self) {
        let owner = self.owner.take().expect("it is open");
        let is_contended = self.ledger.get().contender.is_some();
        match owner.store.close() {
            Ok(()) => {
                let mut ledger = self.ledger.get();
                let line = ledger.line(&owner.dir);
                line.durable = line.newest;
            }
            Err(Error::Fenced(_)) if is_contended => {}
            Err(error) => panic!("{} cannot be closed: {error}", owner.dir),
        }
    }

    /// Closed, or just dropped, and opened again.
    pub fn reopen(&mut self) {
        if self.random.one_in(2) {
            self.close_owner();
        }
        self.owner = None;
        self.open_owner();
        self.count("reopen");
    }

    /// A copy of the owner's directory, as a machine leaves it that stops at this moment.
    pub fn copy_owner(&mut self) {
        let from = self.owner().dir.clone();
        let policy = draw_policy(self.random);
        let (disk, line) = (self.sim.disk(), *self.ledger.get().line(&from));
        let disk = disk.crash(policy, self.random.next_u64());
        let durable = match policy {
            terrace_env::CrashPolicy::ProcessKill => line.newest,
            _ => line.durable,
        };
        let to = self.ledger.get().new_name("/copy");
        let fs = self.env.fs();
        fs.create_dir_all(Path::new(&to)).expect("there is room");
        for (path, _) in disk.files() {
            let Ok(name) = path.strip_prefix(&from) else { continue };
            if name == Path::new("LOCK") {
                continue;
            }
            let bytes = disk.read(&path).expect("it was listed");
            let copy = Path::new(&to).join(name);
            let dir = copy.parent().expect("a file lies in a directory");
            fs.create_dir_all(dir).expect("there is room");
            let mut file = fs.create(&copy, 0).expect("there is room");
            file.append(&bytes).and_then(|()| file.sync()).expect("there is room");
        }
        fs.sync_dir(Path::new(&to)).expect("it is there");
        let mut ledger = self.ledger.get();
        ledger.lines.insert(to.clone(), Line { durable, ..line });
        ledger.copies.push(to);
        drop(ledger);
        self.count("copy");
    }

    /// Somebody opens a copy of the directory, beside the owner, which may write meanwhile.
    pub fn take_over(&mut self) {
        if self.ledger.get().copies.is_empty() || self.random.one_in(2) {
            self.copy_owner();
        }
        let dir = {
            let mut ledger = self.ledger.get();
            let index = self.random.index(ledger.copies.len());
            let dir = ledger.copies.remove(index);
            ledger.contender = Some(dir.clone());
            dir
        };
        let writer = self.random.one_in(2).then(|| self.spawn_writer());
        let opened = self.open(&dir);
        if let Some(writer) = writer {
            assert!(writer.join(), "a writer has failed");
        }
        match opened {
            Ok(store) => {
                let before = self.owner.take().expect("it was open");
                self.ledger.get().retired.push(before.dir.clone());
                self.zombies.push(before);
                self.is_open(store, dir);
                self.count("take-over");
            }
            // The owner has fed something since; it may be fenced all the same.
            Err(Error::Fenced(_)) => self.count("refused an older copy"),
            Err(error) => panic!("{dir} cannot be opened: {error}"),
        }
    }

    /// A thread that writes some batches where the owner is.
    fn spawn_writer(&mut self) -> terrace_env::JobHandle {
        let count = 1 + self.random.below(8);
        let batches: Vec<_> = (0..count).map(|_| Plan::changes(self.plan, self.random)).collect();
        let (ledger, dir) = (self.ledger.clone(), self.owner().dir.clone());
        let store = self.store();
        let job = Box::new(move || {
            for changes in batches {
                match write(&ledger, &store, &dir, &changes) {
                    Ok(()) => {}
                    Err(Error::Fenced(_)) => return,
                    Err(error) => panic!("{dir}: {error}"),
                }
            }
            drop(store.flush());
        });
        self.env.spawn(JobClass::Client, "writer", job).expect("simulated")
    }

    /// Whoever has lost the database may write until it knows.
    pub fn write_as_zombie(&mut self) {
        if self.zombies.is_empty() {
            return;
        }
        let index = self.random.index(self.zombies.len());
        let changes = self.plan.changes(self.random);
        let Owner { store, dir, .. } = &self.zombies[index];
        match write(&self.ledger, store, dir, &changes) {
            Ok(()) => self.count("write of a zombie"),
            Err(Error::Fenced(_)) => self.count("zombie fenced"),
            Err(error) => panic!("{dir} has lost the database, but is told: {error}"),
        }
        if self.random.one_in(2) {
            let zombie = &self.zombies[index];
            drop(zombie.store.flush());
            drop(zombie.store.compact(&KeyRange::all()));
        }
    }

    /// In the end it learns that it has lost the database, and its directory is refused.
    pub fn retire_zombie(&mut self) {
        let Some(zombie) = self.zombies.pop() else { return };
        let changes = self.plan.changes(self.random);
        self.without_faults(|round| {
            drop(write(&round.ledger, &zombie.store, &zombie.dir, &changes));
            drop(zombie.store.flush());
            round.env.sleep(2 * PERIOD);
            zombie.store.settle();
            match write(&round.ledger, &zombie.store, &zombie.dir, &changes) {
                Err(Error::Fenced(_)) => {}
                outcome => panic!("{} has lost the database, but is told: {outcome:?}", zombie.dir),
            }
            drop(zombie);
        });
        self.count("retired");
        self.refuse_retired();
    }
}

/// The store of an owner, for those who look at what it needs.
pub fn inner(owner: &Owner) -> &Arc<crate::store::Inner> {
    &owner.store.inner
}
