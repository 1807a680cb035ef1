//! The Redis protocol: requests as a server gets them, replies as a client gets them.

use terrace_server::protocol::{
    DecodeLimits, Decoder, Progress, Replies, ReplyReader, Resp, put_request,
};

use super::Target;
use crate::notes::{note, note_result, note_size};
use crate::random::Random;

/// Requests. The first byte chooses the bounds, the second the pieces in which the rest arrives.
pub const RESP: Target = Target {
    name: "resp",
    about: "requests of the Redis protocol, in any pieces",
    run: resp,
    seeds: resp_seeds,
    words: &[b"\r\n", b"*", b"$", b"*1\r\n$4\r\nPING\r\n", b"-1", b"*3\r\n", b"$0\r\n\r\n"],
    executions: 700_000,
    memory_fixed_bytes: 256 << 10,
    ..Target::DEFAULT
};

/// Requests in words.
pub const INLINE: Target = Target {
    name: "inline",
    about: "requests in words, with their quotes",
    run: inline,
    seeds: inline_seeds,
    words: &[b"\"", b"'", b"\\x41", b"\\\"", b"\\'", b" ", b"\n", b"\r\n", b"\0", b"\x0b"],
    executions: 1_200_000,
    memory_fixed_bytes: 256 << 10,
    ..Target::DEFAULT
};

/// Replies, as `terrace --connect` reads them from any server.
pub const REPLY: Target = Target {
    name: "reply",
    about: "replies of any server that the command line connects to",
    run: reply,
    seeds: reply_seeds,
    words: &[b"\r\n", b"*-1\r\n", b"$-1\r\n", b"_\r\n", b"%1\r\n", b"~2\r\n", b"=7\r\ntxt:abc\r\n"],
    executions: 1_500_000,
    ..Target::DEFAULT
};

type Requests = Vec<Vec<Vec<u8>>>;

/// Gives `data` to a decoder in pieces: the requests that came out, and what stood at the end.
fn decode(
    data: &[u8],
    limits: DecodeLimits,
    mut piece_bytes: impl FnMut() -> usize,
) -> (Requests, String) {
    let mut decoder = Decoder::new(limits);
    let mut requests = Vec::new();
    let mut rest = data;
    let mut given = 0;
    loop {
        match decoder.poll() {
            Err(error) => return (requests, error.to_string()),
            Ok(Progress::Request) => {
                requests.push(decoder.request().from(0).map(<[u8]>::to_vec).collect());
                decoder.consume();
                continue;
            }
            Ok(Progress::NeedBytes) if rest.is_empty() => break,
            Ok(Progress::NeedBytes) => {}
        }
        let buffer = decoder.read_buffer();
        let room = buffer.capacity() - buffer.len();
        assert!(room > 0, "a decoder that needs bytes has room for them");
        let taken = piece_bytes().clamp(1, room).min(rest.len());
        buffer.extend_from_slice(&rest[..taken]);
        rest = &rest[taken..];
        given += taken;
        let held = decoder.memory_bytes();
        // Twice what was received, its table of arguments, and what is read ahead.
        assert!(held <= 8 * given + (160 << 10), "{held} bytes held for {given} received");
    }
    decoder.trim();
    assert!(decoder.memory_bytes() <= 8 * given + (160 << 10), "trimming gives memory back");
    let end = if decoder.is_mid_request() { "in a request" } else { "between requests" };
    (requests, end.to_owned())
}

fn limits_of(choice: u8) -> DecodeLimits {
    match choice % 4 {
        0 => DecodeLimits::UNAUTHENTICATED,
        1 => DecodeLimits {
            arguments_max: 3,
            argument_bytes_max: 20,
            request_bytes_max: 100,
            authenticated: true,
        },
        _ => DecodeLimits::AUTHENTICATED,
    }
}

fn resp(data: &[u8]) {
    let &[choice, pieces, ref stream @ ..] = data else { return };
    let limits = limits_of(choice);
    let whole = decode(stream, limits, || usize::MAX);
    let mut random = Random::new(u64::from(pieces));
    let most = 1 << (pieces % 12);
    let in_pieces = decode(stream, limits, || 1 + random.below(most));
    assert!(whole == in_pieces, "the same bytes in pieces mean something else");
    note(&whole.1);
    note_size("requests", whole.0.len());
    for request in &whole.0 {
        note_size("arguments", request.len());
        let longest = request.iter().map(Vec::len).max().unwrap_or(0);
        assert!(request.len() <= limits.arguments_max && longest <= limits.argument_bytes_max);
        let arguments: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut encoded = Vec::new();
        put_request(&mut encoded, &arguments);
        let (again, _) = decode(&encoded, DecodeLimits::AUTHENTICATED, || usize::MAX);
        assert!(again == [request.clone()], "a request decodes to what was encoded");
    }
}

fn inline(data: &[u8]) {
    let &[choice, ref line @ ..] = data else { return };
    // A blank in front keeps the request from being an array.
    let stream = [b" ", line, b"\n"].concat();
    let (requests, end) = decode(&stream, limits_of(choice), || usize::MAX);
    note(&end);
    note_size("requests", requests.len());
    for request in requests {
        note_size("words", request.len());
        let mut quoted = Vec::new();
        for word in &request {
            quoted.push(b'"');
            for byte in word {
                quoted.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            quoted.extend_from_slice(b"\" ");
        }
        quoted.push(b'\n');
        let (again, _) = decode(&quoted, DecodeLimits::AUTHENTICATED, || usize::MAX);
        // What is longer when it is quoted may be too long.
        assert!(again == [request] || quoted.len() > 60_000, "words mean what was quoted");
    }
}

fn reply(data: &[u8]) {
    let &[choice, ref stream @ ..] = data else { return };
    let mut reader = ReplyReader::new(stream);
    if choice % 2 == 1 {
        note_result("header", &reader.read_array_header());
    }
    for count in 0.. {
        let value = reader.read();
        note_result("reply", &value);
        if value.is_err() {
            note_size("replies", count);
            break;
        }
    }
}

fn request(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_request(&mut bytes, arguments);
    bytes
}

fn resp_seeds() -> Vec<Vec<u8>> {
    let pipeline = [
        request(&[b"SET", b"key", b"value"]),
        request(&[b"GET", b"key"]),
        b"PING\r\n".to_vec(),
        b"*0\r\n*-1\r\n".to_vec(),
        request(&[b"MGET", b"", b"a", b"b\r\nc", &[0xff; 40]]),
    ];
    let pipeline = pipeline.concat();
    let declared = b"*2147483647\r\n$2147483647\r\nx";
    let mut seeds = Vec::new();
    for choice in 0..3 {
        seeds.push([&[choice, 3], &pipeline[..]].concat());
        seeds.push([&[choice, 0], &declared[..]].concat());
    }
    seeds.push([&[2, 11], &request(&[b"ECHO", &[b'v'; 3000]])[..]].concat());
    seeds
}

fn inline_seeds() -> Vec<Vec<u8>> {
    let lines: [&[u8]; 5] = [
        b"SET a \"x y\\x41\\n\\\"\"",
        b"set 'it\\'s' \t b",
        b"\"unbalanced",
        b"a\0b c\"d\"",
        b"PING\r",
    ];
    lines.iter().enumerate().map(|(index, line)| [&[index as u8], *line].concat()).collect()
}

fn reply_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for resp in [Resp::V2, Resp::V3] {
        let mut replies = Replies::new();
        replies.set_resp(resp);
        replies.ok();
        replies.error("ERR no");
        replies.integer(-7);
        replies.bulk(b"bytes\r\nof any kind");
        replies.null();
        replies.array(3);
        replies.map(1);
        replies.bulk(b"key");
        replies.set(1);
        replies.integer(1);
        replies.text("text\nfor people");
        replies.array(0);
        seeds.push([&[0], replies.unsent()].concat());
        seeds.push([&[1][..], b"*2\r\n", replies.unsent()].concat());
    }
    seeds
}
