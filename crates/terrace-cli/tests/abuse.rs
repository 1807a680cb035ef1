//! Goal: a server that is abused goes on serving, holds no more memory than it was given, and
//! keeps no descriptor. Method: the real binary with small bounds; what it holds is read from the
//! kernel's books. Nobody looks at the clock but to give up.
//!
//! The bound on memory (S1, S2): 1.15 × (cache + memtables + clients' bytes + 64 KiB for each
//! connection) + 256 MiB. `TERRACE_ABUSE_SEED` chooses other garbage.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    reason = "the test runs the program, and looks at what it leaves"
)]

mod common;

use std::fs::DirEntry;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Random, Server, terrace};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use terrace_server::protocol::{ReplyReader, Value, put_request};

const MIB: u64 = 1 << 20;
const CACHE_BYTES: u64 = 16 * MIB;
const MEMTABLE_BYTES: u64 = 8 * MIB;
const CLIENT_BYTES: u64 = 256 * MIB;
/// Of each connection, without asking.
const CONNECTION_BYTES: u64 = 64 << 10;

/// The number in a line of `/proc/PID/status`, such as `VmHWM:   1234 kB`.
fn status(server: &Server, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// The most memory that the server ever held, in bytes, pages of mapped files included.
fn resident_max(server: &Server) -> u64 {
    status(server, "VmHWM") * 1024
}

/// Descriptors that are not those of files in the database's directory: the log has more files
/// after writes than before, and a memtable that is not full keeps them. A file that was removed
/// counts.
fn descriptors(server: &Server, data: &Path) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap();
    let target = |entry: std::io::Result<DirEntry>| std::fs::read_link(entry.unwrap().path());
    let is_the_databases = |target: &Path| {
        target.starts_with(data) && !target.to_string_lossy().ends_with(" (deleted)")
    };
    open.map(target).filter(|target| !target.as_deref().is_ok_and(is_the_databases)).count()
}

struct Abused {
    server: Server,
    dir: tempfile::TempDir,
    /// Of the idle server.
    resident_before: u64,
    descriptors_before: usize,
}

impl Abused {
    fn start(options: &[&str]) -> Abused {
        Abused::start_as(&mut terrace(), options)
    }

    fn start_as(command: &mut Command, options: &[&str]) -> Abused {
        let dir = tempfile::tempdir().unwrap();
        let bounds = [
            ("--cache-bytes", CACHE_BYTES),
            ("--memtable-bytes", MEMTABLE_BYTES),
            ("--client-bytes", CLIENT_BYTES),
        ];
        let bounds = bounds.map(|(name, bytes)| [name.to_owned(), bytes.to_string()]);
        let mut all: Vec<&str> = bounds.iter().flatten().map(String::as_str).collect();
        all.extend(options);
        let server = Server::start_with(dir.path(), command, &all);
        // The first client makes the server take what it takes once.
        let mut first = Client::connect(&server.address);
        assert_eq!(first.say("SET first 1"), ok());
        drop(first);
        let resident_before = resident_max(&server);
        let abused = Abused { server, dir, resident_before, descriptors_before: 0 };
        abused.wait_for_clients(1);
        let descriptors_before = descriptors(&abused.server, abused.dir.path());
        Abused { descriptors_before, ..abused }
    }

    fn connect(&self) -> Client {
        Client::connect(&self.server.address)
    }

    /// Waits until there are `count` clients, the one that asks among them.
    fn wait_for_clients(&self, count: u64) {
        let mut client = self.connect();
        wait_until("the clients are gone", || client.info("connected_clients") == count);
    }

    /// Memory stayed within its bound, and a client that means well is served.
    fn check(&self, connections: u64) {
        self.check_with(connections, 0);
    }

    /// As [`Abused::check`], with more bytes that the server is meant to hold.
    fn check_with(&self, connections: u64, more_bytes: u64) {
        let mut client = self.connect();
        assert_eq!(client.say("SET healthy yes"), ok());
        assert_eq!(client.say("GET healthy"), Value::Bulk(b"yes".to_vec()));
        assert_eq!(client.info("connections_lost_to_panics"), 0);
        let given = CACHE_BYTES
            // One memtable takes entries while another one is flushed.
            + 4 * MEMTABLE_BYTES
            + CLIENT_BYTES
            + connections * CONNECTION_BYTES
            + more_bytes;
        let bound = given * 115 / 100 + 256 * MIB;
        let resident = resident_max(&self.server);
        println!("{} MiB at most, bound {} MiB", resident / MIB, bound / MIB);
        assert!(resident <= bound, "{resident} bytes, the bound is {bound}");
    }

    /// Nothing is left of the clients, and the server ends well.
    fn end(self) {
        self.wait_for_clients(1);
        wait_until("descriptors are given back", || {
            // The one that asked last may not be gone yet.
            descriptors(&self.server, self.dir.path()) <= self.descriptors_before + 1
        });
        assert_eq!(self.server.stop(), 0);
    }
}

struct Client {
    stream: TcpStream,
    replies: ReplyReader<BufReader<TcpStream>>,
}

impl Client {
    fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let replies = ReplyReader::new(BufReader::new(stream.try_clone().unwrap()));
        Client { stream, replies }
    }

    fn call(&mut self, arguments: &[&[u8]]) -> Value {
        let mut request = Vec::new();
        put_request(&mut request, arguments);
        self.stream.write_all(&request).unwrap();
        self.replies.read().unwrap()
    }

    fn say(&mut self, line: &str) -> Value {
        self.call(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn info(&mut self, field: &str) -> u64 {
        let Value::Bulk(text) = self.say("INFO") else { panic!("INFO is a bulk") };
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
        line.unwrap_or_else(|| panic!("no {field}")).parse().unwrap()
    }
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets this process open all the files that it may.
fn raise_file_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

fn connect_raw(abused: &Abused, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(&abused.server.address).unwrap();
    // The server may have cut the connection before it has taken everything.
    let _ = stream.write_all(bytes);
    stream
}

/// S1, CVE-2021-32675: what 2,000 connections declare and do not send reserves no memory.
#[test]
fn declared_sizes_on_many_connections_reserve_nothing() {
    raise_file_limit();
    let abused = Abused::start(&[]);
    let declarations: [&[u8]; 8] = [
        b"*2147483648\r\n",
        b"*2147483647\r\n$1\r\n",
        b"*1048576\r\n",
        b"*1048576\r\n$67108864\r\nx",
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$67108864\r\n",
        b"*2\r\n$3\r\nGET\r\n$2147483648\r\n",
        b"*3\r\n$3\r\nSET\r\n$65536\r\naaaa",
        b"*9223372036854775807\r\n",
    ];
    const CONNECTIONS: u64 = 2000;
    let attackers: Vec<TcpStream> = (0..CONNECTIONS as usize)
        .map(|index| connect_raw(&abused, declarations[index % declarations.len()]))
        .collect();
    let mut client = abused.connect();
    // Half of the declarations are over the bounds, and cut.
    wait_until("all are connected or cut", || {
        client.info("total_connections_received") >= CONNECTIONS
            && client.info("connected_clients") <= CONNECTIONS / 2 + 1
    });
    assert_eq!(client.info("mem_clients_normal"), 0, "beyond 64 KiB of each");
    let grown = resident_max(&abused.server) - abused.resident_before;
    println!("{} KiB for each connection", grown / 1024 / CONNECTIONS);
    assert!(grown <= CONNECTIONS * CONNECTION_BYTES, "{grown} bytes for {CONNECTIONS} connections");
    abused.check(CONNECTIONS);
    drop(client);
    drop(attackers);
    abused.end();
}

/// S2, CVE-2025-21605: replies that nobody reads.
#[test]
fn clients_that_do_not_read_hold_no_more_than_all_may() {
    let abused = Abused::start(&["--stall-timeout", "2"]);
    let mut client = abused.connect();
    let value = vec![b'v'; MIB as usize];
    assert_eq!(client.call(&[b"SET", b"big", &value]), ok());
    // 200 GiB of replies; some in one piece, some in many.
    let gets = b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n".repeat(500);
    let mget = [&b"*1001\r\n$4\r\nMGET\r\n"[..], &b"$3\r\nbig\r\n".repeat(1000)].concat();
    let stalled: Vec<TcpStream> = (0..300)
        .map(|index| connect_raw(&abused, if index % 2 == 0 { &gets } else { &mget }))
        .collect();
    // Those for whose replies there is room get them and are cut; the others get errors, and have
    // their replies in the socket.
    wait_until("some are cut", || client.info("connections_cut_for_limits") >= 50);
    assert_eq!(client.say("SET small 1"), ok());
    wait_until("their memory is back", || client.info("mem_clients_normal") == 0);
    abused.check(300);
    drop((client, stalled));
    abused.end();
}

/// Values of 64 MiB, from more clients than there is memory for: those that get an `OK` find their
/// value, the others get an error, and nobody takes the memory of all.
#[test]
fn the_largest_values_from_many_clients_stay_within_what_all_may_hold() {
    let abused = Abused::start(&[]);
    let value = vec![b'v'; 64 * MIB as usize];
    let mut request = Vec::new();
    put_request(&mut request, &[b"SET", b"big", &value]);
    let request = &request;
    let abused_ref = &abused;
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = abused_ref.connect();
                    if client.stream.write_all(request).is_err() {
                        return false;
                    }
                    matches!(client.replies.read(), Ok(reply) if reply == ok())
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    println!("{} of 8 writes had room", written.iter().filter(|done| **done).count());
    // One by one there is room for each.
    let mut client = abused.connect();
    assert_eq!(client.call(&[b"SET", b"big", &value]), ok());
    let readers: Vec<TcpStream> =
        (0..8).map(|_| connect_raw(&abused, b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n")).collect();
    std::thread::scope(|scope| {
        for mut reader in readers {
            scope.spawn(move || {
                let mut start = [0; 5];
                // A whole value, an error, or an end.
                if reader.read_exact(&mut start).is_ok() {
                    assert!(&start == b"$6710" || &start == b"-ERR ", "{start:?}");
                }
            });
        }
    });
    wait_until("alone there is room", || {
        client.call(&[b"GET", b"big"]) == Value::Bulk(value.clone())
    });
    // A memtable is as large as its one value, and a read holds the value once.
    abused.check_with(16, (4 + 8) * 64 * MIB);
    drop(client);
    abused.end();
}

/// R16 accept-loop-exit: what a connection sends, and how it ends, is nothing to the listener.
#[test]
fn r16_half_open_and_garbage_connections_end_alone() {
    raise_file_limit();
    let seed = std::env::var("TERRACE_ABUSE_SEED").map_or(1, |text| text.parse().unwrap());
    println!("seed {seed}");
    let mut random = Random(seed);
    let abused = Abused::start(&["--stall-timeout", "1"]);
    let pieces: [&[u8]; 10] = [
        b"*3\r\n$3\r\nSET\r\n",
        b"$1\r\na\r\n",
        b"PING\r\n",
        b"\r\n",
        b"*-1\r\n",
        b"$-1\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"*1\r\n$4\r\nQUIT\r\n",
        b"MGET a \"b\r\n",
    ];
    let mut kept = Vec::new();
    for _ in 0..1500 {
        let mut bytes = Vec::new();
        for _ in 0..random.next() % 6 {
            bytes.extend_from_slice(pieces[random.next() as usize % pieces.len()]);
            bytes.extend((0..random.next() % 20).map(|_| random.next() as u8));
        }
        let stream = connect_raw(&abused, &bytes);
        match random.next() % 4 {
            // Ends in order; or with a reset, as its replies are not read.
            0 => drop(stream),
            1 => stream.shutdown(Shutdown::Write).unwrap_or(()),
            2 => stream.shutdown(Shutdown::Read).unwrap_or(()),
            _ => {}
        }
        if random.next().is_multiple_of(4) {
            kept.push(stream_or_none(&abused, &mut random));
        }
    }
    abused.check(1500);
    drop(kept);
    abused.end();
}

/// A connection that says nothing, or half of something.
fn stream_or_none(abused: &Abused, random: &mut Random) -> TcpStream {
    let request = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nabcde\r\n";
    connect_raw(abused, &request[..random.next() as usize % request.len()])
}

/// Clients that stop in the middle of a request are cut; those that are idle are not.
#[test]
fn slow_clients_lose_their_place_and_idle_ones_keep_it() {
    let abused = Abused::start(&["--stall-timeout", "1"]);
    let mut idle = abused.connect();
    assert_eq!(idle.say("PING"), Value::Simple("PONG".into()));
    let slow: Vec<TcpStream> = (0..100)
        .map(|index| {
            let mut bytes = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000000\r\n".to_vec();
            bytes.extend(vec![b'v'; index * 9000]);
            connect_raw(&abused, &bytes)
        })
        .collect();
    let mut client = abused.connect();
    wait_until("the slow ones are cut", || client.info("connections_cut_for_limits") >= 100);
    assert_eq!(idle.say("PING"), Value::Simple("PONG".into()));
    abused.check(100);
    drop((slow, client, idle));
    abused.end();

    let abused = Abused::start(&["--idle-timeout", "1"]);
    let mut idle = TcpStream::connect(&abused.server.address).unwrap();
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0, "cut");
    assert_eq!(abused.server.stop(), 0);
}

/// Pipelines of 10,000 commands from many clients at once: each is answered whole and in order.
#[test]
fn pipelines_of_ten_thousand_commands_are_answered_in_order() {
    let abused = Abused::start(&[]);
    let abused_ref = &abused;
    std::thread::scope(|scope| {
        for client in 0..8 {
            scope.spawn(move || {
                let mut requests = Vec::new();
                for number in 0..5000 {
                    let (key, value) = (format!("{client}:{number}"), format!("{number}"));
                    put_request(&mut requests, &[b"SET", key.as_bytes(), value.as_bytes()]);
                    put_request(&mut requests, &[b"GET", key.as_bytes()]);
                }
                let Client { mut stream, mut replies } = abused_ref.connect();
                scope.spawn(move || stream.write_all(&requests).unwrap());
                for number in 0..5000 {
                    assert_eq!(replies.read().unwrap(), ok());
                    assert_eq!(replies.read().unwrap(), Value::Bulk(number.to_string().into()));
                }
            });
        }
    });
    abused.check(8);
    abused.end();
}

/// R16 accept-loop-exit: more clients than the process may have descriptors. Those that are in are
/// served, writes go on to new files, and once some are gone others get in.
#[test]
fn r16_a_server_without_descriptors_goes_on() {
    raise_file_limit();
    let mut limited = Command::new("sh");
    limited.env_remove("TERRACE_PASSWORD");
    limited.args(["-c", "ulimit -n 100; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_terrace")]);
    let abused = Abused::start_as(&mut limited, &[]);
    let mut first = abused.connect();
    let crowd: Vec<TcpStream> = (0..300).map(|_| connect_raw(&abused, b"PING\r\n")).collect();
    wait_until("all were accepted", || first.info("total_connections_received") >= 300);
    assert!(first.info("rejected_connections") > 0, "not all can be let in");
    // Enough for flushes, compactions and new segments of the log, all of which open files.
    let value = vec![b'v'; 10_000];
    for number in 0..3000 {
        let key = format!("key{number}");
        assert_eq!(first.call(&[b"SET", key.as_bytes(), &value]), ok(), "{key}");
    }
    drop(crowd);
    wait_until("others get in", || {
        let mut client = abused.connect();
        client.stream.write_all(b"PING\r\n").unwrap();
        matches!(client.replies.read(), Ok(Value::Simple(_)))
    });
    assert_eq!(first.say("STRLEN key7"), Value::Integer(10_000));
    drop(first);
    assert_eq!(abused.server.stop(), 0);
}

/// T22: writers that send more than the disk's jobs can take are slowed down, not stored up.
#[test]
fn an_overload_of_writes_stays_within_memory() {
    let abused = Abused::start(&[]);
    let abused_ref = &abused;
    const WRITERS: u64 = 8;
    const WRITES: u64 = 6000;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let Client { mut stream, mut replies } = abused_ref.connect();
                scope.spawn(move || {
                    let mut random = Random(writer);
                    for _ in 0..WRITES {
                        let key = format!("{:016x}", random.next());
                        let value: Vec<u8> =
                            (0..1000).flat_map(|_| random.next().to_le_bytes()).collect();
                        let mut request = Vec::new();
                        put_request(&mut request, &[b"SET", key.as_bytes(), &value]);
                        stream.write_all(&request).unwrap();
                    }
                });
                (0..WRITES).for_each(|_| assert_eq!(replies.read().unwrap(), ok()));
            });
        }
    });
    // 384 MB were written.
    abused.check(WRITERS);
    abused.end();
}
