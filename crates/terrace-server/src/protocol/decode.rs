use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use terrace_base::limits;

use super::inline::split_words;

/// What one request may hold. Going over a bound is a [`ProtocolError`], after which the
/// connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// The most arguments, the command's name among them.
    pub arguments_max: usize,
    /// The longest argument, in bytes.
    pub argument_bytes_max: usize,
    /// The most bytes of one request: as received, plus its share of the table of arguments.
    pub request_bytes_max: usize,
    /// Whether an error text says that the bound is the one for clients without authentication.
    pub authenticated: bool,
}

impl DecodeLimits {
    /// The bounds for a client that has authenticated, or need not.
    pub const AUTHENTICATED: DecodeLimits = DecodeLimits {
        arguments_max: 1_048_576,
        // A little slack, so that a value slightly too long gets the store's own error text.
        argument_bytes_max: limits::VALUE_BYTES_MAX + 64 * 1024,
        request_bytes_max: limits::BATCH_BYTES_MAX + 32 * 1024 * 1024,
        authenticated: true,
    };

    /// The bounds for a client that has yet to authenticate.
    pub const UNAUTHENTICATED: DecodeLimits = DecodeLimits {
        arguments_max: 8,
        argument_bytes_max: 4 * 1024,
        request_bytes_max: 16 * 1024,
        authenticated: false,
    };
}

/// The longest inline request, in bytes.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// The longest header line (`*count` or `$length`), its end included.
const HEADER_BYTES_MAX: usize = 32;

/// The step in which an input buffer grows at first.
const READ_BYTES: usize = 16 * 1024;

/// The most that a buffer grows beyond what it holds when it holds little.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// An empty buffer with more room than this is given back.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Bytes that are no request. The text is what the client is told before it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(Cow<'static, str>);

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.0)
    }
}

impl std::error::Error for ProtocolError {}

impl From<&'static str> for ProtocolError {
    fn from(text: &'static str) -> ProtocolError {
        ProtocolError(Cow::Borrowed(text))
    }
}

/// Whether a request stands ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// [`Decoder::request`] has it.
    Request,
    /// More bytes have to be received first.
    NeedBytes,
}

/// Where an argument lies, counted from the start of its request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// At the first byte of a request.
    Start,
    /// In an inline request whose end was not among the first `scanned` bytes.
    Inline { scanned: usize },
    /// Before the `$length` line of an argument.
    Header { arguments_left: usize },
    /// In the bytes of an argument.
    Body { arguments_left: usize, bytes: usize },
    /// The request is whole; its bytes are the received ones, or the decoded inline ones.
    Ready { inline: bool },
}

/// Turns received bytes into requests, one at a time.
///
/// The loop of a caller: [`Decoder::poll`] until it asks for bytes, taking each
/// [`Decoder::request`] and then calling [`Decoder::consume`]; then receive into
/// [`Decoder::read_buffer`].
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Where the request in hand begins.
    start: usize,
    /// Up to where it is decoded.
    at: usize,
    arguments: Vec<Span>,
    /// The words of an inline request, decoded; apart, so that it can be decoded again.
    inline: Vec<u8>,
    state: State,
    limits: DecodeLimits,
}

impl Decoder {
    /// A decoder that has received nothing and holds no memory.
    #[must_use]
    pub fn new(limits: DecodeLimits) -> Decoder {
        Decoder {
            buffer: Vec::new(),
            start: 0,
            at: 0,
            arguments: Vec::new(),
            inline: Vec::new(),
            state: State::Start,
            limits,
        }
    }

    /// Sets the bounds for the requests after the one in hand.
    pub fn set_limits(&mut self, limits: DecodeLimits) {
        self.limits = limits;
    }

    /// The memory held, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let table_bytes = self.arguments.capacity() * size_of::<Span>();
        self.buffer.capacity() + table_bytes + self.inline.capacity()
    }

    /// Whether some bytes of a request have been received, but not all.
    #[must_use]
    pub fn is_mid_request(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// Decodes as far as the received bytes go, or up to the end of the next request.
    ///
    /// Errors: the bytes are no request, or one over the bounds. The decoder must not be used
    /// again.
    pub fn poll(&mut self) -> Result<Progress, ProtocolError> {
        loop {
            let advanced = match self.state {
                State::Ready { .. } => return Ok(Progress::Request),
                State::Start => self.poll_start()?,
                State::Inline { scanned } => self.poll_inline(scanned)?,
                State::Header { arguments_left } => self.poll_header(arguments_left)?,
                State::Body { arguments_left, bytes } => self.poll_body(arguments_left, bytes)?,
            };
            if !advanced {
                return Ok(Progress::NeedBytes);
            }
        }
    }

    /// The request that stands ready, until it is consumed.
    ///
    /// # Panics
    /// If the last [`Decoder::poll`] did not say that there is one.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        let State::Ready { inline } = self.state else { panic!("no request stands ready") };
        let bytes = if inline { &self.inline } else { &self.buffer[self.start..self.at] };
        Request { bytes, spans: &self.arguments, inline }
    }

    /// Goes on to the bytes after the request that stands ready.
    pub fn consume(&mut self) {
        assert!(matches!(self.state, State::Ready { .. }), "no request stands ready");
        self.start_request_at(self.at);
    }

    /// Where the request in hand begins, for [`Decoder::rewind`]. Holds until bytes are received.
    pub(crate) fn position(&self) -> usize {
        self.start
    }

    /// Goes back to an earlier request.
    pub(crate) fn rewind(&mut self, position: usize) {
        assert!(position <= self.start, "a rewind goes back");
        self.start_request_at(position);
    }

    /// Room to receive bytes into: append to it, and never more than its spare capacity, then
    /// call [`Decoder::poll`].
    pub fn read_buffer(&mut self) -> &mut Vec<u8> {
        let held = self.buffer.len() - self.start;
        if held == 0 {
            self.buffer.clear();
            self.start_request_at(0);
        }
        let ahead = self.bytes_wanted().max(READ_BYTES);
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare < READ_BYTES.min(ahead) {
            if self.start > 0 {
                self.shift_to_front();
            }
            if self.buffer.capacity() - self.buffer.len() < ahead {
                self.buffer.reserve_exact(ahead);
            }
        }
        &mut self.buffer
    }

    /// Gives back memory that an idle connection should not hold.
    pub fn trim(&mut self) {
        if self.start == self.buffer.len() && self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer = Vec::new();
            self.start_request_at(0);
        }
        if self.arguments.is_empty() && self.arguments.capacity() > 1024 {
            self.arguments = Vec::new();
        }
        if self.inline.capacity() > 1024 {
            self.inline = Vec::new();
        }
    }

    /// How much to grow by: geometric in what is held, so that growing costs linear time, and at
    /// most what an argument is known to miss.
    fn bytes_wanted(&self) -> usize {
        let held = self.buffer.len() - self.start;
        match self.state {
            State::Body { bytes, .. } => {
                let missing = (self.at + bytes + 2).saturating_sub(self.buffer.len());
                missing.min(held.max(AHEAD_BYTES_MAX))
            }
            _ => held / 2,
        }
    }

    fn shift_to_front(&mut self) {
        self.buffer.copy_within(self.start.., 0);
        self.buffer.truncate(self.buffer.len() - self.start);
        self.at -= self.start;
        self.start = 0;
    }

    fn start_request_at(&mut self, position: usize) {
        self.start = position;
        self.at = position;
        self.arguments.clear();
        self.state = State::Start;
    }

    fn poll_start(&mut self) -> Result<bool, ProtocolError> {
        let Some(&first) = self.buffer.get(self.at) else { return Ok(false) };
        if first != b'*' {
            self.state = State::Inline { scanned: 0 };
            return Ok(true);
        }
        let Some(line) = self.header_line("too big mbulk count string")? else { return Ok(false) };
        let count = parse_number(&self.buffer[line.start + 1..line.end - 2])
            .ok_or("invalid multibulk length")?;
        self.at = line.end;
        if count <= 0 {
            self.start_request_at(line.end);
            return Ok(true);
        }
        let count = usize::try_from(count).map_err(|_| "invalid multibulk length")?;
        if count > self.limits.arguments_max {
            return Err(self.over("invalid multibulk length", "unauthenticated multibulk length"));
        }
        self.state = State::Header { arguments_left: count };
        Ok(true)
    }

    fn poll_header(&mut self, arguments_left: usize) -> Result<bool, ProtocolError> {
        let Some(&first) = self.buffer.get(self.at) else { return Ok(false) };
        if first != b'$' {
            let found = char::from(first).escape_default();
            return Err(ProtocolError(format!("expected '$', got '{found}'").into()));
        }
        let Some(line) = self.header_line("too big bulk count string")? else { return Ok(false) };
        let bytes = parse_number(&self.buffer[line.start + 1..line.end - 2])
            .and_then(|number| usize::try_from(number).ok())
            .ok_or("invalid bulk length")?;
        if bytes > self.limits.argument_bytes_max {
            return Err(self.over("invalid bulk length", "unauthenticated bulk length"));
        }
        let table_bytes = (self.arguments.len() + 1) * size_of::<Span>();
        if line.end - self.start + bytes + 2 + table_bytes > self.limits.request_bytes_max {
            return Err(self.over("too big request", "unauthenticated request length"));
        }
        self.at = line.end;
        self.state = State::Body { arguments_left, bytes };
        Ok(true)
    }

    fn poll_body(&mut self, arguments_left: usize, bytes: usize) -> Result<bool, ProtocolError> {
        let end = self.at + bytes;
        let Some(tail) = self.buffer.get(end..end + 2) else { return Ok(false) };
        if tail != b"\r\n" {
            return Err("expected CRLF after an argument".into());
        }
        self.push_argument(self.at, end);
        self.at = end + 2;
        self.state = match arguments_left - 1 {
            0 => State::Ready { inline: false },
            left => State::Header { arguments_left: left },
        };
        Ok(true)
    }

    fn poll_inline(&mut self, scanned: usize) -> Result<bool, ProtocolError> {
        let received = &self.buffer[self.start..];
        let bytes_max = INLINE_BYTES_MAX.min(self.limits.request_bytes_max);
        let Some(newline) = received[scanned..].iter().position(|&byte| byte == b'\n') else {
            if received.len() > bytes_max {
                return Err("too big inline request".into());
            }
            self.state = State::Inline { scanned: received.len() };
            return Ok(false);
        };
        let line_end = scanned + newline;
        if line_end > bytes_max {
            return Err("too big inline request".into());
        }
        self.inline.clear();
        self.inline.extend_from_slice(&received[..line_end]);
        split_words(&mut self.inline, &mut self.arguments).ok_or("unbalanced quotes in request")?;
        self.at = self.start + line_end + 1;
        if self.arguments.is_empty() {
            self.start_request_at(self.at);
            return Ok(true);
        }
        let longest = self.arguments.iter().map(|span| span.end - span.start).max().unwrap_or(0);
        if self.arguments.len() > self.limits.arguments_max
            || longest as usize > self.limits.argument_bytes_max
        {
            return Err(self.over("too big inline request", "unauthenticated inline request"));
        }
        self.state = State::Ready { inline: true };
        Ok(true)
    }

    /// The line at the current position, from its first byte to past its CRLF, if it is all here.
    fn header_line(&self, too_long: &'static str) -> Result<Option<Range<usize>>, ProtocolError> {
        let received = &self.buffer[self.at..];
        let looked_at = &received[..received.len().min(HEADER_BYTES_MAX)];
        match looked_at.iter().position(|&byte| byte == b'\n') {
            Some(newline) if newline >= 2 && looked_at[newline - 1] == b'\r' => {
                Ok(Some(self.at..self.at + newline + 1))
            }
            Some(_) => Err("expected a number and CRLF".into()),
            None if looked_at.len() == HEADER_BYTES_MAX => Err(too_long.into()),
            None => Ok(None),
        }
    }

    fn push_argument(&mut self, start: usize, end: usize) {
        let offset = |position: usize| {
            u32::try_from(position - self.start).expect("a request is far below 4 GiB")
        };
        let span = Span { start: offset(start), end: offset(end) };
        self.arguments.push(span);
    }

    fn over(&self, text: &'static str, unauthenticated: &'static str) -> ProtocolError {
        if self.limits.authenticated { text.into() } else { unauthenticated.into() }
    }
}

/// A decimal number as Redis takes it in a header: an optional minus sign, digits, nothing else.
fn parse_number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

/// One request: the command's name and its arguments, borrowed from the decoder.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
    inline: bool,
}

impl<'a> Request<'a> {
    /// How many arguments there are, the command's name among them; at least 1.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // A request is never empty.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// The `index`-th argument; 0 is the command's name.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn get(&self, index: usize) -> &'a [u8] {
        let span = self.spans[index];
        &self.bytes[span.start as usize..span.end as usize]
    }

    /// The arguments from the `first`-th on.
    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let spans = self.spans.get(first..).unwrap_or(&[]);
        spans.iter().map(move |span| &bytes[span.start as usize..span.end as usize])
    }

    /// Whether it was written as words, not as an array.
    pub(crate) fn is_inline(&self) -> bool {
        self.inline
    }
}

#[cfg(test)]
mod tests {
    //! Goal: requests come out the same whatever the pieces, and hostile ones are refused without
    //! memory. Method: feed fixed streams in pieces of every size; boundary tables of lengths.

    use super::*;

    fn feed(decoder: &mut Decoder, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let buffer = decoder.read_buffer();
            let room = buffer.capacity() - buffer.len();
            let taken = room.min(bytes.len());
            assert!(taken > 0, "there is always room to receive");
            buffer.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
        }
    }

    fn decode(
        bytes: &[u8],
        piece: usize,
        limits: DecodeLimits,
    ) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let mut decoder = Decoder::new(limits);
        let mut requests = Vec::new();
        for piece in bytes.chunks(piece) {
            feed(&mut decoder, piece);
            while decoder.poll()? == Progress::Request {
                requests.push(decoder.request().from(0).map(<[u8]>::to_vec).collect());
                decoder.consume();
            }
        }
        Ok(requests)
    }

    fn all(bytes: &[u8], piece: usize) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        decode(bytes, piece, DecodeLimits::AUTHENTICATED)
    }

    fn error(bytes: &[u8]) -> String {
        all(bytes, usize::MAX).expect_err("is refused").to_string()
    }

    #[test]
    fn requests_are_the_same_in_pieces_of_every_size() {
        let stream = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\n\r\n*1\r\r\n*0\r\n*-1\r\nPING\r\n\r\n\
            get \"a\\x41\\n\" 'b\\'c' d\"e f\"\n*1\r\n$0\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n";
        let whole = all(stream, usize::MAX).unwrap();
        assert_eq!(whole.len(), 5);
        assert_eq!(whole[0][2], b"\r\n*1\r");
        assert_eq!(whole[2], [&b"get"[..], b"aA\n", b"b'c", b"de f"]);
        assert_eq!(whole[3], [b""]);
        for piece in 1..stream.len() {
            assert_eq!(all(stream, piece).unwrap(), whole, "pieces of {piece} bytes");
        }
    }

    #[test]
    fn lengths_at_the_edges_of_integers_are_refused_or_decoded() {
        let edges = ["2147483647", "2147483648", "4294967295", "4294967296", "4294967297"];
        let more = ["9223372036854775807", "9223372036854775808", "18446744073709551616"];
        for number in edges.iter().chain(&more) {
            let text = error(format!("*{number}\r\n").as_bytes());
            assert_eq!(text, "Protocol error: invalid multibulk length");
            let text = error(format!("*1\r\n${number}\r\n").as_bytes());
            assert_eq!(text, "Protocol error: invalid bulk length");
        }
        for bad in ["*1\r\n$-1\r\n", "*1\r\n$+1\r\n", "*1\r\n$\r\n", "*1\r\n$x\r\n"] {
            assert!(error(bad.as_bytes()).starts_with("Protocol error: "), "{bad:?}");
        }
        assert_eq!(error(b"*1\r\n:5\r\n"), "Protocol error: expected '$', got ':'");
        assert_eq!(error(b"*1\r\n$1\r\nab\r\n"), "Protocol error: expected CRLF after an argument");
        assert_eq!(error(&[b'*'; 40]), "Protocol error: too big mbulk count string");
        assert_eq!(error(&[b'a'; 70_000]), "Protocol error: too big inline request");
        assert_eq!(error(b"get \"a\n"), "Protocol error: unbalanced quotes in request");
    }

    #[test]
    fn declared_sizes_reserve_nothing() {
        let mut decoder = Decoder::new(DecodeLimits::AUTHENTICATED);
        feed(&mut decoder, b"*1048576\r\n$67108864\r\nabc");
        assert_eq!(decoder.poll(), Ok(Progress::NeedBytes));
        decoder.read_buffer();
        assert!(decoder.memory_bytes() <= 128 * 1024, "{} bytes", decoder.memory_bytes());
    }

    #[test]
    fn a_long_argument_takes_about_its_own_size() {
        let bytes = 8 * 1024 * 1024;
        let mut decoder = Decoder::new(DecodeLimits::AUTHENTICATED);
        feed(&mut decoder, format!("*1\r\n${bytes}\r\n").as_bytes());
        for _ in 0..bytes / 4096 {
            assert_eq!(decoder.poll(), Ok(Progress::NeedBytes));
            feed(&mut decoder, &[7; 4096]);
        }
        feed(&mut decoder, b"\r\n");
        assert_eq!(decoder.poll(), Ok(Progress::Request));
        assert_eq!(decoder.request().get(0).len(), bytes);
        assert!(decoder.memory_bytes() <= bytes + 64 * 1024);
        decoder.consume();
        decoder.trim();
        assert_eq!(decoder.memory_bytes(), decoder.arguments.capacity() * size_of::<Span>());
    }

    #[test]
    fn a_request_has_a_bound_as_a_whole() {
        let limits = DecodeLimits { request_bytes_max: 1000, ..DecodeLimits::AUTHENTICATED };
        let mut stream = b"*100\r\n".to_vec();
        for _ in 0..100 {
            stream.extend_from_slice(b"$5\r\nabcde\r\n");
        }
        let error = decode(&stream, usize::MAX, limits).expect_err("is refused");
        assert_eq!(error.to_string(), "Protocol error: too big request");
    }

    #[test]
    fn bounds_are_tighter_before_authentication() {
        let refuse = |bytes: &[u8]| {
            let result = decode(bytes, usize::MAX, DecodeLimits::UNAUTHENTICATED);
            result.expect_err("is refused").to_string()
        };
        assert_eq!(refuse(b"*9\r\n"), "Protocol error: unauthenticated multibulk length");
        assert_eq!(refuse(b"*1\r\n$4097\r\n"), "Protocol error: unauthenticated bulk length");
        let mut stream = b"*8\r\n".to_vec();
        for _ in 0..4 {
            stream.extend_from_slice(b"$4096\r\n");
            stream.extend_from_slice(&[b'x'; 4096]);
            stream.extend_from_slice(b"\r\n");
        }
        assert_eq!(refuse(&stream), "Protocol error: unauthenticated request length");
        assert_eq!(
            refuse(b"1 2 3 4 5 6 7 8 9\r\n"),
            "Protocol error: unauthenticated inline request"
        );
        assert_eq!(refuse(&[b'x'; 16_500]), "Protocol error: too big inline request");
        let fine = decode(b"*1\r\n$4\r\nPING\r\n", 1, DecodeLimits::UNAUTHENTICATED);
        assert_eq!(fine.unwrap().len(), 1);
    }

    #[test]
    fn a_rewound_request_is_decoded_again() {
        let mut decoder = Decoder::new(DecodeLimits::AUTHENTICATED);
        feed(&mut decoder, b"*1\r\n$1\r\na\r\n\"\\x5cx41\"\r\n");
        decoder.poll().unwrap();
        let position = decoder.position();
        for _ in 0..2 {
            decoder.poll().unwrap();
            assert_eq!(decoder.request().get(0), b"a");
            decoder.consume();
            decoder.poll().unwrap();
            assert_eq!(decoder.request().get(0), b"\\x41");
            decoder.rewind(position);
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let alphabet = b"*$123\r\n\r\n-0\"'\\xa ";
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    alphabet[usize::try_from(state % alphabet.len() as u64).unwrap()]
                })
                .collect();
            let whole = all(&bytes, usize::MAX);
            assert_eq!(all(&bytes, 1), whole);
        }
    }
}
