//! Ranges whose lower levels lie in an object store.

mod archive;
mod asking;
mod collect;
mod database;
mod durable;
mod far_tables;
mod feed;
mod local_space;
mod lost;
mod mirror;
mod money;
mod near;
mod neighbours;
mod opening;
mod take_over;
mod tries;
mod volume;
mod worlds;

use super::*;
use crate::options::CloudOptions;

/// Small options, with all levels from `first_level` on in a directory that is an object store.
pub fn in_store(options: Options, first_level: u8) -> Options {
    let cloud = CloudOptions {
        first_level: Some(first_level),
        ..CloudOptions::new("file:///store", CloudOptions::LOCAL_BYTES_MIN)
    };
    Options { cloud: Some(cloud), ..options }
}

/// Writes the same keys in each round.
pub fn fill(store: &Store, rounds: std::ops::Range<u32>) -> Result<()> {
    for round in rounds {
        for key in 0..400 {
            put(store, &format!("{:04}", key * 7 % 400), &value(round))?;
        }
    }
    Ok(())
}

/// Of all keys, after a round.
pub fn value(round: u32) -> String {
    format!("{round:02}").repeat(60)
}

/// A copy of the range's directory, without its lock.
pub fn copy(env: &SharedEnv, from: &str, to: &str) -> Result<()> {
    let fs = env.fs();
    fs.create_dir_all(Path::new(to))?;
    for entry in fs.list(Path::new(from))? {
        if entry.name == "LOCK" {
            continue;
        }
        if entry.is_dir {
            copy(env, &format!("{from}/{}", entry.name), &format!("{to}/{}", entry.name))?;
            continue;
        }
        let file = fs.open(&Path::new(from).join(&entry.name))?;
        let mut bytes = vec![0; file.bytes() as usize];
        let filled = file.read_at(0, &mut bytes)?;
        bytes.truncate(filled);
        let mut copied = fs.create(&Path::new(to).join(&entry.name), 0)?;
        copied.append(&bytes)?;
        copied.sync()?;
    }
    fs.sync_dir(Path::new(to))?;
    Ok(())
}

/// Small options, with all levels from 2 on in the store.
pub fn open_at(env: &SharedEnv, dir: &str) -> Result<Store> {
    Store::open(&process(env)?, Path::new(dir), in_store(small(), 2))
}
