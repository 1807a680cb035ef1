use crate::args::{self, CountArgs, ScanArgs};
use crate::commands::Session;
use crate::commands::maintain::print;
use crate::data::{Walk, Wanted};
use crate::failure::{Failure, Outcome};
use crate::format::{Record, put_entry_json, put_entry_tsv, put_escaped, put_hex, put_key_json};
use crate::terminal::Output;

pub(super) fn scan(args: ScanArgs, session: &mut Session) -> Outcome {
    let shape = Shape::new(args.output, args.range.keys.hex)?;
    let walk = Walk {
        range: args.range.range()?,
        reverse: args.reverse,
        limit: args.limit.unwrap_or(u64::MAX),
        wanted: match (args.keys_only, shape) {
            (true, _) => Wanted::Keys,
            (false, Shape::Json) => Wanted::All,
            (false, _) => Wanted::Values,
        },
    };
    let mut output = Output::new();
    let mut line = Vec::new();
    let stop = session.stop_if_caught();
    session.data()?.walk(&walk, &mut |record| {
        stop.heed()?;
        line.clear();
        if args.keys_only {
            shape.put_key(&mut line, &record.key);
        } else {
            shape.put_entry(&mut line, record);
        }
        output.write(&line)
    })?;
    output.finish()
}

pub(super) fn count(args: CountArgs, session: &mut Session) -> Outcome {
    let range = args.range.range()?;
    if args.approximate {
        return print(session.data()?.size(&range)?.entries);
    }
    let stop = session.stop_if_caught();
    print(session.data()?.count(&range, &stop)?)
}

/// How entries are written as lines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Hex,
    Json,
}

impl Shape {
    /// Errors: JSON has no use for hexadecimal digits.
    pub(super) fn new(output: args::Output, is_hex: bool) -> Outcome<Shape> {
        match (output, is_hex) {
            (args::Output::Text, false) => Ok(Shape::Text),
            (args::Output::Text, true) => Ok(Shape::Hex),
            (args::Output::Json, false) => Ok(Shape::Json),
            (args::Output::Json, true) => Err(Failure::Usage(
                "--hex and json do not go together: in JSON, what is no text is base64".to_owned(),
            )),
        }
    }

    pub(super) fn put_key(self, line: &mut Vec<u8>, key: &[u8]) {
        match self {
            Shape::Json => return put_key_json(line, key),
            Shape::Text => put_escaped(line, key),
            Shape::Hex => put_hex(line, key),
        }
        line.push(b'\n');
    }

    pub(super) fn put_entry(self, line: &mut Vec<u8>, record: &Record) {
        match self {
            Shape::Text => put_entry_tsv(line, record),
            Shape::Json => put_entry_json(line, record),
            Shape::Hex => {
                put_hex(line, &record.key);
                line.push(b'\t');
                put_hex(line, &record.value);
                line.push(b'\n');
            }
        }
    }
}
