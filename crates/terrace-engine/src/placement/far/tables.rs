use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_base::{Corruption, FileId, LevelNo, TableUid};
use terrace_env::{JobClass, Latch, ObjectName, PlantedBug, SetOnce, SharedEnv, is_planted};

use super::Waterline;
use super::ahead::ReadAhead;
use super::around::{Around, KeptAs, PiecesUnderWay};
use super::file::{FarFile, Piece, metadata_offset, tail_offset};
use super::tails::{AskedTail, TailsAhead};
use crate::cache::persistent::PersistentCache;
use crate::cloud::{CloudName, CloudNames, CloudStore, is_missing};
use crate::placement::TableLocation;
use crate::table::{ByteInterval, TableFile, TableWriter};
use crate::{Error, Result};

/// The tables of a range that lie in an object store, if it has one.
///
/// A range has at most one store for as long as it is open; it is mounted when the open knows which
/// database this is. Before that nothing lies there.
pub struct FarTables {
    env: SharedEnv,
    line: Waterline,
    mounted: SetOnce<Arc<Mounted>>,
    /// Tables that no version of this process names any more.
    released: Latch<Vec<FarName>>,
    wake: SetOnce<Box<dyn Fn() + Send + Sync>>,
    /// Called every so often while blocks are kept near.
    grows: Arc<SetOnce<Box<dyn Fn() + Send + Sync>>>,
}

/// Who reads tables in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarReader {
    /// Whoever knows the newest version: nobody else deletes what that names.
    Owner,
    /// Somebody beside the owner, who may delete what an older version names.
    BesideOwner,
}

/// After so many blocks that were kept near somebody looks how many may be.
const KEPT_PER_LOOK: u64 = 64;

/// A store that is mounted.
pub(super) struct Mounted {
    pub store: Arc<CloudStore>,
    pub names: CloudNames,
    pub reader: FarReader,
    pub ahead: ReadAhead,
    pub tails: TailsAhead,
    pub around: PiecesUnderWay,
    pub near: Option<Arc<PersistentCache>>,
    grows: Arc<SetOnce<Box<dyn Fn() + Send + Sync>>>,
    /// Blocks that requests have brought and that were kept near.
    kept: AtomicU64,
}

impl Mounted {
    pub fn object(&self, name: &FarName) -> ObjectName {
        self.names.of(&name.object())
    }

    /// Keeps near what a request has brought: the block that was asked for, and what came with it
    /// for that purpose.
    pub fn keep(
        &self,
        kept_as: KeptAs,
        asked: ByteInterval,
        around: Option<&Around>,
        piece: &Piece,
    ) {
        let Some(near) = &self.near else { return };
        let block = piece.slice(asked).unwrap_or_default();
        let mut count = u64::from(kept_as.keep(&near.data, asked.offset, block));
        if is_planted(PlantedBug::DataDisplacesMeta) {
            near.meta.forget(kept_as.table);
        }
        if let Some(around) = around {
            count += kept_as.keep_around(&near.data, asked, around, piece);
        }
        let before = self.kept.fetch_add(count, Ordering::Relaxed);
        let is_time = before / KEPT_PER_LOOK != (before + count) / KEPT_PER_LOOK || before == 0;
        if let Some(grows) = self.grows.get().filter(|_| is_time) {
            grows();
        }
    }

    /// The error of a read of a table, whose object may be gone.
    pub fn error_of_read(&self, table: &Path, error: Error) -> Error {
        if !is_missing(&error) {
            return error;
        }
        match self.reader {
            FarReader::Owner => {
                let detail = "the table is gone from the object store, but the manifest names it";
                Corruption::new(table, 0, detail).into()
            }
            FarReader::BesideOwner => Error::Outdated(format!(
                "{} is gone from the object store: the owner of the database has deleted it since \
                 this reader was brought up to date; catch up, or open it again",
                table.display()
            )),
        }
    }
}

impl FarTables {
    /// None yet, and nothing goes there.
    #[must_use]
    pub fn new(env: &SharedEnv) -> Arc<FarTables> {
        Arc::new(FarTables {
            env: Arc::clone(env),
            line: Waterline::below_all(),
            mounted: SetOnce::new(),
            released: Latch::default(),
            wake: SetOnce::new(),
            grows: Arc::default(),
        })
    }

    /// From now on tables are objects in `store`, below the names of this database. What is read of
    /// them is kept in `near`, if there is such a cache.
    ///
    /// # Panics
    /// If one is mounted.
    pub fn mount(
        &self,
        store: Arc<CloudStore>,
        names: CloudNames,
        reader: FarReader,
        near: Option<Arc<PersistentCache>>,
    ) {
        let (ahead, tails) = (ReadAhead::default(), TailsAhead::default());
        let around = PiecesUnderWay::default();
        let (grows, kept) = (Arc::clone(&self.grows), AtomicU64::new(0));
        let mounted = Mounted { store, names, reader, ahead, tails, around, near, grows, kept };
        let mounted = Arc::new(mounted);
        let kept = self.mounted.get_or_set(Arc::clone(&mounted));
        assert!(Arc::ptr_eq(kept, &mounted), "a far medium is mounted once");
    }

    /// The time, as the environment has it.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.env.now()
    }

    /// What is kept of them on the local disk, if anything is.
    #[must_use]
    pub fn near(&self) -> Option<&Arc<PersistentCache>> {
        self.mounted.get()?.near.as_ref()
    }

    /// Whether there is a store.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.mounted.get().is_some()
    }

    /// The line between what is local and what is far.
    #[must_use]
    pub fn line(&self) -> &Waterline {
        &self.line
    }

    /// Whether a new table of this level goes here.
    #[must_use]
    pub fn takes(&self, level: LevelNo) -> bool {
        self.is_mounted() && self.line.is_below(level)
    }

    /// Begins a table, which is an object as soon as it is finished.
    pub fn create(&self, id: FileId) -> Result<Box<dyn TableWriter>> {
        let mounted = Arc::clone(self.mounted(&id)?);
        let nonce = self.env.random_u128();
        Ok(Box::new(FarWriter { mounted, id, nonce, bytes: Vec::new(), near: Vec::new() }))
    }

    /// Opens a table. No request is made.
    pub fn open(&self, location: &TableLocation) -> Result<Arc<dyn TableFile>> {
        let name = FarTables::name(location)?;
        let mounted = self.mounted(location)?;
        Ok(Arc::new(FarFile::new(Arc::clone(mounted), Arc::clone(&self.env), name)))
    }

    /// Begins to read the end of a table that will be opened soon, unless it is near or there are
    /// many of them on their way. Waits for nothing.
    pub fn ask_ahead(&self, name: &FarName) {
        let Some(mounted) = self.mounted.get().filter(|mounted| mounted.tails.has_room()) else {
            return;
        };
        let is_near = |near: &Arc<PersistentCache>| near.meta.has(name.cached_as());
        if mounted.near.as_ref().is_some_and(is_near) {
            return;
        }
        let offset = tail_offset(name.bytes);
        let pending = mounted.store.begin_get(&mounted.object(name), Some(offset..name.bytes));
        mounted.tails.add(name, AskedTail { offset, pending });
    }

    /// Whether a table is there. One request.
    pub fn has(&self, location: &TableLocation) -> Result<bool> {
        let mounted = self.mounted(location)?;
        match mounted.store.bytes_of(&mounted.object(&FarTables::name(location)?)) {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whom to call when a table was released. Called once, when the range is put together.
    pub fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.wake.get_or_set(Box::new(wake));
    }

    /// Whom to call every so often while blocks are kept near, to say how many may be. Called once,
    /// when the range is put together.
    pub fn set_grows(&self, grows: impl Fn() + Send + Sync + 'static) {
        self.grows.get_or_set(Box::new(grows));
    }

    /// This process needs a table no more.
    pub fn release(&self, location: &TableLocation) -> Result<()> {
        let name = FarTables::name(location)?;
        if let Some(mounted) = self.mounted.get() {
            drop(mounted.tails.take(&name));
        }
        if let Some(near) = self.near() {
            near.forget(name.cached_as());
        }
        self.released.lock().push(name);
        if let Some(wake) = self.wake.get() {
            wake();
        }
        Ok(())
    }

    /// Tables that were released since this was last asked. They are not asked for again.
    #[must_use]
    pub fn take_released(&self) -> Vec<FarName> {
        std::mem::take(&mut *self.released.lock())
    }

    /// Stores the file of a table, or of values, which lies elsewhere too.
    pub fn store(&self, name: &FarName, bytes: &[u8]) -> Result<()> {
        let mounted = self.mounted(&name.id)?;
        mounted.store.put_whole(&mounted.object(name), bytes)
    }

    fn name(location: &TableLocation) -> Result<FarName> {
        FarName::of(location).ok_or_else(|| {
            let detail =
                "the manifest places this table in the object store by a name that none has";
            Corruption::new(format!("{location:?}"), 0, detail).into()
        })
    }

    fn mounted(&self, table: &dyn fmt::Debug) -> Result<&Arc<Mounted>> {
        self.mounted.get().ok_or_else(|| {
            Error::invalid(format!(
                "table {table:?} lies in an object store: open the database with the store's URL (cloud)"
            ))
        })
    }
}

impl fmt::Debug for Mounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mounted").field("store", &self.store).finish_non_exhaustive()
    }
}

impl fmt::Debug for FarTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarTables").field("line", &self.line).finish_non_exhaustive()
    }
}

/// A table on its way into the store: gathered in memory, and stored once it is whole.
struct FarWriter {
    mounted: Arc<Mounted>,
    id: FileId,
    nonce: u128,
    bytes: Vec<u8>,
    /// Blocks that will be read soon.
    near: Vec<ByteInterval>,
}

impl FarWriter {
    /// Keeps what is read of the table first.
    fn fill_cache(&self, name: &FarName) {
        let Some(near) = &self.mounted.near else { return };
        if let Some(offset) = metadata_offset(&self.bytes, name.bytes) {
            // The offset lies inside of the table, which is in memory.
            near.meta.keep(name.cached_as(), offset, &self.bytes[offset as usize..]);
        }
        for interval in &self.near {
            let start = interval.offset as usize;
            if let Some(block) = self.bytes.get(start..start + interval.bytes) {
                near.data.inherit(name.cached_as(), interval.offset, block);
            }
        }
        if near.data.wants_whole(name.cached_as(), name.bytes) {
            near.data.put_whole(name.cached_as(), Some(&self.bytes));
        }
    }

    /// Names the table at once and stores it after that: a planted bug.
    fn finish_later(self: Box<Self>, name: FarName) -> Result<TableLocation> {
        let store = Arc::clone(&self.mounted.store);
        let (env, object) = (Arc::clone(store.env()), self.mounted.object(&name));
        let put = Box::new(move || {
            if let Err(error) = store.put_whole(&object, &self.bytes) {
                crate::program_log::warn!(%error, "a table that was named never came");
            }
        });
        env.spawn(JobClass::Maintenance, "upload", put)?;
        Ok(name.location())
    }
}

impl TableWriter for FarWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn keep_near(&mut self, interval: ByteInterval) {
        if self.mounted.near.is_some() {
            self.near.push(interval);
        }
    }

    fn finish(self: Box<Self>) -> Result<TableLocation> {
        let name = FarName { id: self.id, nonce: self.nonce, bytes: self.bytes.len() as u64 };
        if is_planted(PlantedBug::NameBeforeUpload) {
            return self.finish_later(name);
        }
        self.mounted.store.put_whole(&self.mounted.object(&name), &self.bytes)?;
        self.fill_cache(&name);
        Ok(name.location())
    }
}

/// What a location in the far medium says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FarName {
    /// The id of the table's file.
    pub id: FileId,
    /// Makes the object's name one that nobody ever chose before.
    pub nonce: u128,
    /// The size of the table.
    pub bytes: u64,
}

impl FarName {
    /// What the persistent cache calls the table: a number that no other one ever has.
    #[must_use]
    pub fn cached_as(&self) -> u128 {
        if is_planted(PlantedBug::StaleCachedTable) {
            return u128::from(self.id.counter);
        }
        self.nonce
    }

    /// The location, as the far medium calls it.
    #[must_use]
    pub fn location(&self) -> TableLocation {
        TableLocation::new(format!("{}-{:032x}-{}", self.id, self.nonce, self.bytes))
            .on_far_medium()
    }

    /// What its object is.
    #[must_use]
    pub fn object(&self) -> CloudName {
        CloudName::Table { id: self.id, uid: TableUid(self.nonce) }
    }

    /// What a location says, if it is one in the far medium.
    #[must_use]
    pub fn of(location: &TableLocation) -> Option<FarName> {
        let inner = location.within_far_medium()?;
        let text = str::from_utf8(inner.bytes()).ok()?;
        let (rest, bytes) = text.rsplit_once('-')?;
        let (id, nonce) = rest.rsplit_once('-')?;
        let name = FarName {
            id: FileId::parse(id)?,
            nonce: u128::from_str_radix(nonce, 16).ok()?,
            bytes: bytes.parse().ok()?,
        };
        // Only what is written in one way is a name.
        (name.location() == *location).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::Epoch;

    use super::*;

    #[test]
    fn a_location_is_written_in_one_way() {
        let id = FileId { epoch: Epoch(3), counter: 7 };
        let name = FarName { id, nonce: 0xab, bytes: 1234 };
        let location = name.location();
        assert!(location.is_far());
        assert_eq!(FarName::of(&location), Some(name));
        let text = String::from_utf8(location.bytes().to_vec()).unwrap();
        let with = |from: &str, to: &str| TableLocation::new(text.replace(from, to));
        for other in [
            TableLocation::new("far/"),
            TableLocation::new("000003-00000007.table"),
            with("-1234", "-01234"),
            with("-1234", "-+1234"),
            with("-1234", ""),
            with("ab", "AB"),
            with("far/000003", "far/3"),
        ] {
            assert_eq!(FarName::of(&other), None, "{other:?}");
        }
    }
}
