//! What everybody outside the machines knows: which batches were written, and what each directory
//! and each checkpoint may hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_base::WallTime;
use terrace_env::ObjectName;

use crate::store::tests::workload::{Change, Content, Model};

/// What a database holds once a batch was written, and all that came before it: the number of the
/// batch, which each one writes under [`MOMENT_KEY`]. 0 is the empty database.
pub type Moment = usize;

/// Behind all other keys.
pub const MOMENT_KEY: &[u8] = b"~";

#[derive(Clone, Debug)]
struct Batch {
    before: Moment,
    content: Arc<Model>,
}

/// What one directory may hold when it is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// It holds this at least, whatever happens to the machine.
    pub durable: Moment,
    /// The newest one that was acknowledged.
    pub newest: Moment,
    /// One whose outcome nobody knows.
    pub tried: Option<Moment>,
}

/// A checkpoint in the store.
#[derive(Clone, Debug)]
pub enum Made {
    /// It may be there, or not.
    Perhaps,
    /// It is there.
    There {
        moment: Moment,
        /// The objects that it names.
        needed: BTreeSet<ObjectName>,
    },
}

/// All that is known. It survives whatever happens to the machines.
#[derive(Clone, Debug)]
pub struct Ledger {
    batches: Vec<Batch>,
    pub lines: BTreeMap<String, Line>,
    /// The directory of the owner.
    pub dir: String,
    /// A copy that somebody has begun to open: it may own the database by now.
    pub contender: Option<String>,
    /// Copies that nobody has opened.
    pub copies: Vec<String>,
    /// Directories that lost the database.
    pub retired: Vec<String>,
    /// The newest moment that anybody has seen in the store.
    pub seen: Moment,
    pub checkpoints: BTreeMap<String, Made>,
    /// The database, once it was opened.
    pub database: Option<u128>,
    names_given: usize,
}

/// Also the hook that stops a machine looks at it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    pub fn new(ledger: Ledger) -> Shared {
        Shared(Arc::new(Mutex::new(ledger)))
    }

    /// Never held across a call of the simulation.
    pub fn get(&self) -> MutexGuard<'_, Ledger> {
        // A failed check may hold it while other threads unwind.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Ledger {
    pub fn new(dir: &str) -> Ledger {
        let nothing = Batch { before: 0, content: Arc::default() };
        Ledger {
            batches: vec![nothing],
            lines: BTreeMap::from([(dir.to_string(), Line::default())]),
            dir: dir.to_string(),
            contender: None,
            copies: Vec::new(),
            retired: Vec::new(),
            seen: 0,
            checkpoints: BTreeMap::new(),
            database: None,
            names_given: 0,
        }
    }

    pub fn line(&mut self, dir: &str) -> &mut Line {
        self.lines.get_mut(dir).expect("a directory of this world")
    }

    /// A name that nobody was given before.
    pub fn new_name(&mut self, what: &str) -> String {
        self.names_given += 1;
        format!("{what}{}", self.names_given)
    }

    /// A batch that is about to be written in `dir`: its moment, and all of its changes.
    pub fn begin(&mut self, dir: &str, changes: &[Change]) -> (Moment, Vec<Change>) {
        let moment = self.batches.len();
        let before = self.line(dir).newest;
        let value = moment.to_string().into_bytes();
        let number = Change::Put { key: MOMENT_KEY.to_vec(), value, expiry: None };
        let all = [&[number], changes].concat();
        let mut content = Model::clone(&self.batches[before].content);
        all.iter().for_each(|change| content.apply(change));
        self.batches.push(Batch { before, content: Arc::new(content) });
        self.line(dir).tried = Some(moment);
        (moment, all)
    }

    /// What that came to.
    pub fn end(&mut self, dir: &str, moment: Moment, is_acknowledged: bool, is_synced: bool) {
        let line = self.line(dir);
        if is_acknowledged {
            *line = Line { newest: moment, tried: None, ..*line };
            if is_synced {
                line.durable = moment;
            }
        }
    }

    pub fn content(&self, moment: Moment) -> Content {
        self.batches[moment].content.content(WallTime(0))
    }

    /// Whether `to` is `from`, or was written after it and on top of it.
    pub fn leads_to(&self, from: Moment, mut to: Moment) -> bool {
        while to > from {
            to = self.batches[to].before;
        }
        to == from
    }

    /// The moment that this is the content of. Panics if there was no such moment.
    pub fn moment_of(&self, content: &Content, whose: &str) -> Moment {
        let number = content.last().filter(|(key, _)| key == MOMENT_KEY);
        let number = number.map_or(0, |(_, value)| {
            let text = str::from_utf8(value).expect("the world wrote it");
            text.parse().expect("the world wrote it")
        });
        assert!(number < self.batches.len(), "{whose} shows moment {number}, which never was");
        self.expect(content, number, whose);
        number
    }

    /// Panics if this is not the content of the moment.
    pub fn expect(&self, content: &Content, moment: Moment, whose: &str) {
        let expected = self.content(moment);
        if *content == expected {
            return;
        }
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let found: BTreeMap<_, _> = content.iter().cloned().collect();
        let wanted: BTreeMap<_, _> = expected.into_iter().collect();
        let keys: BTreeSet<_> = found.keys().chain(wanted.keys()).collect();
        let differ = keys.into_iter().filter(|key| found.get(*key) != wanted.get(*key));
        let differ: Vec<_> = differ.map(|key| text(key)).collect();
        panic!("{whose} does not show moment {moment}: {differ:?} differ");
    }

    /// Notes what the directory of an owner held when it was opened.
    pub fn opened(&mut self, dir: &str, content: &Content) -> Moment {
        let moment = self.moment_of(content, dir);
        let line = *self.line(dir);
        let newest = line.tried.unwrap_or(line.newest);
        assert!(
            self.leads_to(line.durable, moment),
            "{dir} holds moment {moment} and has lost moment {}, which is durable",
            line.durable
        );
        assert!(
            self.leads_to(moment, line.newest) || self.leads_to(moment, newest),
            "{dir} holds moment {moment}, which was not written there: {line:?}"
        );
        assert!(
            self.leads_to(self.seen, moment),
            "{dir} holds moment {moment}, but moment {} was seen in the store",
            self.seen
        );
        *self.line(dir) = Line { newest: moment, tried: None, ..line };
        moment
    }

    /// Notes what somebody has found in the store as the newest moment.
    pub fn saw(&mut self, moment: Moment, whose: &str) {
        assert!(
            self.leads_to(self.seen, moment),
            "{whose} shows moment {moment}, but moment {} was seen before",
            self.seen
        );
        self.seen = moment;
    }
}
