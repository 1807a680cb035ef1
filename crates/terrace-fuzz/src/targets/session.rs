//! A whole server session: requests against a real database in a simulation.

use terrace::Db;
use terrace_base::ByteReader;
use terrace_env::{SharedEnv, SimOptions};
use terrace_server::protocol::{ReplyReader, put_request};
use terrace_server::{LocalServer, Password, ServerOptions};

use super::Target;
use super::simulation::simulate;
use crate::notes::{note, note_size};

/// Sessions. Of the first byte bit 0 says whether the rest is a program of requests or the bytes
/// of requests, bit 1 whether there is a password, the others in which pieces the bytes arrive.
pub const SESSION: Target = Target {
    name: "session",
    about: "a server session: any requests, against a real database in a simulation",
    run: session,
    seeds: session_seeds,
    words: &[
        b"\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"RANGE - + REV",
        b"SCAN 0 MATCH",
        b"CLIENT REPLY SKIP\n",
    ],
    executions: 25_000,
    bytes_max: 2048,
    // The database, its memtables and its files, which are in memory; a short request may have a
    // long reply.
    memory_fixed_bytes: 24 << 20,
    memory_per_byte: 4096,
};

/// What programs are made of: commands first, then words that mean something to one of them.
const COMMANDS: &[&str] = &[
    "APPEND",
    "AUTH",
    "CLIENT",
    "COMMAND",
    "CONFIG",
    "DBSIZE",
    "DECR",
    "DECRBY",
    "DEL",
    "ECHO",
    "EXISTS",
    "EXPIRE",
    "EXPIREAT",
    "EXPIRETIME",
    "FLUSHALL",
    "FLUSHDB",
    "GET",
    "GETDEL",
    "GETSET",
    "HELLO",
    "INCR",
    "INCRBY",
    "INFO",
    "MGET",
    "MSET",
    "MSETNX",
    "PERSIST",
    "PEXPIRE",
    "PEXPIREAT",
    "PEXPIRETIME",
    "PING",
    "PSETEX",
    "PTTL",
    "QUIT",
    "RANGE",
    "RANGECOUNT",
    "RANGEDEL",
    "RESET",
    "SCAN",
    "SELECT",
    "SET",
    "SETEX",
    "SETNX",
    "STRLEN",
    "TTL",
    "TYPE",
    "UNLINK",
    "EVAL",
];
const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "ab",
    "key",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "10",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "NX",
    "XX",
    "GT",
    "LT",
    "GET",
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
    "LIST",
    "ID",
    "DOCS",
    "HELP",
    "REPLY",
    "ON",
    "OFF",
    "SKIP",
    "SETINFO",
    "LIB-NAME",
    "NO-EVICT",
    "RESETSTAT",
    "ASYNC",
    "string",
    "secret",
    "default",
    "*",
    "[^a",
    "\\",
    "?*b",
    "+",
    "-",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
];

const THE_END: &[u8] = b"this is the end of the program";

fn session(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let is_program = choice & 1 == 0;
    let bytes = if is_program { written(rest) } else { rest.to_vec() };
    let options = ServerOptions {
        password: (choice & 2 != 0).then(|| Password::new(b"secret")).flatten(),
        client_bytes_max: 1 << 20,
        output_soft_bytes: 4096,
        ..ServerOptions::default()
    };
    let piece_bytes = 1 << (choice >> 4);
    simulate(SimOptions::new(1), |env| {
        let replies = run(env, options, &bytes, piece_bytes);
        check_replies(&replies, is_program);
    });
}

/// The requests of a program: for each a command, a count of arguments, and the arguments, which
/// are words or have their bytes in place.
fn written(program: &[u8]) -> Vec<u8> {
    let mut reader = ByteReader::new(program);
    let mut bytes = Vec::new();
    while let (Ok(command), Ok(count)) = (reader.u8(), reader.u8()) {
        let mut arguments = vec![COMMANDS[usize::from(command) % COMMANDS.len()].as_bytes()];
        for _ in 0..count % 8 {
            let Ok(choice) = reader.u8() else { break };
            let bytes_at = usize::from(choice).checked_sub(WORDS.len());
            arguments.push(match bytes_at {
                None => WORDS[usize::from(choice)].as_bytes(),
                Some(length) => reader.take(length % 64).unwrap_or(b"cut off"),
            });
        }
        put_request(&mut bytes, &arguments);
    }
    put_request(&mut bytes, &[b"CLIENT", b"REPLY", b"ON"]);
    put_request(&mut bytes, &[b"ECHO", THE_END]);
    bytes
}

/// Gives `bytes` to a session of a server over a new database; what it replies.
fn run(env: SharedEnv, options: ServerOptions, bytes: &[u8], piece_bytes: usize) -> Vec<u8> {
    let store = Db::options().memtable_bytes(16 << 10).cache_bytes(64 << 10);
    let db = store.open_in(env, "/db").expect("a new database opens");
    for key in ["a", "ab", "b", "key"] {
        db.put(key.as_bytes(), b"1").expect("a new database takes writes");
    }
    // Some of it in tables, so that commands have to wait.
    db.admin().flush().expect("a new database takes writes");
    db.put(b"key", b"text").expect("a new database takes writes");
    let has_password = options.password.is_some();
    let server = LocalServer::new(&db, options).expect("its keyspaces can be opened");
    let mut session = server.connect().expect("there is no other client");
    let mut replies = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        session.receive(piece, &mut replies);
        let held = session.memory_bytes();
        assert!(held <= 8 * bytes.len() + (1 << 20), "a session holds {held} bytes");
    }
    note(if session.is_open() { "open" } else { "cut" });
    if has_password {
        note("with a password");
    }
    drop(session);
    assert_eq!(server.charged_bytes(), 0, "a session gives back what it was charged for");
    drop(server);
    db.close().expect("a database closes");
    replies
}

/// Whatever was asked, the bytes that came back are replies, one behind the other.
fn check_replies(replies: &[u8], is_program: bool) {
    let mut reader = ReplyReader::new(replies);
    let mut count = 0;
    let mut last = None;
    loop {
        match reader.read() {
            Ok(value) => {
                if let terrace_server::protocol::Value::Error(text) = &value {
                    note(&text.split(' ').take(3).collect::<String>());
                }
                last = Some(value);
                count += 1;
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => panic!("what the server sends is no reply: {error}"),
        }
    }
    note_size("replies", count);
    let the_end = terrace_server::protocol::Value::Bulk(THE_END.to_vec());
    if is_program && last == Some(the_end) {
        note("up to the end");
    }
}

fn session_seeds() -> Vec<Vec<u8>> {
    let word = |text: &str| {
        let index = WORDS.iter().position(|word| *word == text);
        u8::try_from(index.unwrap_or_else(|| panic!("{text} is no word"))).unwrap_or(0)
    };
    let program = |choice: u8, requests: &[&str]| {
        let mut program = vec![choice];
        for request in requests {
            let mut parts = request.split(' ');
            let name = parts.next().unwrap_or_default();
            let command = COMMANDS.iter().position(|command| *command == name);
            program.push(u8::try_from(command.expect("a command")).unwrap_or(0));
            let arguments: Vec<u8> = parts.map(word).collect();
            program.push(u8::try_from(arguments.len()).unwrap_or(0));
            program.extend(arguments);
        }
        program
    };
    let everything: Vec<&str> = vec![
        "SET a 1 EX 10",
        "SET b 2 NX GET",
        "GET a",
        "APPEND a b",
        "STRLEN a",
        "INCR key",
        "INCRBY 0 10",
        "DECRBY 0 -1",
        "MSET a 1 b 2",
        "MSETNX a 1 ab 2",
        "MGET a b ab",
        "GETSET a b",
        "GETDEL a",
        "EXPIRE b 10 NX",
        "PEXPIREAT b 9223372036854775807",
        "TTL b",
        "PERSIST b",
        "EXPIRETIME b",
        "SETEX a 10 b",
        "PSETEX a 10 b",
        "SETNX a b",
        "EXISTS a b a",
        "TYPE a",
        "DEL a b",
        "UNLINK ab",
        "RANGE - + REV LIMIT 2 KEYS",
        "RANGE a b",
        "RANGECOUNT - +",
        "RANGEDEL a b",
        "DBSIZE",
        "SCAN 0 MATCH * COUNT 2",
        "SELECT 3",
        "FLUSHDB",
        "FLUSHALL ASYNC",
        "PING",
        "ECHO a",
        "INFO",
        "COMMAND DOCS GET",
        "COMMAND COUNT",
        "CONFIG GET *",
        "CLIENT LIST",
        "CLIENT SETNAME a",
        "CLIENT REPLY SKIP",
        "HELLO 3",
        "RESET",
        "CLIENT INFO",
    ];
    let mut seeds: Vec<Vec<u8>> = everything.chunks(8).map(|some| program(0xa0, some)).collect();
    seeds.push(program(0x02, &["GET a", "AUTH secret", "GET key", "AUTH a", "RESET", "PING"]));
    seeds.push(program(0x22, &["HELLO 3 AUTH default secret SETNAME a", "RANGE - +", "QUIT"]));
    seeds.push(
        [&[0x31][..], b"SET a \"x y\"\r\nGET a\n*1\r\n$4\r\nPING\r\nRANGE - +\r\nQUIT\r\n"]
            .concat(),
    );
    seeds.push(
        [&[0x53][..], b"AUTH secret\r\nSET a 1\r\n*3\r\n$5\r\nSETEX\r\n$1\r\na\r\n"].concat(),
    );
    seeds
}
