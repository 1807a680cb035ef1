use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace::Db;

use crate::connection::{Connection, Patience, WaitingThreads};
use crate::loading::Early;
use crate::net::{self, Listener, Socket, Stop, Tasks};
use crate::options::{OptionsError, ServerOptions};
use crate::session::Session;
use crate::shared::Shared;

/// The first and the longest pause after a failed `accept`.
const ACCEPT_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// What is said to who is one too many.
pub(crate) const TOO_MANY_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// How long connections have left once their grace is over.
const LEFTOVER: Duration = Duration::from_secs(1);

/// Why a server did not start, or did not end well.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The options contradict each other or what is safe.
    Options(OptionsError),
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
    /// The directory for operators' commands cannot be made.
    OperatorDir(PathBuf, io::Error),
    /// The operating system gave no threads or signals.
    Runtime(io::Error),
    /// It was told to stop before its database was open.
    Stopped,
    /// The keyspaces of the database cannot be opened.
    Open(terrace::Error),
    /// The database did not close: what it holds is safe only as far as its durability class says.
    Close(terrace::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Options(error) => error.fmt(f),
            ServeError::Listen(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "another process listens on {address} already; stop it, or choose another \
                     port with --listen"
                )
            }
            ServeError::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            ServeError::OperatorDir(dir, error) => {
                write!(f, "the directory {} cannot be made: {error}", dir.display())
            }
            ServeError::Runtime(error) => write!(f, "cannot start the server: {error}"),
            ServeError::Stopped => f.write_str("stopped before the database was open"),
            ServeError::Open(error) => write!(f, "the keyspaces cannot be opened: {error}"),
            ServeError::Close(error) => write!(f, "the database did not close cleanly: {error}"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServeError::Stopped => None,
            ServeError::Options(error) => Some(error),
            ServeError::Listen(_, error)
            | ServeError::OperatorDir(_, error)
            | ServeError::Runtime(error) => Some(error),
            ServeError::Open(error) | ServeError::Close(error) => Some(error),
        }
    }
}

/// Serves `db` until the process gets SIGTERM or SIGINT, then closes it.
///
/// `on_listening` is called with the address once clients can connect. Blocks the calling thread.
///
/// Errors: the server could not start, or the database could not be closed.
pub fn serve(
    db: Db,
    options: ServerOptions,
    on_listening: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    match serve_opening(|| Ok::<Db, Infallible>(db), options, on_listening) {
        Ok(served) => served,
        Err(never) => match never {},
    }
}

/// As [`serve`], with the database that `open` opens: clients that ask for something before are
/// told `LOADING`. `on_listening` is called when it is open.
///
/// Errors: that of `open`; within, those of [`serve`].
pub fn serve_opening<E: Send + 'static>(
    open: impl FnOnce() -> Result<Db, E> + Send + 'static,
    mut options: ServerOptions,
    on_listening: impl FnOnce(SocketAddr),
) -> Result<Result<(), ServeError>, E> {
    if let Err(error) = options.validate() {
        return Ok(Err(ServeError::Options(error)));
    }
    if let Some(files) = net::raise_file_limit() {
        let clients = clients_for(files);
        if clients < options.clients_max {
            tracing::warn!(files, clients, "the limit on open files allows fewer clients");
            options.clients_max = clients;
        }
    }
    // Two threads more than commands may use: for an operation, and for opening and closing the
    // database.
    let threads = options.blocking_threads_max + 2;
    let ran = net::run(threads, LEFTOVER, async {
        let listening = match Server::listen(options).await {
            Ok(listening) => listening,
            Err(error) => return Ok(Err(error)),
        };
        // Before anybody is told: whoever knows the address may send a signal at once.
        let signals = match net::StopSignals::register() {
            Ok(signals) => signals,
            Err(error) => return Ok(Err(ServeError::Runtime(error))),
        };
        let mut stop = pin!(signals.received());
        let server = net::select! {
            opened = listening.open(open) => match opened? {
                Ok(server) => server,
                Err(error) => return Ok(Err(error)),
            },
            () = &mut stop => return Ok(Err(ServeError::Stopped)),
        };
        on_listening(server.local_address());
        Ok(server.run(stop).await)
    });
    ran.unwrap_or_else(|error| Ok(Err(ServeError::Runtime(error))))
}

/// Number of clients that a process lets in, given the files that it may open. The rest is for the
/// database, whose writes must not fail because clients have taken every descriptor.
fn clients_for(files: u64) -> usize {
    let kept = (files / 4).clamp(64, 4096).min(files / 2);
    usize::try_from(files - kept).unwrap_or(usize::MAX).max(1)
}

/// A server that listens, for programs with a tokio runtime of their own; others use [`serve`].
pub struct Server {
    db: Db,
    listener: Listener,
    local_address: SocketAddr,
    shared: Arc<Shared>,
    /// Who has connected already.
    early: Vec<Socket>,
}

/// A server that has an address and no database yet.
pub struct Listening {
    listener: Listener,
    local_address: SocketAddr,
    options: ServerOptions,
}

impl Listening {
    /// The address that clients connect to.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Opens the database, on a thread that may wait. Clients that ask for something meanwhile are
    /// told `LOADING`.
    ///
    /// Errors: that of `open`; within, those of [`Server::bind`].
    pub async fn open<E: Send + 'static>(
        self,
        open: impl FnOnce() -> Result<Db, E> + Send + 'static,
    ) -> Result<Result<Server, ServeError>, E> {
        let (opened_sender, opened) = net::stop_channel();
        let opening = async {
            let db = net::on_waiting_thread(open).await;
            opened_sender.stop();
            db
        };
        let gathering = Early::gather(&self.listener, self.options.clients_max, opened);
        let (db, early) = net::join!(opening, gathering);
        match db.transpose()? {
            Some(db) => Ok(self.over(db, early)),
            None => {
                let panicked = io::Error::other("a panic ended the open of the database");
                Ok(Err(ServeError::Runtime(panicked)))
            }
        }
    }

    fn over(self, db: Db, early: Vec<Socket>) -> Result<Server, ServeError> {
        let Listening { listener, local_address, options } = self;
        let shared = Arc::new(Shared::new(&db, options)?);
        shared.local_port.store(local_address.port(), Ordering::Relaxed);
        Ok(Server { db, listener, local_address, shared, early })
    }
}

impl Server {
    /// Begins to listen. Clients that connect wait until [`Server::run`].
    ///
    /// Errors: the options are refused, or the address.
    pub async fn bind(db: Db, options: ServerOptions) -> Result<Server, ServeError> {
        Server::listen(options).await?.over(db, Vec::new())
    }

    /// Begins to listen, before there is a database. Clients that connect wait until
    /// [`Listening::open`].
    ///
    /// Errors: as of [`Server::bind`].
    pub async fn listen(options: ServerOptions) -> Result<Listening, ServeError> {
        options.validate().map_err(ServeError::Options)?;
        let listen = |error| ServeError::Listen(options.listen, error);
        let listener = Listener::bind(options.listen).await.map_err(listen)?;
        let local_address = listener.local_address().map_err(listen)?;
        Ok(Listening { listener, local_address, options })
    }

    /// The address that clients connect to.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Serves until `stop` ends; then lets running commands finish and clients take their replies
    /// (for the grace time of the options), and closes the database.
    ///
    /// Errors: the database could not be closed.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Server { db, listener, shared, early, .. } = self;
        let (stop_sender, stop_receiver) = net::stop_channel();
        let mut acceptor = Acceptor {
            waiting_threads: WaitingThreads::new(shared.options.blocking_threads_max),
            shared: shared.clone(),
            stop: stop_receiver,
            tasks: Tasks::new(),
        };
        early.into_iter().for_each(|socket| acceptor.start(socket));
        net::select! {
            () = stop => {}
            () = acceptor.accept_all(&listener) => {}
        }
        drop(listener);
        stop_sender.stop();
        acceptor.finish().await;
        tracing::info!("no client is connected any more, closing the database");
        let closed = net::on_waiting_thread(move || db.close()).await;
        closed.unwrap_or(Ok(())).map_err(ServeError::Close)
    }
}

struct Acceptor {
    shared: Arc<Shared>,
    waiting_threads: WaitingThreads,
    stop: Stop,
    tasks: Tasks,
}

impl Acceptor {
    /// Accepts connections for ever. No error ends it: the next connection may work.
    async fn accept_all(&mut self, listener: &Listener) {
        let (first_pause, longest_pause) = ACCEPT_PAUSES;
        let mut pause = first_pause;
        loop {
            let accepted = net::select! {
                accepted = listener.accept() => accepted,
                Some(panicked) = self.tasks.next_end(), if !self.tasks.is_empty() => {
                    self.note_end(panicked);
                    continue;
                }
            };
            match accepted {
                Ok(socket) => {
                    pause = first_pause;
                    self.start(socket);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    net::sleep(pause).await;
                    pause = (pause * 2).min(longest_pause);
                }
            }
        }
    }

    fn start(&mut self, socket: Socket) {
        let counters = &self.shared.counters;
        counters.connections.fetch_add(1, Ordering::Relaxed);
        let clients_max = self.shared.options.clients_max;
        let Some(entry) = self.shared.clients.add(socket.peer, socket.local, clients_max) else {
            counters.rejected.fetch_add(1, Ordering::Relaxed);
            // If even this cannot be sent, there is nobody to tell.
            let _ = socket.try_write(TOO_MANY_CLIENTS);
            return;
        };
        let session = Box::new(Session::new(self.shared.clone(), entry));
        let connection = Connection {
            socket,
            shared: self.shared.clone(),
            waiting_threads: self.waiting_threads.clone(),
            stop: self.stop.clone(),
            patience: Patience::new(),
        };
        self.tasks.spawn(connection.run(session));
    }

    fn note_end(&self, panicked: bool) {
        if panicked {
            self.shared.counters.panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!("a connection ended with a panic; please report it");
        }
    }

    /// Waits for the connections to end, for the grace time and a little more.
    async fn finish(&mut self) {
        let grace = self.shared.options.shutdown_grace;
        net::select! {
            () = self.wait_for_all() => return,
            () = net::sleep(grace) => {}
        }
        self.shared.cancel();
        net::select! {
            () = self.wait_for_all() => return,
            () = net::sleep(LEFTOVER) => {}
        }
        self.tasks.abort_all();
        self.wait_for_all().await;
    }

    async fn wait_for_all(&mut self) {
        while let Some(panicked) = self.tasks.next_end().await {
            self.note_end(panicked);
        }
    }
}
