use std::fmt;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Location;
use object_store::{
    ClientConfigKey, GetOptions, GetRange, MultipartUpload, ObjectStore as Client, ObjectStoreExt,
    PutMode, PutOptions, PutPayload, RetryConfig,
};
use parking_lot::Mutex;

use super::answer::{Answer, error_of};
use super::runtime::CloudRuntime;
use super::service::WatchedConnector;
use crate::objects::LIST_NAMES_MAX;
use crate::{
    EnvError, EnvResult, ListPage, ListedObject, ObjectName, ObjectStore, ObjectUpload, Operation,
    PendingObject, Put,
};

const CONNECT_TIMEOUT: &str = "5 seconds";
const REQUEST_TIMEOUT: &str = "60 seconds";

/// The stores over HTTP.
#[derive(Debug, Default)]
pub(crate) struct CloudStores {
    runtime: Mutex<Option<Arc<CloudRuntime>>>,
}

/// What one store is to its client.
#[derive(Clone)]
struct Clients {
    objects: Arc<dyn Client>,
    lists: Arc<dyn PaginatedListStore>,
}

impl CloudStores {
    /// Opens a store; makes no request.
    pub fn open(&self, url: &str) -> EnvResult<Arc<dyn ObjectStore>> {
        let root = url.trim_end_matches('/');
        // What is no URL of a store may hold a secret, and is not shown.
        let prefix = prefix_of(root)
            .map_err(|why| EnvError::new(Operation::OpenStore, Path::new(""), why))?;
        let failed = |why: Error| EnvError::new(Operation::OpenStore, Path::new(root), why);
        // Before the client, which asks for the cryptography that is installed with it.
        let runtime = self.runtime().map_err(failed)?;
        let clients = connect(root).map_err(failed)?;
        Ok(Arc::new(CloudStore { runtime, clients, root: root.to_string(), prefix }))
    }

    fn runtime(&self) -> std::io::Result<Arc<CloudRuntime>> {
        let mut runtime = self.runtime.lock();
        if let Some(runtime) = &*runtime {
            return Ok(Arc::clone(runtime));
        }
        let started = Arc::new(CloudRuntime::start()?);
        *runtime = Some(Arc::clone(&started));
        Ok(started)
    }
}

/// What the names of a store's objects begin with in its bucket: nothing, or a path and a slash.
fn prefix_of(root: &str) -> std::io::Result<String> {
    let wrong = || {
        let why = "a store has a URL like s3://BUCKET or s3://BUCKET/PREFIX, of letters, digits, \
                   dots, dashes and underscores (gs:// and az:// likewise)";
        Error::new(ErrorKind::InvalidInput, why)
    };
    let (_, place) = root.split_once("://").ok_or_else(wrong)?;
    // It must hold no user, no password and no query either.
    ObjectName::new(place).ok_or_else(wrong)?;
    Ok(place.split_once('/').map_or(String::new(), |(_, prefix)| format!("{prefix}/")))
}

/// The client of a store, by what the environment says.
fn connect(root: &str) -> std::io::Result<Clients> {
    // Its text may show values of the environment.
    let refused = |_: object_store::Error| {
        let why = "the settings of the store in the environment (AWS_…, GOOGLE_…, AZURE_…) are \
                   incomplete or contradict each other";
        Error::new(ErrorKind::InvalidInput, why)
    };
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    // The three builders have the same methods, and no trait.
    macro_rules! build {
        ($builder:expr, $key:ident) => {{
            let builder = $builder
                .with_url(root)
                .with_retry(retry)
                .with_http_connector(WatchedConnector)
                .with_config($key::Client(ClientConfigKey::ConnectTimeout), CONNECT_TIMEOUT)
                .with_config($key::Client(ClientConfigKey::Timeout), REQUEST_TIMEOUT);
            let client = Arc::new(builder.build().map_err(refused)?);
            Ok(Clients { objects: client.clone(), lists: client })
        }};
    }
    if root.starts_with("s3://") {
        // A request for several objects has one status for all of them, and few stores know it.
        let builder = AmazonS3Builder::from_env()
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_disable_bulk_delete(true);
        build!(builder, AmazonS3ConfigKey)
    } else if root.starts_with("gs://") {
        build!(GoogleCloudStorageBuilder::from_env(), GoogleConfigKey)
    } else {
        build!(MicrosoftAzureBuilder::from_env(), AzureConfigKey)
    }
}

/// One store, or what lies below a prefix in it.
struct CloudStore {
    runtime: Arc<CloudRuntime>,
    clients: Clients,
    /// Its URL.
    root: String,
    /// What names begin with in the bucket.
    prefix: String,
}

impl CloudStore {
    fn location(&self, name: &ObjectName) -> Location {
        Location::from(format!("{}{name}", self.prefix))
    }

    /// An error that names the object by its URL.
    fn error(&self, operation: Operation, name: &str, why: Error) -> EnvError {
        EnvError::new(operation, Path::new(&format!("{}/{name}", self.root)), why)
    }
}

impl ObjectStore for CloudStore {
    fn url(&self) -> &str {
        &self.root
    }

    fn put(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<()> {
        let (client, location) = (Arc::clone(&self.clients.objects), self.location(name));
        let payload = PutPayload::from(bytes.to_vec());
        let put = async move { client.put(&location, payload).await };
        let result = self.runtime.run(put).map(|_| ());
        result.map_err(|why| self.error(Operation::PutObject, name.as_str(), why))
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> EnvResult<Put> {
        let (client, location) = (Arc::clone(&self.clients.objects), self.location(name));
        let payload = PutPayload::from(bytes.to_vec());
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = async move { client.put_opts(&location, payload, options).await };
        match self.runtime.begin(put)() {
            Ok(_) => Ok(Put::Created),
            Err(answer) if is_taken(&self.root, answer) => Ok(Put::Taken),
            Err(answer) => {
                let why = error_of(answer);
                Err(self.error(Operation::PutObjectIfAbsent, name.as_str(), why))
            }
        }
    }

    fn begin_upload(&self, name: &ObjectName) -> EnvResult<Box<dyn ObjectUpload>> {
        let (client, location) = (Arc::clone(&self.clients.objects), self.location(name));
        let begin = async move { client.put_multipart(&location).await };
        let result = self.runtime.run(begin);
        let url = format!("{}/{name}", self.root);
        let upload =
            result.map_err(|why| self.error(Operation::UploadObject, name.as_str(), why))?;
        Ok(Box::new(CloudUpload { runtime: Arc::clone(&self.runtime), upload, url }))
    }

    fn begin_get(&self, name: &ObjectName, interval: Option<Range<u64>>) -> PendingObject {
        let (client, location) = (Arc::clone(&self.clients.objects), self.location(name));
        let url = format!("{}/{name}", self.root);
        let is_empty = interval.as_ref().is_some_and(|interval| interval.start >= interval.end);
        let range = interval.clone().filter(|_| !is_empty).map(GetRange::Bounded);
        // An empty interval cannot be asked for: the size says whether the object holds it.
        let options = GetOptions { range, head: is_empty, ..GetOptions::default() };
        let get = async move {
            let result = client.get_opts(&location, options).await?;
            let (object_bytes, sent) = (result.meta.size, result.range.clone());
            let bytes = if is_empty { Vec::new() } else { Vec::from(result.bytes().await?) };
            Ok((object_bytes, sent, bytes))
        };
        let wait = self.runtime.begin(get);
        PendingObject::new(Box::new(move || {
            let checked = wait().map_err(error_of).and_then(|(object_bytes, sent, bytes)| {
                let wanted = interval.unwrap_or(0..object_bytes);
                if wanted.start > wanted.end || wanted.end > object_bytes {
                    let why =
                        format!("the object of {object_bytes} bytes does not hold {wanted:?}");
                    return Err(Error::new(ErrorKind::InvalidInput, why));
                }
                let is_whole =
                    is_empty || (sent == wanted && bytes.len() as u64 == wanted.end - wanted.start);
                is_whole.then_some(bytes).ok_or_else(|| error_of(Answer::Status(206)))
            });
            checked.map_err(|why| EnvError::new(Operation::GetObject, Path::new(&url), why))
        }))
    }

    fn bytes_of(&self, name: &ObjectName) -> EnvResult<u64> {
        let (client, location) = (Arc::clone(&self.clients.objects), self.location(name));
        let head = async move { client.head(&location).await };
        let result = self.runtime.run(head).map(|found| found.size);
        result.map_err(|why| self.error(Operation::GetObject, name.as_str(), why))
    }

    fn delete(&self, name: &ObjectName) -> EnvResult<()> {
        let (client, location) = (Arc::clone(&self.clients.objects), self.location(name));
        let delete = async move { client.delete(&location).await };
        match self.runtime.run(delete) {
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
            result => result.map_err(|why| self.error(Operation::DeleteObject, name.as_str(), why)),
        }
    }

    fn list(&self, prefix: &str, after: Option<&ObjectName>) -> EnvResult<ListPage> {
        let below = format!("{}{prefix}", self.prefix);
        let mut options = PaginatedListOptions {
            offset: after.map(|name| format!("{}{name}", self.prefix)),
            max_keys: Some(LIST_NAMES_MAX),
            ..PaginatedListOptions::default()
        };
        loop {
            let client = Arc::clone(&self.clients.lists);
            let (below, asked) = (below.clone(), options.clone());
            let list = async move {
                let below = Some(below.as_str()).filter(|below| !below.is_empty());
                client.list_paginated(below, asked).await
            };
            let page = self.runtime.run(list);
            let page = page.map_err(|why| self.error(Operation::ListObjects, prefix, why))?;
            let named = page.result.objects.into_iter().filter_map(|object| {
                let name = object.location.as_ref().strip_prefix(&self.prefix)?;
                // What has another kind of name is nothing of ours.
                Some(ListedObject { name: ObjectName::new(name)?, bytes: object.size })
            });
            let mut objects: Vec<ListedObject> = named.collect();
            objects.sort_by(|one, other| one.name.cmp(&other.name));
            let is_last = page.page_token.is_none();
            if is_last || !objects.is_empty() {
                return Ok(ListPage { objects, is_last });
            }
            options.page_token = page.page_token;
        }
    }
}

/// Whether a conditional put was refused because there is an object of that name. S3 answers 409
/// when another request to the name is under way, which may fail: that one is to be repeated. Azure
/// answers it when the name is taken.
fn is_taken(root: &str, answer: Answer) -> bool {
    match answer {
        Answer::Status(304 | 412) => true,
        Answer::Status(409) => !root.starts_with("s3://"),
        _ => false,
    }
}

impl fmt::Debug for CloudStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudStore({})", self.root)
    }
}

/// An object that comes in parts.
struct CloudUpload {
    runtime: Arc<CloudRuntime>,
    upload: Box<dyn MultipartUpload>,
    url: String,
}

impl CloudUpload {
    fn error(url: &str, why: Error) -> EnvError {
        EnvError::new(Operation::UploadObject, Path::new(url), why)
    }
}

impl ObjectUpload for CloudUpload {
    fn append(&mut self, part: &[u8]) -> EnvResult<()> {
        let part = self.upload.put_part(PutPayload::from(part.to_vec()));
        self.runtime.run(part).map_err(|why| CloudUpload::error(&self.url, why))
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        let CloudUpload { runtime, mut upload, url } = *self;
        let finish = async move { upload.complete().await };
        runtime.run(finish).map(|_| ()).map_err(|why| CloudUpload::error(&url, why))
    }

    fn abort(self: Box<Self>) -> EnvResult<()> {
        let CloudUpload { runtime, mut upload, url } = *self;
        let abort = async move { upload.abort().await };
        runtime.run(abort).map_err(|why| CloudUpload::error(&url, why))
    }
}

impl fmt::Debug for CloudUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudUpload({})", self.url)
    }
}
