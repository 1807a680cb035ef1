use crate::args::{self, ScanArgs};
use crate::commands::with_data;
use crate::data::{Access, Walk};
use crate::failure::Outcome;
use crate::format::{Record, put_entry_json, put_entry_tsv, put_escaped, put_key_json};
use crate::terminal::Output;

pub(super) fn scan(args: ScanArgs) -> Outcome {
    let walk = Walk {
        range: args.range.range()?,
        reverse: args.reverse,
        limit: args.limit.unwrap_or(u64::MAX),
        keys_only: args.keys_only,
    };
    let mut output = Output::new();
    let mut line = Vec::new();
    with_data(&args.data, Access::Read, |data| {
        data.walk(&walk, &mut |key, value| {
            line.clear();
            match (args.output, args.keys_only) {
                (args::Output::Text, true) => {
                    put_escaped(&mut line, key);
                    line.push(b'\n');
                }
                (args::Output::Json, true) => put_key_json(&mut line, key),
                (kind, false) => {
                    let (key, value) = (key.to_vec(), value.to_vec());
                    let record = Record { key, value, expiry_ms: None };
                    match kind {
                        args::Output::Text => put_entry_tsv(&mut line, &record),
                        args::Output::Json => put_entry_json(&mut line, &record),
                    }
                }
            }
            output.write(&line)
        })
    })?;
    output.finish()
}
