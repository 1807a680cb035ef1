use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::content::{Content, PAGE_BYTES};
use super::directory::{Directory, InodeId};
use crate::DirEntry;

/// How many bytes a simulated disk holds unless a test says otherwise.
const CAPACITY_BYTES_DEFAULT: u64 = 1 << 40;

/// A simulated disk at one moment: what the system shows, and apart from it what a power cut would
/// leave. A clone is cheap and shares what neither side changes afterwards.
///
/// Directories are durable when they are made. A file's bytes and size become durable by its sync,
/// its names by [`FileSystem::sync_dir`](crate::FileSystem::sync_dir). A disk has a capacity, in
/// bytes of file content and reserved space; names take none.
#[derive(Clone, Debug)]
pub struct DiskImage {
    pub(super) inodes: Arc<BTreeMap<InodeId, Arc<Inode>>>,
    pub(super) directories: Arc<BTreeMap<PathBuf, Arc<Directory>>>,
    pub(super) next_inode: u64,
    pub(super) used_bytes: u64,
    pub(super) capacity_bytes: u64,
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub written: Content,
    pub synced: Content,
    /// Pages that the system takes for clean though they never came to the disk: a sync has failed.
    pub lost_pages: BTreeSet<u64>,
    /// Space set aside for the file, used or not.
    pub reserved_bytes: u64,
    /// Whether it was mapped as persistent memory: a power cut tears it by lines and words.
    pub is_pmem: bool,
    /// Names that the system shows.
    pub links: u32,
    /// Open handles.
    pub handles: u32,
}

impl Inode {
    /// The space that the file takes; its last name and handle keep it alive.
    pub fn space_bytes(&self) -> u64 {
        if self.is_unreachable() { 0 } else { self.reserved_bytes.max(self.written.bytes()) }
    }

    fn is_unreachable(&self) -> bool {
        self.links == 0 && self.handles == 0
    }
}

impl Default for DiskImage {
    fn default() -> DiskImage {
        DiskImage::new()
    }
}

impl DiskImage {
    /// An empty disk.
    #[must_use]
    pub fn new() -> DiskImage {
        DiskImage {
            inodes: Arc::default(),
            directories: Arc::default(),
            next_inode: 0,
            used_bytes: 0,
            capacity_bytes: CAPACITY_BYTES_DEFAULT,
        }
    }

    /// The same disk with room for `bytes` bytes; may be less than it holds already.
    #[must_use]
    pub fn with_capacity(mut self, bytes: u64) -> DiskImage {
        self.capacity_bytes = bytes;
        self
    }

    /// Bytes that can still be written.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes)
    }

    pub(in crate::sim) fn set_capacity(&mut self, bytes: u64) {
        self.capacity_bytes = bytes;
    }

    pub(in crate::sim) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        for ancestor in dir.ancestors() {
            if self.find(ancestor).is_some() {
                return Err(Errno::NOTDIR.into());
            }
        }
        let directories = Arc::make_mut(&mut self.directories);
        for ancestor in dir.ancestors().filter(|path| !is_root(path)) {
            directories.entry(ancestor.to_path_buf()).or_default();
        }
        Ok(())
    }

    pub(in crate::sim) fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.check_dir(dir)?;
        let mut entries: BTreeMap<String, DirEntry> = BTreeMap::new();
        if let Some(directory) = self.directories.get(dir) {
            for (name, id) in directory.written() {
                let bytes = self.inode(*id).written.bytes();
                entries.insert(name.clone(), DirEntry { name: name.clone(), bytes, is_dir: false });
            }
        }
        for child in self.directories.keys().filter(|path| path.parent() == Some(dir)) {
            if let Some(name) = child.file_name() {
                let name = name.to_string_lossy().into_owned();
                entries.insert(name.clone(), DirEntry { name, bytes: 0, is_dir: true });
            }
        }
        Ok(entries.into_values().collect())
    }

    pub(in crate::sim) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        self.check_dir(dir)?;
        if self.directories.contains_key(dir) {
            self.directory_mut(dir).sync();
        }
        self.collect_garbage();
        Ok(())
    }

    /// Makes an empty file and opens it.
    pub(in crate::sim) fn create(&mut self, path: &Path, reserve: u64) -> io::Result<InodeId> {
        let (dir, name) = self.place_of(path)?;
        if self.find(path).is_some() || self.directories.contains_key(path) {
            return Err(Errno::EXIST.into());
        }
        self.check_space(reserve)?;
        let id = InodeId(self.next_inode);
        self.next_inode += 1;
        let inode = Inode { reserved_bytes: reserve, links: 1, handles: 1, ..Inode::default() };
        self.used_bytes += inode.space_bytes();
        Arc::make_mut(&mut self.inodes).insert(id, Arc::new(inode));
        self.directory_mut(dir).set(name, id);
        Ok(id)
    }

    /// Whether there is such a file.
    pub(in crate::sim) fn has_file(&self, path: &Path) -> bool {
        self.find(path).is_some()
    }

    /// Opens a file; returns its size.
    pub(in crate::sim) fn open(&mut self, path: &Path) -> io::Result<(InodeId, u64)> {
        let id = self.lookup(path)?;
        self.change(id, |inode| inode.handles += 1);
        Ok((id, self.inode(id).written.bytes()))
    }

    pub(in crate::sim) fn close(&mut self, id: InodeId) {
        self.change(id, |inode| inode.handles -= 1);
        if self.inode(id).is_unreachable() {
            self.collect_garbage();
        }
    }

    pub(in crate::sim) fn read_inode(&self, id: InodeId, offset: u64, buffer: &mut [u8]) -> usize {
        self.inode(id).written.read(offset, buffer)
    }

    /// Writes, growing the file where needed.
    pub(in crate::sim) fn write_inode(
        &mut self,
        id: InodeId,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let inode = self.inode(id);
        let end = offset + bytes.len() as u64;
        self.check_space(end.saturating_sub(inode.space_bytes()))?;
        self.change(id, |inode| {
            inode.written.write(offset, bytes);
            inode.lost_pages.retain(|page| !pages_of(offset, bytes.len() as u64).contains(page));
        });
        Ok(())
    }

    /// Sets the size of a file; what is added is zeros.
    pub(in crate::sim) fn resize_inode(&mut self, id: InodeId, bytes: u64) -> io::Result<()> {
        self.check_space(bytes.saturating_sub(self.inode(id).space_bytes()))?;
        self.change(id, |inode| inode.written.set_bytes(bytes));
        Ok(())
    }

    /// Cuts a file, and gives back what was reserved behind.
    pub(in crate::sim) fn cut_inode(&mut self, id: InodeId, bytes: u64) -> io::Result<()> {
        self.change(id, |inode| {
            inode.written.set_bytes(bytes);
            inode.reserved_bytes = inode.reserved_bytes.min(bytes);
        });
        Ok(())
    }

    pub(in crate::sim) fn sync_inode(&mut self, id: InodeId) {
        self.change(id, |inode| {
            let before = std::mem::replace(&mut inode.synced, inode.written.clone());
            for page in &inode.lost_pages {
                inode.synced.copy_unit(&before, *page, PAGE_BYTES);
            }
        });
    }

    /// A sync of the file has failed, and its pages count as clean.
    pub(in crate::sim) fn lose_unsynced(&mut self, path: &Path) {
        let Some(id) = self.find(path).filter(|id| !self.inode(*id).is_pmem) else { return };
        self.change(id, |inode| {
            inode.lost_pages.extend(inode.written.units_unlike(&inode.synced, PAGE_BYTES));
        });
    }

    /// Syncs the pages of these bytes, and the size of the file.
    pub(in crate::sim) fn sync_range_of_inode(&mut self, id: InodeId, offset: u64, bytes: u64) {
        self.change(id, |inode| {
            let before = inode.synced.clone();
            inode.synced.take_over(&inode.written, offset, bytes);
            for page in &inode.lost_pages {
                inode.synced.copy_unit(&before, *page, PAGE_BYTES);
            }
        });
    }

    /// Makes a file one of persistent memory. A new one is durable as it is.
    pub(in crate::sim) fn make_pmem(&mut self, id: InodeId, is_new: bool) {
        self.change(id, |inode| {
            inode.is_pmem = true;
            if is_new {
                inode.synced.clone_from(&inode.written);
            }
        });
    }

    /// A store to persistent memory, within its size; durable at once or not.
    pub(in crate::sim) fn store(&mut self, id: InodeId, offset: u64, bytes: &[u8], durable: bool) {
        self.change(id, |inode| {
            inode.written.write(offset, bytes);
            if durable {
                inode.synced.write(offset, bytes);
            }
        });
    }

    /// Makes lines of persistent memory durable as they were when they were flushed.
    pub(in crate::sim) fn persist<'a>(
        &mut self,
        id: InodeId,
        lines: impl Iterator<Item = (u64, &'a [u8])>,
    ) {
        self.change(id, |inode| {
            lines.for_each(|(offset, bytes)| inode.synced.write(offset, bytes))
        });
    }

    pub(in crate::sim) fn give_back_reserve(&mut self, id: InodeId) {
        self.change(id, |inode| inode.reserved_bytes = 0);
    }

    /// Renames a file. With `replaces`, over what has the name already.
    pub(in crate::sim) fn rename(
        &mut self,
        from: &Path,
        to: &Path,
        replaces: bool,
    ) -> io::Result<InodeId> {
        let id = self.lookup(from)?;
        let (from_dir, from_name) = self.place_of(from)?;
        let (to_dir, to_name) = self.place_of(to)?;
        if self.directories.contains_key(to) {
            return Err(Errno::ISDIR.into());
        }
        let target = self.find(to);
        if target.is_some() && !replaces {
            return Err(Errno::EXIST.into());
        }
        if target == Some(id) {
            // Two names of one file: POSIX leaves both.
            return Ok(id);
        }
        let replaced = if from_dir == to_dir {
            self.directory_mut(from_dir).rename(from_name, to_name, id)
        } else {
            let replaced = self.directory_mut(to_dir).set(to_name, id);
            self.directory_mut(from_dir).remove(from_name);
            replaced
        };
        if let Some(replaced) = replaced {
            self.change(replaced, |inode| inode.links -= 1);
        }
        Ok(id)
    }

    pub(in crate::sim) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.lookup(from)?;
        let (dir, name) = self.place_of(to)?;
        if self.find(to).is_some() || self.directories.contains_key(to) {
            return Err(Errno::EXIST.into());
        }
        self.directory_mut(dir).set(name, id);
        self.change(id, |inode| inode.links += 1);
        Ok(())
    }

    pub(in crate::sim) fn unlink(&mut self, path: &Path) -> io::Result<()> {
        let id = self.lookup(path)?;
        let (dir, name) = self.place_of(path)?;
        self.directory_mut(dir).remove(name);
        self.change(id, |inode| inode.links -= 1);
        Ok(())
    }

    pub(super) fn inode(&self, id: InodeId) -> &Inode {
        self.inodes.get(&id).expect("a file with a name or a handle is on the disk")
    }

    /// Changes a file and keeps count of the space.
    pub(super) fn change(&mut self, id: InodeId, change: impl FnOnce(&mut Inode)) {
        let inode = Arc::make_mut(&mut self.inodes)
            .get_mut(&id)
            .expect("a file with a name or a handle is on the disk");
        let before = inode.space_bytes();
        let inode = Arc::make_mut(inode);
        change(inode);
        self.used_bytes = self.used_bytes - before + inode.space_bytes();
    }

    fn directory_mut(&mut self, dir: &Path) -> &mut Directory {
        let directories = Arc::make_mut(&mut self.directories);
        Arc::make_mut(directories.entry(dir.to_path_buf()).or_default())
    }

    fn check_space(&self, more_bytes: u64) -> io::Result<()> {
        if more_bytes > self.free_bytes() { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }

    /// The directory that holds `path`, which exists, and the name in it.
    fn place_of<'a>(&self, path: &'a Path) -> io::Result<(&'a Path, &'a str)> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::ISDIR.into());
        };
        self.check_dir(dir)?;
        Ok((dir, name.to_str().ok_or(Errno::INVAL)?))
    }

    pub(in crate::sim) fn check_exists(&self, path: &Path) -> io::Result<()> {
        if self.find(path).is_some() { Ok(()) } else { self.check_dir(path) }
    }

    pub(in crate::sim) fn check_dir(&self, dir: &Path) -> io::Result<()> {
        if is_root(dir) || self.directories.contains_key(dir) {
            Ok(())
        } else if self.find(dir).is_some() {
            Err(Errno::NOTDIR.into())
        } else {
            Err(Errno::NOENT.into())
        }
    }

    pub(super) fn find(&self, path: &Path) -> Option<InodeId> {
        let directory = self.directories.get(path.parent()?)?;
        directory.written().get(path.file_name()?.to_str()?).copied()
    }

    pub(super) fn lookup(&self, path: &Path) -> io::Result<InodeId> {
        match self.find(path) {
            Some(id) => Ok(id),
            None if is_root(path) || self.directories.contains_key(path) => {
                Err(Errno::ISDIR.into())
            }
            None => Err(Errno::NOENT.into()),
        }
    }

    /// Forgets files that no handle has open and no name, now or after a power cut, refers to.
    fn collect_garbage(&mut self) {
        if !self.inodes.values().any(|inode| inode.is_unreachable()) {
            return;
        }
        let mut named = BTreeSet::new();
        for directory in self.directories.values() {
            directory.collect_inodes(&mut named);
        }
        Arc::make_mut(&mut self.inodes)
            .retain(|id, inode| !inode.is_unreachable() || named.contains(id));
    }
}

/// The numbers of the pages that hold some of the `bytes` at `offset`.
fn pages_of(offset: u64, bytes: u64) -> Range<u64> {
    let page_bytes = PAGE_BYTES as u64;
    offset / page_bytes..(offset + bytes).div_ceil(page_bytes)
}

/// The directory that every disk has, whether paths are absolute or not.
fn is_root(path: &Path) -> bool {
    path.parent().is_none() || path.as_os_str().is_empty()
}
