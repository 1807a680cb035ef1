#!/bin/sh
# The comparison with other stores: scripts/compare.sh [WORDS for `terrace-bench-compare run`], or
# scripts/compare.sh experiment [WORDS for `terrace-bench-compare experiment`].
# Builds RocksDB and the others first, which takes some twenty minutes the first time.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh compare
# RocksDB's checksums are table-driven unless the compiler may use what every server has.
flags="-msse4.2 -mpclmul -mavx2"
case "$(uname -m)" in
x86_64) export CFLAGS="$flags${CFLAGS:+ $CFLAGS}" CXXFLAGS="$flags${CXXFLAGS:+ $CXXFLAGS}" ;;
esac
target=${CARGO_TARGET_DIR:-$PWD/target}/compare
cargo build --release --locked --target-dir "$target" \
    --manifest-path crates/terrace-bench-compare/Cargo.toml
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain -- crates)" ] || commit="$commit with changes"
what=run
if [ "${1:-}" = experiment ]; then
    what=experiment
    shift
fi
"$target/release/terrace-bench-compare" "$what" --commit "$commit" "$@"
