//! The only contact of the server with the operating system: sockets, tasks, threads that may
//! wait, time, signals, directories. Nothing else in this crate names tokio or reads a clock.

#![allow(clippy::disallowed_methods, reason = "this is where the server meets the clock")]

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};
use terrace::WallTime;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use tokio::join;
pub(crate) use tokio::select;
pub(crate) use tokio::sync::Semaphore;
pub(crate) use tokio::task::yield_now;
pub(crate) use tokio::time::{Instant, sleep, sleep_until};

/// After how long without a word a peer is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// The wall clock, in whole milliseconds.
pub(crate) fn wall_now() -> WallTime {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    WallTime(since_epoch.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}

/// This moment, for measuring how long something takes.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The number of this process.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// Makes a directory that only its owner may look into, with what leads to it.
pub(crate) fn make_private_directory(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Whether there is a directory; what cannot be looked at is none.
pub(crate) fn is_directory(dir: &Path) -> bool {
    dir.is_dir()
}

/// Runs `work` on threads made for it, and stops them after it (waiting for those that are busy
/// for `leftover` at most).
pub(crate) fn run<F: Future>(
    blocking_threads: usize,
    leftover: Duration,
    work: F,
) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(blocking_threads)
        .thread_name("terrace-net")
        .build()?;
    let output = runtime.block_on(work);
    runtime.shutdown_timeout(leftover);
    Ok(output)
}

/// Requests that the process stop (SIGTERM or SIGINT), which no longer end it at once.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// From now on such signals are waited for. Within a runtime.
    pub(crate) fn register() -> io::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Ends when one has come.
    pub(crate) async fn received(mut self) {
        select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Lets the process open as many files as it is allowed to. Returns how many those are.
pub fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// A listening socket.
pub(crate) struct Listener(TcpListener);

impl Listener {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Listener> {
        TcpListener::bind(address).await.map(Listener)
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        let (stream, peer) = self.0.accept().await?;
        // Replies are written whole, so there is nothing to wait for.
        stream.set_nodelay(true)?;
        // A peer that is gone without a word must not keep its place for ever.
        set_socket_keepalive(&stream, true)?;
        set_tcp_keepidle(&stream, KEEPALIVE)?;
        let local = stream.local_addr()?;
        Ok(Socket { stream, peer, local })
    }
}

/// A connected socket. Reading and writing never wait.
pub(crate) struct Socket {
    stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// What reading or writing came to.
pub(crate) enum Transfer {
    /// This number of bytes went through; 0 from a read means that the peer sends no more.
    Bytes(usize),
    /// Nothing goes through now.
    NotReady,
}

impl Socket {
    /// Receives into the spare room of `buffer`.
    pub(crate) fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<Transfer> {
        transfer(self.stream.try_read_buf(buffer))
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<Transfer> {
        transfer(self.stream.try_write(bytes))
    }

    /// Waits until it is worth trying to read (if `to_read`) or to write (if `to_write`); returns
    /// whether reading is.
    pub(crate) async fn ready(&self, to_read: bool, to_write: bool) -> io::Result<bool> {
        let interest = match (to_read, to_write) {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (true, false) => Interest::READABLE,
            _ => Interest::WRITABLE,
        };
        let ready = self.stream.ready(interest).await?;
        Ok(to_read && (ready.is_readable() || ready.is_read_closed()))
    }
}

fn transfer(result: io::Result<usize>) -> io::Result<Transfer> {
    match result {
        Ok(bytes) => Ok(Transfer::Bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Transfer::NotReady),
        Err(error) => Err(error),
    }
}

/// Tasks that end together. Their panics end only themselves.
pub(crate) struct Tasks(JoinSet<()>);

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks(JoinSet::new())
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Waits for one to end; `Some(true)` if it panicked, `None` if there are none.
    pub(crate) async fn next_end(&mut self) -> Option<bool> {
        let ended = self.0.join_next().await?;
        Some(ended.is_err_and(|error| error.is_panic()))
    }

    /// Ends all at their next wait.
    pub(crate) fn abort_all(&mut self) {
        self.0.abort_all();
    }
}

/// Runs `work` on a thread that may wait. `None` if it panicked, or the process is stopping.
pub(crate) async fn on_waiting_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Tells that it is time to stop.
pub(crate) struct StopSender(watch::Sender<bool>);

/// Is told that it is time to stop.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

/// A sender and a receiver of the word to stop.
pub(crate) fn stop_channel() -> (StopSender, Stop) {
    let (sender, receiver) = watch::channel(false);
    (StopSender(sender), Stop(receiver))
}

impl StopSender {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    pub(crate) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when it is time to stop.
    pub(crate) async fn wait(&mut self) {
        // A sender that is gone can only mean the same.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// A number of permits that tasks wait for.
pub(crate) fn permits(count: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_one_task_only() {
        let ends = run(1, Duration::ZERO, async {
            let mut tasks = Tasks::new();
            tasks.spawn(async { panic!("planted") });
            let first = tasks.next_end().await;
            tasks.spawn(async {});
            let second = tasks.next_end().await;
            let waiting = on_waiting_thread(|| panic!("planted")).await;
            (first, second, tasks.next_end().await, waiting.map(|()| "no panic"))
        });
        assert_eq!(ends.unwrap(), (Some(true), Some(false), None, None));
    }
}
