use std::io::Write as _;

/// The version of the protocol in which replies are written; requests are the same in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Resp {
    /// What every client understands; the version until a client asks for another.
    #[default]
    V2,
    /// Adds nulls, maps, sets and texts as types of their own.
    V3,
}

impl Resp {
    /// The number that `HELLO` takes and reports.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Resp::V2 => 2,
            Resp::V3 => 3,
        }
    }
}

/// The most bytes of a header: its kind, the digits of a number, the end of the line.
const HEADER_BYTES_MAX: usize = 1 + 20 + 2;

/// Where an array begins whose length is not known yet.
#[derive(Debug)]
pub(crate) struct ArrayMark(usize);

/// Room kept in an empty buffer of replies.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Replies as bytes, in order, until they are sent. Compound replies are written as their header
/// followed by their parts.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Vec<u8>,
    sent: usize,
    resp: Resp,
}

impl Replies {
    /// No replies, in version 2.
    #[must_use]
    pub fn new() -> Replies {
        Replies::default()
    }

    /// The version in which replies are written from now on.
    pub fn set_resp(&mut self, resp: Resp) {
        self.resp = resp;
    }

    /// The version in which replies are written.
    #[must_use]
    pub fn resp(&self) -> Resp {
        self.resp
    }

    /// The bytes to send next.
    #[must_use]
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Notes that the first `count` unsent bytes were sent.
    pub fn mark_sent(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "no more is sent than there is");
        if self.sent == self.bytes.len() {
            self.sent = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        } else if self.sent > KEPT_BYTES_MAX && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// The memory held, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// How many bytes are waiting to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether everything is sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes back every reply but the first `len` unsent bytes of them.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(self.sent + len);
    }

    /// Begins an array of which the number of parts is known only when they are written: they
    /// follow now, and then comes [`Replies::end_array`]. Nothing is sent in between.
    pub(crate) fn begin_array(&mut self) -> ArrayMark {
        let mark = ArrayMark(self.bytes.len());
        self.bytes.resize(mark.0 + HEADER_BYTES_MAX, 0);
        mark
    }

    /// Writes the header of an array in front of its `count` parts. They are moved within the
    /// buffer and not copied into another one, so that large values are not held twice.
    pub(crate) fn end_array(&mut self, mark: ArrayMark, count: usize) {
        let header = format!("*{count}\r\n");
        let parts = mark.0 + HEADER_BYTES_MAX;
        self.bytes[parts - header.len()..parts].copy_from_slice(header.as_bytes());
        self.bytes.drain(mark.0..parts - header.len());
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A short text without line breaks.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: a code in capitals, a blank, a text. Line breaks turn into blanks.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// A number.
    pub fn integer(&mut self, number: i64) {
        self.header(b':', number);
    }

    /// A number of things.
    pub fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.size_header(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Nothing.
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.resp {
            Resp::V2 => b"$-1\r\n",
            Resp::V3 => b"_\r\n",
        });
    }

    /// Bytes, or nothing.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// The header of `count` parts, which follow.
    pub fn array(&mut self, count: usize) {
        self.size_header(b'*', count);
    }

    /// The header of `count` pairs of key and value, which follow.
    pub fn map(&mut self, count: usize) {
        match self.resp {
            Resp::V2 => self.size_header(b'*', count * 2),
            Resp::V3 => self.size_header(b'%', count),
        }
    }

    /// The header of `count` different parts, which follow.
    pub fn set(&mut self, count: usize) {
        match self.resp {
            Resp::V2 => self.size_header(b'*', count),
            Resp::V3 => self.size_header(b'~', count),
        }
    }

    /// A text for people, of several lines.
    pub fn text(&mut self, text: &str) {
        match self.resp {
            Resp::V2 => self.bulk(text.as_bytes()),
            Resp::V3 => {
                self.size_header(b'=', text.len() + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        let one_line = |&byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
        self.bytes.extend(text.iter().map(one_line));
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn size_header(&mut self, kind: u8, count: usize) {
        self.header(kind, i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn header(&mut self, kind: u8, number: i64) {
        self.bytes.push(kind);
        if (0..10).contains(&number) {
            // Most headers have one digit, and formatting is not free.
            self.bytes.push(b"0123456789"[usize::try_from(number).unwrap_or_default()]);
        } else {
            write!(self.bytes, "{number}").expect("writing to memory does not fail");
        }
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(resp: Resp, write: impl Fn(&mut Replies)) -> String {
        let mut replies = Replies::new();
        replies.set_resp(resp);
        write(&mut replies);
        String::from_utf8(replies.unsent().to_vec()).unwrap()
    }

    #[test]
    fn both_versions_write_their_own_types() {
        let every = |replies: &mut Replies| {
            replies.null();
            replies.map(2);
            replies.set(1);
            replies.text("hi");
        };
        assert_eq!(written(Resp::V2, every), "$-1\r\n*4\r\n*1\r\n$2\r\nhi\r\n");
        assert_eq!(written(Resp::V3, every), "_\r\n%2\r\n~1\r\n=6\r\ntxt:hi\r\n");
    }

    #[test]
    fn an_array_whose_length_is_known_last_is_held_once() {
        let value = vec![b'x'; 1 << 20];
        let mut replies = Replies::new();
        replies.ok();
        let mark = replies.begin_array();
        (0..12).for_each(|_| replies.bulk(b"k"));
        replies.bulk(&value);
        let held = replies.memory_bytes();
        replies.end_array(mark, 13);
        assert_eq!(replies.memory_bytes(), held, "the header took memory anew");
        let parts = "$1\r\nk\r\n".repeat(12);
        let expected = format!("+OK\r\n*13\r\n{parts}$1048576\r\n{}\r\n", "x".repeat(1 << 20));
        assert!(replies.unsent() == expected.as_bytes());
    }

    #[test]
    fn numbers_and_errors_are_written_as_lines() {
        let every = |replies: &mut Replies| {
            replies.integer(7);
            replies.integer(i64::MIN);
            replies.error("ERR a\r\nb");
            replies.bulk(b"");
        };
        let expected = ":7\r\n:-9223372036854775808\r\n-ERR a  b\r\n$0\r\n\r\n";
        assert_eq!(written(Resp::V2, every), expected);
    }

    #[test]
    fn sent_bytes_go_and_memory_is_given_back() {
        let mut replies = Replies::new();
        replies.bulk(&vec![b'x'; 300_000]);
        let total = replies.len();
        replies.mark_sent(200_000);
        assert_eq!(replies.len(), total - 200_000);
        replies.mark_sent(replies.len());
        assert!(replies.is_empty() && replies.memory_bytes() == 0);
    }
}
