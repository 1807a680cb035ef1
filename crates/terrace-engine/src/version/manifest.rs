//! The manifest: the durable log of version edits in the range's directory.

use std::path::{Path, PathBuf};

use terrace_base::{Corruption, Epoch, FileId, PreambleError};
use terrace_env::{Env, Latch, SharedEnv, WriteFile};

use super::format::{
    HEADER_BYTES, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, decode_edit, decode_manifest_header,
    decode_record, encode_manifest_header, encode_record,
};
use super::{VersionEdit, VersionFeed, current};
use crate::{Error, Result};

/// The manifest that counts, open for appending.
#[derive(Debug)]
pub struct Manifest {
    id: FileId,
    path: PathBuf,
    identity: u128,
    state: Latch<State>,
}

#[derive(Debug)]
struct State {
    /// Taken out while it is written to, so that no latch is held across I/O; gone for good after
    /// an append that failed half-way.
    file: Option<Box<dyn WriteFile>>,
    bytes: u64,
}

/// What a directory's current manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedManifest {
    /// Its id.
    pub id: FileId,
    /// Its edits, the snapshot first.
    pub edits: Vec<VersionEdit>,
    /// How many of its bytes hold complete records.
    pub bytes: u64,
    /// Whether a crash tore its last record off.
    pub is_torn: bool,
}

/// The path of the manifest with this id.
fn manifest_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.manifest"))
}

/// The id of a manifest's file, if it is one.
fn manifest_id(name: &str) -> Option<FileId> {
    FileId::parse(name.strip_suffix(".manifest")?)
}

impl Manifest {
    /// Writes a new manifest that begins with `snapshot`, and switches `CURRENT` to it: on return
    /// it is the durable truth. Then deletes the manifests before it.
    pub fn create(env: &SharedEnv, dir: &Path, id: FileId, snapshot: &VersionEdit) -> Result<Self> {
        assert!(snapshot.is_snapshot, "a manifest begins with a whole version");
        let path = manifest_path(dir, id);
        let identity = u128::from(env.random_u64()) << 64 | u128::from(env.random_u64());
        let mut file = env.fs().create(&path, 0)?;
        file.append(&encode_manifest_header(identity, id))?;
        let record = encode_record(identity, HEADER_BYTES as u64, snapshot);
        file.append(&record)?;
        file.sync().map_err(poisoned)?;
        env.fs().sync_dir(dir).map_err(poisoned)?;
        current::switch(env.as_ref(), dir, id)?;
        remove_leftovers(env.as_ref(), dir, id)?;
        let bytes = (HEADER_BYTES + record.len()) as u64;
        let state = Latch::new(State { file: Some(file), bytes });
        Ok(Manifest { id, path, identity, state })
    }

    /// The manifest of a range that is only read: nothing can be appended to it.
    #[must_use]
    pub fn read_only(dir: &Path, loaded: &LoadedManifest) -> Manifest {
        Manifest {
            id: loaded.id,
            path: manifest_path(dir, loaded.id),
            identity: 0,
            state: Latch::new(State { file: None, bytes: loaded.bytes }),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Its size in bytes, all of them durable.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Whether an append failed half-way, so that edits go to a new manifest from now on.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.state.lock().file.is_none()
    }

    /// Reads the current manifest of a directory; none if the directory holds no range yet.
    ///
    /// Errors: `Corruption` if `CURRENT` or a record is damaged, or if `CURRENT` is missing beside
    /// files that only a finished creation leaves; `Unsupported` for a later version's files.
    pub fn load(env: &dyn Env, dir: &Path) -> Result<Option<LoadedManifest>> {
        let Some(id) = current::read(env, dir)? else {
            return refuse_lost_current(env, dir).map(|()| None);
        };
        let path = manifest_path(dir, id);
        let file = match env.fs().open(&path) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => {
                return Err(Corruption::new(path, 0, "the current manifest is missing").into());
            }
            Err(error) => return Err(error.into()),
        };
        let mut bytes = vec![0; file.bytes() as usize];
        let filled = file.read_at(0, &mut bytes)?;
        bytes.truncate(filled);
        decode(&path, id, &bytes).map(Some)
    }

    /// An epoch that no file in the directory has, and that is above `epoch`.
    pub fn next_epoch(env: &dyn Env, dir: &Path, epoch: Epoch) -> Result<Epoch> {
        let entries = env.fs().list(dir)?;
        let ids = entries.iter().filter_map(|entry| {
            let stem = entry.name.split_once('.').map_or(entry.name.as_str(), |(stem, _)| stem);
            FileId::parse(stem)
        });
        let greatest = ids.map(|id| id.epoch).max().unwrap_or_default().max(epoch);
        Ok(Epoch(greatest.0 + 1))
    }
}

/// A failed sync: what the disk holds is in doubt.
fn poisoned(error: terrace_env::EnvError) -> Error {
    Error::Poisoned(error.to_string())
}

/// Takes a manifest's bytes apart.
fn decode(path: &Path, id: FileId, bytes: &[u8]) -> Result<LoadedManifest> {
    let identity = match decode_manifest_header(bytes) {
        Ok((identity, named)) if named == id => identity,
        Ok((_, other)) => {
            let detail = format!("the file says that it is manifest {other}");
            return Err(Corruption::new(path, 32, detail).into());
        }
        Err(PreambleError::Codec(e)) => return Err(Corruption::from_codec(path, 0, &e).into()),
        Err(PreambleError::Unsupported) => {
            return Err(Error::Unsupported(format!(
                "{} was written by a later version of Terrace; open it with that version",
                path.display()
            )));
        }
    };
    let mut edits = Vec::new();
    let mut offset = HEADER_BYTES;
    let mut is_torn = false;
    while offset < bytes.len() {
        let (edit, taken) = match decode_record(&bytes[offset..], identity, offset as u64) {
            Ok(record) => record,
            Err(error) => {
                if edits.is_empty() || a_record_follows(bytes, identity, offset) {
                    return Err(Corruption::from_codec(path, offset as u64, &error).into());
                }
                is_torn = true;
                break;
            }
        };
        let inside = (offset + RECORD_HEADER_BYTES) as u64;
        let edit = decode_edit(edit).map_err(|e| Corruption::from_codec(path, inside, &e))?;
        if edit.is_snapshot != edits.is_empty() {
            let detail = "a snapshot stands first in a manifest, and nowhere else";
            return Err(Corruption::new(path, offset as u64, detail).into());
        }
        edits.push(edit);
        offset += taken;
    }
    if edits.is_empty() {
        return Err(Corruption::new(path, offset as u64, "the manifest holds no version").into());
    }
    Ok(LoadedManifest { id, edits, bytes: offset as u64, is_torn })
}

/// Whether a valid record stands behind a damaged one: each record was synced before the next was
/// written, so the damage is no torn tail.
fn a_record_follows(bytes: &[u8], identity: u128, damaged: usize) -> bool {
    let later = (damaged + RECORD_ALIGNMENT..bytes.len()).step_by(RECORD_ALIGNMENT);
    later.into_iter().any(|at| decode_record(&bytes[at..], identity, at as u64).is_ok())
}

/// A directory without `CURRENT` may hold what an interrupted creation left, and nothing else.
fn refuse_lost_current(env: &dyn Env, dir: &Path) -> Result<()> {
    for entry in env.fs().list(dir)? {
        let is_data = [".table", ".log"].iter().any(|suffix| {
            entry.name.strip_suffix(suffix).and_then(FileId::parse).is_some()
        });
        if is_data {
            let detail = format!(
                "CURRENT is missing, but {} is there: the directory held a range before",
                entry.name
            );
            return Err(Corruption::new(dir.join("CURRENT"), 0, detail).into());
        }
    }
    Ok(())
}

/// Deletes manifests and switch files other than those of `current`.
fn remove_leftovers(env: &dyn Env, dir: &Path, current: FileId) -> Result<()> {
    for entry in env.fs().list(dir)? {
        let old = manifest_id(&entry.name).is_some_and(|id| id != current);
        if old || current::is_leftover(&entry.name) {
            env.fs().remove(&dir.join(&entry.name))?;
        }
    }
    Ok(())
}

impl VersionFeed for Manifest {
    fn append(&self, edit: &VersionEdit) -> Result<()> {
        let (file, offset) = {
            let mut state = self.state.lock();
            (state.file.take(), state.bytes)
        };
        let Some(mut file) = file else {
            return Err(Error::Poisoned(format!("{} is broken", self.path.display())));
        };
        let record = encode_record(self.identity, offset, edit);
        // After a failed append the file may hold half a record: it is not written to again.
        file.append(&record)?;
        file.sync().map_err(poisoned)?;
        let mut state = self.state.lock();
        state.file = Some(file);
        state.bytes = offset + record.len() as u64;
        Ok(())
    }
}
