//! The subcommands, one file for each act that is more than a call.

mod backup;
mod bench;
mod checkpoint;
mod cloud;
mod explain;
mod export;
mod import;
mod ingest;
mod inspect;
mod keys;
mod keyspaces;
mod maintain;
mod plan;
mod rescue;
mod scan;
mod serve;
mod shell;
mod sim;
mod stats;

use std::path::Path;

use terrace::{Db, Keyspace, Options};

use crate::args::{Args, Command, DataCommand, Place, PlaceArgs, Surroundings, only_read};
use crate::data::{Access, Data, LocalData, RemoteData, Watch, keyspace_of, open};
use crate::failure::{Failure, Outcome};
use crate::signals::StopFlag;
use crate::{files, terminal};

/// Does what the command line says.
pub(crate) fn run(args: Args) -> Outcome {
    args.check()?;
    let target = Target { args: args.place, around: Surroundings::read(terminal::environment)? };
    match args.command {
        Command::Data(command) => {
            let options = options(&command, &target)?;
            let mut session = Session::new(target, access(&command), options);
            let outcome = run_on(command, &mut session);
            let closed = session.close();
            outcome?;
            closed
        }
        Command::Shell(args) => {
            // What is typed may be to read alone.
            let access = if target.is_store() { Access::Read } else { Access::Write };
            shell::shell(&args, Session::new(target, access, Options::default()))
        }
        Command::Ingest(args) => ingest::ingest(args, &target),
        Command::Serve(args) => serve::serve(*args, &target),
        Command::Plan(args) => plan::plan(&args, &target),
        Command::Slow(args) => explain::slow(args, &target),
        Command::Checkpoint(args) => checkpoint::checkpoint(&args, &target),
        Command::Clone(args) => cloud::clone(&args, &target),
        Command::Cloud(args) => cloud::cloud(args, &target),
        Command::WhyLive(args) => cloud::why_live(&args, &target),
        Command::Backup(args) => backup::backup(args, &target),
        Command::Restore(args) => backup::restore(&args),
        Command::Compact(args) => maintain::compact(args, &target),
        Command::Check(args) => rescue::check(&args, &target),
        Command::Repair(args) => rescue::repair(args, &target.directory()?),
        Command::Adopt(_) => rescue::adopt(&target.directory()?),
        Command::Inspect(args) => inspect::inspect(&args),
        Command::Bench(args) => bench::bench(&args, &target.args.said_directory()?),
        Command::Sim(args) => sim::sim(args),
    }
}

/// Does to a database what a data command says.
fn run_on(command: DataCommand, session: &mut Session) -> Outcome {
    match command {
        DataCommand::Get(args) => keys::get(args, session),
        DataCommand::Put(args) => keys::put(args, session),
        DataCommand::Delete(args) => keys::delete(args, session),
        DataCommand::Scan(args) => scan::scan(args, session),
        DataCommand::Count(args) => scan::count(args, session),
        DataCommand::Keyspaces(args) => keyspaces::keyspaces(args, session),
        DataCommand::Import(args) => import::import(args, session),
        DataCommand::Export(args) => export::export(args, session),
        DataCommand::Explain(args) => explain::explain(args, session),
        DataCommand::Stats(args) => stats::stats(&args, session),
    }
}

/// For what a data command needs a directory.
fn access(command: &DataCommand) -> Access {
    match command {
        DataCommand::Put(_) | DataCommand::Import(_) => Access::Create,
        DataCommand::Delete(args) if !args.dry_run => Access::Write,
        DataCommand::Keyspaces(args) if args.act.is_some() => Access::Write,
        _ => Access::Read,
    }
}

/// How a data command opens a directory.
///
/// Errors: it says how, and a running server is meant, or no open takes it.
fn options(command: &DataCommand, target: &Target) -> Outcome<Options> {
    let mut options = Options::default();
    if let DataCommand::Import(args) = command {
        options.layout.cloud = args.cloud.options();
    }
    if options.layout.cloud.is_some() && target.is_server() {
        return Err(Failure::Usage(
            "the server has the database open; say --cloud-url to `terrace serve`".to_owned(),
        ));
    }
    options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(options)
}

/// The database that is meant, by the command line and the environment.
struct Target {
    args: PlaceArgs,
    around: Surroundings,
}

impl Target {
    /// Opens the database for data commands.
    fn open(&self, access: Access, options: &Options) -> Outcome<Box<dyn Data>> {
        let mut data: Box<dyn Data> = match self.place()? {
            Place::Directory(dir, origin) => {
                let opened = LocalData::open(&dir, access, options.clone());
                Box::new(opened.map_err(|failure| origin.explain(failure))?)
            }
            Place::Server(..) => Box::new(self.server()?),
            Place::Store(place, _) if access != Access::Read => {
                return Err(Failure::Usage(only_read(&place.url)));
            }
            Place::Store(place, origin) => {
                let opened = LocalData::of_store(&place);
                Box::new(opened.map_err(|failure| origin.explain(failure))?)
            }
        };
        let Some(name) = self.args.keyspace() else { return Ok(data) };
        match data.use_keyspace(name, access == Access::Create) {
            Ok(()) => Ok(data),
            Err(failure) => data.close().and(Err(failure)),
        }
    }

    /// The running server.
    fn server(&self) -> Outcome<RemoteData> {
        let (address, origin) = self.args.server(&self.around)?;
        let password = files::password(self.args.password_file())?;
        let connected = RemoteData::connect(&address, password.as_ref());
        connected.map_err(|failure| origin.explain(failure))
    }

    /// Where the database is.
    fn place(&self) -> Outcome<Place> {
        self.args.place(&self.around)
    }

    /// Whether a running server is meant.
    fn is_server(&self) -> bool {
        matches!(self.place(), Ok(Place::Server(..)))
    }

    /// Whether a database in an object store is meant.
    fn is_store(&self) -> bool {
        matches!(self.place(), Ok(Place::Store(..)))
    }

    /// Has the running server do an operation.
    fn operate<T>(
        &self,
        work: impl FnOnce(&mut RemoteData, &Watch<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let stop = StopFlag::on_signals()?;
        let connect = || self.server();
        work(&mut self.server()?, &Watch { connect: &connect, stop })
    }

    /// The directory, for what works on nothing else.
    fn directory(&self) -> Outcome<std::path::PathBuf> {
        self.args.directory(&self.around)
    }

    /// Opens the directory, and the keyspace in it.
    fn open_directory(&self, access: Access) -> Outcome<(Db, Keyspace)> {
        let db = open(&self.directory()?, access, Options::default())?;
        let keyspace = match self.args.keyspace() {
            None => Keyspace::clone(&db),
            Some(name) => keyspace_of(&db, name, access == Access::Create)?,
        };
        Ok((db, keyspace))
    }
}

/// What data commands work with: a database, opened when it is first needed, so that a wrong word
/// on the command line is found before anything is made.
struct Session {
    target: Target,
    access: Access,
    options: Options,
    data: Option<Box<dyn Data>>,
    stop: Option<StopFlag>,
    /// Whether standard input has the commands.
    is_shell: bool,
}

impl Session {
    fn new(target: Target, access: Access, options: Options) -> Session {
        Session { target, access, options, data: None, stop: None, is_shell: false }
    }

    /// The flag that Ctrl-C sets from now on.
    fn stop(&mut self) -> Outcome<StopFlag> {
        let stop = match self.stop.take() {
            Some(stop) => stop,
            None => StopFlag::on_signals()?,
        };
        Ok(self.stop.insert(stop).clone())
    }

    /// The flag that Ctrl-C sets if somebody asked for it; else it ends the process as ever.
    fn stop_if_caught(&self) -> StopFlag {
        self.stop.clone().unwrap_or_default()
    }

    /// Errors: standard input is taken.
    fn check_input(&self) -> Outcome {
        match self.is_shell {
            false => Ok(()),
            true => Err(Failure::Usage(
                "- stands for standard input, which the shell reads its lines from".to_owned(),
            )),
        }
    }

    /// Makes the next call possible after one that failed: a server's replies may be half read.
    fn recover(&mut self, failure: &Failure) {
        let is_harmless = matches!(failure, Failure::Negative(_) | Failure::Usage(_));
        let is_server = self.data.as_ref().is_some_and(|data| data.is_server());
        if !is_harmless && is_server {
            self.data = None;
        }
    }

    /// The open database.
    fn data(&mut self) -> Outcome<&mut (dyn Data + 'static)> {
        let data = match self.data.take() {
            Some(mut data) => {
                data.refresh()?;
                data
            }
            None => self.target.open(self.access, &self.options)?,
        };
        Ok(&mut **self.data.insert(data))
    }

    fn close(&mut self) -> Outcome {
        self.data.take().map_or(Ok(()), |mut data| data.close())
    }
}

/// What it means that a new database in `out` was not finished.
fn cut_short(error: terrace::Error, out: &Path) -> Failure {
    match error.kind() {
        terrace::ErrorKind::Cancelled => {
            Failure::Interrupted(format!("interrupted: {} holds no database", out.display()))
        }
        _ => error.into(),
    }
}
