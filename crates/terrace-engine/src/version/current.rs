//! `CURRENT`: the one name that says which manifest counts, replaced in one atomic step.

use std::path::{Path, PathBuf};

use terrace_base::{Corruption, FileId, PreambleError};
use terrace_env::Env;

use super::format::{HEADER_BYTES, decode_current, encode_current};
use crate::{Error, Result};

const NAME: &str = "CURRENT";

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// The manifest that counts; none if there is no `CURRENT`.
pub fn read(env: &dyn Env, dir: &Path) -> Result<Option<FileId>> {
    let path = path(dir);
    let file = match env.fs().open(&path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = [0; HEADER_BYTES];
    let filled = file.read_at(0, &mut bytes)?;
    if filled != HEADER_BYTES || file.bytes() != HEADER_BYTES as u64 {
        let detail = format!("{} bytes instead of {HEADER_BYTES}", file.bytes());
        return Err(Corruption::new(path, 0, detail).into());
    }
    match decode_current(&bytes) {
        Ok(id) => Ok(Some(id)),
        Err(PreambleError::Codec(error)) => Err(Corruption::from_codec(path, 0, &error).into()),
        Err(PreambleError::Unsupported) => Err(Error::Unsupported(format!(
            "{} was written by a later version of Terrace; open it with that version",
            path.display()
        ))),
    }
}

/// Makes `manifest` the one that counts, durably. The manifest itself is durable already.
pub fn switch(env: &dyn Env, dir: &Path, manifest: FileId) -> Result<()> {
    let next = dir.join(format!("{manifest}.{NAME}"));
    let bytes = encode_current(manifest);
    assert!(decode_current(&bytes).is_ok_and(|named| named == manifest), "{manifest} in CURRENT");
    let mut file = env.fs().create(&next, 0)?;
    file.append(&bytes)?;
    file.finish()?;
    env.fs().rename(&next, &path(dir))?;
    Ok(env.fs().sync_dir(dir)?)
}

/// Whether a name belongs to a switch that was interrupted.
pub fn is_leftover(name: &str) -> bool {
    name.strip_suffix(NAME)
        .and_then(|stem| stem.strip_suffix('.'))
        .and_then(FileId::parse)
        .is_some()
}
