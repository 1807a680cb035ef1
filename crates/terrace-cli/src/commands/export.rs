use crate::args::ExportArgs;
use crate::commands::with_data;
use crate::data::Access;
use crate::failure::{Failure, Outcome};
use crate::format::Format;
use crate::terminal::Output;

pub(super) fn export(args: ExportArgs) -> Outcome {
    if args.format == Format::Deb822 {
        let text = "deb822 can only be imported; export as jsonl or tsv".to_owned();
        return Err(Failure::Usage(text));
    }
    let range = args.range.range()?;
    let mut output = Output::new();
    let mut line = Vec::new();
    with_data(&args.data, Access::Read, |data| {
        data.export(&range, &mut |record| {
            line.clear();
            args.format.put(&mut line, record);
            output.write(&line)
        })
    })?;
    output.finish()
}
