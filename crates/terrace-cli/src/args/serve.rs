//! `terrace serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use terrace_server::ServerOptions;

use crate::args::store::StoreArgs;
use crate::args::units::parse_size;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The directory is made if there is none. Clients must give the password if there is one.")]
pub(crate) struct ServeArgs {
    /// Where to listen. Other machines are let in only with a password, or with --insecure
    #[arg(long, value_name = "ADDR", default_value_t = ServerOptions::default().listen)]
    pub(crate) listen: SocketAddr,
    /// The most clients at a time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) max_clients: usize,
    /// The memory for requests and replies of all clients together, beyond 64 KiB each, such as
    /// 256M (1G unless given). A request counts twice while it runs; one that would go over it, or
    /// whose reply would, gets an error
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) client_bytes: Option<u64>,
    /// How long a client may stop in the middle of a request, or take none of its replies while
    /// more than 64 KiB of them waits, before it is cut
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) stall_timeout: u64,
    /// How long a client may send no request before it is cut; 0 for as long as it likes
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) idle_timeout: u64,
    /// Let other machines in without a password
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Take operators' commands from clients (CHECKPOINT, BACKUP, COMPACT, CHECK), and make the
    /// copies and backups under this directory, which is made for the owner alone
    #[arg(long, value_name = "DIR")]
    pub(crate) operator_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}
