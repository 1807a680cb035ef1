//! A range that is opened again: what it holds, and the space that it takes.

use crate::store::tests::*;

#[test]
fn what_is_written_is_read_and_survives_a_restart() -> Result<()> {
    simulate(1, |env| {
        let store = open(env, &small())?;
        assert!(store.recovery().is_new);
        put(&store, "a", "1")?;
        put(&store, "b", "2")?;
        delete(&store, "a")?;
        drop(store);
        let store = open(env, &small())?;
        assert!(store.recovery().was_closed && store.recovery().replayed_entries == 3);
        assert_eq!(get(&store, "a")?, None);
        assert_eq!(get(&store, "b")?.as_deref(), Some("2"));
        Ok(())
    })
}

#[test]
fn opening_again_and_again_takes_no_more_space() -> Result<()> {
    simulate(6, |env| {
        for round in 0..60 {
            let store = open(env, &small())?;
            put(&store, &format!("{round:04}"), "one line a day")?;
            store.settle();
        }
        let store = open(env, &small())?;
        for round in 0..60 {
            assert!(get(&store, &format!("{round:04}"))?.is_some());
        }
        let logs = files_with(env, ".log");
        let bytes: u64 = logs.iter().map(|(_, bytes)| bytes).sum();
        let bound = small().log_bytes_max + 4 * small().log_segment_bytes;
        assert!(bytes <= bound, "{} log files hold {bytes} bytes", logs.len());
        Ok(())
    })
}
