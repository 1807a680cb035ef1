//! A server on a free loopback port, and a client that blocks.
#![allow(dead_code, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the server under test runs on a thread of its own")]

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use terrace::{Db, Options};
use terrace_server::protocol::{ReplyReader, Value, put_request};
use terrace_server::{ServeError, Server, ServerOptions};
use tokio::sync::oneshot;

/// A running server with a database of its own.
pub struct TestServer {
    pub address: SocketAddr,
    pub db: Db,
    pub dir: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl TestServer {
    pub fn start(options: ServerOptions) -> TestServer {
        TestServer::start_over(options, &Options::default(), &[])
    }

    /// Serves a database in which `keys` lie in a table that nobody has opened yet, each its own
    /// value: the first read of one has to wait for the disk.
    pub fn start_over(options: ServerOptions, store: &Options, keys: &[&[u8]]) -> TestServer {
        let dir = tempfile::tempdir().unwrap();
        let db = store.open(dir.path()).unwrap();
        if !keys.is_empty() {
            keys.iter().for_each(|key| db.put(key, key).unwrap());
            db.admin().flush().unwrap();
        }
        db.close().unwrap();
        drop(db);
        let db = store.open(dir.path()).unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let options = ServerOptions { listen, ..options };
        let (stop, stopped) = oneshot::channel();
        let (address_sender, address) = std::sync::mpsc::channel();
        let served = db.clone();
        let thread = std::thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2).enable_all().build().unwrap().block_on(async {
                let server = Server::bind(served, options).await?;
                address_sender.send(server.local_address()).unwrap();
                server.run(async { stopped.await.unwrap_or(()) }).await
            })
        });
        let address = address.recv().unwrap();
        TestServer { address, db, dir, stop: Some(stop), thread: Some(thread) }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Asks the server to stop and waits until it has.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end().unwrap()
    }

    fn end(&mut self) -> Option<Result<(), ServeError>> {
        self.stop.take()?.send(()).ok();
        Some(self.thread.take()?.join().unwrap())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.end();
    }
}

pub struct Client {
    pub stream: TcpStream,
    pub replies: ReplyReader<BufReader<TcpStream>>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let replies = ReplyReader::new(BufReader::new(stream.try_clone().unwrap()));
        Client { stream, replies }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn read(&mut self) -> Value {
        self.replies.read().unwrap()
    }

    pub fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> Value {
        let arguments: Vec<&[u8]> = arguments.iter().map(AsRef::as_ref).collect();
        let mut request = Vec::new();
        put_request(&mut request, &arguments);
        self.send(&request);
        self.read()
    }

    /// Sends the words of `line`.
    pub fn say(&mut self, line: &str) -> Value {
        self.call(&line.split(' ').collect::<Vec<_>>())
    }

    /// Whether the server has cut the connection.
    pub fn is_cut(&mut self) -> bool {
        self.replies.read().is_err()
    }
}

pub fn ok() -> Value {
    Value::Simple("OK".into())
}

pub fn bulk(bytes: impl AsRef<[u8]>) -> Value {
    Value::Bulk(bytes.as_ref().to_vec())
}

pub fn error_text(value: &Value) -> &str {
    match value {
        Value::Error(text) => text,
        other => panic!("{other:?} is no error"),
    }
}
