use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

use crate::fs::LOCK_FILE;
use crate::{DirLock, LockKind};

/// Locks a directory by its lock file. The lock belongs to the open file: another open in the same
/// process stays out as another process does, and the kernel gives the lock back when the file is
/// closed, however the process ends.
pub(super) fn lock(dir: &Path, kind: LockKind) -> io::Result<DirLock> {
    let path = dir.join(LOCK_FILE);
    let mut file = open(&path, kind)?;
    let operation = match kind {
        LockKind::Shared => FlockOperation::NonBlockingLockShared,
        LockKind::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    match retry_on_intr(|| flock(&file, operation)) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, describe_holder(&mut file)));
        }
        Err(errno) => return Err(errno.into()),
    }
    if kind == LockKind::Exclusive {
        write_holder(&mut file)?;
    }
    Ok(DirLock::new(Box::new(file)))
}

fn open(path: &Path, kind: LockKind) -> io::Result<File> {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    match opened {
        // A reader of a store that it may not write can share a lock file that is there.
        Err(error) if kind == LockKind::Shared => File::open(path).map_err(|_| error),
        opened => opened,
    }
}

/// For the message of whoever finds the lock taken; nothing rests on it.
fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    write!(file, "{}", std::process::id())
}

fn describe_holder(file: &mut File) -> String {
    let mut holder = String::new();
    match file.take(20).read_to_string(&mut holder) {
        Ok(_) if holder.trim() == std::process::id().to_string() => "held by this process".into(),
        Ok(count) if count > 0 => format!("held, most recently by process {}", holder.trim()),
        _ => "held by another process, or twice by this one".to_string(),
    }
}
