use std::fmt;

use crate::{ByteReader, CodecError};

/// How many bytes a [`Preamble`] takes.
pub const PREAMBLE_BYTES: usize = 16;

/// What every file says first (or, in a footer, last): which format it has, and which builds may
/// read it.
///
/// ```text
///  0 magic           8
///  8 format version  2   little-endian; which build wrote it
/// 10 oldest reader   2   the least version that may read it
/// 12 features        4   bits that a reader must know to read it
/// ```
///
/// A reader that is too old, or misses a feature, refuses the file as unsupported; it never
/// guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Eight bytes that name the format.
    pub magic: [u8; 8],
    /// The version that this program writes, and the newest that it can read.
    pub version: u16,
}

impl Preamble {
    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut out = [0; PREAMBLE_BYTES];
        out[..8].copy_from_slice(&self.magic);
        out[8..10].copy_from_slice(&self.version.to_le_bytes());
        out[10..12].copy_from_slice(&self.version.to_le_bytes());
        out
    }

    /// Reads a preamble and says whether this program may read on. Call it after the checksum
    /// that covers the preamble has passed.
    pub fn check(&self, reader: &mut ByteReader<'_>) -> Result<(), PreambleError> {
        let magic = reader.take(8)?;
        let _written_by = reader.u16()?;
        let oldest_reader = reader.u16()?;
        let features = reader.u32()?;
        if magic != self.magic {
            return Err(reader.error("not a file of the expected format").into());
        }
        if oldest_reader > self.version || features != 0 {
            return Err(PreambleError::Unsupported);
        }
        Ok(())
    }
}

/// Why a file's first bytes do not let this program read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreambleError {
    /// Damaged, or never written.
    Codec(CodecError),
    /// Intact, but written by a later version.
    Unsupported,
}

impl From<CodecError> for PreambleError {
    fn from(error: CodecError) -> PreambleError {
        PreambleError::Codec(error)
    }
}

impl fmt::Display for PreambleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PreambleError::Codec(error) => error.fmt(f),
            PreambleError::Unsupported => f.write_str("written by a later version of Terrace"),
        }
    }
}

impl std::error::Error for PreambleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_format_is_unsupported_and_another_is_foreign() {
        let ours = Preamble { magic: *b"terrtest", version: 2 };
        assert_eq!(ours.check(&mut ByteReader::new(&ours.encode())), Ok(()));
        let later = Preamble { version: 3, ..ours };
        let refused = ours.check(&mut ByteReader::new(&later.encode()));
        assert_eq!(refused, Err(PreambleError::Unsupported));
        let mut feature = ours.encode();
        feature[15] = 1;
        let refused = ours.check(&mut ByteReader::new(&feature));
        assert_eq!(refused, Err(PreambleError::Unsupported));
        let foreign = Preamble { magic: *b"sqlite 3", ..ours };
        let refused = ours.check(&mut ByteReader::new(&foreign.encode()));
        assert!(matches!(refused, Err(PreambleError::Codec(_))));
    }
}
