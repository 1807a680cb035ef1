use std::io::{self, BufRead, Read as _};

/// The longest line. A value of 64 MiB takes at most six bytes a byte as JSON.
const LINE_BYTES_MAX: u64 = 7 * 64 * 1024 * 1024;

/// The lines of a stream, counted.
pub struct Lines<R> {
    source: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `source`.
    pub fn new(source: R) -> Lines<R> {
        Lines { source, line: Vec::new(), number: 0 }
    }

    /// How many lines have been read.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` at the end of the stream.
    #[expect(clippy::should_implement_trait, reason = "a line is lent, which no iterator can")]
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut limited = (&mut self.source).take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else if self.line.len() as u64 == LINE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is too long"));
        }
        Ok(Some(&self.line))
    }
}
