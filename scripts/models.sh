#!/bin/sh
# Models of what threads do: every order of steps within loom's bounds, on the code as it is.
# Another build than the ordinary one, so it has a target directory of its own.
set -eu
cd "$(dirname "$0")/.."

RUSTFLAGS="${RUSTFLAGS:-} --cfg terrace_loom"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/models"
export RUSTFLAGS CARGO_TARGET_DIR
cargo test --locked --lib --package terrace-env --package terrace-engine models:: -- --nocapture "$@"
