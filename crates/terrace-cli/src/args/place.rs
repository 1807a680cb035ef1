//! Which database, and which of its keyspaces: said before or after the subcommand, or by the
//! environment.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use terrace::{CloudMoment, NoWallTime, SeqNo, WallTime};

use crate::args::units::parse_time;
use crate::clock::wall_now;
use crate::failure::{Failure, Outcome};

/// The environment variables that stand for `--data` and `--connect`.
const DATA_VARIABLE: &str = "TERRACE_DATA";
const CONNECT_VARIABLE: &str = "TERRACE_CONNECT";

/// Which database, as it was said. The doc comments are help for every subcommand.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Which database")]
pub(crate) struct PlaceArgs {
    /// The directory of the database, unless the environment variable TERRACE_DATA holds it; or the
    /// URL of the object store that its owner mirrors it in, to read it there
    #[arg(long, global = true, value_name = "DIR|URL")]
    data: Option<PathBuf>,
    /// The address of a running server instead, such as 127.0.0.1:7379, unless TERRACE_CONNECT
    /// holds it
    #[arg(long, global = true, value_name = "ADDR")]
    connect: Option<String>,
    /// A file with the server's password, unless TERRACE_PASSWORD holds it
    #[arg(long, global = true, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Which database of an object store, by its id, if there are several
    #[arg(long, global = true, value_name = "ID", value_parser = parse_id)]
    database: Option<u128>,
    /// Which checkpoint of a database in an object store [default: its newest moment]
    #[arg(long, global = true, value_name = "NAME", conflicts_with_all = ["at", "at_number"])]
    checkpoint: Option<String>,
    /// Which state of a database in an object store whose owner keeps an archive (--cloud-archive):
    /// what had been written at a time, such as 2026-11-28T13:00:00Z, or so long ago, such as 10m
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_moment)]
    at: Option<WallTime>,
    /// The same by a number: what had been written up to this sequence number
    #[arg(long, global = true, value_name = "NUMBER", conflicts_with = "at")]
    at_number: Option<u64>,
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
    /// An object store.
    pub(crate) store: bool,
    /// A moment of a database in an object store.
    pub(crate) moment: bool,
}

impl Takes {
    /// A directory or a server, and a keyspace.
    pub(crate) const ALL: Takes =
        Takes { data: true, connect: true, password: true, keyspace: true, ..Takes::NOTHING };
    /// A database as a whole, wherever it is.
    pub(crate) const WHOLE: Takes = Takes { keyspace: false, ..Takes::ALL };
    /// As [`Takes::ALL`], for what only reads.
    pub(crate) const READ: Takes = Takes { store: true, moment: true, ..Takes::ALL };
    /// As [`Takes::WHOLE`], for what only reads.
    pub(crate) const READ_WHOLE: Takes = Takes { keyspace: false, ..Takes::READ };
    /// The directory of a database.
    pub(crate) const DIRECTORY: Takes = Takes { data: true, ..Takes::NOTHING };
    /// The directory of a database that is going to be served.
    pub(crate) const SERVED: Takes = Takes { password: true, ..Takes::DIRECTORY };
    /// A keyspace in a directory.
    pub(crate) const IN_DIRECTORY: Takes = Takes { keyspace: true, ..Takes::DIRECTORY };
    /// A server.
    pub(crate) const SERVER: Takes = Takes { connect: true, password: true, ..Takes::NOTHING };
    /// A server that another option names.
    pub(crate) const ASKED: Takes = Takes { password: true, ..Takes::NOTHING };
    /// A database in an object store.
    pub(crate) const STORE: Takes = Takes { data: true, store: true, ..Takes::NOTHING };
    /// A moment of a database in an object store.
    pub(crate) const MOMENT: Takes = Takes { moment: true, ..Takes::STORE };
    /// No database.
    pub(crate) const NOTHING: Takes = Takes {
        data: false,
        connect: false,
        password: false,
        keyspace: false,
        store: false,
        moment: false,
    };

    /// The arguments, by their ids, that there is no use for.
    pub(crate) fn unused(self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("data", self.data),
            ("connect", self.connect),
            ("password_file", self.password),
            ("keyspace", self.keyspace),
            ("database", self.store),
            ("checkpoint", self.moment),
            ("at", self.moment),
            ("at_number", self.moment),
        ];
        all.into_iter().filter(|(_, is_used)| !is_used).map(|(id, _)| id)
    }
}

/// Where a database is, and by what that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Directory(PathBuf, Origin),
    Server(String, Origin),
    Store(StorePlace, Origin),
}

/// A database in an object store, and a moment of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorePlace {
    pub(crate) url: String,
    /// Its id; none if there is only one.
    pub(crate) database: Option<u128>,
    pub(crate) moment: CloudMoment,
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
        let Some(id) = self.said_beside(takes) else { return Ok(()) };
        let option = id.replace('_', "-");
        let instead = match id {
            "connect" if command == "ingest" => {
                ": tables are made in a directory that no server has open (--data DIR); \
                 `terrace import --connect ADDR` writes the entries through the server"
            }
            "connect" | "data" if command == "plan" => {
                "; to plan for a database that is there, say --from ADDR or --from DIR"
            }
            "connect" if takes.data => {
                ": it works on a directory that no server has open; say --data DIR"
            }
            "data" if takes.connect => ": it asks a running server; say --connect ADDR",
            _ => "",
        };
        Err(Failure::Usage(format!("`terrace {command}` has no use for --{option}{instead}")))
    }

    /// The id of an argument that was said, and that there is no use for beside these.
    fn said_beside(&self, takes: Takes) -> Option<&'static str> {
        let said = [
            ("data", self.data.is_some()),
            ("connect", self.connect.is_some()),
            ("password_file", self.password_file.is_some()),
            ("keyspace", self.keyspace.is_some()),
            ("database", self.database.is_some()),
            ("checkpoint", self.checkpoint.is_some()),
            ("at", self.at.is_some()),
            ("at_number", self.at_number.is_some()),
        ];
        takes.unused().find(|id| said.contains(&(id, true)))
    }

    /// Where the database is: by the command line, else by the environment.
    ///
    /// Errors: neither says it, or one of them says both.
    pub(crate) fn place(&self, surroundings: &Surroundings) -> Outcome<Place> {
        let by = |data: &Option<PathBuf>, connect: &Option<String>, origins: [Origin; 2]| match (
            data, connect,
        ) {
            (Some(data), None) => Ok(Some(match url_in(data) {
                Some(url) => Place::Store(self.in_store(url), origins[0]),
                None => Place::Directory(data.clone(), origins[0]),
            })),
            (None, Some(connect)) => Ok(Some(Place::Server(connect.clone(), origins[1]))),
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(()),
        };
        let said = by(&self.data, &self.connect, [Origin::CommandLine; 2]).map_err(|()| {
            Failure::Usage("--data and --connect are both said; a database is in one place".into())
        })?;
        if let Some(place) = said {
            return self.checked(place);
        }
        let origins = [DATA_VARIABLE, CONNECT_VARIABLE].map(Origin::Environment);
        let found = by(&surroundings.data, &surroundings.connect, origins).map_err(|()| {
            Failure::Usage(format!(
                "{DATA_VARIABLE} and {CONNECT_VARIABLE} are both set; say --data DIR or --connect \
                 ADDR, or unset one of them"
            ))
        })?;
        let found = found.ok_or_else(|| {
            Failure::Usage(format!(
                "which database? Say --data DIR or --connect ADDR, or set {DATA_VARIABLE} or \
                 {CONNECT_VARIABLE}"
            ))
        });
        self.checked(found?)
    }

    /// Errors: what only databases in object stores have was said of one elsewhere.
    fn checked(&self, place: Place) -> Outcome<Place> {
        match self.said_beside(Takes::ALL) {
            Some(id) if !matches!(place, Place::Store(..)) => {
                let option = id.replace('_', "-");
                let text =
                    format!("--{option} is for a database in an object store; say --data URL");
                Err(Failure::Usage(text))
            }
            _ => Ok(place),
        }
    }

    fn in_store(&self, url: &str) -> StorePlace {
        let moment = match (&self.checkpoint, self.at, self.at_number) {
            (Some(name), ..) => CloudMoment::Checkpoint(name.clone()),
            (None, Some(time), _) => CloudMoment::Time(time),
            (None, None, Some(number)) => CloudMoment::Number(SeqNo(number)),
            (None, None, None) => CloudMoment::Newest,
        };
        StorePlace { url: url.to_owned(), database: self.database, moment }
    }

    /// The object store, for what works on nothing else.
    ///
    /// Errors: none was said.
    pub(crate) fn store(&self, surroundings: &Surroundings) -> Outcome<(StorePlace, Origin)> {
        let said = self.data.as_deref().map(|data| (data, Origin::CommandLine));
        let origin = Origin::Environment(DATA_VARIABLE);
        let found = said.or_else(|| Some((surroundings.data.as_deref()?, origin)));
        match found.map(|(data, origin)| (url_in(data), data, origin)) {
            Some((Some(url), _, origin)) => Ok((self.in_store(url), origin)),
            Some((None, data, origin)) => Err(Failure::Usage(format!(
                "{} is no URL of an object store{origin}; say --data URL, such as s3://BUCKET/PREFIX",
                data.display()
            ))),
            None => Err(Failure::Usage(format!(
                "which object store? Say --data URL, such as s3://BUCKET/PREFIX, or set \
                 {DATA_VARIABLE}"
            ))),
        }
    }

    /// The directory, for what works on nothing else.
    ///
    /// Errors: none was said.
    pub(crate) fn directory(&self, surroundings: &Surroundings) -> Outcome<PathBuf> {
        let found = self.data.as_ref().or(surroundings.data.as_ref());
        let found = found.cloned().ok_or_else(|| {
            Failure::Usage(format!("which directory? Say --data DIR, or set {DATA_VARIABLE}"))
        });
        no_store(found?)
    }

    /// The directory that the command line says: for what should not meet a database by accident.
    pub(crate) fn said_directory(&self) -> Outcome<PathBuf> {
        let missing = || Failure::Usage("which directory? Say --data DIR".to_owned());
        no_store(self.data.clone().ok_or_else(missing)?)
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

    /// The same, but of the database at `place`: an address if `is_address`, else a directory.
    pub(crate) fn at(&self, place: &str, is_address: bool) -> PlaceArgs {
        let data = (!is_address).then(|| PathBuf::from(place));
        PlaceArgs { data, connect: is_address.then(|| place.to_owned()), ..self.clone() }
    }

    pub(crate) fn password_file(&self) -> Option<&Path> {
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

/// The URL of an object store that was said in the place of a directory.
fn url_in(data: &Path) -> Option<&str> {
    data.to_str().filter(|text| text.contains("://"))
}

/// The directory. Errors: it is the URL of an object store.
fn no_store(data: PathBuf) -> Outcome<PathBuf> {
    match url_in(&data) {
        Some(url) => Err(Failure::Usage(only_read(url))),
        None => Ok(data),
    }
}

/// What to say if something else is to be done with a database in an object store than to read it.
pub(crate) fn only_read(url: &str) -> String {
    format!(
        "{url} is an object store, and a database is only read there; say the directory of its \
         owner (--data DIR), or `terrace clone OUT --data {url}` first"
    )
}

/// A time, or how long ago it is.
fn parse_moment(text: &str) -> Result<WallTime, String> {
    if let Ok(ago) = parse_time(text) {
        return Ok(WallTime(wall_now().0.saturating_sub(ago.as_millis() as u64)));
    }
    text.parse().map_err(|error: NoWallTime| format!("{error}; or how long ago, such as 10m"))
}

pub(crate) fn parse_id(text: &str) -> Result<u128, String> {
    let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u128::from_str_radix(text, 16).ok().filter(|_| is_id);
    id.ok_or_else(|| {
        "an id is 32 hexadecimal digits; `terrace cloud databases` lists them".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(data: Option<&str>, connect: Option<&str>) -> PlaceArgs {
        let (data, connect) = (data.map(PathBuf::from), connect.map(str::to_owned));
        PlaceArgs {
            data,
            connect,
            password_file: None,
            database: None,
            checkpoint: None,
            at: None,
            at_number: None,
            keyspace: None,
        }
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

    #[test]
    fn a_url_is_an_object_store() {
        let nothing = Surroundings::default();
        let mut of_store = args(Some("s3://bucket/db"), None);
        of_store.checkpoint = Some("monday".to_owned());
        let place = of_store.place(&nothing).unwrap();
        let expected = StorePlace {
            url: "s3://bucket/db".to_owned(),
            database: None,
            moment: CloudMoment::Checkpoint("monday".to_owned()),
        };
        assert_eq!(place, Place::Store(expected.clone(), Origin::CommandLine));
        assert_eq!(of_store.store(&nothing).unwrap().0, expected);
        assert!(of_store.directory(&nothing).unwrap_err().to_string().contains("only read"));
        assert!(of_store.check("put", Takes::ALL).is_err());
        assert!(of_store.check("get", Takes::READ).is_ok());
        of_store.data = Some("directory".into());
        assert!(of_store.place(&nothing).unwrap_err().to_string().contains("--data URL"));
        assert!(args(Some("directory"), None).store(&nothing).is_err());
        assert!(args(None, None).store(&nothing).is_err());
    }

    #[test]
    fn an_id_has_all_its_digits() {
        assert_eq!(parse_id("000000000000000000000000000000ab"), Ok(0xab));
        for text in
            ["", "ab", "+00000000000000000000000000000ab", "g00000000000000000000000000000ab"]
        {
            assert!(parse_id(text).is_err(), "{text}");
        }
    }
}
