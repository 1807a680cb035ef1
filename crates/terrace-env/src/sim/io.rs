use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_base::hash_bytes;

use super::disk::{DiskImage, InodeId};
use super::objects::ObjectImage;
use super::options::SimOptions;
use super::random::SeededRng;
use super::scheduler::{Call, Scheduler, undivided};
use crate::{EnvError, EnvResult, LockKind, Operation};

/// Called before each change of a simulated disk, or of what a simulated object store holds.
pub type IoHook = Box<dyn FnMut(&IoPoint<'_>) + Send>;

/// The bytes that a cache line or a vector instruction moves at once: a copy that is cut short
/// leaves any of them.
const COPIED_TOGETHER_BYTES: usize = 64;

/// A moment at which a simulated disk, or what a simulated object store holds, is about to change.
/// A crash here finds [`IoPoint::disk`] and [`IoPoint::objects`].
///
/// The hook that gets it must not call the environment. It may keep clones of both.
#[derive(Debug)]
pub struct IoPoint<'a> {
    /// How many changes came before; [`SimEnv::io_count`](super::SimEnv::io_count) was this.
    pub index: u64,
    /// Virtual time.
    pub now: Duration,
    /// What is about to happen.
    pub operation: Operation,
    /// The file or directory that it happens to; of an object its URL.
    pub path: &'a Path,
    /// The disk before it happens.
    pub disk: &'a DiskImage,
    /// What the object stores hold before it happens.
    pub objects: &'a ObjectImage,
    write: Option<PendingWrite<'a>>,
}

/// A write that is about to happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingWrite<'a> {
    pub inode: InodeId,
    pub offset: u64,
    pub bytes: &'a [u8],
}

impl IoPoint<'_> {
    /// The disk if the process dies in the middle of this write: the seed chooses which part of
    /// its bytes has arrived. `None` if this is no write, or too short to be cut.
    #[must_use]
    pub fn torn_disk(&self, seed: u64) -> Option<DiskImage> {
        let write = self.write.filter(|write| write.bytes.len() > 1)?;
        let mut random = SeededRng::stream(seed, 5);
        let mut disk = self.disk.clone();
        let mut put = |start: usize, end: usize| {
            let offset = write.offset + start as u64;
            // A part for which there is no room has not arrived.
            let _ = disk.write_inode(write.inode, offset, &write.bytes[start..end]);
        };
        if random.one_in(2) {
            put(0, 1 + random.index(write.bytes.len() - 1));
        } else {
            for start in (0..write.bytes.len()).step_by(COPIED_TOGETHER_BYTES) {
                if random.one_in(2) {
                    put(start, write.bytes.len().min(start + COPIED_TOGETHER_BYTES));
                }
            }
        }
        Some(disk)
    }
}

/// The disk of one simulation, and what is open on it.
pub(super) struct SimDisk {
    scheduler: Arc<Scheduler>,
    state: Mutex<State>,
    /// What the object stores hold, for the hook.
    objects: Arc<Mutex<ObjectImage>>,
    hook: Option<Mutex<IoHook>>,
    io_delay_max: Duration,
    try_read_miss_one_in: u32,
    sync_lie_one_in: u32,
    mapped_logs: bool,
    pmem_keeps_stores: bool,
}

/// Invariant: locked only inside one method of this module at a time, and never while a thread
/// gives up its turn; so it is never contended by simulated threads.
struct State {
    image: DiskImage,
    locked: BTreeMap<PathBuf, Locked>,
    /// The files that are mapped as persistent memory.
    mapped: BTreeSet<InodeId>,
    io_count: u64,
    lie_count: u64,
}

/// How a directory is locked.
enum Locked {
    Shared { holders: u32 },
    Exclusive,
}

/// A call of the file system, for the trace and the hook.
#[derive(Clone, Copy)]
pub(super) struct Io<'a> {
    pub operation: Operation,
    pub path: &'a Path,
    pub offset: u64,
    pub count: u64,
    pub write: Option<PendingWrite<'a>>,
    /// For a fence: a hash of what was stored to the area since the one before.
    pub stored: Option<u64>,
}

impl<'a> Io<'a> {
    pub fn new(operation: Operation, path: &'a Path) -> Io<'a> {
        Io { operation, path, offset: 0, count: 0, write: None, stored: None }
    }

    pub fn write(path: &'a Path, write: PendingWrite<'a>) -> Io<'a> {
        let (offset, count) = (write.offset, write.bytes.len() as u64);
        let io = Io::new(Operation::Write, path);
        Io { offset, count, write: Some(write), ..io }
    }

    fn error(&self, source: io::Error) -> EnvError {
        EnvError::new(self.operation, self.path, source)
    }
}

impl SimDisk {
    pub fn new(
        scheduler: Arc<Scheduler>,
        objects: Arc<Mutex<ObjectImage>>,
        options: SimOptions,
    ) -> SimDisk {
        let image = options.disk.without_handles();
        SimDisk {
            scheduler,
            state: Mutex::new(State {
                image,
                locked: BTreeMap::new(),
                mapped: BTreeSet::new(),
                io_count: 0,
                lie_count: 0,
            }),
            objects,
            hook: options.on_io.map(Mutex::new),
            io_delay_max: options.io_delay_max,
            try_read_miss_one_in: options.try_read_miss_one_in,
            sync_lie_one_in: options.sync_lie_one_in,
            mapped_logs: options.mapped_logs,
            pmem_keeps_stores: options.pmem_keeps_stores,
        }
    }

    pub fn image(&self) -> DiskImage {
        self.state.lock().image.clone()
    }

    pub fn io_count(&self) -> u64 {
        self.state.lock().io_count
    }

    pub fn lie_count(&self) -> u64 {
        self.state.lock().lie_count
    }

    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().image.set_capacity(bytes);
    }

    pub fn mapped_logs(&self) -> bool {
        self.mapped_logs
    }

    /// Whether a read that must not wait is to find nothing.
    pub fn draw_read_miss(&self) -> bool {
        self.scheduler.draw(|random| random.one_in(self.try_read_miss_one_in))
    }

    /// As [`SimDisk::mutate`] for a call whose last step makes something durable: a disk that lies
    /// leaves `sync` out.
    pub fn mutate_and_sync<T>(
        &self,
        io: Io<'_>,
        apply: impl FnOnce(&mut DiskImage) -> io::Result<T>,
        sync: impl FnOnce(&mut DiskImage, T) -> io::Result<()>,
    ) -> EnvResult<()> {
        // Nothing is drawn on an honest disk, so that its runs replay as ever.
        let lies = self.sync_lie_one_in > 0
            && self.scheduler.draw(|random| random.one_in(self.sync_lie_one_in));
        self.mutate(io, |disk| {
            let value = apply(disk)?;
            if lies { Ok(()) } else { sync(disk, value) }
        })?;
        self.state.lock().lie_count += u64::from(lies);
        Ok(())
    }

    /// A call that changes the disk.
    pub fn mutate<T>(
        &self,
        io: Io<'_>,
        apply: impl FnOnce(&mut DiskImage) -> io::Result<T>,
    ) -> EnvResult<T> {
        self.begin(io);
        self.before_change(io);
        let result = apply(&mut self.state.lock().image);
        self.end(io, result)
    }

    /// Tells the hook of a change, and counts it; no call.
    pub fn before_change(&self, io: Io<'_>) {
        self.call_hook(io);
        self.state.lock().io_count += 1;
    }

    /// A call that leaves the disk as it is.
    pub fn look<T>(
        &self,
        io: Io<'_>,
        look: impl FnOnce(&mut DiskImage) -> io::Result<T>,
    ) -> EnvResult<T> {
        self.begin(io);
        let result = look(&mut self.state.lock().image);
        self.end(io, result)
    }

    fn begin(&self, io: Io<'_>) {
        self.scheduler.enter(Call::Io(io.operation));
        if !self.io_delay_max.is_zero() {
            let nanos = u64::try_from(self.io_delay_max.as_nanos()).unwrap_or(u64::MAX - 1);
            let delay = self.scheduler.draw(|random| random.below(nanos + 1));
            self.scheduler.sleep(Duration::from_nanos(delay));
        }
    }

    fn call_hook(&self, io: Io<'_>) {
        let Some(hook) = &self.hook else {
            return;
        };
        let (disk, index) = {
            let state = self.state.lock();
            (state.image.clone(), state.io_count)
        };
        let objects = self.objects.lock().clone();
        let mut hook = hook.try_lock().expect("the hook of a simulation does no I/O in it");
        let (operation, path, write) = (io.operation, io.path, io.write);
        let (now, disk, objects) = (self.scheduler.now(), &disk, &objects);
        let point = IoPoint { index, now, operation, path, disk, objects, write };
        undivided(|| hook(&point));
    }

    fn end<T>(&self, io: Io<'_>, result: io::Result<T>) -> EnvResult<T> {
        self.scheduler.trace(|scene, trace| {
            trace.mix(io.operation as u64);
            trace.mix(hash_bytes(0, io.path.as_os_str().as_bytes()));
            trace.mix(io.offset);
            trace.mix(io.count);
            if let Some(write) = io.write {
                trace.mix(hash_bytes(0, write.bytes));
            }
            if let Some(stored) = io.stored {
                trace.mix(stored);
            }
            let errno = result.as_ref().err().and_then(io::Error::raw_os_error).unwrap_or(0);
            trace.mix(errno as u64);
            let failure = if result.is_ok() { "" } else { " failed" };
            trace.line(format_args!(
                "{scene} {:?}{failure} {} at {}+{}",
                io.operation,
                io.path.display(),
                io.offset,
                io.count
            ));
        });
        self.scheduler.enter(Call::IoDone(io.operation));
        result.map_err(|error| io.error(error))
    }

    /// The pages of a file count as clean though they are not; no call.
    pub fn lose_unsynced(&self, path: &Path) {
        self.state.lock().image.lose_unsynced(path);
    }

    /// Forgets a handle; no call.
    pub fn close(&self, inode: InodeId) {
        self.state.lock().image.close(inode);
    }

    /// Stores to a file that is mapped as persistent memory; no call, and no change of thread:
    /// there are too many.
    pub fn store(&self, inode: InodeId, offset: u64, bytes: &[u8]) {
        self.state.lock().image.store(inode, offset, bytes, self.pmem_keeps_stores);
    }

    /// Marks a file as mapped, and returns what it holds; `None` if it is mapped already; no call.
    pub fn map(&self, inode: InodeId, bytes: u64) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let mut content = vec![0; usize::try_from(bytes).ok()?];
        state.image.read_inode(inode, 0, &mut content);
        state.mapped.insert(inode).then_some(content)
    }

    /// Forgets a mapping and its handle; no call.
    pub fn unmap(&self, inode: InodeId) {
        let mut state = self.state.lock();
        state.mapped.remove(&inode);
        state.image.close(inode);
    }

    /// Takes the lock of a directory unless it is taken; no call.
    pub fn try_lock(&self, dir: &Path, kind: LockKind) -> bool {
        let mut state = self.state.lock();
        match (state.locked.get_mut(dir), kind) {
            (None, LockKind::Exclusive) => {
                state.locked.insert(dir.to_path_buf(), Locked::Exclusive);
            }
            (None, LockKind::Shared) => {
                state.locked.insert(dir.to_path_buf(), Locked::Shared { holders: 1 });
            }
            (Some(Locked::Shared { holders }), LockKind::Shared) => *holders += 1,
            (Some(_), _) => return false,
        }
        true
    }

    /// Gives one hold of the lock of a directory back; no call.
    pub fn unlock(&self, dir: &Path) {
        let mut state = self.state.lock();
        match state.locked.get_mut(dir) {
            Some(Locked::Shared { holders }) if *holders > 1 => *holders -= 1,
            _ => {
                state.locked.remove(dir);
            }
        }
    }
}
