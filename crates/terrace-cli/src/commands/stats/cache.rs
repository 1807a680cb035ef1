//! What is found near of what was read: in memory, and of tables in an object store on the local
//! disk.

use serde_json::{Value, json};

use super::{Figured, line_of};
use crate::terminal::{HumanCount, bytes};

/// What is said without a cache on the local disk: also by a process that only looks.
const NOTHING_NEAR: &str = "no tables in an object store, or only looked at from beside: where a \
                            server has the database open, --connect asks it\n";

/// The figures for programs, out of those of the whole database. What is not there is `null`.
pub(super) fn as_json(figures: &Figured) -> Value {
    let of = |pointer: &str| figures.0.pointer(pointer).cloned().unwrap_or_default();
    json!({
        "memory": {
            "hits": of("/cache_hit_count"),
            "misses": of("/cache_miss_count"),
            "bytes": of("/cache_bytes"),
            "bytes_max": of("/cache_limit_bytes"),
        },
        "local_disk": {
            "blocks": of("/cloud/near/data"),
            "metadata": of("/cloud/near/meta"),
            "memory_bytes": of("/memory/pools/persistent_cache/used_bytes"),
        },
        "object_store": { "gets": of("/cloud/requests/get/requests") },
    })
}

/// The figures for people.
pub(super) fn shown(figures: &Figured) -> String {
    let mut text = String::from("blocks in memory\n");
    let (hits, misses) = (figures.number("/cache_hit_count"), figures.number("/cache_miss_count"));
    let held =
        |held: &str, most: &str| format!("{} of {}", figures.bytes(held), figures.bytes(most));
    line_of(&mut text, "hold", &held("/cache_bytes", "/cache_limit_bytes"));
    line_of(&mut text, "found there", &hit_rate(hits, misses));
    if figures.0.pointer("/cloud/near/data").is_none() {
        text.push_str(NOTHING_NEAR);
        return text;
    }
    let data = |name: &str| figures.number(&format!("/cloud/near/data/{name}"));
    text.push_str("blocks of tables in the object store, on the local disk\n");
    line_of(&mut text, "hold", &held("/cloud/near/data/bytes", "/cloud/near/data/bytes_max"));
    line_of(&mut text, "found there", &hit_rate(data("hits"), data("misses")));
    let counted = |name: &str| HumanCount(data(name)).to_string();
    let came = match data("inherited") {
        0 => counted("admitted"),
        inherited => format!(
            "{}, {} of them because compactions wrote anew what was there",
            counted("admitted"),
            HumanCount(inherited)
        ),
    };
    // Servers of earlier builds say nothing of neighbours.
    let beside = match data("neighbours") {
        0 => String::new(),
        neighbours => format!("; {} beside those, into free room", HumanCount(neighbours)),
    };
    line_of(&mut text, "came", &format!("{came}{beside}"));
    let went = format!(
        "{} for others, {} with their tables, {} because the cache became smaller",
        counted("evicted"),
        counted("invalidated"),
        counted("squeezed")
    );
    line_of(&mut text, "went", &went);
    let memory = figures.number("/memory/pools/persistent_cache/used_bytes");
    line_of(&mut text, "in memory", &format!("{} to find them", bytes(memory)));
    if data("damaged") > 0 {
        line_of(&mut text, "damaged", &format!("{}, which were fetched again", counted("damaged")));
    }
    let meta = |name: &str| figures.number(&format!("/cloud/near/meta/{name}"));
    text.push_str("metadata of tables in the object store, on the local disk\n");
    let tables = format!("{}, of {} tables", bytes(meta("bytes")), HumanCount(meta("table_count")));
    line_of(&mut text, "hold", &tables);
    line_of(&mut text, "found there", &hit_rate(meta("hits"), meta("misses")));
    if meta("damaged") > 0 {
        let files = format!("{} files, which were fetched again", HumanCount(meta("damaged")));
        line_of(&mut text, "damaged", &files);
    }
    text
}

fn hit_rate(hits: u64, misses: u64) -> String {
    match hits + misses {
        0 => "nothing was asked for since the open".to_owned(),
        asked => {
            let percent = hits as f64 * 100.0 / asked as f64;
            format!("{percent:.1} % of {} asked for", HumanCount(asked))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cache_says_what_it_holds_and_how_often_it_helps() {
        let figures = json!({
            "cache_hit_count": 30, "cache_miss_count": 10,
            "cache_bytes": 1 << 20, "cache_limit_bytes": 8 << 20,
            "cloud": { "near": {
                "data": {
                    "hits": 6, "misses": 4, "admitted": 1200, "inherited": 7, "evicted": 3,
                    "neighbours": 90,
                    "invalidated": 2, "squeezed": 1, "damaged": 0,
                    "bytes": 4 << 20, "bytes_max": 16 << 20,
                },
                "meta": { "hits": 0, "misses": 0, "damaged": 2, "table_count": 5, "bytes": 2048 },
            } },
            "memory": { "pools": { "persistent_cache": { "used_bytes": 3072 } } },
        });
        let expected = "\
blocks in memory
  hold           1.00 MiB of 8.00 MiB
  found there    75.0 % of 40 asked for
blocks of tables in the object store, on the local disk
  hold           4.00 MiB of 16.00 MiB
  found there    60.0 % of 10 asked for
  came           1,200, 7 of them because compactions wrote anew what was there; 90 beside those, into free room
  went           3 for others, 2 with their tables, 1 because the cache became smaller
  in memory      3.00 KiB to find them
metadata of tables in the object store, on the local disk
  hold           2.00 KiB, of 5 tables
  found there    nothing was asked for since the open
  damaged        2 files, which were fetched again
";
        assert_eq!(shown(&Figured(figures.clone())), expected);
        let programs = as_json(&Figured(figures));
        assert_eq!(programs.pointer("/local_disk/blocks/hits"), Some(&json!(6)));
        assert_eq!(programs.pointer("/local_disk/memory_bytes"), Some(&json!(3072)));
        let without = Figured(json!({ "cache_hit_count": 0 }));
        assert!(shown(&without).ends_with(NOTHING_NEAR));
        assert_eq!(as_json(&without).pointer("/local_disk/blocks"), Some(&Value::Null));
    }
}
