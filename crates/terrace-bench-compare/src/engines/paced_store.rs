//! An object store of a peer that answers at the pace of an emulated one, and counts.
//!
//! What decides when an answer comes is what Terrace's own emulated store is held to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use slatedb::object_store::local::LocalFileSystem;
use slatedb::object_store::path::Path;
use slatedb::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use terrace::{RequestCount, RequestCounts, RequestKind};
use terrace_bench::clock::Moment;
use terrace_env::{ObjectsPace, ObjectsProfile, RequestWay};

/// The most names that one list has.
const LIST_NAMES_MAX: u64 = 1000;

/// What was asked of a store, by kind.
#[derive(Debug, Default)]
pub struct Requests([(AtomicU64, AtomicU64); RequestKind::ALL.len()]);

impl Requests {
    // Order: each is a figure by itself.
    fn add(&self, kind: RequestKind, requests: u64, bytes: u64) {
        let (all_requests, all_bytes) = &self.0[kind as usize];
        all_requests.fetch_add(requests, Ordering::Relaxed);
        all_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All until now. An answer that an object is not there counts as a request like others.
    pub fn counts(&self) -> RequestCounts {
        let of = |kind: RequestKind| {
            let (requests, bytes) = &self.0[kind as usize];
            let (requests, bytes) =
                (requests.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
            RequestCount { requests, bytes, ..RequestCount::default() }
        };
        RequestCounts {
            put: of(RequestKind::Put),
            upload_part: of(RequestKind::UploadPart),
            get: of(RequestKind::Get),
            head: of(RequestKind::Head),
            delete: of(RequestKind::Delete),
            list: of(RequestKind::List),
        }
    }
}

/// How far away it is.
#[derive(Debug)]
struct Clock {
    pace: ObjectsPace,
    origin: Moment,
    requests: Arc<Requests>,
}

impl Clock {
    fn now(&self) -> Duration {
        Moment::now().since(self.origin)
    }

    /// A request that has done its work at the store below: counts it and waits for the rest of its
    /// time.
    async fn request(&self, kind: RequestKind, bytes: u64) {
        self.requests.add(kind, 1, bytes);
        let way = match kind {
            RequestKind::Get | RequestKind::Head | RequestKind::List => RequestWay::Read,
            _ => RequestWay::Write,
        };
        let paced = self.pace.begin(way, bytes, self.now());
        loop {
            let now = self.now();
            let answered = self.pace.answered_at(&paced, now);
            if answered <= now {
                return;
            }
            // The runtime's own timers round up to a millisecond.
            let slept = tokio::task::spawn_blocking(move || std::thread::sleep(answered - now));
            slept.await.expect("a sleep does not panic");
        }
    }
}

/// A directory as far away as an object store.
#[derive(Debug)]
pub struct PacedStore {
    inner: Arc<LocalFileSystem>,
    clock: Arc<Clock>,
}

impl PacedStore {
    pub fn new(inner: LocalFileSystem, profile: ObjectsProfile) -> PacedStore {
        let requests = Arc::new(Requests::default());
        let clock = Clock { pace: ObjectsPace::new(profile), origin: Moment::now(), requests };
        PacedStore { inner: Arc::new(inner), clock: Arc::new(clock) }
    }

    /// What it is asked.
    pub fn requests(&self) -> Arc<Requests> {
        Arc::clone(&self.clock.requests)
    }

    /// Counts each thousand names as a request; the time of the first one passes before.
    fn paged(
        &self,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (clock, mut count) = (Arc::clone(&self.clock), 0);
        let waited = Arc::clone(&self.clock);
        let first = stream::once(async move { waited.request(RequestKind::List, 0).await });
        let listed = listed.inspect(move |_| {
            count += 1;
            if count > LIST_NAMES_MAX {
                count = 1;
                clock.requests.add(RequestKind::List, 1, 0);
            }
        });
        let nothing = |()| stream::empty::<Result<ObjectMeta>>();
        first.map(nothing).flatten().chain(listed).boxed()
    }
}

#[async_trait]
impl ObjectStore for PacedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let bytes = payload.content_length() as u64;
        let answer = self.inner.put_opts(location, payload, options).await;
        self.clock.request(RequestKind::Put, bytes).await;
        answer
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, options).await?;
        self.clock.request(RequestKind::UploadPart, 0).await;
        Ok(Box::new(PacedUpload { inner, clock: Arc::clone(&self.clock) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = if options.head { RequestKind::Head } else { RequestKind::Get };
        let answer = self.inner.get_opts(location, options).await;
        let found = answer.as_ref().map_or(0, |found| found.range.end - found.range.start);
        let bytes = if kind == RequestKind::Get { found } else { 0 };
        self.clock.request(kind, bytes).await;
        answer
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let clock = Arc::clone(&self.clock);
        let deleted = self.inner.delete_stream(locations);
        let deleted = deleted.then(move |answer| {
            let clock = Arc::clone(&clock);
            async move {
                clock.request(RequestKind::Delete, 0).await;
                answer
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.paged(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.paged(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let answer = self.inner.list_with_delimiter(prefix).await;
        self.clock.request(RequestKind::List, 0).await;
        answer
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let answer = self.inner.copy_opts(from, to, options).await;
        self.clock.request(RequestKind::Put, 0).await;
        answer
    }
}

impl fmt::Display for PacedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.inner, self.clock.pace.profile())
    }
}

/// An object that comes in parts.
#[derive(Debug)]
struct PacedUpload {
    inner: Box<dyn MultipartUpload>,
    clock: Arc<Clock>,
}

#[async_trait]
impl MultipartUpload for PacedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let bytes = data.content_length() as u64;
        let part = self.inner.put_part(data);
        let clock = Arc::clone(&self.clock);
        Box::pin(async move {
            let answer = part.await;
            clock.request(RequestKind::UploadPart, bytes).await;
            answer
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let answer = self.inner.complete().await;
        self.clock.request(RequestKind::UploadPart, 0).await;
        answer
    }

    async fn abort(&mut self) -> Result<()> {
        let answer = self.inner.abort().await;
        self.clock.request(RequestKind::Delete, 0).await;
        answer
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the peer's store waits and counts as Terrace's own does. Method: one of each request,
    //! with latencies far below what a test can miss.

    use futures::TryStreamExt as _;
    use slatedb::object_store::ObjectStoreExt as _;

    use super::*;

    #[test]
    fn requests_are_counted_by_kind() {
        let dir = std::env::temp_dir().join(format!("terrace-paced-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let inner = LocalFileSystem::new_with_prefix(&dir).unwrap();
        let store = PacedStore::new(inner, "read=1us,write=1us".parse().unwrap());
        let requests = store.requests();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (one, large) = (Path::from("one"), Path::from("large"));
            store.put(&one, PutPayload::from(vec![7; 1000])).await.unwrap();
            assert_eq!(store.get_range(&one, 10..30).await.unwrap().len(), 20);
            assert_eq!(store.head(&one).await.unwrap().size, 1000);
            assert!(store.get(&large).await.is_err());
            let mut upload = store.put_multipart(&large).await.unwrap();
            upload.put_part(PutPayload::from(vec![1; 500])).await.unwrap();
            upload.complete().await.unwrap();
            let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
            assert_eq!(listed.len(), 2);
            store.delete(&one).await.unwrap();
        });
        std::fs::remove_dir_all(&dir).unwrap();
        let counts = requests.counts();
        let of = |kind| (counts.of(kind).requests, counts.of(kind).bytes);
        assert_eq!(of(RequestKind::Put), (1, 1000));
        assert_eq!(of(RequestKind::Get), (2, 20));
        assert_eq!(of(RequestKind::Head), (1, 0));
        assert_eq!(of(RequestKind::UploadPart), (3, 500));
        assert_eq!(of(RequestKind::List), (1, 0));
        assert_eq!(of(RequestKind::Delete), (1, 0));
    }
}
