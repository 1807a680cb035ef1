//! What tests of simulated machines share: a small database that syncs each write, and all of what
//! one holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace::{Db, Durability};
use terrace_env::SharedEnv;

/// The keys of a keyspace, with their values.
pub type Rows = BTreeMap<String, String>;

/// What a database holds: the rows of each keyspace that there is.
pub type Content = BTreeMap<String, Rows>;

pub fn open(env: &SharedEnv) -> Db {
    let options = Db::options().durability(Durability::Sync);
    let options = options.memtable_bytes(16 << 10).cache_bytes(64 << 10);
    options.open_in(Arc::clone(env), "/db").unwrap()
}

pub fn rows(view: &terrace::View) -> Rows {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let rows = view.iter().map(|row| row.unwrap());
    rows.map(|(key, value)| (text(key.into_vec()), text(value.into_vec()))).collect()
}

pub fn content(db: &Db) -> Content {
    let names = db.keyspaces().unwrap().into_iter();
    names.map(|name| (name.clone(), rows(&db.keyspace(&name).unwrap()))).collect()
}
