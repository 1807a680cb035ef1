//! R17 dup-key batch assert (CVE-2023-28425): one request or one batch that names a key twice is
//! nothing special. The last write wins, in the memtable, after a replay of the log, and in a
//! table.
#![allow(clippy::unwrap_used)]

mod common;

use common::{TestServer, bulk, ok};
use terrace::{Batch, Db};
use terrace_server::ServerOptions;
use terrace_server::protocol::{Value, put_request};

#[test]
fn r17_a_request_may_name_a_key_twice() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = server.connect();
    assert_eq!(client.say("MSET k a k b"), ok());
    assert_eq!(client.say("GET k"), bulk("b"));
    assert_eq!(client.say("MGET k k"), Value::Array(vec![bulk("b"), bulk("b")]));
    assert_eq!(client.say("MSETNX n a n b"), Value::Integer(1));
    assert_eq!(client.say("GET n"), bulk("b"));
    assert_eq!(client.say("MSETNX n c x d n e"), Value::Integer(0));
    assert_eq!(client.say("EXISTS k k x"), Value::Integer(2));
    assert_eq!(client.say("DEL k k"), Value::Integer(1));
    assert_eq!(client.say("UNLINK n x n"), Value::Integer(1));
    assert_eq!(client.say("EXISTS k n"), Value::Integer(0));
    // Writes that follow each other in a pipeline become one batch.
    let mut pipeline = Vec::new();
    for request in ["SET k 1", "SET k 2", "MSET k 3 k 4 k 5", "SET k 6", "GET k", "DEL k k k"] {
        put_request(&mut pipeline, &request.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    }
    client.send(&pipeline);
    for _ in 0..4 {
        assert_eq!(client.read(), ok());
    }
    assert_eq!(client.read(), bulk("6"));
    assert_eq!(client.read(), Value::Integer(1));
    let mut request = vec![&b"MSET"[..]];
    (0..10_000).for_each(|_| request.extend([&b"k"[..], b"many"]));
    assert_eq!(client.call(&request), ok());
    assert_eq!(client.say("GET k"), bulk("many"));
    assert_eq!(client.say("RANGECOUNT - +"), Value::Integer(1));
}

#[test]
fn r17_a_batch_may_name_a_key_twice() {
    let dir = tempfile::tempdir().unwrap();
    let batch = |db: &Db| {
        let mut batch = Batch::new();
        batch.put(db, "twice", "first").put(db, "twice", "last");
        batch.put(db, "gone", "value").delete(db, "gone");
        batch.delete(db, "back").put(db, "back", "value");
        batch.delete(db, "gone");
        batch
    };
    let check = |db: &Db, when: &str| {
        let get = |key: &[u8]| db.get(key).unwrap().map(|value| value.to_vec());
        assert_eq!(get(b"twice").as_deref(), Some(&b"last"[..]), "{when}");
        assert_eq!(get(b"gone"), None, "{when}");
        assert_eq!(get(b"back").as_deref(), Some(&b"value"[..]), "{when}");
    };
    let db = Db::open(dir.path()).unwrap();
    db.write(&batch(&db)).unwrap();
    db.write(&batch(&db)).unwrap();
    check(&db, "in the memtable");
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path()).unwrap();
    check(&db, "after a replay");
    db.admin().flush().unwrap();
    check(&db, "in a table");
    db.write(&batch(&db)).unwrap();
    db.admin().compact(&db, ..).unwrap();
    check(&db, "after a compaction");
    db.close().unwrap();
}
