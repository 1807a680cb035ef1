use std::fmt;
use std::path::PathBuf;

use crate::CodecError;

/// Stored bytes that are not what was written: which file, where, and what is wrong.
///
/// Never mapped to "not found", never skipped in silence, never a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// The damaged file.
    pub file: PathBuf,
    /// Offset, in bytes, of the damaged unit (block, record, footer) in that file.
    pub offset: u64,
    /// What is wrong there, with the expected and the found value where there are such.
    pub detail: String,
}

impl Corruption {
    /// Damage at `offset` of `file`.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>, offset: u64, detail: impl Into<String>) -> Corruption {
        Corruption { file: file.into(), offset, detail: detail.into() }
    }

    /// A decoder's complaint about the unit that starts at `unit_offset` of `file`.
    #[must_use]
    pub fn from_codec(
        file: impl Into<PathBuf>,
        unit_offset: u64,
        error: &CodecError,
    ) -> Corruption {
        Corruption::new(file, unit_offset.saturating_add(error.offset as u64), error.what)
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at offset {}: {}", self.file.display(), self.offset, self.detail)
    }
}

impl std::error::Error for Corruption {}
