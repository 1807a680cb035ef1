//! The text form of operations: one a line, for people and for the reducer. It reads back as it
//! was printed.
//!
//! ```text
//! put k00012 300#7 ttl=5000 sync         a value is its bytes and its tag
//! merge k00012 5#8                       what is appended
//! batch { put "" 0#1; delete b; delete-range a c } sync
//! update k if-absent { put k 8#3 }
//! scan - - forward 10 at=1               - is an open end
//! transact { get a; scan b - forward 3 } { put k 8#3 } sync
//! ingest { put a 3#1; put b 8#2 }
//! drop-keyspace a                        rename-keyspace a b
//! divide-among 1,3,2 k p                 three duplicates of the drange from k up to p
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::iter::Peekable;
use std::str::{Chars, FromStr};

use terrace_base::KeyRange;

use super::operation::{Change, Condition, How, Operation, Reading, Slot, Value};

/// Why a text is no operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(pub String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

fn wrong(text: impl Into<String>) -> ParseError {
    ParseError(text.into())
}

/// A key as text: bare where it can be, else in quotes with escapes.
struct Key<'a>(&'a [u8]);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_bare = |byte: &u8| byte.is_ascii_alphanumeric() || b"/_.:~+%".contains(byte);
        if !self.0.is_empty() && self.0.iter().all(is_bare) {
            return write!(f, "{}", self.0.escape_ascii());
        }
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A bound of an interval; `-` if it is open.
struct Bound<'a>(Option<&'a [u8]>);

impl fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => Key(key).fmt(f),
            None => f.write_str("-"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.bytes, self.tag)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Put { key, value, ttl_ms } => {
                write!(f, "put {} {value}", Key(key))?;
                ttl_ms.map_or(Ok(()), |ttl| write!(f, " ttl={ttl}"))
            }
            Change::Merge { key, operand } => write!(f, "merge {} {operand}", Key(key)),
            Change::Delete { key } => write!(f, "delete {}", Key(key)),
            Change::DeleteRange { start, end } => {
                write!(f, "delete-range {} {}", Key(start), Key(end))
            }
            Change::Ingest { puts } => {
                f.write_str("ingest ")?;
                write_changes(f, puts)
            }
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Always => f.write_str("always"),
            Condition::Absent => f.write_str("if-absent"),
            Condition::Present => f.write_str("if-present"),
            Condition::Is(value) => write!(f, "if-is {value}"),
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Key(key) => write!(f, "get {}", Key(key)),
            Reading::Walk { within, backward, limit } => {
                let way = if *backward { "backward" } else { "forward" };
                write!(f, "scan {} {way} {limit}", Interval(within))
            }
        }
    }
}

fn write_changes(f: &mut fmt::Formatter<'_>, changes: &[impl fmt::Display]) -> fmt::Result {
    f.write_str("{ ")?;
    for (index, change) in changes.iter().enumerate() {
        write!(f, "{}{change}", if index > 0 { "; " } else { "" })?;
    }
    f.write_str(" }")
}

fn write_how(f: &mut fmt::Formatter<'_>, how: How) -> fmt::Result {
    f.write_str(if how.sync { " sync" } else { "" })?;
    f.write_str(if how.wait { "" } else { " nowait" })
}

fn write_at(f: &mut fmt::Formatter<'_>, at: Option<Slot>) -> fmt::Result {
    at.map_or(Ok(()), |slot| write!(f, " at={slot}"))
}

struct Interval<'a>(&'a KeyRange);

impl fmt::Display for Interval<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = Some(self.0.start()).filter(|start| !start.is_empty());
        write!(f, "{} {}", Bound(start), Bound(self.0.end()))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Write { changes, how } => {
                match changes.as_slice() {
                    [only] => only.fmt(f)?,
                    changes => {
                        f.write_str("batch ")?;
                        write_changes(f, changes)?;
                    }
                }
                write_how(f, *how)
            }
            Operation::Update { key, condition, changes, how } => {
                write!(f, "update {} {condition} ", Key(key))?;
                write_changes(f, changes)?;
                write_how(f, *how)
            }
            Operation::Transact { readings, changes, how } => {
                f.write_str("transact ")?;
                write_changes(f, readings)?;
                f.write_str(" ")?;
                write_changes(f, changes)?;
                write_how(f, *how)
            }
            Operation::Get { key, at, wait } => {
                write!(f, "get {}", Key(key))?;
                write_at(f, *at)?;
                f.write_str(if *wait { "" } else { " nowait" })
            }
            Operation::MultiGet { keys, wait } => {
                f.write_str(if *wait { "multi-get" } else { "multi-get-nowait" })?;
                keys.iter().try_for_each(|key| write!(f, " {}", Key(key)))
            }
            Operation::Scan { within, backward, limit, at } => {
                let way = if *backward { "backward" } else { "forward" };
                write!(f, "scan {} {way} {limit}", Interval(within))?;
                write_at(f, *at)
            }
            Operation::Snapshot { slot } => write!(f, "snapshot {slot}"),
            Operation::DropSnapshot { slot } => write!(f, "drop-snapshot {slot}"),
            Operation::Iterate { slot, within, at } => {
                write!(f, "iterate {slot} {}", Interval(within))?;
                write_at(f, *at)
            }
            Operation::Seek { slot, key } => write!(f, "seek {slot} {}", Key(key)),
            Operation::SeekBack { slot, bound } => {
                write!(f, "seek-back {slot} {}", Bound(bound.as_deref()))
            }
            Operation::Step { slot, forward, count } => {
                write!(f, "{} {slot} {count}", if *forward { "next" } else { "prev" })
            }
            Operation::DropIterator { slot } => write!(f, "drop-iterator {slot}"),
            Operation::Flush => f.write_str("flush"),
            Operation::Compact { within } => write!(f, "compact {}", Interval(within)),
            Operation::Restart { clean } => {
                write!(f, "restart {}", if *clean { "close" } else { "drop" })
            }
            Operation::ReadOnly => f.write_str("read-only"),
            Operation::Sleep { ms } => write!(f, "sleep {ms}"),
            Operation::Settle => f.write_str("settle"),
            Operation::Check => f.write_str("check"),
            Operation::Ingest { puts } => {
                f.write_str("ingest ")?;
                write_changes(f, puts)
            }
            Operation::Checkpoint => f.write_str("checkpoint"),
            Operation::DropKeyspace { name } => write!(f, "drop-keyspace {name}"),
            Operation::RenameKeyspace { from, to } => write!(f, "rename-keyspace {from} {to}"),
            Operation::Divide { keys, duplicates } => {
                f.write_str("divide")?;
                for (index, count) in duplicates.iter().enumerate() {
                    write!(f, "{}{count}", if index == 0 { "-among " } else { "," })?;
                }
                keys.iter().try_for_each(|key| write!(f, " {}", Key(key)))
            }
        }
    }
}

impl FromStr for Operation {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Operation, ParseError> {
        let mut words = Words::of(text)?;
        let operation = words.operation()?;
        match words.rest.front() {
            None => Ok(operation),
            Some(word) => Err(wrong(format!("{word:?} is too much in: {text}"))),
        }
    }
}

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Bare(String),
    /// In quotes, escapes resolved.
    Quoted(Vec<u8>),
}

/// The words of a line that are not read yet.
struct Words {
    rest: VecDeque<Word>,
}

impl Words {
    fn of(text: &str) -> Result<Words, ParseError> {
        let mut rest = VecDeque::new();
        let mut chars = text.chars().peekable();
        while let Some(&next) = chars.peek() {
            match next {
                ' ' => {
                    chars.next();
                }
                ';' => {
                    chars.next();
                    rest.push_back(Word::Bare(";".to_string()));
                }
                '"' => {
                    chars.next();
                    rest.push_back(Word::Quoted(quoted(&mut chars)?));
                }
                _ => {
                    let mut word = String::new();
                    while let Some(&next) = chars.peek().filter(|next| !" ;\"".contains(**next)) {
                        word.push(next);
                        chars.next();
                    }
                    rest.push_back(Word::Bare(word));
                }
            }
        }
        Ok(Words { rest })
    }

    fn bare(&mut self) -> Result<String, ParseError> {
        match self.rest.pop_front() {
            Some(Word::Bare(word)) => Ok(word),
            Some(Word::Quoted(_)) => Err(wrong("a key stands where a word should")),
            None => Err(wrong("the line ends too early")),
        }
    }

    fn key(&mut self) -> Result<Vec<u8>, ParseError> {
        match self.rest.pop_front() {
            Some(Word::Bare(word)) => Ok(word.into_bytes()),
            Some(Word::Quoted(bytes)) => Ok(bytes),
            None => Err(wrong("a key is missing")),
        }
    }

    fn bound(&mut self) -> Result<Option<Vec<u8>>, ParseError> {
        if self.rest.front() == Some(&Word::Bare("-".to_string())) {
            self.rest.pop_front();
            return Ok(None);
        }
        self.key().map(Some)
    }

    fn interval(&mut self) -> Result<KeyRange, ParseError> {
        let start = self.bound()?.unwrap_or_default();
        Ok(KeyRange::new(start, self.bound()?))
    }

    fn number<T: FromStr>(&mut self) -> Result<T, ParseError> {
        let word = self.bare()?;
        word.parse().map_err(|_| wrong(format!("{word:?} is no number that fits here")))
    }

    fn value(&mut self) -> Result<Value, ParseError> {
        let word = self.bare()?;
        let parts = word.split_once('#');
        let parsed = parts.and_then(|(bytes, tag)| {
            Some(Value { bytes: bytes.parse().ok()?, tag: tag.parse().ok()? })
        });
        parsed.ok_or_else(|| wrong(format!("{word:?} is no value such as 300#7")))
    }

    /// Takes the next word if it is `word`.
    fn flag(&mut self, word: &str) -> bool {
        let is_there = matches!(self.rest.front(), Some(Word::Bare(next)) if next == word);
        if is_there {
            self.rest.pop_front();
        }
        is_there
    }

    /// The number of a word `name=number`, if that is next.
    fn setting<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, ParseError> {
        let Some(Word::Bare(word)) = self.rest.front() else { return Ok(None) };
        let Some(number) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) else {
            return Ok(None);
        };
        let parsed = number.parse().map_err(|_| wrong(format!("{word:?} has no number")))?;
        self.rest.pop_front();
        Ok(Some(parsed))
    }

    fn how(&mut self) -> How {
        let sync = self.flag("sync");
        How { sync, wait: !self.flag("nowait") }
    }

    fn change(&mut self, verb: &str) -> Result<Change, ParseError> {
        Ok(match verb {
            "put" => {
                Change::Put { key: self.key()?, value: self.value()?, ttl_ms: self.setting("ttl")? }
            }
            "merge" => Change::Merge { key: self.key()?, operand: self.value()? },
            "delete" => Change::Delete { key: self.key()? },
            "delete-range" => Change::DeleteRange { start: self.key()?, end: self.key()? },
            other => return Err(wrong(format!("{other:?} is no operation"))),
        })
    }

    fn changes(&mut self) -> Result<Vec<Change>, ParseError> {
        if !self.flag("{") {
            return Err(wrong("a { is missing"));
        }
        let mut changes = Vec::new();
        while !self.flag("}") {
            let verb = self.bare()?;
            changes.push(self.change(&verb)?);
            self.flag(";");
        }
        Ok(changes)
    }

    fn readings(&mut self) -> Result<Vec<Reading>, ParseError> {
        if !self.flag("{") {
            return Err(wrong("a { is missing"));
        }
        let mut readings = Vec::new();
        while !self.flag("}") {
            readings.push(match self.bare()?.as_str() {
                "get" => Reading::Key(self.key()?),
                "scan" => Reading::Walk {
                    within: self.interval()?,
                    backward: self.way()?,
                    limit: self.number()?,
                },
                other => return Err(wrong(format!("{other:?} is nothing that is read"))),
            });
            self.flag(";");
        }
        Ok(readings)
    }

    fn condition(&mut self) -> Result<Condition, ParseError> {
        Ok(match self.bare()?.as_str() {
            "always" => Condition::Always,
            "if-absent" => Condition::Absent,
            "if-present" => Condition::Present,
            "if-is" => Condition::Is(self.value()?),
            other => return Err(wrong(format!("{other:?} is no condition"))),
        })
    }

    fn operation(&mut self) -> Result<Operation, ParseError> {
        let verb = self.bare()?;
        Ok(match verb.as_str() {
            "batch" => Operation::Write { changes: self.changes()?, how: self.how() },
            "update" => Operation::Update {
                key: self.key()?,
                condition: self.condition()?,
                changes: self.changes()?,
                how: self.how(),
            },
            "transact" => Operation::Transact {
                readings: self.readings()?,
                changes: self.changes()?,
                how: self.how(),
            },
            "get" => Operation::Get {
                key: self.key()?,
                at: self.setting("at")?,
                wait: !self.flag("nowait"),
            },
            "multi-get" | "multi-get-nowait" => {
                let mut keys = Vec::new();
                while !self.rest.is_empty() {
                    keys.push(self.key()?);
                }
                Operation::MultiGet { keys, wait: verb == "multi-get" }
            }
            "scan" => Operation::Scan {
                within: self.interval()?,
                backward: self.way()?,
                limit: self.number()?,
                at: self.setting("at")?,
            },
            "snapshot" => Operation::Snapshot { slot: self.number()? },
            "drop-snapshot" => Operation::DropSnapshot { slot: self.number()? },
            "iterate" => Operation::Iterate {
                slot: self.number()?,
                within: self.interval()?,
                at: self.setting("at")?,
            },
            "seek" => Operation::Seek { slot: self.number()?, key: self.key()? },
            "seek-back" => Operation::SeekBack { slot: self.number()?, bound: self.bound()? },
            "next" | "prev" => Operation::Step {
                slot: self.number()?,
                forward: verb == "next",
                count: self.number()?,
            },
            "drop-iterator" => Operation::DropIterator { slot: self.number()? },
            "flush" => Operation::Flush,
            "compact" => Operation::Compact { within: self.interval()? },
            "restart" => Operation::Restart { clean: self.bare()? == "close" },
            "read-only" => Operation::ReadOnly,
            "sleep" => Operation::Sleep { ms: self.number()? },
            "settle" => Operation::Settle,
            "check" => Operation::Check,
            "ingest" => Operation::Ingest { puts: self.changes()? },
            "checkpoint" => Operation::Checkpoint,
            "drop-keyspace" => Operation::DropKeyspace { name: self.bare()? },
            "rename-keyspace" => Operation::RenameKeyspace { from: self.bare()?, to: self.bare()? },
            "divide" | "divide-among" => {
                let mut duplicates = Vec::new();
                if verb == "divide-among" {
                    let word = self.bare()?;
                    let counts: Result<_, _> = word.split(',').map(str::parse).collect();
                    duplicates = counts.map_err(|_| wrong(format!("{word:?} are no numbers")))?;
                }
                let mut keys = Vec::new();
                while !self.rest.is_empty() {
                    keys.push(self.key()?);
                }
                Operation::Divide { keys, duplicates }
            }
            verb => Operation::Write { changes: vec![self.change(verb)?], how: self.how() },
        })
    }

    fn way(&mut self) -> Result<bool, ParseError> {
        match self.bare()?.as_str() {
            "forward" => Ok(false),
            "backward" => Ok(true),
            other => Err(wrong(format!("{other:?} is no way to go: forward or backward"))),
        }
    }
}

/// The bytes up to the closing quote.
fn quoted(chars: &mut Peekable<Chars<'_>>) -> Result<Vec<u8>, ParseError> {
    let mut bytes = Vec::new();
    loop {
        match chars.next() {
            Some('"') => return Ok(bytes),
            Some('\\') => bytes.push(escaped(chars)?),
            Some(other) if other.is_ascii() => bytes.push(other as u8),
            Some(_) => return Err(wrong("bytes above 127 are written as escapes")),
            None => return Err(wrong("a quote is not closed")),
        }
    }
}

fn escaped(chars: &mut Peekable<Chars<'_>>) -> Result<u8, ParseError> {
    Ok(match chars.next() {
        Some('n') => b'\n',
        Some('r') => b'\r',
        Some('t') => b'\t',
        Some('x') => {
            let mut digit = || chars.next().and_then(|digit| digit.to_digit(16));
            match (digit(), digit()) {
                // Two hexadecimal digits fit a byte.
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Err(wrong("\\x wants two hexadecimal digits")),
            }
        }
        Some(other) if other.is_ascii() => other as u8,
        _ => return Err(wrong("an escape is not finished")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_read_back_as_they_were_printed() {
        let lines = [
            "put k00012 300#7 ttl=5000 sync",
            "put \"\" 0#1",
            "merge k 3#9 sync",
            "delete \"a b\\xff\\\"\\\\\" nowait",
            "delete-range a \"\"",
            "batch {  }",
            "batch { put a 1#1; put a 2#2; delete b; delete-range a c } sync nowait",
            "update k if-absent { put k 8#3 }",
            "update k if-is 8#3 { delete k; merge k 1#2 } sync",
            "update k always {  }",
            "get k at=3 nowait",
            "multi-get a \"\" b",
            "multi-get-nowait a",
            "scan - - forward 10",
            "scan a \"-\" backward 1 at=0",
            "transact { get a; scan b - forward 3 } { put k 8#3; delete b } sync",
            "transact {  } { delete-range a c } nowait",
            "snapshot 1",
            "drop-snapshot 1",
            "iterate 2 a - at=1",
            "seek 2 b",
            "seek-back 2 -",
            "seek-back 2 \"\"",
            "next 2 5",
            "prev 2 1",
            "drop-iterator 2",
            "flush",
            "compact - z",
            "restart close",
            "restart drop",
            "read-only",
            "sleep 20",
            "settle",
            "check",
            "drop-keyspace a",
            "rename-keyspace a b",
            "divide",
            "divide a \"\" b",
            "divide-among 2",
            "divide-among 1,3 a \"\" b",
        ];
        for line in lines {
            let operation: Operation = line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(operation.to_string(), line);
        }
    }

    #[test]
    fn what_is_no_operation_is_refused_with_a_reason() {
        for line in [
            "",
            "put",
            "put k",
            "put k 3",
            "merge k",
            "get",
            "fly",
            "transact { fly } { }",
            "transact { get a }",
            "scan - - up 1",
            "flush now",
            "divide-among k",
        ] {
            assert!(line.parse::<Operation>().is_err(), "{line}");
        }
        for line in ["get \"k", "get \"\\x4\"", "batch put k 1#1", "update k maybe { }", "sleep x"]
        {
            assert!(line.parse::<Operation>().is_err(), "{line}");
        }
    }
}
