use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::{ObjectStore, ObjectStores};
use crate::{EnvError, EnvResult, Operation};

/// No object store: every open is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObjectStores;

impl ObjectStores for NoObjectStores {
    fn open(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>> {
        let why = Error::new(ErrorKind::Unsupported, "no object store can be reached from here");
        Err(EnvError::new(Operation::OpenStore, Path::new(url), why))
    }
}
