//! Files of the persistent cache that are not what was written there.

use std::path::{Path, PathBuf};

use super::round::Round;
use crate::cache::persistent::CACHE_DIRECTORY;

impl Round<'_> {
    /// A file of the owner's cache is lost, cut, rotten, or another one of them.
    pub fn spoil_cache(&mut self) {
        let dir = Path::new(&self.owner().dir).join(CACHE_DIRECTORY);
        let fs = self.env.fs();
        // There is none before something was kept.
        let files = fs.list(&dir).unwrap_or_default();
        if files.is_empty() {
            return;
        }
        let mut draw = || self.random.below(files.len() as u64) as usize;
        let (spoiled, other) = (&files[draw()], &files[draw()]);
        let path = dir.join(&spoiled.name);
        let bytes = spoiled.bytes.max(1);
        let write = |path: &PathBuf, offset: u64, bytes: &[u8]| {
            fs.open_cache(path).and_then(|file| file.write_at(offset, bytes))
        };
        let outcome = match self.random.below(4) {
            0 => fs.remove(&path),
            1 => fs.cut(&path, self.random.below(bytes)),
            2 => {
                let rot = self.random.next_u64().to_le_bytes();
                write(&path, self.random.below(bytes), &rot)
            }
            _ => fs.open(&dir.join(&other.name)).and_then(|file| {
                let mut content = vec![0; other.bytes as usize];
                let count = file.read_at(0, &mut content)?;
                write(&path, 0, &content[..count])
            }),
        };
        match outcome {
            Ok(()) => self.count("spoiled"),
            // A job was faster: its table is gone.
            Err(error) => assert!(error.is_not_found(), "{error}"),
        }
    }
}
