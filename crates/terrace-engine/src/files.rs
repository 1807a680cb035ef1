//! Reading whole files and their ends.

use std::path::Path;

use terrace_env::{Env, ReadFile};

use crate::Result;

/// Up to `bytes` bytes of a file from `offset` on, fewer at its end.
pub(crate) fn read_up_to(file: &dyn ReadFile, offset: u64, bytes: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    read_up_to_into(&mut buffer, file, offset, bytes)?;
    Ok(buffer)
}

/// As [`read_up_to`], into memory that was used before: fresh memory costs more than the copy.
pub(crate) fn read_up_to_into(
    buffer: &mut Vec<u8>,
    file: &dyn ReadFile,
    offset: u64,
    bytes: usize,
) -> Result<()> {
    let bytes = bytes.min(file.bytes().saturating_sub(offset) as usize);
    match buffer.capacity() {
        // Zeros that the system has are not written.
        0 => *buffer = vec![0; bytes],
        _ => buffer.resize(bytes, 0),
    }
    let mut filled = 0;
    while filled < bytes {
        match file.read_at(offset + filled as u64, &mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    buffer.truncate(filled);
    Ok(())
}

/// All bytes of a file.
pub(crate) fn read_file(env: &dyn Env, path: &Path) -> Result<Vec<u8>> {
    let file = env.fs().open(path)?;
    read_up_to(file.as_ref(), 0, file.bytes() as usize)
}

/// The size of a file, and its first and its last bytes, up to `bytes` of each.
pub(crate) fn read_ends(
    env: &dyn Env,
    path: &Path,
    bytes: usize,
) -> Result<(u64, Vec<u8>, Vec<u8>)> {
    let file = env.fs().open(path)?;
    let first = read_up_to(file.as_ref(), 0, bytes)?;
    let last_at = file.bytes().saturating_sub(bytes as u64);
    let last = read_up_to(file.as_ref(), last_at, bytes)?;
    Ok((file.bytes(), first, last))
}
