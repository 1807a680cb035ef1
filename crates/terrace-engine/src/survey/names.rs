use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use terrace_base::{Epoch, FileId};
use terrace_env::Env;

use crate::Result;
use crate::cache::persistent::CACHE_DIRECTORY;
use crate::placement::entries_of;

/// What a name in a range's directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `CURRENT`.
    Current,
    /// A `CURRENT` that was to be switched to and was not.
    Switch(FileId),
    /// The lock.
    Lock,
    /// A manifest.
    Manifest(FileId),
    /// A log segment.
    Segment(FileId),
    /// A table.
    Table(FileId),
    /// A value file.
    Values(FileId),
    /// The container of L0's rows.
    Container,
    /// Somebody else's.
    Foreign,
}

impl Name {
    /// What this name stands for. A name that does not print back to itself is foreign.
    #[must_use]
    pub fn parse(name: &str) -> Name {
        match name {
            "CURRENT" => return Name::Current,
            "LOCK" => return Name::Lock,
            _ => {}
        }
        let Some((stem, extension)) = name.split_once('.') else { return Name::Foreign };
        if extension == "rows" && (stem == "l0" || stem.starts_with("terrace-")) {
            return Name::Container;
        }
        let Some(id) = FileId::parse(stem) else { return Name::Foreign };
        match extension {
            "CURRENT" => Name::Switch(id),
            "manifest" => Name::Manifest(id),
            "log" => Name::Segment(id),
            "table" => Name::Table(id),
            "values" => Name::Values(id),
            _ => Name::Foreign,
        }
    }
}

/// The files of a range's directory, by kind; with their sizes, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Whether there is a `CURRENT`.
    pub has_current: bool,
    /// Switches of `CURRENT` that were interrupted.
    pub switches: Vec<FileId>,
    /// Manifests.
    pub manifests: Vec<(FileId, u64)>,
    /// Log segments.
    pub segments: Vec<(FileId, u64)>,
    /// Tables.
    pub tables: Vec<(FileId, u64)>,
    /// Value files.
    pub values: Vec<(FileId, u64)>,
    /// How many names are somebody else's.
    pub foreign_count: u64,
    /// The log segments that are not in the directory itself, and in which one each of them is.
    elsewhere: BTreeMap<FileId, PathBuf>,
    /// Directories of the log that are said to be there and are not.
    pub missing_log: Vec<PathBuf>,
}

impl Listing {
    /// Lists `dir`.
    pub fn read(env: &dyn Env, dir: &Path) -> Result<Listing> {
        let mut listing = Listing::default();
        for entry in env.fs().list(dir)? {
            // What it holds is checked whenever it is read, and nobody needs it.
            if entry.is_dir && entry.name == CACHE_DIRECTORY {
                continue;
            }
            let name = if entry.is_dir { Name::Foreign } else { Name::parse(&entry.name) };
            match name {
                Name::Current => listing.has_current = true,
                Name::Switch(id) => listing.switches.push(id),
                Name::Lock | Name::Container => {}
                Name::Manifest(id) => listing.manifests.push((id, entry.bytes)),
                Name::Segment(id) => listing.segments.push((id, entry.bytes)),
                Name::Table(id) => listing.tables.push((id, entry.bytes)),
                Name::Values(id) => listing.values.push((id, entry.bytes)),
                Name::Foreign => listing.foreign_count += 1,
            }
        }
        let Listing { manifests, segments, tables, values, .. } = &mut listing;
        for files in [manifests, segments, tables, values] {
            files.sort_unstable();
        }
        Ok(listing)
    }

    /// Adds the log segments in `dir`, which is said to be a directory of the log beside the
    /// range's own.
    pub(crate) fn add_log_directory(&mut self, env: &dyn Env, dir: &Path) -> Result<()> {
        let Some(entries) = entries_of(env, dir)? else {
            self.missing_log.push(dir.to_path_buf());
            return Ok(());
        };
        for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
            if let Name::Segment(id) = Name::parse(&entry.name)
                && !self.segments.iter().any(|(known, _)| *known == id)
            {
                self.segments.push((id, entry.bytes));
                self.elsewhere.insert(id, dir.to_path_buf());
            }
        }
        self.segments.sort_unstable();
        Ok(())
    }

    /// The path of the segment with this id, if there is one, in the range's directory `dir` unless
    /// it is known to be elsewhere.
    #[must_use]
    pub fn segment_path(&self, dir: &Path, id: FileId) -> PathBuf {
        self.elsewhere.get(&id).map_or(dir, PathBuf::as_path).join(format!("{id}.log"))
    }

    /// The newest epoch of any file that an open makes after its manifest: what stands beside a
    /// manifest of an older epoch shows that there was a newer one.
    #[must_use]
    pub fn newest_epoch_of_data(&self) -> Epoch {
        let files = self.segments.iter().chain(&self.tables).chain(&self.values);
        files.map(|(id, _)| id.epoch).max().unwrap_or_default()
    }

    /// The newest epoch of any file.
    #[must_use]
    pub fn newest_epoch(&self) -> Epoch {
        let of_manifests = self.manifests.iter().map(|(id, _)| id.epoch).max();
        self.newest_epoch_of_data().max(of_manifests.unwrap_or_default())
    }

    /// Whether nothing in the directory belongs to a range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_current
            && self.manifests.is_empty()
            && self.segments.is_empty()
            && self.tables.is_empty()
            && self.values.is_empty()
    }

    /// The size of a table's file, if it is there.
    #[must_use]
    pub fn table_bytes(&self, id: FileId) -> Option<u64> {
        let found = self.tables.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.tables[found].1)
    }

    /// Whether a value file is there.
    #[must_use]
    pub fn has_values(&self, id: FileId) -> bool {
        self.values.binary_search_by_key(&id, |(id, _)| *id).is_ok()
    }

    /// Bytes of manifests, segments, tables and value files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let files = [&self.manifests, &self.segments, &self.tables, &self.values];
        files.into_iter().flatten().map(|(_, bytes)| bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::Epoch;

    #[test]
    fn names_that_do_not_print_back_are_foreign() {
        let id = FileId { epoch: Epoch(3), counter: 41 };
        assert_eq!(Name::parse("000003-00000041.table"), Name::Table(id));
        assert_eq!(Name::parse("000003-00000041.CURRENT"), Name::Switch(id));
        assert_eq!(Name::parse("000003-00000041.values"), Name::Values(id));
        for foreign in ["3-41.table", "000003-00000041.table.bak", "a.log", "", ".log", "current"] {
            assert_eq!(Name::parse(foreign), Name::Foreign, "{foreign}");
        }
    }
}
