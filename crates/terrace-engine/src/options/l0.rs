//! What the first persistent level is, as data: each form has the numbers that it needs, and no
//! others.

use std::fmt;
use std::path::{Path, PathBuf};

use super::require;
use crate::Result;

/// What L0 is. A range may be opened with another form than before: rows that lie elsewhere are
/// read there until they are compacted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum L0Options {
    /// Each row of L0 is a table in a file. This is the default.
    Plain {
        /// The medium that has the files, if it is not the one of the range's own directory. The
        /// default is none. With a medium its bytes bound L0, and without one the number of rows
        /// that share a key.
        medium: Option<L0Medium>,
    },
    /// Rows lie in the pages of one container, and small slices are compacted out of them all the
    /// time: writers hardly ever wait for L0. It is made for persistent memory. On an ordinary disk
    /// it is slower than plain tables.
    Container {
        /// The size of the container in bytes, from 64 KiB (in a file: 1 MiB) to 4 TiB. When it is
        /// full, further rows are written as table files. The size cannot change while the
        /// container holds rows. With a larger one the tree below has fewer levels, and less is
        /// written to them; a smaller one takes less of the medium. *Source:* TriangleKV (TPDS
        /// 2022), section 5: a tenth of the data.
        bytes: u64,
        /// The directory on persistent memory (a DAX file system), or on a file system in memory
        /// that stands in for it: that one does not survive a power cut, and neither does what is
        /// in L0. The default is none: the container is a file in the range's own directory, in
        /// larger pages.
        path: Option<PathBuf>,
    },
}

/// A medium for the plain tables of L0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct L0Medium {
    /// Its directory. The range makes one of its own there. If it lies on a file system in memory,
    /// it does not survive a power cut, and neither does what is in L0.
    pub path: PathBuf,
    /// The bytes that the tables of L0 may take there, from 64 KiB to 4 TiB: writers are slowed
    /// down near that, and wait when it is reached.
    pub bytes: u64,
}

impl L0Options {
    /// Plain tables in the range's own directory.
    pub const PLAIN: L0Options = L0Options::Plain { medium: None };

    /// Plain tables in a directory on another medium, which take at most this many bytes.
    #[must_use]
    pub fn on_medium(path: impl Into<PathBuf>, bytes: u64) -> L0Options {
        L0Options::Plain { medium: Some(L0Medium { path: path.into(), bytes }) }
    }

    /// A container of this size on the medium of a directory.
    #[must_use]
    pub fn container(path: impl Into<PathBuf>, bytes: u64) -> L0Options {
        L0Options::Container { bytes, path: Some(path.into()) }
    }

    /// Whether rows lie in a container.
    #[must_use]
    pub fn has_container(&self) -> bool {
        matches!(self, L0Options::Container { .. })
    }

    /// The directory on another medium that it names.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            L0Options::Plain { medium } => medium.as_ref().map(|medium| medium.path.as_path()),
            L0Options::Container { path, .. } => path.as_deref(),
        }
    }

    /// Says what is wrong with it, and what would be right.
    pub(super) fn validate(&self) -> Result<()> {
        match self {
            L0Options::Plain { medium: None } => Ok(()),
            L0Options::Plain { medium: Some(medium) } => medium.validate(),
            L0Options::Container { bytes, path } => {
                require_l0_bytes(*bytes)?;
                require(
                    path.is_some() || *bytes >= 1 << 20,
                    "l0_bytes must be at least 1 MiB for a container in a file",
                )?;
                path.as_deref().map_or(Ok(()), |path| require_text("l0_path", path))
            }
        }
    }
}

impl L0Medium {
    pub(super) fn validate(&self) -> Result<()> {
        require_l0_bytes(self.bytes)?;
        require_text("l0_path", &self.path)
    }
}

fn require_l0_bytes(bytes: u64) -> Result<()> {
    let is_within = (64 << 10..=4 << 40).contains(&bytes);
    require(is_within, format!("l0_bytes must be from 64 KiB to 4 TiB, and is {bytes}"))
}

/// The manifest keeps paths as text.
pub(super) fn require_text(option: &str, path: &Path) -> Result<()> {
    let text = format!("{option} {} is not UTF-8; choose a path that is", path.display());
    require(path.to_str().is_some(), text)
}

impl Default for L0Options {
    fn default() -> L0Options {
        L0Options::PLAIN
    }
}

/// What L0 is, in the word that figures have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L0Kind {
    /// Tables in files.
    Plain,
    /// Rows in the pages of a container.
    Container,
    /// A baseline: the same, but cut as a matrix.
    Matrix,
    /// A baseline: tables in files, below memtables on the medium.
    PmemMemtable,
}

impl L0Kind {
    /// Whether rows lie in a container.
    #[must_use]
    pub fn has_container(self) -> bool {
        matches!(self, L0Kind::Container | L0Kind::Matrix)
    }

    /// The word itself.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            L0Kind::Plain => "plain",
            L0Kind::Container => "container",
            L0Kind::Matrix => "matrix",
            L0Kind::PmemMemtable => "pmem-memtable",
        }
    }
}

impl fmt::Display for L0Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn each_form_is_judged_by_its_own_numbers() {
        let in_a_file = |bytes| L0Options::Container { bytes, path: None };
        for right in [
            L0Options::PLAIN,
            L0Options::on_medium("/pmem", 64 << 10),
            L0Options::container("/pmem", 64 << 10),
            in_a_file(1 << 20),
        ] {
            assert!(right.validate().is_ok(), "{right:?}");
        }
        let not_text = OsStr::from_bytes(b"/\xff");
        for wrong in [
            L0Options::on_medium("/pmem", 1 << 10),
            L0Options::on_medium(not_text, 64 << 10),
            L0Options::container("/pmem", 5 << 40),
            L0Options::container(not_text, 64 << 10),
            in_a_file(64 << 10),
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
