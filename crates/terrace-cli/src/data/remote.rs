//! A running server, reached through a socket: a small client that waits for each reply.

mod operate;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use serde::Serialize;
use terrace::OwnedRange;
use terrace_server::Password;
use terrace_server::protocol::{ReplyReader, Value, put_request};

pub(crate) use operate::Watch;

use super::{Data, Figures, Size, Visit, Walk, Wanted, no_keyspace};
use crate::failure::{Failure, Outcome};
use crate::format::{Record, put_escaped};
use crate::signals::StopFlag;

/// How long to wait for a server to take a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How many bytes of requests to send before their replies are read.
const PIPELINE_BYTES: usize = 256 * 1024;

/// The most entries, and about the most bytes, of one step of an export.
const PAGE_RECORDS_MAX: u64 = 1000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A running server.
pub(crate) struct RemoteData {
    address: String,
    stream: TcpStream,
    replies: ReplyReader<BufReader<TcpStream>>,
}

impl RemoteData {
    pub(crate) fn connect(address: &str, password: Option<&Password>) -> Outcome<RemoteData> {
        let connected = connect(address).and_then(|stream| {
            stream.set_nodelay(true)?;
            Ok((stream.try_clone()?, stream))
        });
        let (read_half, stream) = connected.map_err(|error| {
            Failure::Failed(format!(
                "no server answers at {address} ({error}); start one with `terrace serve`, or open \
                 its directory with --data"
            ))
        })?;
        let replies = ReplyReader::new(BufReader::with_capacity(64 * 1024, read_half));
        let mut data = RemoteData { address: address.to_owned(), stream, replies };
        if let Some(password) = password {
            data.call(&[b"AUTH", password.expose()])?;
        }
        Ok(data)
    }

    fn lost(&self, error: &io::Error) -> Failure {
        let address = &self.address;
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Failure::Failed(format!("the server at {address} cut the connection"));
        }
        Failure::Failed(format!("the connection to {address} broke: {error}"))
    }

    fn send(&mut self, requests: &[u8]) -> Outcome {
        self.stream.write_all(requests).map_err(|error| self.lost(&error))
    }

    /// The next reply; an error reply is a failure.
    fn receive(&mut self) -> Outcome<Value> {
        let reply = self.replies.read().map_err(|error| self.lost(&error))?;
        self.check(reply)
    }

    fn check(&self, reply: Value) -> Outcome<Value> {
        let Value::Error(text) = reply else { return Ok(reply) };
        let advice = if text.starts_with("NOAUTH") {
            "; give the password in the environment variable TERRACE_PASSWORD or with \
             --password-file"
        } else {
            ""
        };
        Err(Failure::Failed(format!("the server at {} says: {text}{advice}", self.address)))
    }

    fn call(&mut self, arguments: &[&[u8]]) -> Outcome<Value> {
        let mut request = Vec::new();
        put_request(&mut request, arguments);
        self.send(&request)?;
        self.receive()
    }

    /// As `call`, of a command that replies with a text.
    fn call_for_text(&mut self, arguments: &[&[u8]]) -> Outcome<String> {
        match self.call(arguments)? {
            Value::Bulk(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Value::Text(text) => Ok(text),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The slowest operations of the last minutes, in any order.
    pub(crate) fn slow(&mut self) -> Outcome<Vec<SlowEntry>> {
        let reply = self.call(&[b"SLOWLOG", b"GET", b"-1"])?;
        let entries = match &reply {
            Value::Array(entries) => entries.iter().map(SlowEntry::read).collect(),
            _ => None,
        };
        entries.ok_or_else(|| self.unexpected(&reply))
    }

    /// Forgets them.
    pub(crate) fn reset_slow(&mut self) -> Outcome {
        self.call(&[b"SLOWLOG", b"RESET"]).map(|_| ())
    }

    fn unexpected(&self, reply: &Value) -> Failure {
        let address = &self.address;
        Failure::Failed(format!("the server at {address} gave an unexpected reply: {reply:?}"))
    }

    fn receive_bytes(&mut self) -> Outcome<Vec<u8>> {
        match self.receive()? {
            Value::Bulk(bytes) => Ok(bytes),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sends requests a part at a time, so that neither side waits for the other to read.
    fn call_all<T>(
        &mut self,
        things: &[T],
        put: impl Fn(&mut Vec<u8>, &T),
        mut take: impl FnMut(&T, Value) -> Outcome,
    ) -> Outcome {
        let mut rest = things;
        while !rest.is_empty() {
            let mut requests = Vec::new();
            let mut count = 0;
            while count < rest.len() && requests.len() < PIPELINE_BYTES {
                put(&mut requests, &rest[count]);
                count += 1;
            }
            self.send(&requests)?;
            let (sent, unsent) = rest.split_at(count);
            for thing in sent {
                let reply = self.receive()?;
                take(thing, reply)?;
            }
            rest = unsent;
        }
        Ok(())
    }

    /// When each of the keys expires.
    fn expiries(&mut self, keys: &[Vec<u8>]) -> Outcome<Vec<Option<u64>>> {
        let mut expiries = Vec::with_capacity(keys.len());
        let put = |requests: &mut Vec<u8>, key: &Vec<u8>| {
            put_request(requests, &[b"PEXPIRETIME", key]);
        };
        self.call_all(keys, put, |_, reply| {
            expiries.push(match reply {
                Value::Integer(ms) => u64::try_from(ms).ok(),
                _ => None,
            });
            Ok(())
        })?;
        Ok(expiries)
    }

    /// One step of a walk with expiries.
    fn page(&mut self, walk: &Walk) -> Outcome<Vec<Record>> {
        let mut records = Vec::new();
        let walk = Walk { wanted: Wanted::Values, ..walk.clone() };
        self.walk_at_once(&walk, &mut |record| {
            records.push(record.clone());
            Ok(())
        })?;
        let keys: Vec<Vec<u8>> = records.iter().map(|record| record.key.clone()).collect();
        let expiries = self.expiries(&keys)?;
        records.iter_mut().zip(expiries).for_each(|(record, expiry)| record.expiry_ms = expiry);
        Ok(records)
    }

    /// Walks in steps, each of them at a moment of its own: what is written meanwhile may be seen
    /// in part.
    fn walk_in_pages(&mut self, walk: &Walk, visit: Visit<'_>) -> Outcome {
        let mut rest = walk.clone();
        let (mut page, mut left) = (16, walk.limit);
        while left > 0 {
            rest.limit = page.min(left);
            let records = self.page(&rest)?;
            records.iter().try_for_each(&mut *visit)?;
            let read = records.len() as u64;
            let Some(last) = records.last().filter(|_| read == rest.limit) else { break };
            let (start, end) = (rest.range.start(), rest.range.end().map(<[u8]>::to_vec));
            rest.range = match walk.reverse {
                false => OwnedRange::new([&last.key[..], &[0]].concat(), end),
                true => OwnedRange::new(start, Some(last.key.clone())),
            };
            left -= read;
            let bytes: usize = records.iter().map(|record| record.value.len()).sum();
            page = if bytes > PAGE_BYTES { page / 2 } else { page * 2 };
            page = page.clamp(1, PAGE_RECORDS_MAX);
        }
        Ok(())
    }

    /// Walks as everything is at one moment; without expiries.
    fn walk_at_once(&mut self, walk: &Walk, visit: Visit<'_>) -> Outcome {
        if walk.range.is_empty() {
            return Ok(());
        }
        let keys_only = walk.wanted == Wanted::Keys;
        let (start, end, exact) = wire_bounds(&walk.range);
        let limit = walk.limit.to_string();
        let mut arguments: Vec<&[u8]> = vec![b"RANGE", &start, &end];
        arguments.extend(walk.reverse.then_some(&b"REV"[..]));
        arguments.extend(keys_only.then_some(&b"KEYS"[..]));
        if exact && i64::try_from(walk.limit).is_ok() {
            arguments.extend([&b"LIMIT"[..], limit.as_bytes()]);
        }
        let mut request = Vec::new();
        put_request(&mut request, &arguments);
        self.send(&request)?;
        let header = self.replies.read_array_header().map_err(|error| self.lost(&error))?;
        let parts = match header {
            Ok(parts) => parts,
            Err(other) => {
                let other = self.check(other)?;
                return Err(self.unexpected(&other));
            }
        };
        let mut left = walk.limit;
        for _ in 0..if keys_only { parts } else { parts / 2 } {
            let key = self.receive_bytes()?;
            let value = if keys_only { Vec::new() } else { self.receive_bytes()? };
            if left > 0 && walk.range.contains(&key) {
                visit(&Record { key, value, expiry_ms: None })?;
                left -= 1;
            }
        }
        Ok(())
    }

    /// As `call`, of a command that replies with a number.
    fn call_for_count(&mut self, arguments: &[&[u8]]) -> Outcome<u64> {
        match self.call(arguments)? {
            Value::Integer(count) => Ok(u64::try_from(count).unwrap_or(0)),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The keys of an interval whose bounds `RANGE` takes for something else.
    fn keys_within(&mut self, range: &OwnedRange) -> Outcome<Vec<Vec<u8>>> {
        let range = range.clone();
        let walk = Walk { range, reverse: false, limit: u64::MAX, wanted: Wanted::Keys };
        let mut keys = Vec::new();
        self.walk_at_once(&walk, &mut |record| {
            keys.push(record.key.clone());
            Ok(())
        })?;
        Ok(keys)
    }
}

/// One entry of `SLOWLOG`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SlowEntry {
    pub(crate) id: i64,
    /// When it ended, in seconds since 1970.
    pub(crate) ended_s: i64,
    /// How long it took, in microseconds.
    pub(crate) us: i64,
    pub(crate) operation: String,
    /// Escaped.
    pub(crate) key: String,
    /// Where the time went.
    pub(crate) breakdown: String,
}

impl SlowEntry {
    fn read(reply: &Value) -> Option<SlowEntry> {
        let Value::Array(parts) = reply else { return None };
        let [Value::Integer(id), Value::Integer(ended_s), Value::Integer(us), words, ..] =
            parts.as_slice()
        else {
            return None;
        };
        let Value::Array(words) = words else { return None };
        let word = |index: usize| match words.get(index) {
            Some(Value::Bulk(bytes)) => {
                let mut text = Vec::new();
                put_escaped(&mut text, bytes);
                String::from_utf8_lossy(&text).into_owned()
            }
            _ => String::new(),
        };
        let (operation, key, breakdown) = (word(0), word(1), word(2));
        Some(SlowEntry { id: *id, ended_s: *ended_s, us: *us, operation, key, breakdown })
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The bounds of `RANGE` for an interval, and whether they hold no other keys. The signs `-` and
/// `+` stand for ends there, so as keys they have to be walked around.
fn wire_bounds(range: &OwnedRange) -> (Vec<u8>, Vec<u8>, bool) {
    let is_sign = |bound: &[u8]| matches!(bound, b"-" | b"+");
    let (mut start, mut exact) = (range.start().to_vec(), true);
    if start.is_empty() {
        start = b"-".to_vec();
    } else if is_sign(&start) {
        // A key a little lower.
        start[0] -= 1;
        exact = false;
    }
    let mut end = range.end().map_or(b"+".to_vec(), <[u8]>::to_vec);
    if range.end().is_some_and(is_sign) {
        end.push(0);
        exact = false;
    }
    (start, end, exact)
}

fn size(bytes: &Value, entries: &Value) -> Option<Size> {
    let (Value::Integer(bytes), Value::Integer(entries)) = (bytes, entries) else { return None };
    Some(Size { bytes: u64::try_from(*bytes).ok()?, entries: u64::try_from(*entries).ok()? })
}

/// The name of a keyspace and its figures.
fn stats_of_one(part: &[Value]) -> Option<(String, Figures)> {
    let [Value::Bulk(name), Value::Array(figures)] = part else { return None };
    let figure = |pair: &[Value]| match pair {
        [Value::Bulk(name), Value::Integer(value)] => {
            Some((String::from_utf8_lossy(name).into_owned(), u64::try_from(*value).ok()?))
        }
        _ => None,
    };
    let figures: Option<Figures> = figures.chunks(2).map(figure).collect();
    Some((String::from_utf8_lossy(name).into_owned(), figures?))
}

/// An expiry as clients say it: 0 is before everything that they may say.
fn wire_ms(expiry_ms: u64) -> String {
    expiry_ms.max(1).to_string()
}

impl Data for RemoteData {
    fn use_keyspace(&mut self, name: &str, may_make: bool) -> Outcome {
        if may_make {
            self.call(&[b"KEYSPACE", b"MAKE", name.as_bytes()])?;
        }
        let request: &[&[u8]] = &[b"KEYSPACE", b"USE", name.as_bytes()];
        let mut bytes = Vec::new();
        put_request(&mut bytes, request);
        self.send(&bytes)?;
        match self.replies.read().map_err(|error| self.lost(&error))? {
            Value::Error(text) if text.starts_with("NOKEYSPACE") => Err(no_keyspace(name)),
            reply => self.check(reply).map(drop),
        }
    }

    fn keyspaces(&mut self) -> Outcome<Vec<(String, Size)>> {
        let reply = self.call(&[b"KEYSPACE", b"SIZES"])?;
        let Value::Array(parts) = &reply else { return Err(self.unexpected(&reply)) };
        let one = |part: &[Value]| match part {
            [Value::Bulk(name), bytes, entries] => {
                Some((String::from_utf8_lossy(name).into_owned(), size(bytes, entries)?))
            }
            _ => None,
        };
        let all: Option<Vec<_>> = parts.chunks(3).map(one).collect();
        all.ok_or_else(|| self.unexpected(&reply))
    }

    fn keyspace_stats(&mut self) -> Outcome<BTreeMap<String, Figures>> {
        let reply = self.call(&[b"KEYSPACE", b"STATS"])?;
        let stats = match &reply {
            Value::Array(parts) => parts.chunks(2).map(stats_of_one).collect(),
            _ => None,
        };
        stats.ok_or_else(|| self.unexpected(&reply))
    }

    fn drop_keyspace(&mut self, name: &str) -> Outcome<bool> {
        Ok(self.call_for_count(&[b"KEYSPACE", b"DROP", name.as_bytes()])? > 0)
    }

    fn get(&mut self, keys: &[Vec<u8>], wanted: Wanted) -> Outcome<Vec<Option<Record>>> {
        let mut records = Vec::with_capacity(keys.len());
        let put = |requests: &mut Vec<u8>, key: &Vec<u8>| put_request(requests, &[b"GET", key]);
        let mut strange = None;
        self.call_all(keys, put, |key, reply| {
            records.push(match reply {
                Value::Bulk(value) => Some(Record { key: key.clone(), value, expiry_ms: None }),
                Value::Null => None,
                other => {
                    strange = Some(other);
                    None
                }
            });
            Ok(())
        })?;
        if let Some(strange) = strange {
            return Err(self.unexpected(&strange));
        }
        if wanted == Wanted::All {
            let expiries = self.expiries(keys)?;
            for (record, expiry_ms) in records.iter_mut().zip(expiries) {
                if let Some(record) = record {
                    record.expiry_ms = expiry_ms;
                }
            }
        }
        Ok(records)
    }

    fn delete(&mut self, keys: &[Vec<u8>]) -> Outcome<u64> {
        let mut arguments: Vec<&[u8]> = vec![b"DEL"];
        arguments.extend(keys.iter().map(Vec::as_slice));
        self.call_for_count(&arguments)
    }

    /// In one step, unless a bound is a sign for an end: then key by key.
    fn delete_range(&mut self, range: &OwnedRange) -> Outcome {
        if range.is_empty() {
            return Ok(());
        }
        let (start, end, exact) = wire_bounds(range);
        if exact {
            return self.call(&[b"RANGEDEL", &start, &end]).map(drop);
        }
        let keys = self.keys_within(range)?;
        let put = |requests: &mut Vec<u8>, key: &Vec<u8>| put_request(requests, &[b"DEL", key]);
        self.call_all(&keys, put, |_, _| Ok(()))
    }

    fn count(&mut self, range: &OwnedRange, _stop: &StopFlag) -> Outcome<u64> {
        if range.is_empty() {
            return Ok(0);
        }
        let (start, end, exact) = wire_bounds(range);
        if exact {
            return self.call_for_count(&[b"RANGECOUNT", &start, &end]);
        }
        Ok(self.keys_within(range)?.len() as u64)
    }

    /// Bounds that are signs for ends are taken for a little more.
    fn size(&mut self, range: &OwnedRange) -> Outcome<Size> {
        if range.is_empty() {
            return Ok(Size::default());
        }
        let (start, end, _) = wire_bounds(range);
        let reply = self.call(&[b"RANGESIZE", &start, &end])?;
        let found = match &reply {
            Value::Array(parts) => match parts.as_slice() {
                [bytes, entries] => size(bytes, entries),
                _ => None,
            },
            _ => None,
        };
        found.ok_or_else(|| self.unexpected(&reply))
    }

    fn put(&mut self, records: &[Record]) -> Outcome {
        let put = |requests: &mut Vec<u8>, record: &Record| {
            let Record { key, value, expiry_ms } = record;
            match expiry_ms {
                None => put_request(requests, &[b"SET", key, value]),
                Some(ms) => {
                    put_request(requests, &[b"SET", key, value, b"PXAT", wire_ms(*ms).as_bytes()]);
                }
            }
        };
        self.call_all(records, put, |_, _| Ok(()))
    }

    fn put_if(&mut self, record: &Record, expected: Option<&[u8]>) -> Outcome<bool> {
        let expiry = record.expiry_ms.map(wire_ms);
        let mut arguments: Vec<&[u8]> = vec![b"SET", &record.key, &record.value];
        match expected {
            None => arguments.push(b"NX"),
            Some(expected) => arguments.extend([&b"IFEQ"[..], expected]),
        }
        if let Some(expiry) = &expiry {
            arguments.extend([&b"PXAT"[..], expiry.as_bytes()]);
        }
        match self.call(&arguments)? {
            Value::Simple(_) => Ok(true),
            Value::Null => Ok(false),
            other => Err(self.unexpected(&other)),
        }
    }

    fn walk(&mut self, walk: &Walk, visit: Visit<'_>) -> Outcome {
        match walk.wanted {
            Wanted::All => self.walk_in_pages(walk, visit),
            Wanted::Keys | Wanted::Values => self.walk_at_once(walk, visit),
        }
    }

    fn explain_get(&mut self, key: &[u8], json: bool) -> Outcome<String> {
        let mut arguments: Vec<&[u8]> = vec![b"EXPLAIN", b"GET", key];
        arguments.extend(json.then_some(&b"JSON"[..]));
        self.call_for_text(&arguments)
    }

    fn explain_scan(&mut self, walk: &Walk, json: bool) -> Outcome<String> {
        let (start, end, _) = wire_bounds(&walk.range);
        let limit = walk.limit.to_string();
        let mut arguments: Vec<&[u8]> = vec![b"EXPLAIN", b"RANGE", &start, &end];
        arguments.extend([&b"LIMIT"[..], limit.as_bytes()]);
        arguments.extend(walk.reverse.then_some(&b"REV"[..]));
        arguments.extend(json.then_some(&b"JSON"[..]));
        self.call_for_text(&arguments)
    }

    fn dranges(&mut self, json: bool) -> Outcome<String> {
        let mut arguments: Vec<&[u8]> = vec![b"EXPLAIN", b"DRANGES"];
        arguments.extend(json.then_some(&b"JSON"[..]));
        self.call_for_text(&arguments)
    }

    fn l0(&mut self, json: bool) -> Outcome<String> {
        let mut arguments: Vec<&[u8]> = vec![b"EXPLAIN", b"L0"];
        arguments.extend(json.then_some(&b"JSON"[..]));
        self.call_for_text(&arguments)
    }

    fn stats(&mut self) -> Outcome<String> {
        self.call_for_text(&[b"EXPLAIN", b"STATS", b"JSON"])
    }

    fn uptime(&mut self) -> Outcome<Option<Duration>> {
        let text = self.call_for_text(&[b"INFO", b"server"])?;
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        let uptime = fields.find(|(name, _)| *name == "uptime_in_seconds");
        Ok(uptime.and_then(|(_, seconds)| seconds.trim().parse().ok()).map(Duration::from_secs))
    }

    fn is_server(&self) -> bool {
        true
    }

    fn close(&mut self) -> Outcome {
        // Everything that was asked for has been answered.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signs_for_ends_are_walked_around() {
        let bounds = |start: &str, end: Option<&str>| {
            let range = OwnedRange::new(start, end.map(Into::into));
            let (start, end, exact) = wire_bounds(&range);
            (String::from_utf8(start).unwrap(), String::from_utf8(end).unwrap(), exact)
        };
        assert_eq!(bounds("", None), ("-".into(), "+".into(), true));
        assert_eq!(bounds("a", Some("b")), ("a".into(), "b".into(), true));
        assert_eq!(bounds("-", Some("x")), (",".into(), "x".into(), false));
        assert_eq!(bounds("+", None), ("*".into(), "+".into(), false));
        assert_eq!(bounds("", Some("-")), ("-".into(), "-\0".into(), false));
        assert_eq!(bounds("", Some("+")), ("-".into(), "+\0".into(), false));
    }
}
