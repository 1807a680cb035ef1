//! Goal: each keyspace is charged with its own operations, about as many as there were. Method:
//! many more operations than are needed to be seen, of each kind, in keyspaces of their own.

use terrace::{Batch, Db, KeyspaceOptions, Result, merge};

#[test]
fn a_keyspace_knows_about_how_much_it_is_used() -> Result<()> {
    const COUNT: u32 = 100_000;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(directory.path())?;
    let (read, written, batched) =
        (db.keyspace("read")?, db.keyspace("written")?, db.keyspace("batched")?);
    let counting = KeyspaceOptions::new().merge_operator(merge::ADD_I64_LE);
    let merged = db.keyspace_with("merged", counting)?;
    let mut batch = Batch::new();
    for number in 0..COUNT {
        let key = number.to_be_bytes();
        read.get(key)?;
        written.put(key, [7; 10])?;
        merged.merge(b"sum", 1i64.to_le_bytes())?;
        batch.clear();
        batch.put(&batched, key, "1").delete(&batched, key);
        db.write(&batch)?;
    }
    // The same chance for each: of a hundred thousand, one deviation is a tenth.
    let about = |figure: u64, wanted: u64| {
        assert!(figure.abs_diff(wanted) < wanted / 2, "{figure}, not {wanted}");
    };
    let count = u64::from(COUNT);
    let (reads, writes) = (read.usage(), written.usage());
    about(reads.get_count, count);
    assert_eq!((reads.put_count, reads.write_bytes, reads.scan_count), (0, 0, 0));
    about(writes.put_count, count);
    about(writes.write_bytes, count * (3 + 4 + 10));
    assert_eq!((writes.get_count, writes.delete_count, writes.merge_count), (0, 0, 0));
    about(merged.usage().merge_count, count);
    let batches = batched.usage();
    about(batches.put_count, count);
    assert_eq!(batches.put_count, batches.delete_count);
    assert_eq!(db.usage(), Default::default(), "nothing was done there");
    for _ in 0..10_000 {
        assert_eq!(written.iter().keys().take(3).count(), 3);
    }
    about(written.usage().scan_count, 10_000);
    about(written.usage().scanned_count, 30_000);
    db.close()
}
