//! Goal: a disk that lies about its syncs sets a range back to a prefix of its writes, or the open
//! refuses. Method: seeded ranges on such disks, a power cut, and honest opens after it.

use terrace_rot::lies::{LieCount, run};

#[test]
fn a_lying_disk_leaves_a_prefix_or_a_refusal() {
    let mut count = LieCount::default();
    let findings: Vec<String> = (0..2000).filter_map(|seed| run(seed, &mut count)).collect();
    println!("{count:?}");
    for finding in &findings {
        println!("FOUND: {finding}");
    }
    assert!(findings.is_empty(), "see above");
    assert!(count.lies > 1000 && count.prefix > 0 && count.refused > 0, "{count:?}");
}
