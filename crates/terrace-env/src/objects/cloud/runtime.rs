use std::io;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};

use super::answer::{Answer, error_of};
use super::service::watched;

/// The threads that talk to the stores.
#[derive(Debug)]
pub(super) struct CloudRuntime {
    /// Always there but in `drop`.
    runtime: Option<Runtime>,
}

/// How many threads the runtime has: they only move bytes.
const THREADS: usize = 2;

impl CloudRuntime {
    pub fn start() -> io::Result<CloudRuntime> {
        // An error says that the program has chosen its provider, which stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("terrace-objects")
            .enable_all()
            .build()?;
        Ok(CloudRuntime { runtime: Some(runtime) })
    }

    /// Begins a request; what is returned blocks until its answer is there.
    pub fn begin<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> impl FnOnce() -> Result<T, Answer> + Send + 'static {
        let (sender, receiver) = mpsc::sync_channel(1);
        let runtime = self.runtime.as_ref().expect("it is there until it is dropped");
        runtime.spawn(async move {
            let (result, answer) = watched(request).await;
            // Nobody waits any more: the answer is not wanted.
            let _ = sender.send(result.map_err(|_| answer));
        });
        // A task that ends without an answer was cut off by the end of the runtime.
        move || receiver.recv().unwrap_or(Err(Answer::Broken))
    }

    /// Makes a request and blocks until its answer is there.
    pub fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        self.begin(request)().map_err(error_of)
    }
}

impl Drop for CloudRuntime {
    fn drop(&mut self) {
        // Waits for nothing: a drop may happen on a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
