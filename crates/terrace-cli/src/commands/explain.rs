use std::fmt::Write as _;

use crate::args::{self, ExplainArgs, ExplainedRead, SlowArgs};
use crate::commands::maintain::{json, print};
use crate::commands::{Session, Target};
use crate::data::{SlowEntry, Walk, Wanted};
use crate::failure::Outcome;
use crate::terminal::Output;

pub(super) fn explain(args: ExplainArgs, session: &mut Session) -> Outcome {
    let text = match args.read {
        ExplainedRead::Get(args) => {
            let key = args.keys.bytes(&args.key)?;
            let json = args.output == args::Output::Json;
            session.data()?.explain_get(&key, json)?
        }
        ExplainedRead::Scan(args) => {
            let (reverse, limit) = (args.reverse, args.limit);
            let walk = Walk { range: args.range.range()?, reverse, limit, wanted: Wanted::Values };
            let json = args.output == args::Output::Json;
            session.data()?.explain_scan(&walk, json)?
        }
    };
    print(text)
}

pub(super) fn slow(args: SlowArgs, target: &Target) -> Outcome {
    let mut server = target.server()?;
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
