//! A run replays from its seed, byte for byte.

use crate::store::tests::*;
use terrace_env::JobClass;

/// Two clients, flushes and compactions; the trace of everything that happened, and the disk.
fn run(seed: u64) -> (u64, Vec<(std::path::PathBuf, u64)>) {
    SimEnv::run(SimOptions::new(seed), |env| {
        let shared: SharedEnv = Arc::<SimEnv>::clone(&env);
        let store = open(&shared, &small()).expect("an empty disk");
        let clients: Vec<_> = (0..2)
            .map(|client| {
                let store = store.clone();
                let job = Box::new(move || {
                    for round in 0..150 {
                        let key = format!("{:03}", (round * 7 + client) % 200);
                        put(&store, &key, &"v".repeat(200)).expect("room enough");
                    }
                });
                shared.spawn(JobClass::Client, &client.to_string(), job).expect("simulated")
            })
            .collect();
        for client in clients {
            assert!(client.join());
        }
        store.settle();
        let stats = store.stats();
        assert!(stats.flush_count > 0 && stats.compaction_count > 0, "{stats}");
        store.close().expect("healthy");
        drop(store);
        (env.trace_hash(), env.disk().files())
    })
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(0).0, run(1).0);
}
