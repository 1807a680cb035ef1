use std::fmt;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::list::{Wanted, add_below};
use crate::objects::LIST_NAMES_MAX;
use crate::{
    DirLock, EnvError, EnvResult, FileSystem, ListPage, LockKind, ObjectName, ObjectStore,
    ObjectUpload, Operation, PendingObject, Put, WriteFile,
};

/// How the URL of such a store begins.
pub(crate) const SCHEME: &str = "file://";

/// Where stores write, below the directory.
const WRITERS: &str = ".writers";

/// The directory as a store. `random`: bits that no other open store draws.
pub(crate) fn open(
    fs: Arc<dyn FileSystem>,
    url: &str,
    random: u64,
) -> EnvResult<Arc<dyn ObjectStore>> {
    let failed = |why: Error| EnvError::new(Operation::OpenStore, Path::new(url), why);
    let root = url.trim_end_matches('/');
    let Some(dir) = root.strip_prefix(SCHEME).filter(|dir| dir.starts_with('/')) else {
        let why = "a directory has a URL like file:///DIR, with a path from the root";
        return Err(failed(Error::new(ErrorKind::InvalidInput, why)));
    };
    let dir = PathBuf::from(dir);
    fs.create_dir_all(&dir.join(WRITERS)).map_err(|error| failed(error.source))?;
    let (writer, lock) =
        become_writer(&*fs, &dir.join(WRITERS), random).map_err(|error| failed(error.source))?;
    let place = Arc::new(Place { fs, dir, writer, next: AtomicU64::new(0), _lock: lock });
    Ok(Arc::new(DirectoryStore { place, root: root.to_string() }))
}

/// A directory to write in, and its lock: one that nobody uses any more, or a new one. What was
/// left in those that nobody uses is removed.
fn become_writer(
    fs: &dyn FileSystem,
    writers: &Path,
    random: u64,
) -> EnvResult<(PathBuf, DirLock)> {
    let mut own = None;
    for entry in fs.list(writers)?.into_iter().filter(|entry| entry.is_dir) {
        let writer = writers.join(&entry.name);
        let lock = match fs.lock_dir(&writer, LockKind::Exclusive) {
            Ok(lock) => lock,
            Err(error) if error.is_locked() => continue,
            Err(error) => return Err(error),
        };
        for left in fs.list(&writer)?.into_iter().filter(|left| left.name.ends_with(PART)) {
            fs.remove(&writer.join(&left.name))?;
        }
        own = own.or(Some((writer, lock)));
    }
    if let Some(own) = own {
        return Ok(own);
    }
    let mut attempt = random;
    loop {
        let writer = writers.join(format!("{attempt:016x}"));
        fs.create_dir_all(&writer)?;
        match fs.lock_dir(&writer, LockKind::Exclusive) {
            Ok(lock) => return Ok((writer, lock)),
            // Somebody looked whether it was left behind, or has become its writer.
            Err(error) if error.is_locked() => attempt = attempt.wrapping_add(1),
            Err(error) => return Err(error),
        }
    }
}

/// How the names of files end that are being written.
const PART: &str = ".part";

/// Where an open store reads and writes.
struct Place {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    writer: PathBuf,
    /// The number of the next file.
    next: AtomicU64,
    _lock: DirLock,
}

impl Place {
    fn path(&self, name: &ObjectName) -> PathBuf {
        self.dir.join(name.as_str())
    }

    fn next_part(&self) -> PathBuf {
        self.writer.join(format!("{}{PART}", self.next.fetch_add(1, Ordering::Relaxed)))
    }

    /// Writes a file that has no name yet; synced.
    fn write_part(&self, bytes: &[u8]) -> EnvResult<PathBuf> {
        let part = self.next_part();
        let write = || {
            let mut file = self.fs.create(&part, bytes.len() as u64)?;
            file.append(bytes)?;
            file.finish()
        };
        write().inspect_err(|_| self.give_up(&part))?;
        Ok(part)
    }

    /// Removes a file that is not wanted. One that stays is removed by a later open.
    fn give_up(&self, part: &Path) {
        let _ = self.fs.remove(part);
    }

    /// The directory of an object; made if it is missing.
    fn make_parent(&self, target: &Path) -> EnvResult<PathBuf> {
        let parent = target.parent().unwrap_or(&self.dir).to_path_buf();
        self.fs.create_dir_all(&parent)?;
        Ok(parent)
    }

    /// Gives a synced file the name of an object, in place of what had it.
    fn publish(&self, part: &Path, name: &ObjectName) -> EnvResult<()> {
        let target = self.path(name);
        let rename = || {
            let parent = self.make_parent(&target)?;
            self.fs.rename(part, &target)?;
            Ok(parent)
        };
        let parent = rename().inspect_err(|_: &EnvError| self.give_up(part))?;
        self.fs.sync_dir(&parent).map_err(in_doubt)
    }

    /// Gives a synced file the name of an object, unless there is one.
    fn publish_if_absent(&self, part: &Path, name: &ObjectName) -> EnvResult<Put> {
        let target = self.path(name);
        let link = || {
            let parent = self.make_parent(&target)?;
            let put = match self.fs.link(part, &target) {
                Ok(()) => Put::Created,
                Err(error) if error.source.kind() == ErrorKind::AlreadyExists => Put::Taken,
                Err(error) => return Err(error),
            };
            Ok((parent, put))
        };
        let linked = link();
        self.give_up(part);
        let (parent, put) = linked?;
        // Whoever has taken the name may not have synced it yet.
        self.fs.sync_dir(&parent).map_err(in_doubt)?;
        Ok(put)
    }

    fn get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> EnvResult<Vec<u8>> {
        let path = self.path(name);
        let file = self.fs.open(&path)?;
        let interval = interval.unwrap_or(0..file.bytes());
        let failed = |why: Error| EnvError::new(Operation::GetObject, &path, why);
        let is_held = interval.start <= interval.end && interval.end <= file.bytes();
        let count = usize::try_from(interval.end.saturating_sub(interval.start));
        let (true, Ok(count)) = (is_held, count) else {
            let why = format!("the object of {} bytes does not hold {interval:?}", file.bytes());
            return Err(failed(Error::new(ErrorKind::InvalidInput, why)));
        };
        let mut bytes = vec![0; count];
        let read = file.read_at(interval.start, &mut bytes)?;
        if read < count {
            let why = Error::new(ErrorKind::UnexpectedEof, "the file is shorter than it was");
            return Err(failed(why));
        }
        Ok(bytes)
    }
}

/// The error of a step that failed when the object had its name already.
fn in_doubt(error: EnvError) -> EnvError {
    let why = format!("the object is there and may go in a crash: {}", error.source);
    EnvError { source: Error::new(ErrorKind::ConnectionAborted, why), ..error }
}

/// Whether there is no object: no file, or a directory, or a file where a directory should be.
fn is_missing(error: &EnvError) -> bool {
    use ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.source.kind(), NotFound | IsADirectory | NotADirectory)
}

/// An open directory.
struct DirectoryStore {
    place: Arc<Place>,
    root: String,
}

/// Names the object and what was asked, in place of the file and the step.
fn blame(operation: Operation, root: &str, name: &str) -> impl Fn(EnvError) -> EnvError + use<> {
    let url = format!("{root}/{name}");
    move |error| {
        let is_get = operation == Operation::GetObject;
        let source = match error {
            error if is_get && is_missing(&error) => {
                Error::new(ErrorKind::NotFound, "there is no such object")
            }
            error => error.source,
        };
        EnvError::new(operation, Path::new(&url), source)
    }
}

impl ObjectStore for DirectoryStore {
    fn url(&self) -> &str {
        &self.root
    }

    fn put(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<()> {
        let put = self.place.write_part(bytes).and_then(|part| self.place.publish(&part, name));
        put.map_err(blame(Operation::PutObject, &self.root, name.as_str()))
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<Put> {
        let part = self.place.write_part(bytes);
        part.and_then(|part| self.place.publish_if_absent(&part, name)).map_err(blame(
            Operation::PutObjectIfAbsent,
            &self.root,
            name.as_str(),
        ))
    }

    fn begin_upload(&self, name: &ObjectName) -> EnvResult<Box<dyn ObjectUpload>> {
        let part = self.place.next_part();
        let file = self.place.fs.create(&part, 0);
        let file = file.map_err(blame(Operation::UploadObject, &self.root, name.as_str()))?;
        let (place, name, root) = (Arc::clone(&self.place), name.clone(), self.root.clone());
        Ok(Box::new(DirectoryUpload { place, file, part, name, root }))
    }

    fn begin_get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> PendingObject {
        let (place, name, root) = (Arc::clone(&self.place), name.clone(), self.root.clone());
        PendingObject::new(Box::new(move || {
            let got = place.get(&name, interval);
            got.map_err(blame(Operation::GetObject, &root, name.as_str()))
        }))
    }

    fn bytes_of(&self, name: &ObjectName) -> EnvResult<u64> {
        let file = self.place.fs.open(&self.place.path(name));
        let file = file.map_err(blame(Operation::GetObject, &self.root, name.as_str()))?;
        Ok(file.bytes())
    }

    fn delete(&self, name: &ObjectName) -> EnvResult<()> {
        let path = self.place.path(name);
        let delete = || match self.place.fs.remove(&path) {
            Ok(()) => {
                let parent = path.parent().unwrap_or(&self.place.dir);
                self.place.fs.sync_dir(parent).map_err(in_doubt)
            }
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error),
        };
        delete().map_err(blame(Operation::DeleteObject, &self.root, name.as_str()))
    }

    fn list(&self, prefix: &str, after: Option<&ObjectName>) -> EnvResult<ListPage> {
        let mut listed = Vec::new();
        let wanted = Wanted { prefix, after };
        add_below(&*self.place.fs, &self.place.dir, "", &wanted, &mut listed).map_err(blame(
            Operation::ListObjects,
            &self.root,
            prefix,
        ))?;
        // A full one may be followed by others.
        let is_last = listed.len() < LIST_NAMES_MAX;
        Ok(ListPage { objects: listed, is_last })
    }
}

impl fmt::Debug for DirectoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectoryStore({})", self.root)
    }
}

/// An object that comes in parts: a file that has no name yet.
struct DirectoryUpload {
    place: Arc<Place>,
    file: Box<dyn WriteFile>,
    part: PathBuf,
    name: ObjectName,
    root: String,
}

impl DirectoryUpload {
    fn blame(&self) -> impl Fn(EnvError) -> EnvError + use<> {
        blame(Operation::UploadObject, &self.root, self.name.as_str())
    }
}

impl ObjectUpload for DirectoryUpload {
    fn append(&mut self, part: &[u8]) -> EnvResult<()> {
        let blame = self.blame();
        self.file.append(part).map_err(blame)
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        let blame = self.blame();
        let DirectoryUpload { place, file, part, name, .. } = *self;
        let finish = || {
            file.finish().inspect_err(|_| place.give_up(&part))?;
            place.publish(&part, &name)
        };
        finish().map_err(blame)
    }

    fn abort(self: Box<Self>) -> EnvResult<()> {
        let blame = self.blame();
        let DirectoryUpload { place, file, part, .. } = *self;
        drop(file);
        place.fs.remove(&part).map_err(blame)
    }
}

impl fmt::Debug for DirectoryUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirectoryUpload({}/{})", self.root, self.name)
    }
}
