use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::fs::RealFileSystem;
use super::random_u64;
use crate::objects::directory;
use crate::{EnvError, EnvResult, ObjectStore, ObjectStores, Operation};

/// The object stores that a process reaches: directories, and with the feature `cloud` those over
/// HTTP.
#[derive(Debug, Default)]
pub(super) struct RealObjectStores {
    #[cfg(feature = "cloud")]
    cloud: crate::objects::cloud::CloudStores,
}

impl ObjectStores for RealObjectStores {
    fn open(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>> {
        if url.starts_with(directory::SCHEME) {
            return directory::open(Arc::new(RealFileSystem), url, random_u64());
        }
        if ["s3://", "gs://", "az://"].iter().any(|scheme| url.starts_with(scheme)) {
            return self.open_cloud(url);
        }
        let why = "an object store has a URL that begins with s3://, gs://, az:// or file:///";
        // It may hold anything.
        let nowhere = Path::new("");
        Err(EnvError::new(Operation::OpenStore, nowhere, Error::new(ErrorKind::InvalidInput, why)))
    }
}

impl RealObjectStores {
    #[cfg(feature = "cloud")]
    fn open_cloud(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>> {
        self.cloud.open(url)
    }

    #[cfg(not(feature = "cloud"))]
    fn open_cloud(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>> {
        let why = "this program was built without the feature `cloud`, which reaches S3, Google \
                   Cloud Storage and Azure; build it with that feature, or use a file:/// URL";
        let (scheme, _) = url.split_at(url.find("://").map_or(0, |end| end + 3));
        let why = Error::new(ErrorKind::Unsupported, why);
        Err(EnvError::new(Operation::OpenStore, Path::new(scheme), why))
    }
}
