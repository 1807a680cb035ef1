//! R16 accept-loop-exit (RUSTSEC-2024-0376): a process that has no descriptor left cannot accept
//! anybody, and accepts again when it has. Alone in its program, since the limit is the process's.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the test uses up the process's files")]

mod common;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use common::{TestServer, ok};
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use terrace_server::ServerOptions;

/// Takes every descriptor that is left.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn r16_the_listener_outlives_the_lack_of_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).unwrap();
    let server = TestServer::start(ServerOptions::default());
    let mut first = server.connect();
    assert_eq!(first.say("SET a 1"), ok());
    for round in 0..3 {
        // These have their descriptors already, and the server has none for its ends of them.
        let sockets: Vec<_> = (0..20)
            .map(|_| socket(AddressFamily::INET, SocketType::STREAM, None).unwrap())
            .collect();
        let taken = take_all();
        assert!(taken.len() > 50, "{} in round {round}", taken.len());
        let SocketAddr::V4(address) = server.address else { panic!("an address of version 4") };
        for socket in &sockets {
            // The system completes the connection; the server is to accept it.
            connect(socket, &address).unwrap();
        }
        let mut waiting: Vec<TcpStream> = sockets.into_iter().map(TcpStream::from).collect();
        for stream in &mut waiting {
            stream.write_all(b"PING\r\n").unwrap();
        }
        assert_eq!(first.say("SET a 2"), ok(), "who is in is served");
        drop(taken);
        for stream in &mut waiting {
            let mut reply = [0; 7];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"+PONG\r\n", "in round {round}");
        }
    }
    drop(first);
    server.stop().unwrap();
}
