use std::fs;
use std::io;
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::Arc;

use super::image::{DiskImage, Inode};

/// For tests: looking at a disk and damaging it. What these change is durable at once.
impl DiskImage {
    /// Every file with its size, by path.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        for (dir, directory) in self.directories.iter() {
            for (name, &id) in directory.written() {
                files.push((dir.join(name), self.inode(id).written.bytes()));
            }
        }
        files.sort();
        files
    }

    /// The bytes of a file. Errors: not found.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let content = &self.inode(self.lookup(path)?).written;
        let mut bytes = vec![0; usize::try_from(content.bytes()).map_err(io::Error::other)?];
        content.read(0, &mut bytes);
        Ok(bytes)
    }

    /// The part of the disk below a directory, as a volume that is attached to another machine has
    /// it. Nobody has a file of it open.
    #[must_use]
    pub fn below(&self, dir: &Path) -> DiskImage {
        let mut part = self.clone();
        let is_part = |path: &PathBuf| path.starts_with(dir) || dir.starts_with(path);
        std::sync::Arc::make_mut(&mut part.directories).retain(|path, _| is_part(path));
        part.without_handles()
    }

    /// Overwrites bytes of a file, which grows if it ends before them. A file that does not exist
    /// is made, its directories too.
    pub fn write(&mut self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.edit(path, |inode| inode.written.write(offset, bytes))
    }

    /// Sets the size of a file; what is added is zeros. Errors: not found.
    pub fn truncate(&mut self, path: &Path, bytes: u64) -> io::Result<()> {
        self.lookup(path)?;
        self.edit(path, |inode| inode.written.set_bytes(bytes))
    }

    /// Removes a file. Errors: not found.
    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.unlink(path)?;
        self.sync_parent(path)
    }

    /// Copies every file below an existing directory of this machine, so that other tools can look
    /// at it.
    pub fn copy_to(&self, target: &Path) -> io::Result<()> {
        for dir in self.directories.keys() {
            fs::create_dir_all(below(target, dir))?;
        }
        for (path, _) in self.files() {
            fs::write(below(target, &path), self.read(&path)?)?;
        }
        Ok(())
    }

    /// Adds every file below `source`, a directory of this machine, below the directory `at`.
    pub fn copy_from(&mut self, source: &Path, at: &Path) -> io::Result<()> {
        self.create_dir_all(at)?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            let target = at.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.copy_from(&entry.path(), &target)?;
            } else {
                self.write(&target, 0, &fs::read(entry.path())?)?;
            }
        }
        Ok(())
    }

    fn edit(&mut self, path: &Path, edit: impl FnOnce(&mut Inode)) -> io::Result<()> {
        let id = match self.find(path) {
            Some(id) => id,
            None => {
                self.create_dir_all(path.parent().unwrap_or(Path::new("")))?;
                let id = self.create(path, 0)?;
                self.close(id);
                id
            }
        };
        self.change(id, |inode| {
            edit(inode);
            inode.synced.clone_from(&inode.written);
        });
        self.sync_parent(path)
    }

    fn sync_parent(&mut self, path: &Path) -> io::Result<()> {
        self.sync_dir(path.parent().unwrap_or(Path::new("")))
    }

    /// How many bytes two clones of a disk do not share, roughly: for tests of the sharing.
    #[cfg(test)]
    pub(super) fn shares_files_with(&self, other: &DiskImage) -> usize {
        self.inodes
            .iter()
            .filter(|(id, inode)| {
                other.inodes.get(id).is_some_and(|theirs| Arc::ptr_eq(inode, theirs))
            })
            .count()
    }
}

fn below(target: &Path, path: &Path) -> PathBuf {
    target.join(path.strip_prefix("/").unwrap_or(path))
}
