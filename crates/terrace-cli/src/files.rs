//! Files other than the database: what is imported, the password, reports.

#![allow(clippy::disallowed_methods, reason = "imports and exports are files of the user")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_server::Password;

use crate::failure::{Failure, Outcome};
use crate::terminal;

/// The environment variable with the password, for servers and for clients.
const PASSWORD_VARIABLE: &str = "TERRACE_PASSWORD";

fn failed(path: &Path, what: &str, error: &io::Error) -> Failure {
    Failure::Failed(format!("{} cannot be {what}: {error}", path.display()))
}

/// Whether there is a directory.
pub(crate) fn is_directory(path: &Path) -> bool {
    path.is_dir()
}

/// The files in a directory, by name.
pub(crate) fn list(path: &Path) -> Outcome<Vec<PathBuf>> {
    let read = || {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                files.push(entry.path());
            }
        }
        files.sort();
        Ok(files)
    };
    read().map_err(|error| failed(path, "read", &error))
}

/// The text of a file that has at most so many bytes.
///
/// Errors: why it cannot be had, without the file's name.
pub(crate) fn short_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_string(&mut text));
    read.map_err(|error| error.to_string())?;
    match text.len() as u64 > bytes_max {
        true => Err(format!("it has more than {bytes_max} bytes")),
        false => Ok(text),
    }
}

/// Writes a whole file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Outcome {
    std::fs::write(path, bytes).map_err(|error| failed(path, "written", &error))
}

/// The password: out of the file if there is one, else out of the environment.
///
/// Never from the command line, which everybody on the machine can read; nor from a file that
/// everybody can read.
pub(crate) fn password(path: Option<&Path>) -> Outcome<Option<Password>> {
    let Some(path) = path else {
        let Some(text) = terminal::environment(PASSWORD_VARIABLE) else { return Ok(None) };
        let empty = || Failure::failed(format!("{PASSWORD_VARIABLE} is set, but empty"));
        return Password::new(text.as_encoded_bytes()).map(Some).ok_or_else(empty);
    };
    let metadata = std::fs::metadata(path).map_err(|error| failed(path, "read", &error))?;
    if metadata.permissions().mode() & 0o004 != 0 {
        let path = path.display();
        return Err(Failure::Failed(format!(
            "everybody on this machine can read {path}; run `chmod 600 {path}` first"
        )));
    }
    let text = std::fs::read(path).map_err(|error| failed(path, "read", &error))?;
    let empty = || Failure::failed(format!("{} holds no password", path.display()));
    Password::new(&text).map(Some).ok_or_else(empty)
}

/// How many bytes of the files on disk have been read, compressed as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadPosition(Arc<AtomicU64>);

impl ReadPosition {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts what is read through it.
struct Counted<R> {
    inner: R,
    position: ReadPosition,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.position.0.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// A file to import; `-` is standard input.
pub(crate) struct ImportFile {
    path: PathBuf,
}

impl ImportFile {
    /// The files with these paths, and their sizes on disk together; `None` if one is a stream.
    pub(crate) fn all(paths: &[PathBuf]) -> Outcome<(Vec<ImportFile>, Option<u64>)> {
        let files: Vec<_> = paths.iter().map(|path| ImportFile { path: path.clone() }).collect();
        let sizes: Vec<Option<u64>> =
            files.iter().map(ImportFile::bytes).collect::<Outcome<_>>()?;
        Ok((files, sizes.into_iter().sum()))
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> String {
        if self.is_input() { "standard input".to_owned() } else { self.path.display().to_string() }
    }

    fn is_input(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Its size on disk; `None` for a stream.
    fn bytes(&self) -> Outcome<Option<u64>> {
        if self.is_input() {
            return Ok(None);
        }
        let metadata = std::fs::metadata(&self.path);
        let metadata = metadata.map_err(|error| failed(&self.path, "read", &error))?;
        Ok(metadata.is_file().then_some(metadata.len()))
    }

    /// Its contents, decompressed if its name ends in `.gz` or `.lz4`.
    pub(crate) fn open(&self, position: &ReadPosition) -> Outcome<Box<dyn BufRead>> {
        let inner: Box<dyn Read> = if self.is_input() {
            terminal::input()
        } else {
            Box::new(File::open(&self.path).map_err(|error| failed(&self.path, "read", &error))?)
        };
        let counted = Counted { inner, position: position.clone() };
        let buffered = BufReader::with_capacity(64 * 1024, counted);
        Ok(match self.path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(buffered))),
            Some("lz4") => Box::new(lz4_flex::frame::FrameDecoder::new(buffered)),
            _ => Box::new(buffered),
        })
    }
}
