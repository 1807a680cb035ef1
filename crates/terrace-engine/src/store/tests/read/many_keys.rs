//! Goal: keys that are read together are read as each of them alone is. Method: the same calls on
//! the same tree, once in one way and once in the other.

use terrace_base::KeyRange;

use crate::store::GetOptions;
use crate::store::tests::*;

/// Values that were found, and how often the cache had the block that was looked for, and had not.
type Outcome = (Vec<Option<Vec<u8>>>, u64, u64);

/// What reads of `rounds` come to, together or one by one.
fn read(rounds: &[Vec<&str>], together: bool) -> Result<Outcome> {
    simulate(1, |env| {
        let store = open(env, &lazy())?;
        for key in 0..200 {
            put(&store, &format!("k{key:04}"), &"v".repeat(100))?;
        }
        store.compact(&KeyRange::all())?;
        (0..200).step_by(9).try_for_each(|key| put(&store, &format!("k{key:04}"), "new"))?;
        store.flush()?;
        store.close()?;
        drop(store);
        let store = open(env, &lazy())?;
        let options = GetOptions::default();
        let mut found = Vec::new();
        for keys in rounds {
            let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
            if together {
                let items = store.multi_get(&keys, &options)?;
                found.extend(items.iter().map(|item| item.as_ref().map(|one| one.to_vec())));
            } else {
                for key in keys {
                    found.push(store.get(key, &options)?.map(|item| item.value));
                }
            }
        }
        let stats = store.stats();
        assert_eq!(stats.get_count, rounds.iter().map(|keys| keys.len() as u64).sum::<u64>());
        Ok((found, stats.cache_hit_count, stats.cache_miss_count))
    })
}

#[test]
fn what_is_read_together_uses_the_cache_as_what_is_read_alone() -> Result<()> {
    let names: Vec<String> = (0..220).map(|key| format!("k{:04}", key * 37 % 211)).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    // Nothing is cached, then some of it, then all; keys that are not there, and one key twice.
    let rounds = [
        all[..3].to_vec(),
        all[..40].to_vec(),
        vec!["k0001", "k0001", "k00011", "a", "z"],
        all.clone(),
        all.clone(),
        all[7..8].to_vec(),
    ];
    let (alone, hits, misses) = read(&rounds, false)?;
    assert!(hits > 300 && misses > 20, "{hits} hits, {misses} misses");
    assert_eq!(read(&rounds, true)?, (alone, hits, misses));
    Ok(())
}
