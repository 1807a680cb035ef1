//! Models of version reference counting: a table's file goes when nobody can read it any more, and
//! goes once.

use std::path::Path;
use std::sync::Arc;

use loom::thread;
use terrace_base::{Epoch, FileId, LevelNo, SeqNo};
use terrace_env::model::{Weakened, explore, must_fail};
use terrace_env::{RealEnv, SharedEnv, WaitFactory};

use super::feed::MemoryFeed;
use super::install::VersionsParts;
use super::{
    FeedStore, ReclaimQueue, TableContext, TableMeta, TableOpener, TreeEdit, Version, VersionEdit,
    Versions,
};
use crate::cache::BlockCache;
use crate::ids::FileIds;
use crate::l0::triangle::Container;
use crate::l0::{L0, PlainL0, PlainOptions};
use crate::placement::{FarTables, RowDirectory};
use crate::table::{MemoryTableStore, TableLocation, TableOptions, TableShape};

const LEVEL: LevelNo = LevelNo(1);

fn id(counter: u64) -> FileId {
    FileId { epoch: Epoch(1), counter }
}

/// Puts table `new` in the place of `old`.
fn replace(old: u64, new: u64) -> VersionEdit {
    let tables_removed = vec![(LEVEL, id(old))];
    let tables_added = vec![(LEVEL, TableMeta::sample(new))];
    TreeEdit { tables_removed, tables_added, ..TreeEdit::default() }.into()
}

struct Range {
    versions: Versions,
    context: Arc<TableContext>,
}

impl Range {
    /// A range with table 1.
    fn new() -> Arc<Range> {
        let env: SharedEnv = RealEnv::new();
        let ids = Arc::new(FileIds::new(Epoch(1), 0));
        let store = Arc::new(MemoryTableStore::new());
        let shape = TableShape { table_bytes: 1, table: TableOptions::default() };
        let options = PlainOptions {
            rows_per_cut: 4,
            rows_slow: 12,
            rows_stop: 24,
            room: None,
            takes_all: false,
            shape,
        };
        let l0: Arc<dyn L0> =
            Arc::new(PlainL0::new(&env, store.clone(), Arc::clone(&ids), options));
        let context = Arc::new(TableContext {
            opener: Arc::new(TableOpener {
                store,
                cache: Arc::new(BlockCache::new(0)),
                container: Container::new(&env, Path::new("/db")),
                rows: RowDirectory::new(&env),
                far: FarTables::new(&env),
            }),
            reclaim: ReclaimQueue::default(),
            memory: crate::process::MemoryPool::default(),
            far_metadata_stay: true,
        });
        let tables_added = vec![(LEVEL, TableMeta::sample(1))];
        let greatest_seqno = Some(SeqNo(1));
        let tree = TreeEdit { tables_added, greatest_seqno, ..TreeEdit::default() };
        let first = VersionEdit { is_snapshot: true, tree, ..VersionEdit::default() };
        let version = Version::empty(l0.as_ref()).apply(&first, &context).unwrap();
        let feeds: Arc<dyn FeedStore> = Arc::new(MemoryFeed::default());
        let feed = feeds.begin(id(100), &first).unwrap();
        let parts = VersionsParts { feeds, ids, context: Arc::clone(&context) };
        let versions = Versions::new(&WaitFactory::real(), parts, version, Some(feed));
        Arc::new(Range { versions, context })
    }

    fn install(&self, edit: VersionEdit) {
        let installed = self.versions.install(edit, None, |_| ()).unwrap();
        self.versions.let_go(installed);
    }

    /// The tables that were handed over for deletion so far, in order.
    fn reclaimed(&self) -> Vec<u8> {
        let taken = self.context.reclaim.take();
        let mut tables: Vec<u8> = taken.iter().map(|removed| removed.location.bytes()[0]).collect();
        tables.sort_unstable();
        tables
    }
}

/// A reader pins a version; while it does, the tables that the version names stay.
fn read(range: &Range, counts: bool) {
    let version = range.versions.current();
    let names: Vec<u8> = version.tables().map(|table| table.meta().location.bytes()[0]).collect();
    assert_eq!(names.len(), 1, "a version is whole");
    let reclaimed: Vec<u8> =
        range.context.reclaim.take().iter().map(|one| one.location.bytes()[0]).collect();
    assert!(!reclaimed.contains(&names[0]), "table {names:?} went while it was read");
    for table in reclaimed {
        range.context.reclaim.add(TableLocation::new(vec![table]).into());
    }
    if counts {
        range.versions.let_go(version);
    }
}

fn readers_beside_an_install(readers: usize, counts: bool) {
    let range = Range::new();
    let threads: Vec<_> = (0..readers)
        .map(|_| {
            let range = Arc::clone(&range);
            thread::spawn(move || read(&range, counts))
        })
        .collect();
    range.install(replace(1, 2));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(range.reclaimed(), [1], "the removed table goes, once");
}

#[test]
fn a_table_goes_once_and_not_while_it_is_read() {
    let name = "versions: a reader beside an install";
    explore(name, 5, || readers_beside_an_install(1, true));
    explore("versions: two readers beside an install", 3, || readers_beside_an_install(2, true));
    // Without the order that the count gives, the last holder may not know that it is removed.
    must_fail("versions: a count without order", Weakened::Nothing, 3, || {
        readers_beside_an_install(1, false);
    });
}

#[test]
fn two_installs_lose_no_edit() {
    explore("versions: two installs and a reader", 4, || {
        let range = Range::new();
        let other = Arc::clone(&range);
        let add = TreeEdit { greatest_seqno: Some(SeqNo(7)), ..TreeEdit::default() }.into();
        let installer = thread::spawn(move || other.install(add));
        range.install(replace(1, 2));
        read(&range, true);
        installer.join().unwrap();
        let version = range.versions.current();
        assert_eq!(version.greatest_seqno(), SeqNo(7));
        assert_eq!(version.run(LEVEL).tables()[0].meta().id, id(2));
        assert_eq!(range.reclaimed(), [1]);
    });
}
