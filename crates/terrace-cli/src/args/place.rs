//! Which database, and which of its keyspaces: said before or after the subcommand, or by the
//! environment.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::failure::{Failure, Outcome};

/// The environment variables that stand for `--data` and `--connect`.
const DATA_VARIABLE: &str = "TERRACE_DATA";
const CONNECT_VARIABLE: &str = "TERRACE_CONNECT";

/// Which database, as it was said. The doc comments are help for every subcommand.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Which database")]
pub(crate) struct PlaceArgs {
    /// The directory of the database, unless the environment variable TERRACE_DATA holds it
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address of a running server instead, such as 127.0.0.1:7379, unless TERRACE_CONNECT
    /// holds it
    #[arg(long, global = true, value_name = "ADDR")]
    connect: Option<String>,
    /// A file with the server's password, unless TERRACE_PASSWORD holds it
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Which set of keys: its name, or its number, by which SELECT knows it [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    keyspace: Option<String>,
}

/// Which parts of [`PlaceArgs`] a subcommand has a use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Takes {
    pub(crate) data: bool,
    pub(crate) connect: bool,
    pub(crate) password: bool,
    pub(crate) keyspace: bool,
}

impl Takes {
    /// A directory or a server, and a keyspace.
    pub(crate) const ALL: Takes =
        Takes { data: true, connect: true, password: true, keyspace: true };
    /// A database as a whole, wherever it is.
    pub(crate) const WHOLE: Takes = Takes { keyspace: false, ..Takes::ALL };
    /// The directory of a database.
    pub(crate) const DIRECTORY: Takes = Takes { data: true, ..Takes::NOTHING };
    /// The directory of a database that is going to be served.
    pub(crate) const SERVED: Takes = Takes { password: true, ..Takes::DIRECTORY };
    /// A keyspace in a directory.
    pub(crate) const IN_DIRECTORY: Takes = Takes { keyspace: true, ..Takes::DIRECTORY };
    /// A server.
    pub(crate) const SERVER: Takes = Takes { connect: true, password: true, ..Takes::NOTHING };
    /// No database.
    pub(crate) const NOTHING: Takes =
        Takes { data: false, connect: false, password: false, keyspace: false };

    /// The arguments, by their ids, that there is no use for.
    pub(crate) fn unused(self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("data", self.data),
            ("connect", self.connect),
            ("password_file", self.password),
            ("keyspace", self.keyspace),
        ];
        all.into_iter().filter(|(_, is_used)| !is_used).map(|(id, _)| id)
    }
}

/// Where a database is, and by what that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Directory(PathBuf, Origin),
    Server(String, Origin),
}

/// By what something was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    CommandLine,
    Environment(&'static str),
}

impl fmt::Display for Origin {
    /// What to add to a complaint about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::CommandLine => Ok(()),
            Origin::Environment(name) => write!(f, " (the environment variable {name} says so)"),
        }
    }
}

impl Origin {
    /// The failure with the origin added, if it is one that the place may have caused.
    pub(crate) fn explain(self, failure: Failure) -> Failure {
        match failure {
            Failure::Failed(text) => Failure::Failed(format!("{text}{self}")),
            Failure::Damaged(text) => Failure::Damaged(format!("{text}{self}")),
            other => other,
        }
    }
}

/// What the environment says; empty variables say nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    data: Option<PathBuf>,
    connect: Option<String>,
}

impl Surroundings {
    /// What the environment says, of which `variable` is one.
    ///
    /// Errors: an address that is no text.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Outcome<Surroundings> {
        let said = |name: &str| variable(name).filter(|value| !value.is_empty());
        let connect = said(CONNECT_VARIABLE).map(OsString::into_string).transpose();
        let connect = connect.map_err(|value| {
            Failure::Usage(format!("{CONNECT_VARIABLE} holds no address: {}", value.display()))
        })?;
        Ok(Surroundings { data: said(DATA_VARIABLE).map(PathBuf::from), connect })
    }
}

impl PlaceArgs {
    /// Errors: something was said that `command` has no use for.
    pub(crate) fn check(&self, command: &str, takes: Takes) -> Outcome {
        let said = [
            ("data", self.data.is_some()),
            ("connect", self.connect.is_some()),
            ("password_file", self.password_file.is_some()),
            ("keyspace", self.keyspace.is_some()),
        ];
        for id in takes.unused() {
            if said.contains(&(id, true)) {
                let option = id.replace('_', "-");
                let instead = match id {
                    "connect" if command == "ingest" => {
                        ": tables are made in a directory that no server has open (--data DIR); \
                         `terrace import --connect ADDR` writes the entries through the server"
                    }
                    "connect" if takes.data => {
                        ": it works on a directory that no server has open; say --data DIR"
                    }
                    "data" if takes.connect => ": it asks a running server; say --connect ADDR",
                    _ => "",
                };
                let text = format!("`terrace {command}` has no use for --{option}{instead}");
                return Err(Failure::Usage(text));
            }
        }
        Ok(())
    }

    /// Where the database is: by the command line, else by the environment.
    ///
    /// Errors: neither says it, or one of them says both.
    pub(crate) fn place(&self, surroundings: &Surroundings) -> Outcome<Place> {
        let by = |data: &Option<PathBuf>, connect: &Option<String>, origins: [Origin; 2]| match (
            data, connect,
        ) {
            (Some(data), None) => Ok(Some(Place::Directory(data.clone(), origins[0]))),
            (None, Some(connect)) => Ok(Some(Place::Server(connect.clone(), origins[1]))),
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(()),
        };
        let said = by(&self.data, &self.connect, [Origin::CommandLine; 2]).map_err(|()| {
            Failure::Usage("--data and --connect are both said; a database is in one place".into())
        })?;
        if let Some(place) = said {
            return Ok(place);
        }
        let origins = [DATA_VARIABLE, CONNECT_VARIABLE].map(Origin::Environment);
        let found = by(&surroundings.data, &surroundings.connect, origins).map_err(|()| {
            Failure::Usage(format!(
                "{DATA_VARIABLE} and {CONNECT_VARIABLE} are both set; say --data DIR or --connect \
                 ADDR, or unset one of them"
            ))
        })?;
        found.ok_or_else(|| {
            Failure::Usage(format!(
                "which database? Say --data DIR or --connect ADDR, or set {DATA_VARIABLE} or \
                 {CONNECT_VARIABLE}"
            ))
        })
    }

    /// The directory, for what works on nothing else.
    ///
    /// Errors: none was said.
    pub(crate) fn directory(&self, surroundings: &Surroundings) -> Outcome<PathBuf> {
        let found = self.data.as_ref().or(surroundings.data.as_ref());
        found.cloned().ok_or_else(|| {
            Failure::Usage(format!("which directory? Say --data DIR, or set {DATA_VARIABLE}"))
        })
    }

    /// The directory that the command line says: for what should not meet a database by accident.
    pub(crate) fn said_directory(&self) -> Outcome<PathBuf> {
        let missing = || Failure::Usage("which directory? Say --data DIR".to_owned());
        self.data.clone().ok_or_else(missing)
    }

    /// The server, for what works on nothing else.
    ///
    /// Errors: none was said.
    pub(crate) fn server(&self, surroundings: &Surroundings) -> Outcome<(String, Origin)> {
        let said = self.connect.clone().map(|address| (address, Origin::CommandLine));
        let origin = Origin::Environment(CONNECT_VARIABLE);
        let found = said.or_else(|| Some((surroundings.connect.clone()?, origin)));
        found.ok_or_else(|| {
            Failure::Usage(format!("which server? Say --connect ADDR, or set {CONNECT_VARIABLE}"))
        })
    }

    pub(crate) fn password_file(&self) -> Option<&std::path::Path> {
        self.password_file.as_deref()
    }

    /// Goes on with another keyspace.
    pub(crate) fn set_keyspace(&mut self, name: Option<String>) {
        self.keyspace = name;
    }

    /// The keyspace; none for the one that every database has.
    pub(crate) fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(data: Option<&str>, connect: Option<&str>) -> PlaceArgs {
        let (data, connect) = (data.map(PathBuf::from), connect.map(str::to_owned));
        PlaceArgs { data, connect, password_file: None, keyspace: None }
    }

    fn surroundings(data: Option<&str>, connect: Option<&str>) -> Surroundings {
        let variable = |name: &str| {
            let value = if name == DATA_VARIABLE { data } else { connect };
            value.map(OsString::from)
        };
        Surroundings::read(variable).unwrap()
    }

    #[test]
    fn the_command_line_counts_before_the_environment() {
        let said = Origin::CommandLine;
        let both = surroundings(Some("e"), Some("e:1"));
        let place = args(Some("d"), None).place(&both).unwrap();
        assert_eq!(place, Place::Directory("d".into(), said));
        let place = args(None, Some("a:1")).place(&both).unwrap();
        assert_eq!(place, Place::Server("a:1".into(), said));
        assert!(args(None, None).place(&both).unwrap_err().to_string().contains("both set"));
        assert!(args(Some("d"), Some("a:1")).place(&both).is_err());
        let one = surroundings(Some("e"), Some(""));
        let place = args(None, None).place(&one).unwrap();
        assert_eq!(place, Place::Directory("e".into(), Origin::Environment(DATA_VARIABLE)));
        assert!(args(None, None).place(&Surroundings::default()).is_err());
        assert_eq!(args(None, None).directory(&both).unwrap(), PathBuf::from("e"));
        assert!(args(None, None).said_directory().is_err());
        assert_eq!(args(None, None).server(&both).unwrap().0, "e:1");
    }

    #[test]
    fn what_has_no_use_is_refused() {
        let complaint = args(None, Some("a:1")).check("compact", Takes::IN_DIRECTORY).unwrap_err();
        assert!(complaint.to_string().contains("--data DIR"), "{complaint}");
        let complaint = args(None, Some("a:1")).check("ingest", Takes::IN_DIRECTORY).unwrap_err();
        assert!(complaint.to_string().contains("terrace import --connect"), "{complaint}");
        assert!(args(Some("d"), None).check("slow", Takes::SERVER).is_err());
        assert!(args(Some("d"), None).check("get", Takes::ALL).is_ok());
    }
}
