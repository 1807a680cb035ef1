use terrace_base::{Corruption, FileId, PreambleError, TableUid};

use super::format::{
    DirectorySegment, FOOTER_BYTES, Footer, HEADER_BYTES, decode_directory, decode_header,
};
use crate::table::{ByteInterval, TableFile};
use crate::{Error, Result};

/// What a value file says of itself at its ends: who it is, and what lies where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file's own identity.
    pub uid: TableUid,
    /// Its id.
    pub id: FileId,
    /// Where everything is.
    pub footer: Footer,
    /// The segments of which it has values, ascending.
    pub segments: Vec<DirectorySegment>,
}

impl Frame {
    /// Reads header, footer and directory. Errors: `Corruption` if one of them is damaged,
    /// `Unsupported` if a later version wrote the file, and what reading gives.
    pub fn read(file: &dyn TableFile) -> Result<Frame> {
        let damage = |offset: u64, what: &str| Corruption::new(file.name(), offset, what);
        let file_bytes = file.bytes();
        let Some(footer_at) = file_bytes
            .checked_sub(FOOTER_BYTES as u64)
            .filter(|footer_at| *footer_at >= HEADER_BYTES as u64)
        else {
            return Err(damage(0, "the value file is shorter than one can be").into());
        };
        let ends = [
            ByteInterval { offset: 0, bytes: HEADER_BYTES },
            ByteInterval { offset: footer_at, bytes: FOOTER_BYTES },
        ];
        let read = file.read(&ends).wait()?;
        let (uid, id) = decode_header(&read[0]).map_err(|error| match error {
            PreambleError::Unsupported => Error::Unsupported(format!(
                "{} was written by a later version",
                file.name().display()
            )),
            PreambleError::Codec(error) => damage(error.offset as u64, error.what).into(),
        })?;
        let footer = read[1].first_chunk().map(|bytes| Footer::decode(bytes, file_bytes));
        let footer = match footer {
            Some(Ok(footer)) if footer.uid == uid => footer,
            Some(Err(error)) => return Err(damage(footer_at, error.what).into()),
            _ => return Err(damage(footer_at, "the footer of another value file").into()),
        };
        let bytes = (footer_at - footer.directory) as usize;
        let directory = ByteInterval { offset: footer.directory, bytes };
        let stored = file.read(&[directory]).wait()?.pop().unwrap_or_default();
        let segments = decode_directory(&stored, uid, footer.directory, footer.is_rewritten)
            .map_err(|error| damage(footer.directory, error.what))?;
        Ok(Frame { uid, id, footer, segments })
    }
}
