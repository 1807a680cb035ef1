//! The command line as people see it: what can be given, and what it means for the library.
//!
//! One file has the commands of one subject. Their doc comments are the help that the program
//! prints, so they speak to whoever types the command.

mod backup;
mod bench;
mod cloud;
mod command;
mod entries;
mod explain;
mod figures;
mod keys;
mod keyspaces;
mod output;
mod place;
mod serve;
mod shell;
mod sim;
mod store;
mod tiers;
mod transfer;
mod units;
mod upkeep;

pub(crate) use backup::{
    BackupAct, BackupArgs, BackupChoiceArgs, BackupCreateArgs, BackupPlaceArgs, RestoreArgs,
};
pub(crate) use bench::BenchArgs;
pub(crate) use cloud::{CloneArgs, CloudAct, CloudActArgs, WhyLiveArgs};
pub(crate) use command::{Args, Command, DataCommand};
pub(crate) use entries::{CountArgs, DeleteArgs, GetArgs, PutArgs, ScanArgs};
pub(crate) use explain::{ExplainArgs, ExplainedRead, SlowArgs};
pub(crate) use figures::{Figures, PlanArgs, StatsArgs};
pub(crate) use keyspaces::{KeyspacesAct, KeyspacesArgs};
pub(crate) use output::{Output, ValueOutput};
pub(crate) use place::{Place, PlaceArgs, StorePlace, Surroundings, only_read};
pub(crate) use serve::ServeArgs;
pub(crate) use shell::{ShellArgs, ShellCommand, ShellLine, UseArgs, shell_words};
pub(crate) use sim::SimArgs;
pub(crate) use tiers::Sample;
pub(crate) use transfer::{CheckpointArgs, ExportArgs, ImportArgs, IngestArgs};
pub use units::{parse_size, parse_time};
pub(crate) use upkeep::{CheckArgs, CompactArgs, InspectArgs, InspectKind, RepairArgs};
