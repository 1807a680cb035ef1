//! Goal: a transaction is atomic over dranges at every crash. Method: transfers between keys of
//! different dranges, whose sum stays; the process dies at a random moment.

use terrace_env::JobClass;

use crate::Error;
use crate::store::tests::*;
use crate::store::{GetOptions, ReadSet};

const KEYS: [&str; 4] = ["b", "d", "f", "h"];

fn amounts(store: &Store) -> Result<Vec<u64>> {
    let amount = |text: Option<String>| text.map_or(Ok(0), |text| text.parse());
    KEYS.iter().map(|key| Ok(amount(get(store, key)?).expect("tests write numbers"))).collect()
}

fn transfer(store: &Store, random: &mut SeededRng) -> Result<()> {
    let (from, to) = (random.index(KEYS.len()), random.index(KEYS.len()));
    if from == to {
        return Ok(());
    }
    loop {
        let snapshot = store.snapshot();
        let mut reads = ReadSet::new(&snapshot);
        let mut batch = WriteBatch::new();
        for (key, step) in [(KEYS[from], -1_i64), (KEYS[to], 1)] {
            reads.note_key(key.as_bytes())?;
            let item = snapshot.get(key.as_bytes(), &GetOptions::default())?.expect("it has one");
            let amount: i64 = String::from_utf8_lossy(&item.value).parse().expect("a number");
            batch.put(key.as_bytes(), (amount + step).to_string().as_bytes())?;
        }
        match store.write_if_unchanged(&reads, &batch, &WriteOptions::default()) {
            Ok(_) => return Ok(()),
            Err(Error::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn a_crash_keeps_all_of_a_transaction_or_nothing() -> Result<()> {
    for seed in 0..12 {
        println!("seed {seed}");
        let disk = killed(seed, |env| {
            let boundaries = vec![b"c".to_vec(), b"e".to_vec(), b"g".to_vec()];
            let store = open(env, &Options { drange_boundaries: boundaries, ..small() })?;
            KEYS.iter().try_for_each(|key| put(&store, key, "1000"))?;
            let job = |client: u64| {
                let store = store.clone();
                move || {
                    let mut random = SeededRng::stream(seed, client);
                    (0..40).for_each(|_| transfer(&store, &mut random).expect("room enough"));
                }
            };
            let spawn = |client| env.spawn(JobClass::Client, "client", Box::new(job(client)));
            let threads: Vec<_> = (0..3).map(spawn).collect();
            let waits_for = seed as usize % 4;
            for thread in threads.into_iter().take(waits_for) {
                assert!(thread?.join());
            }
            Ok(store)
        });
        after_crash(disk, |env| {
            let found = amounts(&open(env, &small())?)?;
            assert_eq!(found.iter().sum::<u64>(), 4000, "seed {seed}: {found:?}");
            Ok::<(), Error>(())
        })?;
    }
    Ok(())
}
