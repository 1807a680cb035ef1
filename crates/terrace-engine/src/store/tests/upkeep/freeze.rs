//! Memtables that are frozen while others are flushed.

use terrace_env::JobClass;

use crate::store::tests::*;

/// A flush asks which records the memtables beside it still need. A memtable that was frozen
/// between its look at the frozen ones and its look at the active ones was in neither, so the
/// manifest gave up its records: a kill before its own flush lost it whole.
#[test]
fn a_freeze_beside_a_flush_gives_up_no_record() {
    let tight = || Options { memtable_bytes: 16 << 10, frozen_memtables_max: 8, ..lazy() };
    for seed in 0..60 {
        let value = "x".repeat(3000);
        let disk = killed(seed, |env| {
            let store = Arc::new(open(env, &tight())?);
            let clients: Vec<_> = (0..2)
                .map(|client| {
                    let (store, value) = (Arc::clone(&store), value.clone());
                    let job = Box::new(move || {
                        for index in 0..50 {
                            put(&store, &format!("{client}/{index:03}"), &value).expect("room");
                        }
                    });
                    env.spawn(JobClass::Client, &client.to_string(), job)
                })
                .collect();
            clients.into_iter().for_each(|client| assert!(client.expect("simulated").join()));
            Ok(Arc::into_inner(store).expect("the clients are gone"))
        });
        after_crash(disk, |env| {
            let store = open(env, &tight()).expect("nothing is damaged");
            for key in (0..2).flat_map(|c| (0..50).map(move |i| format!("{c}/{i:03}"))) {
                let there = get(&store, &key).expect("nothing is damaged").is_some();
                assert!(there, "seed {seed}: {key} was acknowledged and is lost");
            }
        });
    }
}
