//! Goal: no decoder panics, holds too much memory, or decodes what does not encode back, whatever
//! the bytes. Method: for each target its committed corpus as it is, what the real encoders make
//! now, then mutations of both: a fixed number from a fixed seed, so that a failure repeats.
//!
//! `TERRACE_FUZZ_PERCENT` scales the number of executions (default 100), `TERRACE_FUZZ_SEED`
//! chooses another run.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the corpus is files")]

use std::path::{Path, PathBuf};

use terrace_fuzz::{Budget, TARGETS, find, replay, run};

#[global_allocator]
static ALLOCATOR: terrace_fuzz::allocation::Counting = terrace_fuzz::allocation::Counting;

fn corpus_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

/// The committed inputs of a target, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(corpus_dir(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn fuzz(name: &str) {
    let target = find(name).unwrap();
    let executions = target.executions * variable("TERRACE_FUZZ_PERCENT", 100) / 100;
    let mut inputs = corpus(name);
    inputs.extend((target.seeds)());
    match run(target, inputs, variable("TERRACE_FUZZ_SEED", 1), Budget::Executions(executions)) {
        Ok(report) => println!("{report}"),
        Err(failure) => panic!("{failure}"),
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                fuzz(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_tested_and_has_a_corpus() {
            let tested = [$(stringify!($name)),*];
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(tested.as_slice(), names);
            for name in names {
                let bytes: usize = corpus(name).iter().map(Vec::len).sum();
                assert!((1..64 << 10).contains(&bytes), "{name}: {bytes} bytes");
            }
        }
    };
}

targets! {
    resp inline reply session block filter index footer names range_tombstones table values cached mashmeta row
    segment_header log_record log_directory log_object manifest edit current plan database options
    import
}

#[test]
fn the_encoders_make_the_same_inputs_every_time() {
    for target in TARGETS {
        assert!((target.seeds)() == (target.seeds)(), "{}", target.name);
        assert!(!(target.seeds)().is_empty(), "{}", target.name);
    }
}

#[test]
fn a_target_that_holds_too_much_is_found() {
    fn greedy(data: &[u8]) {
        std::hint::black_box(vec![1_u8; data.len() * 1000]);
    }
    let target = terrace_fuzz::Target { run: greedy, ..*find("filter").unwrap() };
    assert!(replay(&target, &[0; 10]).is_ok());
    assert!(replay(&target, &[0; 1000]).unwrap_err().contains("1000000 bytes"));
}
