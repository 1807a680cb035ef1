#!/bin/sh
# Models of what threads do: every order of steps within bounds, on the code as it is. Another build
# than the ordinary one, so it has a target directory of its own. More words are for the tests:
# scripts/models.sh memtable. TERRACE_MODELS_DEEPER=1 allows one more switch of threads in each model,
# which takes about ten times as long.
set -eu
cd "$(dirname "$0")/.."

RUSTFLAGS="${RUSTFLAGS:-} --cfg terrace_loom"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/models"
export RUSTFLAGS CARGO_TARGET_DIR
cargo test --locked --lib --package terrace-env --package terrace-engine models:: -- --nocapture "$@"
