//! `CURRENT` and the manifest.

use std::path::{Path, PathBuf};

use terrace_base::{FileId, PreambleError};

use super::log::LogState;
use super::{Check, Severity};
use crate::placement::Role;
use crate::survey::{Gap, Listing, ManifestSurvey};
use crate::version::format::decode_current;
use crate::version::{Version, fold, manifest_path};
use crate::wal::format::ClosingBody;
use crate::{Error, Result, read_file};

/// What a check knows of the manifest.
pub(super) struct ManifestState {
    /// The version, if the manifest is whole (but for a torn tail).
    pub version: Option<Version>,
    /// The manifest that counts.
    id: Option<FileId>,
    path: PathBuf,
    /// Where its good edits end.
    good_end: u64,
    /// What stands behind them.
    tail: Option<Gap>,
}

impl Check<'_> {
    pub(super) fn manifest(&mut self) -> Result<ManifestState> {
        let named = self.current()?;
        for (id, bytes) in self.listing.manifests.clone() {
            if named.is_some_and(|named| named != id) {
                let path = manifest_path(self.dir, id);
                self.find(Severity::Harmless, &path, 0, "is not the manifest that counts");
                self.advance(bytes);
            }
        }
        for id in self.listing.switches.clone() {
            let path = self.path(format!("{id}.CURRENT"));
            self.find(Severity::Harmless, &path, 0, "was to become CURRENT and did not");
        }
        let newest = self.listing.manifests.last().map(|(id, _)| *id);
        let Some(id) = named.or(newest) else {
            return Ok(ManifestState::nothing());
        };
        let path = manifest_path(self.dir, id);
        if !self.listing.manifests.iter().any(|(listed, _)| *listed == id) {
            self.damage(&path, 0, "the manifest that CURRENT names is missing");
            return Ok(ManifestState::nothing());
        }
        let state = self.read_manifest(id, path)?;
        self.judge_epochs(id);
        Ok(state)
    }

    /// The manifest that `CURRENT` names.
    fn current(&mut self) -> Result<Option<FileId>> {
        let path = self.path("CURRENT");
        if !self.listing.has_current {
            let mut knows_of_log = false;
            for (id, _) in &self.listing.manifests {
                let bytes = read_file(self.env.as_ref(), &manifest_path(self.dir, *id))?;
                knows_of_log |= ManifestSurvey::read(&bytes).knows_of_log();
            }
            let Listing { segments, tables, values, .. } = &self.listing;
            let has_data = [segments, tables, values].into_iter().any(|files| !files.is_empty());
            if !has_data && !knows_of_log {
                self.find(Severity::Harmless, &path, 0, "a creation was interrupted");
            } else {
                self.damage(&path, 0, "is missing, but there are tables, log segments, or a manifest that knows of a log");
            }
            return Ok(None);
        }
        let bytes = read_file(self.env.as_ref(), &path)?;
        match decode_current(&bytes) {
            Ok(id) => Ok(Some(id)),
            Err(PreambleError::Codec(error)) => {
                self.damage(&path, error.offset as u64, error.what);
                Ok(None)
            }
            Err(PreambleError::Unsupported) => Err(unsupported(&path)),
        }
    }

    fn read_manifest(&mut self, id: FileId, path: PathBuf) -> Result<ManifestState> {
        let bytes = read_file(self.env.as_ref(), &path)?;
        self.advance(bytes.len() as u64);
        let survey = ManifestSurvey::read(&bytes);
        let mut is_whole = true;
        match &survey.header {
            Ok((_, named)) if *named == id => {}
            Ok((_, other)) => {
                self.damage(&path, 32, format!("the file says that it is manifest {other}"));
                is_whole = false;
            }
            Err(PreambleError::Codec(error)) => {
                self.damage(&path, error.offset as u64, error.what);
                is_whole = false;
            }
            Err(PreambleError::Unsupported) => return Err(unsupported(&path)),
        }
        for hole in survey.holes() {
            self.damage(&path, hole.offset, format!("{}; good edits follow", hole.what));
            is_whole = false;
        }
        for (index, found) in survey.edits.iter().enumerate() {
            match &found.edit {
                Ok(edit) if edit.is_snapshot == (index == 0) => {}
                Ok(_) => {
                    let text = "a snapshot stands first in a manifest, and nowhere else";
                    self.damage(&path, found.offset, text);
                    is_whole = false;
                }
                Err(error) => {
                    self.damage(&path, found.offset, format!("an edit does not decode: {error}"));
                    is_whole = false;
                }
            }
        }
        if survey.edits.is_empty() {
            self.damage(&path, survey.good_end(), "the manifest holds no version");
            is_whole = false;
        }
        self.report.edit_count = survey.edits.len() as u64;
        let version = if is_whole { self.version_of(&survey, &path)? } else { None };
        let tail = survey.tail().cloned();
        Ok(ManifestState { version, id: Some(id), path, good_end: survey.good_end(), tail })
    }

    /// The version that the edits come to.
    fn version_of(&mut self, survey: &ManifestSurvey, path: &Path) -> Result<Option<Version>> {
        let edits = survey.edits.iter().filter_map(|found| found.edit.as_ref().ok());
        let l0 = super::tables::l0(self.env, &self.context);
        let version = match fold(edits, l0.as_ref(), &self.context) {
            Ok(version) => version,
            Err((index, misfit)) => {
                let offset = survey.edits[index].offset;
                self.damage(path, offset, format!("an edit does not fit: {misfit}"));
                return Ok(None);
            }
        };
        self.report.repaired = version.repaired();
        self.context.opener.rows.find(version.media().row_directory.as_deref(), version.database());
        self.find_log(&version, path)?;
        for table in version.tables() {
            let meta = table.meta();
            if meta.least_seqno > meta.greatest_seqno
                || meta.greatest_seqno > version.greatest_seqno()
            {
                let text = format!(
                    "table {} holds the numbers {} to {}, tables hold none above {}",
                    meta.id,
                    meta.least_seqno,
                    meta.greatest_seqno,
                    version.greatest_seqno()
                );
                self.damage(path, 0, text);
            }
        }
        for row in version.l0().rows() {
            let spans = row.tables.windows(2);
            let is_run = spans.into_iter().all(|p| p[0].span().is_before(p[1].span().start()));
            if !is_run {
                self.damage(path, 0, format!("tables of {:?} overlap", row.meta.id));
            }
        }
        Ok(Some(version))
    }

    /// Lists the directories of the log beside the range's own.
    fn find_log(&mut self, version: &Version, manifest: &Path) -> Result<()> {
        for path in version.media().log_directories.iter().map(Path::new) {
            if !Role::Segments.is_of(path, version.database()) {
                let text = format!("names {} as a directory of the log", path.display());
                self.damage(manifest, 0, text);
            } else {
                self.listing.add_log_directory(self.env.as_ref(), path)?;
            }
        }
        for missing in self.listing.missing_log.clone() {
            self.damage(&missing, 0, Role::Segments.missing_text());
        }
        self.total_bytes = self.listing.bytes();
        Ok(())
    }

    /// An open raises the epoch in the manifest before it makes any other file.
    fn judge_epochs(&mut self, id: FileId) {
        let newest = self.listing.newest_epoch_of_data();
        if newest > id.epoch {
            let path = self.path("CURRENT");
            let text = format!(
                "names a manifest of epoch {}, but there are files of epoch {newest}: \
                 it is an old one",
                id.epoch
            );
            self.damage(&path, 32, text);
        }
    }

    /// What the log says of the manifest after a clean close, and what the tail of the manifest is.
    pub(super) fn compare_closing(&mut self, manifest: &ManifestState, log: &LogState) {
        let ManifestState { path, good_end, tail, .. } = manifest;
        let closing = log.closing.filter(|closing| Some(closing.manifest) == manifest.id);
        match closing {
            Some(ClosingBody { manifest_bytes, .. }) if *good_end < manifest_bytes => {
                let text = format!(
                    "no good edit here, but the log was closed with {manifest_bytes} bytes of the \
                     manifest durable"
                );
                self.damage(path, *good_end, text);
            }
            _ => {
                let Some(tail) = tail else { return };
                let text = match closing {
                    Some(closing) if closing.manifest_bytes == *good_end => {
                        "the mark of a clean close is torn or damaged; nothing rests on it"
                    }
                    _ => {
                        "the last edit is torn or damaged: a torn one never counted, and what it \
                         would have replaced is still there"
                    }
                };
                self.find(Severity::Undecidable, path, tail.offset, text);
            }
        }
    }
}

impl ManifestState {
    fn nothing() -> ManifestState {
        ManifestState { version: None, id: None, path: PathBuf::new(), good_end: 0, tail: None }
    }
}

fn unsupported(path: &Path) -> Error {
    Error::Unsupported(format!(
        "{} was written by a later version of Terrace; check it with that version",
        path.display()
    ))
}
