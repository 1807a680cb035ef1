//! Calls that wait, on threads that may.

use std::sync::Arc;

use terrace_engine::Error as EngineError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::{Error, ErrorKind, Result};

/// How many calls of one database wait at a time.
const CALLS_MAX: usize = 64;

/// Who of the calls of a database may wait.
#[derive(Clone, Debug)]
pub struct Waiting {
    permits: Arc<Semaphore>,
}

impl Waiting {
    pub fn new() -> Waiting {
        Waiting { permits: Arc::new(Semaphore::new(CALLS_MAX)) }
    }

    /// Runs `work` where it may wait, once there is room. If the future is dropped before there is,
    /// `work` does not run.
    ///
    /// Errors: those of `work`; `Cancelled` if the runtime is shutting down.
    pub async fn run<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let permit = self.permit().await;
        ended(start(permit, work).await)?
    }

    /// Room for one call.
    pub async fn permit(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        permit.expect("nobody closes it")
    }
}

/// Runs `work` on a thread that may wait, which gives the permit back: it runs on even if nobody
/// waits for it any more.
pub fn start<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        work()
    })
}

/// What came of such work. A panic goes on in whoever waited for it.
pub fn ended<T>(joined: std::result::Result<T, tokio::task::JoinError>) -> Result<T> {
    joined.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => EngineError::Cancelled.into(),
    })
}

/// Lets other tasks of the thread go on, if this one has found everything ready for long.
pub async fn turn() {
    tokio::task::coop::consume_budget().await;
}

/// The answer of a call that was tried without waiting; none if it has to wait, and then it has
/// done nothing.
pub fn at_once<T>(tried: Result<T>) -> Option<Result<T>> {
    match tried {
        Err(error) if matches!(error.kind(), ErrorKind::NeedsIo | ErrorKind::WouldBlock) => None,
        answer => Some(answer),
    }
}
