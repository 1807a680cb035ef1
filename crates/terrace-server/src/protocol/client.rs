use std::io::{self, BufRead, Read as _, Write as _};

/// How deep a reply may nest.
const DEPTH_MAX: usize = 8;

/// The longest line of a reply.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// One reply, as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A short text, such as `OK`.
    Simple(String),
    /// An error; the text begins with its code.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// A text for people (version 3).
    Text(String),
    /// Nothing.
    Null,
    /// Parts in order.
    Array(Vec<Value>),
    /// Pairs (version 3).
    Map(Vec<(Value, Value)>),
    /// Different parts (version 3).
    Set(Vec<Value>),
}

/// Appends a request to `out`, as an array of arguments.
pub fn put_request(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    let written = "writing to memory does not fail";
    write!(out, "*{}\r\n", arguments.len()).expect(written);
    for argument in arguments {
        write!(out, "${}\r\n", argument.len()).expect(written);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// Reads replies from a stream of bytes.
///
/// Sizes that the stream declares reserve no memory: buffers grow with the bytes received.
#[derive(Debug)]
pub struct ReplyReader<R> {
    source: R,
}

impl<R: BufRead> ReplyReader<R> {
    /// Replies from `source`.
    pub fn new(source: R) -> ReplyReader<R> {
        ReplyReader { source }
    }

    /// The next reply, all of it.
    ///
    /// Errors: those of the source; `InvalidData` if the bytes are no reply.
    pub fn read(&mut self) -> io::Result<Value> {
        self.read_nested(0)
    }

    /// The number of parts of the next reply, which must be an array; the parts follow as replies.
    /// So that a long array need not be held at once. Another reply than an array comes back whole.
    ///
    /// Errors: as [`ReplyReader::read`].
    pub fn read_array_header(&mut self) -> io::Result<Result<usize, Value>> {
        let line = self.read_line()?;
        if line.first() == Some(&b'*')
            && let Ok(count) = usize::try_from(number(&line[1..])?)
        {
            return Ok(Ok(count));
        }
        self.read_rest(&line, 0).map(Err)
    }

    fn read_nested(&mut self, depth: usize) -> io::Result<Value> {
        if depth > DEPTH_MAX {
            return Err(invalid("a reply that nests too deep"));
        }
        let line = self.read_line()?;
        self.read_rest(&line, depth)
    }

    fn read_rest(&mut self, line: &[u8], depth: usize) -> io::Result<Value> {
        let (&kind, rest) = line.split_first().ok_or_else(|| invalid("an empty line"))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        Ok(match kind {
            b'+' => Value::Simple(text()),
            b'-' => Value::Error(text()),
            b':' => Value::Integer(number(rest)?),
            b'_' => Value::Null,
            b'$' => match number(rest)? {
                -1 => Value::Null,
                length => Value::Bulk(self.read_bytes(length)?),
            },
            b'=' => {
                let bytes = self.read_bytes(number(rest)?)?;
                Value::Text(String::from_utf8_lossy(bytes.get(4..).unwrap_or(&[])).into_owned())
            }
            b'*' if rest == b"-1" => Value::Null,
            b'*' => Value::Array(self.read_parts(number(rest)?, depth)?),
            b'~' => Value::Set(self.read_parts(number(rest)?, depth)?),
            b'%' => {
                let mut pairs = Vec::new();
                for _ in 0..number(rest)? {
                    let key = self.read_nested(depth + 1)?;
                    pairs.push((key, self.read_nested(depth + 1)?));
                }
                Value::Map(pairs)
            }
            other => return Err(invalid(&format!("a reply of kind {:?}", char::from(other)))),
        })
    }

    fn read_parts(&mut self, count: i64, depth: usize) -> io::Result<Vec<Value>> {
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(self.read_nested(depth + 1)?);
        }
        Ok(parts)
    }

    fn read_line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.source).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !line.ends_with(b"\r\n") {
            return Err(invalid("a line without an end"));
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }

    fn read_bytes(&mut self, length: i64) -> io::Result<Vec<u8>> {
        let length = u64::try_from(length).map_err(|_| invalid("a negative length"))?;
        let mut bytes = Vec::new();
        (&mut self.source).take(length).read_to_end(&mut bytes)?;
        let mut end = [0; 2];
        self.source.read_exact(&mut end)?;
        if end != *b"\r\n" {
            return Err(invalid("bytes of another length than declared"));
        }
        Ok(bytes)
    }
}

fn number(text: &[u8]) -> io::Result<i64> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| invalid("a number that is none"))
}

fn invalid(what: &str) -> io::Error {
    let text = format!("the server sent {what}; is it a Redis-protocol server?");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Value> {
        ReplyReader::new(bytes).read()
    }

    #[test]
    fn replies_of_both_versions_are_read() {
        let nested = read(b"*2\r\n%1\r\n+a\r\n:-5\r\n~1\r\n$2\r\nhi\r\n").unwrap();
        let map = Value::Map(vec![(Value::Simple("a".into()), Value::Integer(-5))]);
        let set = Value::Set(vec![Value::Bulk(b"hi".to_vec())]);
        assert_eq!(nested, Value::Array(vec![map, set]));
        assert_eq!(read(b"=6\r\ntxt:ab\r\n").unwrap(), Value::Text("ab".into()));
        assert_eq!(read(b"$-1\r\n").unwrap(), Value::Null);
        assert_eq!(read(b"*-1\r\n").unwrap(), Value::Null);
        assert_eq!(read(b"_\r\n").unwrap(), Value::Null);
    }

    #[test]
    fn bytes_that_are_no_reply_are_errors() {
        let deep = b"*1\r\n".repeat(20);
        let hostile: [&[u8]; 6] =
            [b"", b"HTTP/1.1 400\r\n", b":x\r\n", b"$-7\r\n", b"$99999999999\r\nab", &deep];
        for bytes in hostile {
            assert!(read(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }
}
