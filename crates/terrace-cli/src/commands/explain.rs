use std::fmt::Write as _;

use crate::args::{self, ExplainArgs, ExplainedRead, SlowArgs};
use crate::commands::maintain::{json, print};
use crate::commands::with_data;
use crate::data::{Access, RemoteData, SlowEntry, Walk};
use crate::failure::Outcome;
use crate::files;
use crate::terminal::Output;

pub(super) fn explain(args: ExplainArgs) -> Outcome {
    let text = match args.read {
        ExplainedRead::Get(args) => {
            let key = args.keys.bytes(&args.key)?;
            let json = args.output == args::Output::Json;
            with_data(&args.data, Access::Read, |data| data.explain_get(&key, json))?
        }
        ExplainedRead::Scan(args) => {
            let (reverse, limit) = (args.reverse, args.limit);
            let walk = Walk { range: args.range.range()?, reverse, limit, keys_only: false };
            let json = args.output == args::Output::Json;
            with_data(&args.data, Access::Read, |data| data.explain_scan(&walk, json))?
        }
    };
    print(text)
}

pub(super) fn slow(args: SlowArgs) -> Outcome {
    let password = files::password(args.password_file.as_deref())?;
    let mut server = RemoteData::connect(&args.connect, password.as_ref())?;
    let mut slow = server.slow()?;
    slow.sort_by_key(|entry| std::cmp::Reverse((entry.us, entry.id)));
    slow.truncate(args.limit);
    let mut output = Output::new();
    match args.output {
        args::Output::Text => output.line(table(&slow))?,
        args::Output::Json => slow.iter().try_for_each(|entry| output.line(json(entry)?))?,
    }
    output.finish()?;
    if args.reset { server.reset_slow() } else { Ok(()) }
}

/// One line an entry, the slowest first.
fn table(slow: &[SlowEntry]) -> String {
    if slow.is_empty() {
        return "nothing was slow in the last minutes".to_owned();
    }
    let mut text = "        time  what   key, and where the time went".to_owned();
    for entry in slow {
        let (us, what) = (entry.us, entry.operation.to_lowercase());
        let _ = write!(text, "\n{us:>9} us  {what:5}  {}  {}", entry.key, entry.breakdown);
    }
    text
}
