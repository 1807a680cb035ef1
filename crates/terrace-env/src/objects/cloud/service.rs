use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};

use super::answer::Answer;

tokio::task_local! {
    /// What the requests of the task that is running were answered, the last one.
    static LAST: Arc<LastAnswer>;
}

/// The last answer of a task's requests.
#[derive(Debug, Default)]
pub(super) struct LastAnswer(AtomicU32);

/// Above every status.
const NO_CONNECTION: u32 = 1 << 16;
const TIMED_OUT: u32 = 2 << 16;
const BROKEN: u32 = 3 << 16;

impl LastAnswer {
    pub fn get(&self) -> Answer {
        match self.0.load(Ordering::Relaxed) {
            0 => Answer::NotSent,
            NO_CONNECTION => Answer::NoConnection,
            TIMED_OUT => Answer::TimedOut,
            // Lossless: what is no status is above them all.
            status if status < NO_CONNECTION => Answer::Status(status as u16),
            _ => Answer::Broken,
        }
    }

    fn set(&self, answer: u32) {
        self.0.store(answer, Ordering::Relaxed);
    }
}

/// Runs a task's requests; also returns the last answer.
pub(super) async fn watched<T>(task: impl Future<Output = T>) -> (T, Answer) {
    let last = Arc::new(LastAnswer::default());
    let result = LAST.scope(Arc::clone(&last), task).await;
    (result, last.get())
}

/// Makes clients whose answers are watched.
#[derive(Debug)]
pub(super) struct WatchedConnector;

impl HttpConnector for WatchedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(WatchedService { inner }))
    }
}

/// A client that notes how each of its requests ended.
#[derive(Debug)]
struct WatchedService {
    inner: HttpClient,
}

impl WatchedService {
    async fn watch(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let result = self.inner.execute(request).await;
        let answer = match &result {
            Ok(response) => u32::from(response.status().as_u16()),
            Err(error) => match error.kind() {
                HttpErrorKind::Connect => NO_CONNECTION,
                HttpErrorKind::Timeout => TIMED_OUT,
                _ => BROKEN,
            },
        };
        // A request outside of a task of this room has nobody who asks.
        let _ = LAST.try_with(|last| last.set(answer));
        result
    }
}

impl HttpService for WatchedService {
    fn call<'service, 'call>(
        &'service self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'call>>
    where
        'service: 'call,
        Self: 'call,
    {
        Box::pin(self.watch(request))
    }
}
