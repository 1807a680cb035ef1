//! Commands that bring entries in, or take them out.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::args::cloud::CloudArgs;
use crate::args::keys::RangeArgs;
use crate::format::{Format, KeyTemplate};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Damaged lines end the import, with their number; everything before them is stored. So does Ctrl-C.
Both say with which --skip to go on.")]
pub(crate) struct ImportArgs {
    /// What the files hold
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Leave out this many lines at the beginning (of all files together)
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    pub(crate) skip: u64,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) cloud: CloudArgs,
}

/// Where entries come from, and what their keys are.
#[derive(Debug, ClapArgs)]
pub(crate) struct InputArgs {
    /// Which field is the key, or how to make one of several: '{Package}={Version}'. For deb822
    /// (default {Package}={Version}/{Architecture}), and for jsonl with objects of your own
    #[arg(long, value_name = "TEMPLATE", value_parser = KeyTemplate::parse)]
    pub(crate) key_field: Option<KeyTemplate>,
    /// The files; - for standard input. Names that end in .gz or .lz4 are decompressed
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The keys of all files of a keyspace come in ascending order, bytewise, each once, as export writes them.
A line out of order or damaged ends it, with its number, and so does Ctrl-C: then nothing was ingested, into
no keyspace.
No server may have the directory open; `terrace import` writes entries through one.")]
pub(crate) struct IngestArgs {
    /// What the files hold
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Jsonl)]
    pub(crate) format: Format,
    /// A file for another keyspace, which is made if it is missing; may be given more than once.
    /// All keyspaces get theirs in one step
    #[arg(long, value_name = "KEYSPACE=FILE", value_parser = InOther::parse)]
    pub(crate) into: Vec<InOther>,
    /// Which field is the key, or how to make one of several; as for import
    #[arg(long, value_name = "TEMPLATE", value_parser = KeyTemplate::parse)]
    pub(crate) key_field: Option<KeyTemplate>,
    /// The files; - for standard input. Names that end in .gz or .lz4 are decompressed
    #[arg(value_name = "FILE", required_unless_present = "into")]
    pub(crate) files: Vec<PathBuf>,
}

/// A file whose entries go into a keyspace of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InOther {
    pub(crate) keyspace: String,
    pub(crate) file: PathBuf,
}

impl InOther {
    /// The name ends at the first `=`.
    fn parse(text: &str) -> Result<InOther, String> {
        match text.split_once('=') {
            Some((keyspace, file)) if !keyspace.is_empty() && !file.is_empty() => {
                Ok(InOther { keyspace: keyspace.to_owned(), file: file.into() })
            }
            _ => Err("say for which keyspace and which file, as in users=users.jsonl".to_owned()),
        }
    }
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The copy shares the bytes of its tables with the database (on another file system they are copied) and
opens like any other; deleting one of the two leaves the other. After an error or Ctrl-C it holds no
database. A running server (--connect, if it was started with --operator-dir) makes it on its side: then
--out is its name there.")]
pub(crate) struct CheckpointArgs {
    /// The directory of the copy, which does not exist or is empty; its name, if a server makes it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// As what to write them: jsonl or tsv
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Jsonl)]
    pub(crate) format: Format,
}
