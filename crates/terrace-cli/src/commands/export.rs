use crate::args::ExportArgs;
use crate::commands::Session;
use crate::data::{Walk, Wanted};
use crate::failure::{Failure, Outcome};
use crate::format::Format;
use crate::terminal::Output;

pub(super) fn export(args: ExportArgs, session: &mut Session) -> Outcome {
    if args.format == Format::Deb822 {
        let text = "deb822 can only be imported; export as jsonl or tsv".to_owned();
        return Err(Failure::Usage(text));
    }
    let range = args.range.range()?;
    let walk = Walk { range, reverse: false, limit: u64::MAX, wanted: Wanted::All };
    let mut output = Output::new();
    let mut line = Vec::new();
    let stop = session.stop_if_caught();
    session.data()?.walk(&walk, &mut |record| {
        stop.heed()?;
        line.clear();
        args.format.put(&mut line, record);
        output.write(&line)
    })?;
    output.finish()
}
