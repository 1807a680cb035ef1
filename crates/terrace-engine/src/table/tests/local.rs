//! The local store over a file system in memory that reads in small steps and fails on demand.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Corruption, LevelNo};
use terrace_env::{
    CacheFile, DirEntry, DirLock, Env, EnvError, EnvResult, FileSystem, Job, JobClass, JobHandle,
    Latch, LockKind, LogFile, NoObjectStores, ObjectStores, Operation, Pmem, ReadFile, SharedEnv,
    WaitFactory, WriteFile,
};

use super::*;
use crate::Error;

#[derive(Debug, Default)]
struct StepState {
    files: BTreeMap<PathBuf, Arc<Vec<u8>>>,
    synced_dirs: usize,
    is_full: bool,
    is_cold: bool,
}

/// Reads give at most 100 bytes at once, as an interrupted call of an operating system may.
#[derive(Debug, Default)]
struct StepEnv(Arc<Latch<StepState>>);

impl Env for StepEnv {
    fn fs(&self) -> &dyn FileSystem {
        self
    }

    fn objects(&self) -> &dyn ObjectStores {
        &NoObjectStores
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn thread_cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_time(&self) -> WallTime {
        WallTime(0)
    }

    fn random_u64(&self) -> u64 {
        4
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn spawn(&self, _: JobClass, _: &str, _: Job) -> EnvResult<JobHandle> {
        unreachable!("a table store starts no threads")
    }

    fn yield_now(&self) {}

    fn sleep(&self, _: Duration) {
        unreachable!("a table store does not sleep")
    }

    fn waits(&self) -> WaitFactory {
        WaitFactory::real()
    }
}

fn failed(operation: Operation, path: &Path, kind: io::ErrorKind) -> EnvError {
    EnvError::new(operation, path, kind.into())
}

impl FileSystem for StepEnv {
    fn create_dir_all(&self, _: &Path) -> EnvResult<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> EnvResult<Vec<DirEntry>> {
        let state = self.0.lock();
        let inside = state.files.iter().filter(|(path, _)| path.parent() == Some(dir));
        let entries = inside.map(|(path, bytes)| DirEntry {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            bytes: bytes.len() as u64,
            is_dir: false,
        });
        let mut entries: Vec<DirEntry> = entries.collect();
        let name = "000001-00000009.table".to_owned();
        entries.push(DirEntry { name, bytes: 0, is_dir: true });
        Ok(entries)
    }

    fn sync_dir(&self, _: &Path) -> EnvResult<()> {
        self.0.lock().synced_dirs += 1;
        Ok(())
    }

    fn lock_dir(&self, _: &Path, _: LockKind) -> EnvResult<DirLock> {
        unreachable!("a table store takes no lock")
    }

    fn real_dir(&self, _: &Path) -> EnvResult<PathBuf> {
        unreachable!("a table store asks for no names")
    }

    fn free_bytes(&self, _: &Path) -> EnvResult<u64> {
        unreachable!("a table store does not ask for space")
    }

    fn are_on_one_device(&self, _: &Path, _: &Path) -> EnvResult<bool> {
        unreachable!("a table store does not ask for devices")
    }

    fn open(&self, path: &Path) -> EnvResult<Arc<dyn ReadFile>> {
        let state = self.0.lock();
        let bytes = state.files.get(path).cloned();
        let missing = || failed(Operation::Open, path, io::ErrorKind::NotFound);
        let bytes = bytes.ok_or_else(missing)?;
        Ok(Arc::new(StepFile { bytes, is_cold: state.is_cold }))
    }

    fn create(&self, path: &Path, _: u64) -> EnvResult<Box<dyn WriteFile>> {
        let mut state = self.0.lock();
        if state.files.insert(path.to_path_buf(), Arc::default()).is_some() {
            return Err(failed(Operation::Create, path, io::ErrorKind::AlreadyExists));
        }
        let path = path.to_path_buf();
        Ok(Box::new(StepWriter { state: Arc::clone(&self.0), path, bytes: Vec::new() }))
    }

    fn create_log(&self, _: &Path, _: u64) -> EnvResult<Arc<dyn LogFile>> {
        unreachable!("a table store keeps no log")
    }

    fn recycle_log(&self, _: &Path, _: &Path) -> EnvResult<Arc<dyn LogFile>> {
        unreachable!("a table store keeps no log")
    }

    fn open_cache(&self, _: &Path) -> EnvResult<Arc<dyn CacheFile>> {
        unreachable!("a table store has no cache")
    }

    fn create_pmem(&self, _: &Path, _: u64) -> EnvResult<Pmem> {
        unreachable!("a table store keeps no persistent memory")
    }

    fn open_pmem(&self, _: &Path) -> EnvResult<Pmem> {
        unreachable!("a table store keeps no persistent memory")
    }

    fn sync_file(&self, _: &Path) -> EnvResult<()> {
        unreachable!("a table is synced by its writer")
    }

    fn cut(&self, _: &Path, _: u64) -> EnvResult<()> {
        unreachable!("tables are not cut")
    }

    fn rename(&self, _: &Path, _: &Path) -> EnvResult<()> {
        unreachable!("tables are not renamed")
    }

    fn link(&self, _: &Path, _: &Path) -> EnvResult<()> {
        unreachable!("a table store does not link")
    }

    fn remove(&self, path: &Path) -> EnvResult<()> {
        let removed = self.0.lock().files.remove(path);
        removed.map(drop).ok_or_else(|| failed(Operation::Remove, path, io::ErrorKind::NotFound))
    }
}

#[derive(Debug)]
struct StepFile {
    bytes: Arc<Vec<u8>>,
    is_cold: bool,
}

impl ReadFile for StepFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<usize> {
        let rest = &self.bytes[(offset as usize).min(self.bytes.len())..];
        let bytes = rest.len().min(buffer.len()).min(100);
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<Option<usize>> {
        // Of a cold file only the first 150 bytes are at hand.
        if self.is_cold && offset + buffer.len() as u64 > 150 {
            return Ok(None);
        }
        self.read_at(offset, buffer).map(Some)
    }

    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[derive(Debug)]
struct StepWriter {
    state: Arc<Latch<StepState>>,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl WriteFile for StepWriter {
    fn append(&mut self, bytes: &[u8]) -> EnvResult<()> {
        if self.state.lock().is_full {
            return Err(failed(Operation::Write, &self.path, io::ErrorKind::StorageFull));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> EnvResult<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        let mut state = self.state.lock();
        if state.is_full {
            return Err(failed(Operation::Sync, &self.path, io::ErrorKind::StorageFull));
        }
        state.files.insert(self.path.clone(), Arc::new(self.bytes.clone()));
        Ok(())
    }
}

fn id(counter: u64) -> FileId {
    FileId { epoch: Epoch(1), counter }
}

fn store() -> (Arc<Latch<StepState>>, LocalTableStore) {
    let env = StepEnv::default();
    let state = Arc::clone(&env.0);
    let env: SharedEnv = Arc::new(env);
    (state, LocalTableStore::new(env, PathBuf::from("/range")))
}

fn write(store: &dyn TableStore, id: FileId, bytes: &[u8]) -> TableLocation {
    let mut writer = store.create(id, LevelNo(1), bytes.len() as u64).unwrap();
    for piece in bytes.chunks(1000) {
        writer.append(piece).unwrap();
    }
    writer.finish().unwrap()
}

/// What every store does, whatever lies behind it.
fn check_store(store: &dyn TableStore) {
    let bytes: Vec<u8> = (0..5000u32).map(|at| (at / 7) as u8).collect();
    let second = write(store, id(12), &bytes);
    let first = write(store, id(3), b"short");
    store.sync(LevelNo(1)).unwrap();
    let listed = store.list().unwrap();
    assert_eq!(listed, [(id(3), first.clone()), (id(12), second.clone())]);

    let file = store.open(&second).unwrap();
    assert_eq!(file.bytes(), 5000);
    let intervals = [(0, 5000), (4999, 1), (100, 321), (5000, 0)];
    let intervals = intervals.map(|(offset, bytes)| ByteInterval { offset, bytes });
    let buffers = file.read(&intervals).wait().unwrap();
    assert_eq!(buffers.len(), 4);
    for (buffer, interval) in buffers.iter().zip(intervals) {
        let start = interval.offset as usize;
        assert_eq!(buffer, &bytes[start..start + interval.bytes]);
        assert_eq!(file.try_read(interval).unwrap().as_ref(), Some(buffer));
    }
    for (offset, bytes) in [(0, 5001), (5000, 1), (u64::MAX, 1), (u64::MAX, usize::MAX), (9999, 0)]
    {
        let interval = ByteInterval { offset, bytes };
        let error = file.read(&[intervals[0], interval]).wait().unwrap_err();
        assert!(error.is_corruption(), "{error:?}");
        assert!(file.try_read(interval).unwrap_err().is_corruption());
    }

    store.delete(&second).unwrap();
    store.delete(&second).expect("a table that is gone is no error");
    assert!(matches!(store.open(&second), Err(Error::Io(_))));
    assert_eq!(store.list().unwrap().len(), 1);
    assert_eq!(file.read(&intervals).wait().unwrap().len(), 4, "an open table stays readable");

    let mut abandoned = store.create(id(20), LevelNo(1), 0).unwrap();
    abandoned.append(b"half a table").unwrap();
    drop(abandoned);
    assert_eq!(store.list().unwrap(), [(id(3), first)], "what is abandoned is gone");
}

#[test]
fn both_stores_do_what_a_store_does() {
    check_store(&store().1);
    check_store(&MemoryTableStore::new());
}

#[test]
fn foreign_names_are_left_alone() {
    let (state, store) = store();
    write(&store, id(1), b"table");
    for name in ["LOCK", "000001-00000002.log", "1-2.table", "000001-00000002.table.tmp", ".table"]
    {
        state.lock().files.insert(Path::new("/range").join(name), Arc::default());
    }
    let tables = store.list().unwrap();
    assert_eq!(tables, [(id(1), TableLocation::new(b"000001-00000001.table".to_vec()))]);
    store.sync(LevelNo(1)).unwrap();
    assert_eq!(state.lock().synced_dirs, 1);
    for forged in [&b"../000001-00000001.table"[..], b"/etc/passwd", b"LOCK", b"", b"\xff"] {
        let forged = TableLocation::new(forged.to_vec());
        assert!(store.open(&forged).unwrap_err().is_corruption(), "{forged:?}");
        assert!(store.delete(&forged).unwrap_err().is_corruption(), "{forged:?}");
    }
}

#[test]
fn a_full_disk_leaves_no_half_table_behind() {
    let (state, store) = store();
    let mut writer = store.create(id(1), LevelNo(1), 0).unwrap();
    writer.append(b"fits").unwrap();
    state.lock().is_full = true;
    assert!(matches!(writer.append(b"does not"), Err(Error::NoSpace(_))));
    drop(writer);
    assert!(store.list().unwrap().is_empty());
    let writer = store.create(id(2), LevelNo(1), 0).unwrap();
    // A sync that fails is no lack of space that passes: what the disk holds is in doubt.
    assert!(matches!(writer.finish(), Err(Error::Poisoned(_))));
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn a_read_that_would_wait_is_not_made_half() {
    let (state, store) = store();
    let location = write(&store, id(1), &[7; 1000]);
    state.lock().is_cold = true;
    let file = store.open(&location).unwrap();
    let try_read = |offset, bytes| file.try_read(ByteInterval { offset, bytes }).unwrap();
    assert_eq!(try_read(0, 150), Some(vec![7; 150]));
    assert_eq!(try_read(100, 51), None);
    let all = file.read(&[ByteInterval { offset: 0, bytes: 1000 }]).wait().unwrap();
    assert_eq!(all, [vec![7; 1000]]);
}

#[test]
fn a_file_that_shrank_while_open_is_damaged() {
    #[derive(Debug)]
    struct Liar;
    impl ReadFile for Liar {
        fn read_at(&self, _: u64, _: &mut [u8]) -> EnvResult<usize> {
            Ok(0)
        }
        fn try_read_at(&self, _: u64, _: &mut [u8]) -> EnvResult<Option<usize>> {
            Ok(Some(0))
        }
        fn bytes(&self) -> u64 {
            1000
        }
    }
    let env = terrace_env::RealEnv::new();
    let file = super::super::local_store::LocalTableFile::new(
        env,
        "liar.table".into(),
        Arc::new(Liar),
        Arc::default(),
    );
    let interval = ByteInterval { offset: 10, bytes: 10 };
    let errors = [file.read(&[interval]).wait().unwrap_err(), file.try_read(interval).unwrap_err()];
    for error in errors {
        match error {
            Error::Corruption(Corruption { file, offset, .. }) => {
                assert_eq!((file.to_str(), offset), (Some("liar.table"), 10));
            }
            other => panic!("{other:?}"),
        }
    }
}
