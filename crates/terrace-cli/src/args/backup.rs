//! Backups of a directory, and what is made of them.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};

use crate::args::units::parse_size;
use crate::failure::{Failure, Outcome};

#[derive(Debug, ClapArgs)]
#[command(long_about = "Make backups of a database, list them, check them, delete them

A backup is a directory of one moment that opens by itself. A later one in the same place shares \
with the one before it what did not change, where the file system has hard links, and deleting one \
takes nothing away from another.

While a server has the database open, --connect has it make, list, verify and delete backups, on its \
side: in series by name, under the directory of `terrace serve --operator-dir`.")]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    pub(crate) act: BackupAct,
}

/// What is done about backups.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupAct {
    /// Make a backup of the database
    Create(BackupCreateArgs),
    /// List the backups in a directory
    List(BackupPlaceArgs),
    /// Read everything in a backup, and say what is damaged
    Verify(BackupChoiceArgs),
    /// Delete a backup; what it shares with others stays theirs
    Delete(BackupChoiceArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BackupPlaceArgs {
    /// The directory of the backups; of those that a server makes, the name of the series [there:
    /// main]
    #[arg(long = "in", value_name = "DIR")]
    backups: Option<PathBuf>,
}

impl BackupPlaceArgs {
    /// The directory. Errors: it was not said.
    pub(crate) fn dir(&self) -> Outcome<&Path> {
        self.backups.as_deref().ok_or_else(|| {
            Failure::Usage(
                "which backups? Say --in DIR, or --connect ADDR for those of a server".into(),
            )
        })
    }

    /// The series on a server.
    pub(crate) fn series(&self) -> &[u8] {
        self.backups.as_ref().map_or(b"main", |name| name.as_os_str().as_bytes())
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BackupCreateArgs {
    #[command(flatten)]
    pub(crate) place: BackupPlaceArgs,
    /// Copy everything anew and share nothing with earlier backups
    #[arg(long)]
    pub(crate) full: bool,
    /// Share bytes with the database itself where both are on one file system: fast and small, but
    /// damage to the one is damage to the other
    #[arg(long)]
    pub(crate) link: bool,
    /// Copy at most so many bytes a second, such as 20M
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) rate: Option<u64>,
    /// Delete all but so many backups afterwards, the newest ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BackupChoiceArgs {
    #[command(flatten)]
    pub(crate) place: BackupPlaceArgs,
    /// The number of the backup, as `terrace backup list` shows it
    #[arg(value_name = "NUMBER")]
    pub(crate) number: u32,
}

#[derive(Debug, ClapArgs)]
#[command(long_about = "Make a database out of a backup

The new database is a copy: it goes on by itself, and the backup stays as it is. Every byte is \
compared with its checksum. After an error or Ctrl-C the new directory holds no database.")]
pub(crate) struct RestoreArgs {
    /// The directory of the backups
    #[arg(long = "in", value_name = "DIR")]
    pub(crate) backups: PathBuf,
    /// The number of the backup, as `terrace backup list` shows it; the newest one unless told
    #[arg(value_name = "NUMBER")]
    pub(crate) number: Option<u32>,
    /// The directory of the new database, which does not exist or is empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Copy at most so many bytes a second, such as 20M
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) rate: Option<u64>,
}
