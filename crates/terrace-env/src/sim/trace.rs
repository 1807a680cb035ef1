use std::fmt;

/// What a run did so far, as a rolling hash, and as text if that was asked for.
///
/// Two runs whose hashes are equal made the same decisions and the same I/O in the same order.
#[derive(Debug)]
pub(super) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub fn new(with_text: bool) -> Trace {
        Trace { hash: 0, lines: with_text.then(Vec::new) }
    }

    /// Adds a number to the hash.
    pub fn mix(&mut self, value: u64) {
        let mut hash = (self.hash ^ value).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash ^= hash >> 29;
        self.hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }

    /// Adds a line to the text, if there is one.
    pub fn line(&mut self, line: fmt::Arguments<'_>) {
        if let Some(lines) = &mut self.lines {
            lines.push(line.to_string());
        }
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The text so far; empty without one.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
