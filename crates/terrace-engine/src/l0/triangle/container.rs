//! The container of a range: its pages, the rows in them, and which pages are still needed by which
//! versions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use terrace_base::{Corruption, FileId, KeyRange, TableUid};
use terrace_env::{Latch, PmemMedium, SharedEnv};

use super::Pages;
use super::row::{Predecessor, RowLocation, RowReader};
use crate::l0::{LiveTable, Row};
use crate::placement::{ContainerPlace, OnMedium, Role};
use crate::table::ReadMode;
use crate::version::{OpenTable, TableMeta};
use crate::{Error, Result};

/// The rows of one range.
///
/// # Who needs what
/// Every [state](super::TriangleState) of L0 that lives needs, of each of its rows, what is live
/// there. When a state goes, what no other needs is given back page by page. So a page is another
/// row's only when the cut that consumed it is durable (the state before it is current until then)
/// and no pinned version shows it.
pub struct Container {
    env: SharedEnv,
    /// The range's directory.
    dir: PathBuf,
    pages: Latch<Option<Arc<Pages>>>,
    rows: Latch<Rows>,
    states: Latch<States>,
}

#[derive(Default)]
struct Rows {
    /// The rows that are open.
    open: BTreeMap<TableUid, Weak<RowReader>>,
    /// Those of them that were just written or opened, until a version has them.
    waiting: BTreeMap<TableUid, Arc<RowReader>>,
}

#[derive(Default)]
struct States {
    next: u64,
    /// What is live in each state that lives.
    living: BTreeMap<u64, Arc<[LiveTable]>>,
}

impl Container {
    /// A container of the range in `dir` that is nowhere yet.
    #[must_use]
    pub fn new(env: &SharedEnv, dir: &Path) -> Arc<Container> {
        Arc::new(Container {
            env: Arc::clone(env),
            dir: dir.to_path_buf(),
            pages: Latch::default(),
            rows: Latch::default(),
            states: Latch::default(),
        })
    }

    /// Opens the container at `place`. `false` if there is no such file.
    ///
    /// Errors: those of [`Pages::open`].
    pub fn open(&self, place: &ContainerPlace, database: u128) -> Result<bool> {
        match Pages::open(&self.env, &place.file(&self.dir), database) {
            Ok(pages) => {
                self.mount(pages);
                Ok(true)
            }
            Err(Error::Io(error)) if error.is_not_found() => Ok(false),
            Err(Error::Io(error)) if error.is_locked() => Err(Error::Locked(format!(
                "{} is still mapped: an iterator or a pinned value of a closed handle holds rows of \
                 L0 in it; drop it, and open again",
                error.path.display()
            ))),
            Err(error) => Err(error),
        }
    }

    /// Makes the container at `place`, durably. A file that is there already goes first: whoever
    /// calls this knows that nothing names what is in it.
    ///
    /// Errors: [`Error::Invalid`] for sizes that cannot be; the environment's.
    pub fn create(&self, place: &ContainerPlace, database: u128) -> Result<()> {
        let (fs, path) = (self.env.fs(), place.file(&self.dir));
        self.remove(place)?;
        let bytes = place.file_bytes();
        let pages = Pages::create(&self.env, &path, bytes, place.page_bytes, database)?;
        if let Some(dir) = path.parent() {
            fs.sync_dir(dir)?;
        }
        self.mount(pages);
        Ok(())
    }

    /// Removes the file of a container in which nothing is left. One that is gone already is no
    /// error.
    pub(crate) fn remove(&self, place: &ContainerPlace) -> Result<()> {
        match self.env.fs().remove(&place.file(&self.dir)) {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn mount(&self, pages: Arc<Pages>) {
        let before = self.pages.lock().replace(pages);
        assert!(before.is_none(), "a container is opened once");
    }

    /// Lets the pages go: the file can be opened by somebody else as soon as nobody holds one of
    /// them.
    pub(crate) fn unmount(&self) {
        let pages = self.pages.lock().take();
        // Not under the latch: the mapping goes with it.
        drop(pages);
    }

    /// The pages, if the container is open.
    #[must_use]
    pub fn pages(&self) -> Option<Arc<Pages>> {
        self.pages.lock().clone()
    }

    /// What it lies on, if it is open.
    #[must_use]
    pub fn medium(&self) -> Option<PmemMedium> {
        self.pages().map(|pages| pages.medium())
    }

    /// Opens the rows of a version that was read from the manifest. Of what is consumed in it
    /// nothing is claimed.
    ///
    /// Errors: [`Error::Corruption`], also if there is no container; the environment's.
    pub fn open_rows(&self, live: &[LiveTable]) -> Result<()> {
        live.iter().try_for_each(|live| self.open_row(live))
    }

    /// As [`Container::open_rows`], of one table; nothing happens if it is none in pages.
    pub fn open_row(&self, live: &LiveTable) -> Result<()> {
        let meta = live.table.meta();
        let Some(location) = RowLocation::decode(&meta.location) else { return Ok(()) };
        let Some(pages) = self.pages() else { return Err(missing(meta.id)) };
        let expected = Some((meta.uid, meta.bytes));
        let consumed = complement(live.parts());
        self.keep(RowReader::open(&pages, location, expected, &consumed)?);
        let opened = live.table.reader(ReadMode::BLOCK).map(|_| ());
        self.let_go();
        opened
    }

    /// Rows have become part of a version: those that were kept for it are its tables' from now on.
    pub(super) fn adopt(&self, rows: &[Arc<Row>]) {
        if self.rows.lock().waiting.is_empty() {
            return;
        }
        for table in rows.iter().flat_map(|row| &row.tables) {
            let uid = table.meta().uid;
            if self.rows.lock().waiting.contains_key(&uid) {
                let opened = table.reader(ReadMode::BLOCK);
                assert!(opened.is_ok(), "a row that is kept is open");
                let adopted = self.rows.lock().waiting.remove(&uid);
                drop(adopted);
            }
        }
    }

    /// Keeps a row until a version has it.
    pub(super) fn keep(&self, row: Arc<RowReader>) {
        let mut rows = self.rows.lock();
        rows.open.retain(|_, row| row.strong_count() > 0);
        rows.open.insert(row.uid(), Arc::downgrade(&row));
        rows.waiting.insert(row.uid(), row);
    }

    /// Lets go of rows that were kept for a version which came to nothing.
    pub(super) fn let_go(&self) {
        let waiting = std::mem::take(&mut self.rows.lock().waiting);
        // Their pages go back; not under the latch.
        drop(waiting);
    }

    /// The row of a table that a version names. Errors: [`Error::Corruption`] if it is not open.
    pub fn row(&self, meta: &TableMeta) -> Result<Arc<RowReader>> {
        let rows = self.rows.lock();
        let row = rows.open.get(&meta.uid).and_then(Weak::upgrade);
        drop(rows);
        row.ok_or_else(|| missing(meta.id))
    }

    /// What hints of a new row may point into: the rows that are live, the newest first.
    pub(super) fn predecessors(live: &[LiveTable]) -> Vec<Predecessor> {
        let rows = live.iter().filter_map(|live| {
            let row = match live.table.open_table()? {
                OpenTable::Row(row) => Arc::clone(row),
                OpenTable::Blocks(_) => return None,
            };
            Some(Predecessor { row, parts: live.parts.clone() })
        });
        rows.collect()
    }

    /// A state in which `live` is needed.
    pub(super) fn enter(&self, live: &Arc<[LiveTable]>) -> u64 {
        let mut states = self.states.lock();
        states.next += 1;
        let number = states.next;
        states.living.insert(number, Arc::clone(live));
        number
    }

    /// What is live in the state that was installed last.
    pub(super) fn newest_state(&self) -> Option<Arc<[LiveTable]>> {
        self.states.lock().living.last_key_value().map(|(_, live)| Arc::clone(live))
    }

    /// The state with this number goes: what nobody else needs of its rows is given back.
    pub(super) fn leave(&self, number: u64) {
        let (own, others) = {
            let mut states = self.states.lock();
            let own = states.living.remove(&number);
            let others: Vec<Arc<[LiveTable]>> = states.living.values().cloned().collect();
            (own, others)
        };
        for live in own.iter().flat_map(|own| own.iter()) {
            let Some(OpenTable::Row(row)) = live.table.open_table() else { continue };
            let others = || others.iter().flat_map(|state| of_table(state, live));
            // Most often only other rows have changed. Without a state that needs it the whole row
            // goes, with its table.
            if others().next().is_none() || others().any(|other| other.counts_as(live)) {
                continue;
            }
            let needed = sorted(others().flat_map(|other| other.parts().to_vec()).collect());
            let outside = live.parts().iter().flat_map(|part| part.outside_of(&needed));
            row.release_newly(&KeyRange::all().outside_of(&needed), &outside.collect::<Vec<_>>());
        }
    }
}

/// What counts of the table of `live` in a state, newest rows first.
fn of_table<'a>(
    state: &'a [LiveTable],
    live: &'a LiveTable,
) -> impl Iterator<Item = &'a LiveTable> {
    let first = state.partition_point(|one| one.row > live.row);
    let of_row = state[first..].iter().take_while(|one| one.row == live.row);
    of_row.filter(|one| Arc::ptr_eq(&one.table, &live.table))
}

/// The keys outside of these intervals, which may share keys and stand in any order.
fn complement(parts: &[KeyRange]) -> Vec<KeyRange> {
    KeyRange::all().outside_of(&sorted(parts.to_vec()))
}

fn sorted(mut parts: Vec<KeyRange>) -> Vec<KeyRange> {
    parts.sort_by(|a, b| a.start().cmp(b.start()));
    parts
}

fn missing(id: FileId) -> Error {
    let detail = format!("row {id} is missing, but the manifest names it");
    Corruption::new("the container of L0", 0, detail).into()
}

impl OnMedium for Container {
    type Place = ContainerPlace;

    const ROLE: Role = Role::Container;

    fn is_open(&self) -> bool {
        self.pages().is_some()
    }

    fn path<'p>(&self, place: &'p ContainerPlace) -> (PathBuf, Option<&'p Path>) {
        (place.file(&self.dir), place.on_medium())
    }

    fn open(&self, place: &ContainerPlace, database: u128) -> Result<bool> {
        Container::open(self, place, database)
    }

    fn open_empty(&self, place: &ContainerPlace, database: u128) -> Result<()> {
        match self.open(place, database) {
            // Nothing is lost with one in which nothing was: a crash may have come before it was
            // made.
            Ok(_) | Err(Error::Corruption(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn clear(&self, place: &ContainerPlace) -> Result<()> {
        self.remove(place)
    }

    fn create(&self, place: &ContainerPlace, database: u128) -> Result<()> {
        Container::create(self, place, database)
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("pages", &self.pages()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::l0::range;

    #[test]
    fn what_is_outside_of_parts() {
        let outside = |words: &str| {
            let parts: Vec<KeyRange> = words.split_whitespace().map(range).collect();
            complement(&parts)
        };
        let ranges = |words: &str| words.split_whitespace().map(range).collect::<Vec<_>>();
        assert_eq!(outside(""), ranges("-"));
        assert_eq!(outside("-"), []);
        assert_eq!(outside("c-f"), ranges("-c f-"));
        assert_eq!(outside("k-m c-f d-e"), ranges("-c f-k m-"));
        assert_eq!(outside("c- a-d"), ranges("-a"));
        assert_eq!(outside("c-c"), ranges("-"));
    }
}
