//! The model against what was measured: `docs/results/rocksmash`, section "What the plan predicts".
//!
//! Goal: requests and dollars of a layout that was measured are about those that are computed. The
//! sizes are those of the experiment, which are far below what a plan would choose.

use super::cost::{Flow, TierRequests, log_objects};
use super::hits::Popularity;
use super::layouts::{Place, Safety, options_of};
use super::tree::Tree;
use super::workload::TierNeeds;
use crate::{Durability, Needs, Options};
use std::time::Duration;

const RECORDS: u64 = 200_000;
const CACHE_BYTES: f64 = 5_080_000.0;
const MEMTABLE_BYTES: u64 = 2_032_000;
const LOCAL_BYTES: u64 = 40_640_000;

/// What of the local bytes the subject with everything in the store has for itself.
const ALL_FAR_BYTES: u64 = 16 << 20;

struct Measured {
    step: &'static str,
    is_all_far: bool,
    reads: f64,
    scans: f64,
    requests: f64,
    puts: f64,
    dollars: f64,
}

const fn of(
    step: &'static str,
    is_all_far: bool,
    (reads, scans): (f64, f64),
    (requests, puts, dollars): (f64, f64, f64),
) -> Measured {
    Measured { step, is_all_far, reads, scans, requests, puts, dollars }
}

/// Requests and puts for an operation, dollars for a million, at commit dcd9da1.
const MEASURED: [Measured; 8] = [
    of("a", false, (0.5, 0.0), (0.16785, 0.00098, 0.071456)),
    of("b", false, (0.95, 0.0), (0.24933, 0.00006, 0.100008)),
    of("c", false, (0.9999, 0.0), (0.24789, 0.0, 0.099156)),
    of("e", false, (0.0, 0.95), (1.85, 0.000333, 0.741533)),
    of("a", true, (0.5, 0.0), (0.2153, 0.0009, 0.089796)),
    of("b", true, (0.95, 0.0), (0.38081, 0.00003, 0.152462)),
    of("c", true, (0.9999, 0.0), (0.35741, 0.0, 0.142964)),
    of("e", true, (0.0, 0.95), (2.59367, 0.000333, 1.039)),
];

fn needs(reads_share: f64, scans_share: f64) -> TierNeeds {
    let sizes = Needs {
        data_bytes: RECORDS * 1024,
        memory_bytes: 64 << 20,
        pmem_bytes: 0,
        value_bytes: 1000,
    };
    let needs = TierNeeds::new(sizes, 1000.0, LOCAL_BYTES);
    TierNeeds { reads_share, scans_share, ..needs }
}

fn sizes() -> Options {
    Options::default().memtable_bytes(MEMTABLE_BYTES)
}

fn popularity(needs: &TierNeeds) -> Popularity {
    Popularity::zipf(RECORDS, needs.skew)
}

fn place(needs: &TierNeeds, is_all_far: bool) -> Place {
    let popularity = popularity(needs);
    if !is_all_far {
        return Place::new(needs, &sizes(), &popularity, (LOCAL_BYTES, None));
    }
    // Memtables as wanted, all levels in the store, and no block near.
    let mut place = Place::new(needs, &sizes(), &popularity, (ALL_FAR_BYTES, None));
    let wide = options_of(&sizes(), 1 << 40, None);
    place.tree = Tree::of(&wide, needs.needs.data_bytes, 1024);
    place.ages = place.tree.ages(&popularity, true);
    place.block_bytes = 0.0;
    place
}

#[test]
fn requests_are_about_those_that_were_measured() {
    for measured in &MEASURED {
        let needs = needs(measured.reads, measured.scans);
        let place = place(&needs, measured.is_all_far);
        let popularity = popularity(&needs);
        let flow = Flow::of(&needs, CACHE_BYTES, &place, &popularity);
        let flow = flow.with_safety(&needs, &place, &Safety::NONE, &popularity);
        let TierRequests { gets, puts, deletes } = flow.requests(&needs);
        let dollars = flow.dollars(&needs, 0).requests_per_million_operations.to_f64();
        println!(
            "{} {} first far {} levels {:?} near {:.1} MB memtable {:.0} table {:.1}: requests {:.4} ({:.4}) {:.2}; puts {:.5} ({:.5}); dollars {:.4} ({:.4}) {:.2} del {deletes}",
            measured.step, measured.is_all_far, place.first_far, place.tree.levels.iter().map(|l| (l.level, l.bytes>>20)).collect::<Vec<_>>(), place.block_bytes/1e6, place.tree.memtable_entries, place.tree.table_bytes/1e6,
            gets + puts, measured.requests, (gets+puts)/measured.requests, puts, measured.puts, dollars, measured.dollars, dollars/measured.dollars
        );
    }
}

#[test]
fn loads() {
    for is_all_far in [false, true] {
        let mut needs = needs(0.0, 0.0);
        needs.skew = 0.0;
        let mut sum = (0.0, 0.0, 0.0, 0.0);
        const PARTS: u64 = 20;
        for part in 0..PARTS {
            let mut needs = needs.clone();
            needs.needs.data_bytes = RECORDS * 1024 * (2 * part + 1) / (2 * PARTS);
            let popularity = Popularity::zipf(needs.needs.data_bytes / 1024, 0.0);
            let mut place = Place::new(&needs, &sizes(), &popularity, (LOCAL_BYTES, None));
            if is_all_far {
                let wide = options_of(&sizes(), 1 << 40, None);
                place.tree = Tree::of(&wide, needs.needs.data_bytes, 1024);
                place.ages = place.tree.ages(&popularity, true);
                place.first_far = 1;
            }
            let flow = Flow::of(&needs, CACHE_BYTES, &place, &popularity);
            let flow2 = flow.with_safety(&needs, &place, &Safety::NONE, &popularity);
            sum.0 += flow.puts / 1000.0 / PARTS as f64;
            sum.1 += flow2.puts / 1000.0 / PARTS as f64;
            sum.2 += flow.gets / 1000.0 / PARTS as f64;
            sum.3 += flow.bytes_up / 1000.0 / 1016.0 / PARTS as f64;
        }
        println!("{is_all_far} tables {:.6} puts {:.6} gets {:.6} up {:.2}", sum.0, sum.1, sum.2, sum.3);
    }
    for (ms, rate, s) in [(5, 1682.0, 11.9), (50, 1245.0, 16.06)] {
        let objects = log_objects(&needs(0.0,0.0), Duration::from_millis(ms), Durability::Durable, rate);
        println!("{ms} {objects} {}", objects * s);
    }
}
