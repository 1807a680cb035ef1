//! Goal: what clients do on real sockets, well-meaning or not, ends as it should. Method: short
//! forms of each attack against a server with small bounds; nobody looks at the clock but to give
//! up.
#![allow(clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test talks to a real server in real time"
)]

mod common;

use std::io::Read as _;
use std::time::{Duration, Instant};

use common::{Client, TestServer, bulk, error_text, ok};
use terrace::Options;
use terrace_server::protocol::{Value, put_request};
use terrace_server::{Password, ServerOptions};

fn pipeline(requests: &[&[&[u8]]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    requests.iter().for_each(|request| put_request(&mut bytes, request));
    bytes
}

fn info(client: &mut Client, field: &str) -> u64 {
    let Value::Bulk(text) = client.say("INFO") else { panic!("INFO is a bulk") };
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_else(|| panic!("no {field}")).parse().unwrap()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_long_pipeline_is_answered_in_order() {
    let server =
        TestServer::start_over(ServerOptions::default(), &Options::default(), &[b"on the disk"]);
    let mut client = server.connect();
    let mut bytes = Vec::new();
    // The first request waits for the disk, and must not let others pass.
    put_request(&mut bytes, &[b"GET", b"on the disk"]);
    for number in 0..10_000 {
        let key = format!("k{number}");
        put_request(&mut bytes, &[b"SET", key.as_bytes(), number.to_string().as_bytes()]);
        put_request(&mut bytes, &[b"GET", key.as_bytes()]);
        if number % 1000 == 0 {
            // This one always goes to another thread.
            put_request(&mut bytes, &[b"RANGECOUNT", b"a", b"b"]);
        }
    }
    let mut sender = client.stream.try_clone().unwrap();
    let sent = std::thread::spawn(move || std::io::Write::write_all(&mut sender, &bytes));
    assert_eq!(client.read(), bulk("on the disk"));
    for number in 0..10_000 {
        assert_eq!(client.read(), ok());
        assert_eq!(client.read(), bulk(number.to_string()));
        if number % 1000 == 0 {
            assert_eq!(client.read(), Value::Integer(0));
        }
    }
    sent.join().unwrap().unwrap();
    assert!(info(&mut client, "commands_moved_to_waiting_threads") >= 10);
    assert_eq!(
        (info(&mut client, "drange_count"), info(&mut client, "drange_duplicate_count")),
        (1, 0)
    );
    // A database without a container, of which nothing was cut.
    for name in ["l0_pages_free", "l0_pages_total", "l0_cuts", "l0_cut_bytes_max"] {
        assert_eq!(info(&mut client, name), 0, "{name}");
    }
    assert_eq!(info(&mut client, "l0_rows"), info(&mut client, "l0_row_count"));
    assert_eq!(info(&mut client, "l0_bytes") > 0, info(&mut client, "l0_rows") > 0);
}

#[test]
fn a_write_over_the_bounds_fails_alone() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    let long = vec![b'k'; 65_537];
    client.send(&pipeline(&[
        &[b"SET", b"a", b"1"],
        &[b"SET", &long, b"1"],
        &[b"SET", b"b", b"2"],
        &[b"SETEX", b"c", b"x", b"3"],
        &[b"SET", b"d", b"4"],
        &[b"MGET", b"a", b"b", b"c", b"d"],
    ]));
    assert_eq!(client.read(), ok());
    assert!(error_text(&client.read()).starts_with("ERR "));
    assert_eq!(client.read(), ok());
    assert_eq!(error_text(&client.read()), "ERR value is not an integer or out of range");
    assert_eq!(client.read(), ok());
    let values = vec![bulk("1"), bulk("2"), Value::Null, bulk("4")];
    assert_eq!(client.read(), Value::Array(values));
}

#[test]
fn the_largest_value_goes_in_and_out_and_a_larger_one_is_refused() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    let mut value = vec![b'v'; 64 * 1024 * 1024];
    assert_eq!(client.call(&[b"SET", b"big", value.as_slice()]), ok());
    assert_eq!(client.call(&[&b"GET"[..], b"big"]), bulk(&value));
    value.push(b'v');
    let refused = client.call(&[b"SET", b"big", value.as_slice()]);
    assert!(error_text(&refused).starts_with("ERR "), "{refused:?}");
    let refused = client.call(&[&b"APPEND"[..], b"big", b"v"]);
    assert!(error_text(&refused).starts_with("ERR string exceeds"), "{refused:?}");
    client.send(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$70000000\r\n");
    assert_eq!(error_text(&client.read()), "ERR Protocol error: invalid bulk length");
    assert!(client.is_cut());
}

#[test]
fn long_replies_come_in_pieces() {
    let options = ServerOptions { output_soft_bytes: 64 * 1024, ..ServerOptions::default() };
    let server = TestServer::start(options);
    let mut client = server.connect();
    let value = vec![b'v'; 10_000];
    let keys: Vec<String> = (0..1000).map(|number| format!("key{number:04}")).collect();
    for key in &keys {
        assert_eq!(client.call(&[b"SET", key.as_bytes(), &value]), ok());
    }
    let pairs: Vec<Value> = keys.iter().flat_map(|key| [bulk(key), bulk(&value)]).collect();
    assert_eq!(client.say("RANGE - +"), Value::Array(pairs.clone()));
    assert_eq!(client.say("RANGE - + LIMIT 500"), Value::Array(pairs[..1000].to_vec()));
    let reversed = keys.iter().rev().flat_map(|key| [bulk(key), bulk(&value)]).collect();
    assert_eq!(client.say("RANGE - + REV"), Value::Array(reversed));
    let mut request = vec!["MGET"];
    request.extend(keys.iter().map(String::as_str));
    assert_eq!(client.call(&request), Value::Array(vec![bulk(&value); 1000]));
    // What follows in the pipeline comes after the pieces.
    client.send(b"RANGE - + KEYS\r\nPING\r\n");
    assert_eq!(client.read(), Value::Array(keys.iter().map(bulk).collect()));
    assert_eq!(client.say("PING"), Value::Simple("PONG".into()));
}

#[test]
fn inline_requests_are_served_and_nonsense_ends_the_connection() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    client.send(b"\r\nset a \"x y\"\r\nGET a\n");
    assert_eq!(client.read(), ok());
    assert_eq!(client.read(), bulk("x y"));
    client.send(b"*1\r\n!\r\n");
    assert_eq!(error_text(&client.read()), "ERR Protocol error: expected '$', got '!'");
    assert!(client.is_cut());
    let mut client = server.connect();
    assert_eq!(client.say("QUIT"), ok());
    assert!(client.is_cut());
}

#[test]
fn a_client_that_only_stops_sending_gets_its_replies() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    client.send(b"SET a 1\r\nGET a\r\n");
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.read(), ok());
    assert_eq!(client.read(), bulk("1"));
    assert!(client.is_cut());
}

#[test]
fn without_the_password_nothing_but_little_is_served() {
    let password = Password::new(b"secret");
    let server = TestServer::start(ServerOptions { password, ..ServerOptions::default() });
    let mut client = server.connect();
    assert_eq!(error_text(&client.say("GET a")), "NOAUTH Authentication required.");
    assert!(error_text(&client.say("HELLO 3")).starts_with("NOAUTH HELLO must be called"));
    assert!(error_text(&client.say("AUTH wrong")).starts_with("WRONGPASS "));
    assert!(error_text(&client.say("AUTH nobody secret")).starts_with("WRONGPASS "));
    assert_eq!(error_text(&client.say("PING")), "NOAUTH Authentication required.");
    // The bounds change with the very next request of the pipeline.
    let large = vec![b'x'; 100_000];
    client.send(&pipeline(&[&[b"AUTH", b"secret"], &[b"SET", b"a", &large], &[b"RESET"]]));
    assert_eq!([client.read(), client.read()], [ok(), ok()]);
    assert_eq!(client.read(), Value::Simple("RESET".into()));
    assert_eq!(error_text(&client.say("GET a")), "NOAUTH Authentication required.");
    assert!(matches!(client.say("HELLO 3 AUTH default secret"), Value::Map(_)));
    assert_eq!(client.say("GET a"), bulk(&large));
    for hostile in [&b"*9\r\n"[..], b"*1\r\n$5000\r\n"] {
        let mut client = server.connect();
        client.send(hostile);
        assert!(error_text(&client.read()).contains("unauthenticated"));
        assert!(client.is_cut());
    }
}

#[test]
fn a_client_that_does_not_authenticate_is_cut() {
    let server = TestServer::start(ServerOptions {
        password: Password::new(b"secret"),
        authentication_timeout: Duration::from_millis(50),
        ..ServerOptions::default()
    });
    let mut client = server.connect();
    assert!(client.is_cut());
}

#[test]
fn declared_sizes_cost_nothing() {
    let server = TestServer::start(ServerOptions::default());
    let mut attackers: Vec<Client> = (0..300).map(|_| server.connect()).collect();
    for attacker in &mut attackers {
        attacker.send(b"*1048576\r\n$67108864\r\nx");
    }
    let mut client = server.connect();
    wait_until("all are connected", || info(&mut client, "connected_clients") == 301);
    assert_eq!(info(&mut client, "mem_clients_normal"), 0);
    assert_eq!(client.say("SET a 1"), ok());
    for hostile in ["*1048577\r\n", "*2147483647\r\n", "*9223372036854775807\r\n", "*1\r\n$-5\r\n"]
    {
        let mut attacker = server.connect();
        attacker.send(hostile.as_bytes());
        assert!(error_text(&attacker.read()).starts_with("ERR Protocol error"));
        assert!(attacker.is_cut());
    }
    drop(attackers);
    wait_until("the attackers are gone", || info(&mut client, "connected_clients") == 1);
}

#[test]
fn a_client_that_does_not_read_is_cut_and_hurts_nobody() {
    let server = TestServer::start(ServerOptions {
        stall_timeout: Duration::from_millis(200),
        ..ServerOptions::default()
    });
    let mut client = server.connect();
    let value = vec![b'v'; 1 << 20];
    assert_eq!(client.call(&[b"SET", b"big", value.as_slice()]), ok());
    let stalled: Vec<Client> = (0..20)
        .map(|_| {
            let mut stalled = server.connect();
            let request = b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n".repeat(1000);
            stalled.send(&request);
            stalled
        })
        .collect();
    wait_until("some are served", || info(&mut client, "mem_clients_normal") > 0);
    let held = info(&mut client, "mem_clients_normal");
    assert!(held < 20 * (5 << 20), "{held} bytes are held for 20 GB of replies");
    wait_until("all are cut", || info(&mut client, "connections_cut_for_limits") == 20);
    wait_until("their memory is back", || info(&mut client, "mem_clients_normal") < 1 << 20);
    assert_eq!(client.say("STRLEN big"), Value::Integer(1 << 20));
    drop(stalled);
}

#[test]
fn all_clients_together_have_a_budget() {
    let options = ServerOptions { client_bytes_max: 1 << 20, ..ServerOptions::default() };
    let server = TestServer::start(options);
    let mut client = server.connect();
    assert_eq!(client.call(&[&b"SET"[..], b"a", &[b'v'; 100_000]]), ok());
    let mut request = Vec::new();
    put_request(&mut request, &[b"SET", b"a", &vec![b'v'; 3 << 20]]);
    let mut greedy = server.connect();
    // The server may cut the connection before it has taken everything.
    let _ = std::io::Write::write_all(&mut greedy.stream, &request);
    let mut reply = Vec::new();
    let _ = greedy.stream.read_to_end(&mut reply);
    assert_eq!(client.say("STRLEN a"), Value::Integer(100_000));
    assert_eq!(info(&mut client, "connections_cut_for_limits"), 1);
}

#[test]
fn a_value_that_has_no_place_is_refused_wherever_it_is_read() {
    let options = ServerOptions { client_bytes_max: 1 << 20, ..ServerOptions::default() };
    let server = TestServer::start(options);
    server.db.put(b"big", vec![b'v'; 3 << 20]).unwrap();
    let mut client = server.connect();
    for refused in ["GET big", "MGET big", "APPEND big x", "GETDEL big", "SET big x GET"] {
        let reply = client.say(refused);
        assert!(error_text(&reply).contains("memory"), "{refused}: {reply:?}");
    }
    for answered in ["STRLEN big", "EXISTS big", "TTL big", "TYPE big"] {
        let reply = client.say(answered);
        assert!(!matches!(reply, Value::Error(_)), "{answered} copies nothing: {reply:?}");
    }
    assert_eq!(client.say("STRLEN big"), Value::Integer(3 << 20), "nothing was changed");
    assert!(server.db.admin().client_memory().used_bytes() < 1 << 20);
}

#[test]
fn too_many_clients_are_told_so() {
    let server = TestServer::start(ServerOptions { clients_max: 2, ..ServerOptions::default() });
    let mut first = server.connect();
    let mut second = server.connect();
    assert_eq!(first.say("SET a 1"), ok());
    assert_eq!(second.say("SET a 1"), ok());
    let mut third = server.connect();
    assert_eq!(error_text(&third.read()), "ERR max number of clients reached");
    assert!(third.is_cut());
    drop(first);
    wait_until("a new client is served", || {
        let mut client = server.connect();
        client.send(b"PING\r\n");
        matches!(client.replies.read(), Ok(Value::Simple(_)))
    });
}

#[test]
fn clients_choose_which_replies_they_get() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    client.send(b"CLIENT REPLY OFF\r\nSET a 1\r\nRANGE - +\r\nCLIENT REPLY ON\r\nGET a\r\n");
    assert_eq!(client.read(), ok());
    assert_eq!(client.read(), bulk("1"));
    client.send(b"CLIENT REPLY SKIP\r\nSET a 2\r\nGET a\r\n");
    assert_eq!(client.read(), bulk("2"));
}

#[test]
fn a_scan_returns_every_key_that_is_there_throughout() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    for number in 0..1000 {
        assert_eq!(client.say(&format!("SET key:{number} x")), ok());
    }
    let mut cursor = "0".to_owned();
    let mut found = Vec::new();
    loop {
        let reply = client.say(&format!("SCAN {cursor} MATCH key:* COUNT 37"));
        let Value::Array(parts) = reply else { panic!("{reply:?}") };
        let [Value::Bulk(next), Value::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
        found.extend(keys.iter().cloned());
        cursor = String::from_utf8(next.clone()).unwrap();
        if cursor == "0" {
            break;
        }
        // Keys that come and go between the steps.
        let gone = found.len() % 1000;
        client.say(&format!("SET key:{gone}:new x"));
        client.say(&format!("DEL other key:{gone}:new"));
    }
    found.sort_by_key(|key| format!("{key:?}"));
    found.dedup();
    for number in 0..1000 {
        assert!(found.contains(&bulk(format!("key:{number}"))), "key:{number}");
    }
}

#[test]
fn a_stop_answers_what_is_running_and_closes_the_database() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    let mut idle = server.connect();
    for number in 0..1000 {
        client.send(format!("SET k{number} {number}\r\n").as_bytes());
    }
    for _ in 0..1000 {
        assert_eq!(client.read(), ok());
    }
    let db = server.db.clone();
    let address = server.address;
    server.stop().unwrap();
    assert!(idle.is_cut() && client.is_cut());
    assert!(std::net::TcpStream::connect(address).is_err());
    assert_eq!(db.get(b"k1").unwrap_err().kind(), terrace::ErrorKind::Closed);
}

#[test]
fn a_run_that_has_to_wait_leaves_what_follows_as_it_was() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    let mut bytes = pipeline(&[&[b"SET", b"a", b"1"], &[b"SET", b"would-block:a", b"2"]]);
    bytes.extend_from_slice(b"SET b \"\\x5cx41\"\r\nGET b\r\n");
    client.send(&bytes);
    assert_eq!([client.read(), client.read(), client.read()], [ok(), ok(), ok()]);
    assert_eq!(client.read(), bulk("\\x41"));
}

#[test]
fn no_arguments_make_a_command_panic() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    let Value::Array(names) = client.say("COMMAND LIST") else { panic!("a list of names") };
    let words = [
        "",
        "a",
        "0",
        "1",
        "-1",
        "2",
        "3",
        "EX",
        "PX",
        "EXAT",
        "NX",
        "XX",
        "GT",
        "LT",
        "GET",
        "ID",
        "KEEPTTL",
        "MATCH",
        "COUNT",
        "TYPE",
        "LIMIT",
        "REV",
        "KEYS",
        "AUTH",
        "SETNAME",
        "INFO",
        "*",
        "[^",
        "\\",
        "+",
        "-",
        "LIST",
        "DOCS",
        "9223372036854775807",
        "-9223372036854775808",
        "ON",
        "99999999999999999999",
        "LIB-NAME",
        "SETINFO",
        "NO-EVICT",
        "REPLY",
        "HELP",
        "ASYNC",
    ];
    let mut state = 1_u64;
    let mut random = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    for name in &names {
        let Value::Bulk(name) = name else { panic!("a name") };
        // These two end the connection, and that one delays it.
        if [&b"quit"[..], b"auth", b"hello"].contains(&name.as_slice()) {
            continue;
        }
        for _ in 0..300 {
            let mut request = vec![name.clone()];
            (0..random(7)).for_each(|_| request.push(words[random(words.len())].into()));
            let mut bytes = Vec::new();
            let request: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            put_request(&mut bytes, &request);
            put_request(&mut bytes, &[b"CLIENT", b"REPLY", b"ON"]);
            put_request(&mut bytes, &[b"ECHO", b"the end"]);
            client.send(&bytes);
            while client.read() != bulk("the end") {}
        }
    }
    assert_eq!(info(&mut client, "connections_lost_to_panics"), 0);
}
