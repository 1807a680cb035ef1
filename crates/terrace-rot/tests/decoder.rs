//! Goal: the decoder of every format notices every flipped bit and every cut, dead bytes apart.
//! Method: all bits and all lengths of a specimen of at most 32 KiB per format.

#![allow(clippy::disallowed_methods, reason = "two threads share the seeds of real simulations")]

use terrace_rot::decoder::{SPECIMEN_BYTES, formats};

/// Damages every second format from the `first` on; the number of flips and of lengths.
fn damage_every_second(first: usize) -> (u64, u64) {
    let (mut flips, mut lengths) = (0, 0);
    let all = formats(1).expect("specimens are built in memory");
    for format in all.iter().skip(first).step_by(2) {
        let bytes = format.bytes.len();
        assert!(bytes <= SPECIMEN_BYTES, "{} is too large", format.name);
        let count = format.flip_all(1);
        flips += count.flips;
        lengths += count.lengths;
        println!(
            "{:36} {bytes:>6} bytes {:>7} flips {:>7} noticed {:>6} dead, {:>6} lengths",
            format.name, count.flips, count.noticed, count.dead, count.lengths
        );
        assert_eq!(count.missed, Vec::<String>::new(), "{}", format.name);
        assert_eq!(count.flips, bytes as u64 * 8);
    }
    (flips, lengths)
}

/// Two threads share the formats, since this is the only test of its program.
#[test]
fn every_bit_of_every_format_is_noticed_or_dead() {
    let (mut flips, mut lengths) = (0, 0);
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|first| scope.spawn(move || damage_every_second(first)));
        for half in halves {
            let counted = half.join().expect("the format that failed is printed above");
            flips += counted.0;
            lengths += counted.1;
        }
    });
    println!("{flips} flips, {lengths} lengths");
    assert!(flips > 2_800_000);
}
