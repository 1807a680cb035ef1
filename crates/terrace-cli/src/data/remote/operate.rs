//! Operations of a running server: they take long, and can be looked at from a second connection.

use std::io;
use std::time::Duration;

use terrace::OwnedRange;
use terrace_server::protocol::{Value, put_request};

use super::{RemoteData, wire_bounds};
use crate::failure::{Failure, Outcome};
use crate::signals::StopFlag;
use crate::terminal::Progress;

/// How long to wait for the reply between two looks at how far the server is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a server replied with: names and values.
#[derive(Debug)]
pub(crate) struct Fields(Vec<(String, Value)>);

impl Fields {
    fn read(reply: &Value) -> Option<Fields> {
        let text = |value: &Value| match value {
            Value::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        let field = |pair: &[Value]| match pair {
            [name, value] => Some((text(name)?, value.clone())),
            _ => None,
        };
        let Value::Array(parts) = reply else { return None };
        parts.chunks(2).map(field).collect::<Option<Vec<_>>>().map(Fields)
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A number; 0 if the server has not said it.
    pub(crate) fn number(&self, name: &str) -> u64 {
        match self.get(name) {
            Some(Value::Integer(number)) => u64::try_from(*number).unwrap_or(0),
            Some(Value::Bulk(digits)) => {
                str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// A text; empty if the server has not said it.
    pub(crate) fn text(&self, name: &str) -> String {
        match self.get(name) {
            Some(Value::Bulk(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    }
}

/// How an operation is watched: by a second connection, made when there is something to look at.
pub(crate) struct Watch<'a> {
    pub(crate) connect: &'a dyn Fn() -> Outcome<RemoteData>,
    pub(crate) stop: StopFlag,
}

impl RemoteData {
    /// Has the server do an operation, and shows how far it is. On Ctrl-C the server is asked to
    /// end it, and its reply is waited for.
    pub(crate) fn operate(&mut self, arguments: &[&[u8]], watch: &Watch<'_>) -> Outcome<Fields> {
        let reply = self.call_watched(arguments, watch)?;
        Fields::read(&reply).ok_or_else(|| self.unexpected(&reply))
    }

    /// As [`RemoteData::operate`], of one that replies `OK`.
    pub(crate) fn operate_for_ok(&mut self, arguments: &[&[u8]], watch: &Watch<'_>) -> Outcome {
        self.call_watched(arguments, watch).map(drop)
    }

    /// Compacts an interval of the keyspace that the connection is in.
    pub(crate) fn compact(&mut self, range: &OwnedRange, watch: &Watch<'_>) -> Outcome {
        // Bounds that are signs for ends are taken for a little more.
        let (start, end, _) = wire_bounds(range);
        if range.is_empty() {
            return Ok(());
        }
        self.operate_for_ok(&[b"COMPACT", &start, &end], watch)
    }

    /// Number, seconds since 1970, bytes, and number of the last write of each backup.
    pub(crate) fn backups(&mut self, series: &[u8]) -> Outcome<Vec<[u64; 4]>> {
        let reply = self.call(&[b"BACKUP", b"LIST", b"IN", series])?;
        let one = |part: &Value| {
            let Value::Array(numbers) = part else { return None };
            let number = |value: &Value| match value {
                Value::Integer(number) => u64::try_from(*number).ok(),
                _ => None,
            };
            let numbers: Vec<u64> = numbers.iter().map(number).collect::<Option<_>>()?;
            <[u64; 4]>::try_from(numbers).ok()
        };
        let all = match &reply {
            Value::Array(parts) => parts.iter().map(one).collect(),
            _ => None,
        };
        all.ok_or_else(|| self.unexpected(&reply))
    }

    fn call_watched(&mut self, arguments: &[&[u8]], watch: &Watch<'_>) -> Outcome<Value> {
        let mut request = Vec::new();
        put_request(&mut request, arguments);
        self.send(&request)?;
        let progress = Progress::of_share();
        let waited = self.wait_watched(watch, &progress);
        progress.finish();
        waited?;
        let reply = self.replies.read().map_err(|error| self.lost(&error))?;
        match reply {
            Value::Error(text) if text.starts_with("CANCELLED") => {
                Err(Failure::Interrupted("interrupted: the server made no copy".into()))
            }
            reply => self.check(reply),
        }
    }

    /// Waits until the reply begins to come.
    fn wait_watched(&mut self, watch: &Watch<'_>, progress: &Progress) -> Outcome {
        let mut watcher: Option<RemoteData> = None;
        let mut is_asked = false;
        while !self.has_reply_within(LOOK_EVERY)? {
            if watcher.is_none() {
                watcher = (watch.connect)().ok();
            }
            let Some(other) = &mut watcher else {
                // Nobody tells how far it is; Ctrl-C leaves the server alone with it.
                watch.heed_stop()?;
                continue;
            };
            let status = other.call(&[b"OPERATION", b"STATUS"])?;
            let status = Fields::read(&status).ok_or_else(|| self.unexpected(&status))?;
            if status.number("total_bytes") > 0 {
                progress.set_share(status.number("done_bytes"), status.number("total_bytes"));
            }
            if watch.stop.is_set() && !is_asked {
                let id = status.number("id").to_string();
                let asked = other.call(&[b"OPERATION", b"CANCEL", id.as_bytes()]);
                asked.or_else(|_| watch.heed_stop().map(|()| Value::Null))?;
                is_asked = true;
            }
        }
        Ok(())
    }

    fn has_reply_within(&mut self, time: Duration) -> Outcome<bool> {
        let peeked = self.stream.set_read_timeout(Some(time)).and_then(|()| {
            let peeked = self.stream.peek(&mut [0]);
            self.stream.set_read_timeout(None)?;
            peeked
        });
        match peeked {
            // Its end, too, is found by reading.
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(self.lost(&error)),
            },
        }
    }
}

impl Watch<'_> {
    fn heed_stop(&self) -> Outcome {
        match self.stop.is_set() {
            false => Ok(()),
            true => Err(Failure::Interrupted(
                "interrupted, but the server goes on to the end of it; OPERATION STATUS says how far \
                 it is"
                    .into(),
            )),
        }
    }
}
