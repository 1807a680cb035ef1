//! Commands that look after the files of a database.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::args::keys::RangeArgs;
use crate::args::output::Output;
use crate::failure::{Failure, Outcome};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nobody may have the directory open for writing; of a running server (--connect, if it was started with
--operator-dir) the tables are checked. Nothing is written. Code 0: no damage, 1: damage, 3: it could
not be checked. After a crash the end of the log can be what the crash left, or damage
to what was never promised to last: that is said, and is no damage.")]
pub(crate) struct CheckArgs {
    /// Of tables only sizes, footers, indexes, filters and properties
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to print the result
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The damaged database is only read. The new one holds nothing that was never written; which keys may
be missing, old, or deleted and back again, is printed. Code 0: nothing was lost, 1: something was,
3: there is no new database. Restore a backup instead if there is one.")]
pub(crate) struct RepairArgs {
    /// The directory of the new one, which does not exist or is empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
What a database has on other media (--log-path, --l0-path) belongs to the directory that it was written
for. After that directory was moved, this makes the new one the owner; the old one is refused from then
on. Nothing else is changed. To have a copy beside the original, use terrace checkpoint instead.")]
pub(crate) struct AdoptArgs {}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
What a file is, it says itself, whatever it is called: CURRENT, a manifest, a log segment or a table.
Of a directory, each file in it is shown in short. Each line begins with an offset in the file. Keys are
stored ones: two bytes of keyspace and one of type stand in front. Code 0: all is whole, 1: something is
damaged.")]
pub(crate) struct InspectArgs {
    /// What the file is, if what it says of itself is damaged
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) kind: Option<InspectKind>,
    /// The file, or the directory of a database
    #[arg(value_name = "FILE", required = true, num_args = 1..=2)]
    pub(crate) path: Vec<PathBuf>,
    /// Only what stands once in a file and what is damaged, and how many other parts there are
    #[arg(long, conflicts_with = "entries")]
    pub(crate) summary: bool,
    /// With every entry of a log or a table, and the values of a value file
    #[arg(long)]
    pub(crate) entries: bool,
    /// How to print it
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

impl InspectArgs {
    /// The file or directory, and its kind if that was said: once by an option, and before that by
    /// a word in front of the file.
    ///
    /// Errors: that word is no kind.
    pub(crate) fn target(&self) -> Outcome<(&PathBuf, Option<InspectKind>)> {
        let [word, path] = self.path.as_slice() else { return Ok((&self.path[0], self.kind)) };
        let kind = InspectKind::from_str(&word.to_string_lossy(), true);
        let kind = kind.map_err(|_| {
            Failure::Usage(format!(
                "{} is no kind of file; say one FILE, and nothing before it",
                word.display()
            ))
        })?;
        Ok((path, Some(kind)))
    }
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InspectKind {
    /// A manifest: which tables there are
    Manifest,
    /// A table
    Table,
    /// A log segment
    Log,
    /// CURRENT: which manifest counts
    Current,
    /// A value file: large values that tables point to
    Values,
    /// Blocks of tables in an object store, kept near
    CachedBlocks,
    /// Metadata of a table in an object store, kept near
    CachedMetadata,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
}
