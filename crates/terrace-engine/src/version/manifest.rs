//! The manifest: the durable log of version edits in the range's directory.

use std::path::{Path, PathBuf};

use terrace_base::{Corruption, Epoch, FileId, PreambleError};
use terrace_env::{Env, PlantedBug, ReadFile, SharedEnv, WriteFile, is_planted};

use super::format::{
    HEADER_BYTES, NUMBER_END, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, decode_edit,
    decode_manifest_header, decode_record, encode_manifest_header, encode_record,
};
use super::{
    FeedMark, FeedNews, FeedPosition, FeedStore, LoadedFeed, VersionEdit, VersionFeed, current,
};
use crate::fail_point::fail_point;
use crate::ids::file_id_in;
use crate::survey::ManifestSurvey;
use crate::{Error, Result, read_file, read_up_to};

/// A manifest beyond this size is replaced by a new one that begins with a snapshot.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;

/// The manifests of one directory, of which `CURRENT` names the one that counts.
#[derive(Clone, Debug)]
pub struct LocalManifests {
    /// The outside world.
    pub env: SharedEnv,
    /// The directory, which exists.
    pub dir: PathBuf,
}

/// The manifest that counts, open for appending.
#[derive(Debug)]
pub struct Manifest {
    identity: u128,
    end: FeedPosition,
    /// Gone for good after an append that failed half-way: the file may hold half a record.
    file: Option<Box<dyn WriteFile>>,
}

/// The path of the manifest with this id.
#[must_use]
pub fn manifest_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.manifest"))
}

/// The id of a manifest's file, if it is one.
fn manifest_id(name: &str) -> Option<FileId> {
    FileId::parse(name.strip_suffix(".manifest")?)
}

impl FeedStore for LocalManifests {
    /// Errors also if `CURRENT` is missing beside files that only a finished creation leaves.
    fn load(&self) -> Result<Option<LoadedFeed>> {
        let env = self.env.as_ref();
        let Some(id) = current::read(env, &self.dir)? else {
            return refuse_lost_current(env, &self.dir).map(|()| None);
        };
        let path = manifest_path(&self.dir, id);
        let file = match env.fs().open(&path) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => {
                return Err(is_missing(path));
            }
            Err(error) => return Err(error.into()),
        };
        let mut bytes = vec![0; file.bytes() as usize];
        let filled = file.read_at(0, &mut bytes)?;
        bytes.truncate(filled);
        decode(&path, id, &bytes).map(Some)
    }

    fn news(&self, mark: Option<FeedMark>) -> Result<Option<FeedNews>> {
        let env = self.env.as_ref();
        let mut missing = None;
        loop {
            let Some(id) = current::read(env, &self.dir)? else { return Ok(None) };
            let path = manifest_path(&self.dir, id);
            let file = match env.fs().open(&path) {
                Ok(file) => file,
                // Another one counts by now, and this one was removed.
                Err(error) if error.is_not_found() && missing != Some(id) => {
                    missing = Some(id);
                    continue;
                }
                Err(error) if error.is_not_found() => return Err(is_missing(path)),
                Err(error) => return Err(error.into()),
            };
            return read_news(file.as_ref(), &path, id, mark).map(Some);
        }
    }

    /// Looks at the names of all files, so that not even one that a crash left is taken again.
    fn next_epoch(&self, epoch: Epoch) -> Result<Epoch> {
        let entries = self.env.fs().list(&self.dir)?;
        let ids = entries.iter().filter_map(|entry| file_id_in(&entry.name));
        let greatest = ids.map(|id| id.epoch).max().unwrap_or_default().max(epoch);
        // A name is as little to be believed as a number inside a file. An epoch that no decoder
        // accepts must not get into a manifest: no later open would read that manifest.
        let next = greatest.0.saturating_add(1);
        if next >= NUMBER_END {
            let detail = "a file of the last epoch of all: no range gets so far";
            return Err(Corruption::new(&self.dir, 0, detail).into());
        }
        Ok(Epoch(next))
    }

    /// Also deletes the manifests before it.
    fn begin(&self, id: FileId, snapshot: &VersionEdit) -> Result<Box<dyn VersionFeed>> {
        assert!(snapshot.is_snapshot, "a manifest begins with a whole version");
        let env = self.env.as_ref();
        let identity = env.random_u128();
        let mut file = env.fs().create(&manifest_path(&self.dir, id), 0)?;
        file.append(&encode_manifest_header(identity, id))?;
        let record = encode_record(identity, HEADER_BYTES as u64, snapshot);
        assert!(is_read_back(&record, identity, HEADER_BYTES as u64, snapshot), "{snapshot:?}");
        file.append(&record)?;
        file.sync()?;
        env.fs().sync_dir(&self.dir)?;
        fail_point!(env, "version::before_switch");
        current::switch(env, &self.dir, id)?;
        fail_point!(env, "version::after_switch");
        remove_leftovers(env, &self.dir, id)?;
        let end = FeedPosition { id, bytes: (HEADER_BYTES + record.len()) as u64 };
        Ok(Box::new(Manifest { identity, end, file: Some(file) }))
    }
}

impl VersionFeed for Manifest {
    fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        let Some(mut file) = self.file.take() else {
            return Err(Error::Poisoned(format!("manifest {} is broken", self.end.id)));
        };
        assert!(!edit.is_snapshot, "a snapshot begins a manifest");
        let record = encode_record(self.identity, self.end.bytes, edit);
        assert!(is_read_back(&record, self.identity, self.end.bytes, edit), "{edit:?}");
        file.append(&record)?;
        if !is_planted(PlantedBug::SkipManifestSync) {
            file.sync()?;
        }
        self.file = Some(file);
        self.end.bytes += record.len() as u64;
        Ok(())
    }

    fn end(&self) -> FeedPosition {
        self.end
    }

    fn wants_snapshot(&self) -> bool {
        self.file.is_none() || self.end.bytes > MANIFEST_BYTES_MAX
    }
}

/// Whether a record that is about to be written says what it should: no later open could tell.
fn is_read_back(record: &[u8], identity: u128, offset: u64, edit: &VersionEdit) -> bool {
    let read = decode_record(record, identity, offset);
    read.is_ok_and(|(bytes, taken)| {
        taken == record.len() && decode_edit(bytes).as_ref() == Ok(edit)
    })
}

fn is_missing(path: PathBuf) -> Error {
    Corruption::new(path, 0, "the current manifest is missing").into()
}

/// What a manifest holds behind `mark`, or all of it if the mark is not in it.
fn read_news(
    file: &dyn ReadFile,
    path: &Path,
    id: FileId,
    mark: Option<FeedMark>,
) -> Result<FeedNews> {
    let identity = identity_in(path, id, &read_up_to(file, 0, HEADER_BYTES)?)?;
    let is_in_it = |mark: &FeedMark| {
        mark.end.id == id && mark.identity == identity && mark.end.bytes <= file.bytes()
    };
    let mark = mark.filter(is_in_it);
    let from = mark.map_or(HEADER_BYTES as u64, |mark| mark.end.bytes);
    let bytes = read_up_to(file, from, file.bytes().saturating_sub(from) as usize)?;
    let begins_anew = mark.is_none();
    let Decoded { edits, end, .. } = decode_edits(path, identity, &bytes, from, begins_anew)?;
    let end = FeedPosition { id, bytes: end };
    Ok(FeedNews { begins_anew, edits, mark: FeedMark { end, identity } })
}

/// The identity of the manifest with this id, which begins with these bytes.
fn identity_in(path: &Path, id: FileId, bytes: &[u8]) -> Result<u128> {
    match decode_manifest_header(bytes) {
        Ok((identity, named)) if named == id => Ok(identity),
        Ok((_, other)) => {
            let detail = format!("the file says that it is manifest {other}");
            Err(Corruption::new(path, 32, detail).into())
        }
        Err(PreambleError::Codec(e)) => Err(Corruption::from_codec(path, 0, &e).into()),
        Err(PreambleError::Unsupported) => Err(Error::Unsupported(format!(
            "{} was written by a later version of Terrace; open it with that version",
            path.display()
        ))),
    }
}

/// Takes a manifest's bytes apart.
fn decode(path: &Path, id: FileId, bytes: &[u8]) -> Result<LoadedFeed> {
    let identity = identity_in(path, id, bytes)?;
    let records = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let decoded = decode_edits(path, identity, records, HEADER_BYTES as u64, true)?;
    let Decoded { edits, end, is_torn } = decoded;
    Ok(LoadedFeed { edits, end: FeedPosition { id, bytes: end }, is_torn })
}

/// The edits in a part of a manifest.
struct Decoded {
    edits: Vec<VersionEdit>,
    /// Where in the manifest the last one ends.
    end: u64,
    is_torn: bool,
}

/// Takes the records of a manifest apart that stand from `start` on; `is_whole` if they are all of
/// them.
fn decode_edits(
    path: &Path,
    identity: u128,
    bytes: &[u8],
    start: u64,
    is_whole: bool,
) -> Result<Decoded> {
    let mut edits: Vec<VersionEdit> = Vec::new();
    let mut index = 0;
    let mut is_torn = false;
    while index < bytes.len() {
        let offset = start + index as u64;
        let (edit, taken) = match decode_record(&bytes[index..], identity, offset) {
            Ok(record) => record,
            Err(error) => {
                let is_first = is_whole && edits.is_empty();
                if is_first || a_record_follows(bytes, identity, start, index) {
                    return Err(Corruption::from_codec(path, offset, &error).into());
                }
                is_torn = true;
                break;
            }
        };
        let inside = offset + RECORD_HEADER_BYTES as u64;
        let edit = decode_edit(edit).map_err(|e| Corruption::from_codec(path, inside, &e))?;
        if edit.is_snapshot != (is_whole && edits.is_empty()) {
            let detail = "a snapshot stands first in a manifest, and nowhere else";
            return Err(Corruption::new(path, offset, detail).into());
        }
        edits.push(edit);
        index += taken;
    }
    let end = start + index as u64;
    if is_whole && edits.is_empty() {
        return Err(Corruption::new(path, end, "the manifest holds no version").into());
    }
    Ok(Decoded { edits, end, is_torn })
}

/// Whether a valid record stands behind a damaged one: each record was synced before the next was
/// written, so the damage is no torn tail.
fn a_record_follows(bytes: &[u8], identity: u128, start: u64, damaged: usize) -> bool {
    let later = (damaged + RECORD_ALIGNMENT..bytes.len()).step_by(RECORD_ALIGNMENT);
    later.into_iter().any(|at| decode_record(&bytes[at..], identity, start + at as u64).is_ok())
}

/// A directory without `CURRENT` may hold what an interrupted creation left, and nothing else.
fn refuse_lost_current(env: &dyn Env, dir: &Path) -> Result<()> {
    for entry in env.fs().list(dir)? {
        let is_data = [".table", ".log"]
            .iter()
            .any(|suffix| entry.name.strip_suffix(suffix).and_then(FileId::parse).is_some());
        if is_data {
            let detail = format!(
                "CURRENT is missing, but {} is there: the directory held a range before",
                entry.name
            );
            return Err(Corruption::new(dir.join("CURRENT"), 0, detail).into());
        }
        // All of its data may be in a log elsewhere.
        if let Some(id) = manifest_id(&entry.name) {
            let bytes = read_file(env, &manifest_path(dir, id))?;
            if ManifestSurvey::read(&bytes).knows_of_log() {
                let detail = format!("CURRENT is missing, but {} knows of a log", entry.name);
                return Err(Corruption::new(dir.join("CURRENT"), 0, detail).into());
            }
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
