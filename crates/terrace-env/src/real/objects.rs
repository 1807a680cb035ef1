use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::fs::RealFileSystem;
use super::random_u64;
use crate::objects::directory;
use crate::{EnvError, EnvResult, ObjectStore, ObjectStores, Operation};

/// The object stores that a process reaches: directories.
#[derive(Debug, Default)]
pub(super) struct RealObjectStores;

impl ObjectStores for RealObjectStores {
    fn open(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>> {
        if url.starts_with(directory::SCHEME) {
            return directory::open(Arc::new(RealFileSystem), url, random_u64());
        }
        let why = "an object store has a URL that begins with file:///";
        // It may hold anything.
        let nowhere = Path::new("");
        Err(EnvError::new(Operation::OpenStore, nowhere, Error::new(ErrorKind::InvalidInput, why)))
    }
}
