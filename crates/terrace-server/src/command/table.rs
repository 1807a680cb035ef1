//! The list of commands. What is not in it does not exist: there is no scripting, no module and
//! no command that takes code. Names of files are taken by those of `operator` alone, and lead
//! nowhere but into the directory that the server was started with.

use super::context::Context;
use super::fail::CommandResult;
use super::{
    client, connection, describe, expire, explain, keys, keyspace, operator, ordered, strings,
};
use crate::protocol::Request;

/// One command.
pub(crate) struct CommandSpec {
    /// In lower case.
    pub(crate) name: &'static str,
    /// The exact number of arguments with the name, or minus the least number.
    pub(crate) arity: i64,
    /// As `COMMAND` reports them.
    pub(crate) flags: &'static [&'static str],
    /// The first and last argument that is a key, and the step between keys; 0 for none.
    pub(crate) keys: (i64, i64, i64),
    pub(crate) group: &'static str,
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    /// Whether a client may use it before it has authenticated.
    pub(crate) before_authentication: bool,
    /// Whether this request is a plain write that may join a run of them.
    pub(crate) joins_run: fn(&Request<'_>) -> bool,
    pub(crate) run: fn(&mut Context<'_>, &Request<'_>) -> CommandResult,
}

impl CommandSpec {
    const fn new(
        name: &'static str,
        arity: i64,
        summary: &'static str,
        run: fn(&mut Context<'_>, &Request<'_>) -> CommandResult,
    ) -> CommandSpec {
        CommandSpec {
            name,
            arity,
            flags: &["fast"],
            keys: (0, 0, 0),
            group: "connection",
            since: "1.0.0",
            summary,
            before_authentication: false,
            joins_run: |_| false,
            run,
        }
    }

    /// Reads values or keys.
    const fn reads(mut self, group: &'static str, keys: (i64, i64, i64)) -> CommandSpec {
        self.flags = &["readonly", "fast"];
        self.group = group;
        self.keys = keys;
        self
    }

    /// Changes what is stored.
    const fn writes(mut self, group: &'static str, keys: (i64, i64, i64)) -> CommandSpec {
        self.flags = &["write", "denyoom", "fast"];
        self.group = group;
        self.keys = keys;
        self
    }

    /// May look at every key.
    const fn slow(mut self) -> CommandSpec {
        self.flags = &["readonly"];
        self
    }

    /// Is about the server.
    const fn server(mut self) -> CommandSpec {
        self.flags = &["loading", "stale"];
        self.group = "server";
        self
    }

    /// Is for operators, and takes long.
    const fn operates(mut self) -> CommandSpec {
        self.flags = &["admin", "noscript"];
        self.group = "operator";
        self
    }

    const fn since(mut self, version: &'static str) -> CommandSpec {
        self.since = version;
        self
    }

    const fn before_authentication(mut self) -> CommandSpec {
        self.flags = &["noscript", "loading", "stale", "fast", "no_auth"];
        self.before_authentication = true;
        self
    }

    const fn joins_run(mut self, test: fn(&Request<'_>) -> bool) -> CommandSpec {
        self.joins_run = test;
        self
    }

    /// Whether a request of `count` arguments is complete.
    pub(crate) fn takes(&self, count: usize) -> bool {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if self.arity >= 0 { count == self.arity } else { count >= -self.arity }
    }
}

/// The command called `name`, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    let mut lower = [0; 16];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let lower = &*lower;
    let at = COMMANDS.binary_search_by(|spec| spec.name.as_bytes().cmp(lower)).ok()?;
    Some(&COMMANDS[at])
}

const NONE: (i64, i64, i64) = (0, 0, 0);
const ONE: (i64, i64, i64) = (1, 1, 1);
const SECOND: (i64, i64, i64) = (2, 2, 1);
const ALL: (i64, i64, i64) = (1, -1, 1);
const PAIRS: (i64, i64, i64) = (1, -1, 2);
const BOUNDS: (i64, i64, i64) = (1, 2, 1);

/// Every command, in the order of the names.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("append", 3, "Appends bytes to the value of a key.", strings::append)
        .writes("string", ONE).since("2.0.0"),
    CommandSpec::new("auth", -2, "Authenticates the connection.", connection::auth)
        .before_authentication(),
    CommandSpec::new("backup", -1, "Makes, lists, verifies and deletes backups.", operator::backup)
        .operates(),
    CommandSpec::new("check", -1, "Reads every table and says what is damaged.", operator::check)
        .operates(),
    CommandSpec::new("checkpoint", 2, "Makes a copy of the database at one moment.", operator::checkpoint)
        .operates(),
    CommandSpec::new("client", -2, "Shows and sets properties of connections.", client::client)
        .since("2.4.0"),
    CommandSpec::new("command", -1, "Describes the commands.", describe::command)
        .server().since("2.8.13"),
    CommandSpec::new("compact", -1, "Rewrites the keyspace, or an interval, compactly.", operator::compact)
        .operates(),
    CommandSpec::new("config", -2, "Shows the server's parameters, and changes some.", describe::config)
        .server().since("2.0.0"),
    CommandSpec::new("dbsize", 1, "Counts the keys of the keyspace.", keys::dbsize)
        .reads("server", NONE).slow(),
    CommandSpec::new("decr", 2, "Subtracts one from the integer of a key.", strings::decr)
        .writes("string", ONE),
    CommandSpec::new("decrby", 3, "Subtracts from the integer of a key.", strings::decrby)
        .writes("string", ONE),
    CommandSpec::new("del", -2, "Deletes keys.", keys::del)
        .writes("generic", ALL),
    CommandSpec::new("delifeq", 3, "Deletes a key if it holds this value.", strings::delifeq)
        .writes("string", ONE).since("9.0.0"),
    CommandSpec::new("echo", 2, "Returns the given bytes.", connection::echo),
    CommandSpec::new("exists", -2, "Counts which of the keys are there.", keys::exists)
        .reads("generic", ALL),
    CommandSpec::new("expire", -3, "Sets after how many seconds a key goes.", expire::expire)
        .writes("generic", ONE),
    CommandSpec::new("expireat", -3, "Sets at which second a key goes.", expire::expireat)
        .writes("generic", ONE).since("1.2.0"),
    CommandSpec::new("expiretime", 2, "Shows at which second a key goes.", expire::expiretime)
        .reads("generic", ONE).since("7.0.0"),
    CommandSpec::new("explain", -2, "Tells step by step what a read meets, or how writes are spread.", explain::explain)
        .reads("ordered", SECOND).slow(),
    CommandSpec::new("flushall", -1, "Deletes every key of every keyspace.", keys::flushall)
        .writes("server", NONE),
    CommandSpec::new("flushdb", -1, "Deletes every key of the keyspace.", keys::flushdb)
        .writes("server", NONE),
    CommandSpec::new("get", 2, "Returns the value of a key.", strings::get)
        .reads("string", ONE),
    CommandSpec::new("getdel", 2, "Returns the value of a key and deletes it.", strings::getdel)
        .writes("string", ONE).since("6.2.0"),
    CommandSpec::new("getset", 3, "Sets a key and returns its old value.", strings::getset)
        .writes("string", ONE),
    CommandSpec::new("hello", -1, "Chooses the protocol and authenticates.", connection::hello)
        .since("6.0.0").before_authentication(),
    CommandSpec::new("incr", 2, "Adds one to the integer of a key.", strings::incr)
        .writes("string", ONE),
    CommandSpec::new("incrby", 3, "Adds to the integer of a key.", strings::incrby)
        .writes("string", ONE),
    CommandSpec::new("info", -1, "Returns figures about the server.", describe::info)
        .server(),
    CommandSpec::new("keyspace", -2, "Lists, makes, chooses and drops keyspaces by name.", keyspace::keyspace)
        .server(),
    CommandSpec::new("mget", -2, "Returns the values of keys, at one moment.", strings::mget)
        .reads("string", ALL),
    CommandSpec::new("mset", -3, "Sets several keys in one step.", strings::mset)
        .writes("string", PAIRS).since("1.0.1"),
    CommandSpec::new("msetnx", -3, "Sets several keys if none is there.", strings::msetnx)
        .writes("string", PAIRS).since("1.0.1"),
    CommandSpec::new("operation", -2, "Shows or ends what an operator has the server do.", operator::operation)
        .operates(),
    CommandSpec::new("persist", 2, "Takes the expiry off a key.", expire::persist)
        .writes("generic", ONE).since("2.2.0"),
    CommandSpec::new("pexpire", -3, "Sets after how many ms a key goes.", expire::pexpire)
        .writes("generic", ONE).since("2.6.0"),
    CommandSpec::new("pexpireat", -3, "Sets at which ms a key goes.", expire::pexpireat)
        .writes("generic", ONE).since("2.6.0"),
    CommandSpec::new("pexpiretime", 2, "Shows at which ms a key goes.", expire::pexpiretime)
        .reads("generic", ONE).since("7.0.0"),
    CommandSpec::new("ping", -1, "Returns PONG.", connection::ping),
    CommandSpec::new("psetex", 4, "Sets a key that goes after some ms.", strings::psetex)
        .writes("string", ONE).since("2.6.0").joins_run(|_| true),
    CommandSpec::new("pttl", 2, "Shows after how many ms a key goes.", expire::pttl)
        .reads("generic", ONE).since("2.6.0"),
    CommandSpec::new("quit", -1, "Closes the connection.", connection::quit)
        .before_authentication(),
    CommandSpec::new("range", -3, "Returns keys and values in order.", ordered::range)
        .reads("ordered", BOUNDS).slow(),
    CommandSpec::new("rangecount", 3, "Counts the keys of an interval.", ordered::rangecount)
        .reads("ordered", BOUNDS).slow(),
    CommandSpec::new("rangedel", 3, "Deletes the keys of an interval.", ordered::rangedel)
        .writes("ordered", BOUNDS),
    CommandSpec::new("rangesize", 3, "Estimates the bytes and entries of an interval.", ordered::rangesize)
        .reads("ordered", BOUNDS).slow(),
    CommandSpec::new("reset", 1, "Sets the connection back to its beginning.", connection::reset)
        .since("6.2.0").before_authentication(),
    CommandSpec::new("scan", -2, "Walks the keys in steps.", keys::scan)
        .reads("generic", NONE).slow().since("2.8.0"),
    CommandSpec::new("select", 2, "Chooses the keyspace.", connection::select),
    CommandSpec::new("set", -3, "Sets the value of a key.", strings::set)
        .writes("string", ONE).joins_run(|request| request.len() == 3),
    CommandSpec::new("setex", 4, "Sets a key that goes after some seconds.", strings::setex)
        .writes("string", ONE).since("2.0.0").joins_run(|_| true),
    CommandSpec::new("setnx", 3, "Sets a key if it is not there.", strings::setnx)
        .writes("string", ONE),
    CommandSpec::new("slowlog", -2, "Shows the slowest operations lately.", explain::slowlog)
        .server().since("2.2.12"),
    CommandSpec::new("strlen", 2, "Returns the length of a value.", strings::strlen)
        .reads("string", ONE).since("2.2.0"),
    CommandSpec::new("ttl", 2, "Shows after how many seconds a key goes.", expire::ttl)
        .reads("generic", ONE),
    CommandSpec::new("type", 2, "Returns the type of a value.", keys::key_type)
        .reads("generic", ONE),
    CommandSpec::new("unlink", -2, "Deletes keys.", keys::del)
        .writes("generic", ALL).since("4.0.0"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_name_in_any_case() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        for spec in COMMANDS {
            assert_eq!(find(spec.name.to_uppercase().as_bytes()).unwrap().name, spec.name);
        }
        assert!(find(b"ge").is_none() && find(b"").is_none() && find(&[b'x'; 100]).is_none());
    }

    #[test]
    fn nothing_runs_code_or_stops_the_world() {
        for name in ["eval", "evalsha", "script", "function", "module", "keys", "debug", "save"] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }
}
