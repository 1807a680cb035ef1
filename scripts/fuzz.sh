#!/bin/sh
# Coverage-guided fuzzing: scripts/fuzz.sh TARGET [SECONDS]; without a target, all of them.
# Needs a nightly toolchain, and installs cargo-fuzz if it is missing. What it finds lies in
# crates/terrace-fuzz/fuzz/artifacts; new inputs in crates/terrace-fuzz/fuzz/corpus.
set -eu
cd "$(dirname "$0")/../crates/terrace-fuzz"

cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked
seconds=${2:-60}
targets=${1:-$(cargo +nightly fuzz list)}
for target in $targets; do
    echo "$target for $seconds s"
    mkdir -p "fuzz/corpus/$target"
    # Leaks are not looked for: threads of a simulation that are just ending would count as one.
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "corpus/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=30 -detect_leaks=0 \
        -max_len=16384 -print_final_stats=1
done
