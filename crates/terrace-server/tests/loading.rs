//! Goal: clients that come before the database is open are told so, and those that have asked for
//! nothing by then are served. Method: an open that waits for the test.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the server under test runs on a thread of its own"
)]

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use common::{Client, error_text, ok};
use terrace::{Db, Error, Options};
use terrace_server::protocol::Value;
use terrace_server::{ServeError, Server, ServerOptions};
use tokio::sync::oneshot;

/// A server that listens before its database is open.
struct Loading {
    address: SocketAddr,
    /// Hears when the database is open.
    opened: mpsc::Receiver<()>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<Result<(), ServeError>, Error>>,
}

impl Loading {
    /// With the database that `open` comes to.
    fn start(
        options: ServerOptions,
        open: impl FnOnce() -> Result<Db, Error> + Send + 'static,
    ) -> Loading {
        let listen = "127.0.0.1:0".parse().unwrap();
        let options = ServerOptions { listen, ..options };
        let (stop, stopped) = oneshot::channel();
        let (address_sender, address) = mpsc::channel();
        let (opened_sender, opened) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2).enable_all().build().unwrap().block_on(async {
                let listening = Server::listen(options).await.unwrap();
                address_sender.send(listening.local_address()).unwrap();
                let server = match listening.open(open).await? {
                    Ok(server) => server,
                    Err(error) => return Ok(Err(error)),
                };
                opened_sender.send(()).unwrap();
                Ok(server.run(async { stopped.await.unwrap_or(()) }).await)
            })
        });
        Loading { address: address.recv().unwrap(), opened, stop, thread }
    }

    /// With a database that is opened as soon as the returned sender says so.
    fn start_slow(options: ServerOptions, dir: &Path) -> (Loading, mpsc::Sender<()>) {
        let (go_on, waits) = mpsc::channel();
        let dir = dir.to_owned();
        let open = move || {
            waits.recv().unwrap();
            Options::default().open(&dir)
        };
        (Loading::start(options, open), go_on)
    }

    fn end(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap().unwrap().unwrap();
    }
}

#[test]
fn who_asks_too_early_is_told_so_and_who_waits_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let (server, go_on) = Loading::start_slow(ServerOptions::default(), dir.path());
    let mut waiting = Client::connect(server.address);
    for _ in 0..3 {
        let mut early = Client::connect(server.address);
        let told = early.say("PING");
        assert!(error_text(&told).starts_with("LOADING "), "{told:?}");
        assert!(early.is_cut());
    }
    go_on.send(()).unwrap();
    server.opened.recv().unwrap();
    assert_eq!(waiting.say("SET key value"), ok());
    let mut later = Client::connect(server.address);
    assert_eq!(later.say("DEL key"), Value::Integer(1));
    drop((waiting, later));
    server.end();
}

#[test]
fn no_more_clients_wait_than_are_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let options = ServerOptions { clients_max: 2, ..ServerOptions::default() };
    let (server, go_on) = Loading::start_slow(options, dir.path());
    let mut first: Vec<Client> = (0..2).map(|_| Client::connect(server.address)).collect();
    let mut third = Client::connect(server.address);
    let told = third.read();
    assert!(error_text(&told).contains("max number of clients"), "{told:?}");
    assert!(third.is_cut());
    go_on.send(()).unwrap();
    server.opened.recv().unwrap();
    for client in &mut first {
        assert_eq!(client.say("SET key value"), ok());
    }
    drop(first);
    server.end();
}

#[test]
fn an_open_that_fails_ends_the_server() {
    let open = || Options::default().open("/proc/no such place");
    let server = Loading::start(ServerOptions::default(), open);
    let error = server.thread.join().unwrap().unwrap_err();
    assert!(!error.to_string().is_empty());
}
