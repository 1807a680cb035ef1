//! Gives what libFuzzer makes to the target that this binary is named after.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use terrace_fuzz::Target;

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    terrace_fuzz::find(env!("CARGO_BIN_NAME")).expect("each binary has the name of a target")
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
