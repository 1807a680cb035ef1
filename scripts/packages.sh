#!/bin/sh
# The library as a stranger gets it: packs `terrace` and the crates that it needs, builds them from
# their packages alone, and tests what a build without codecs answers. Ends by itself if something hangs.
set -eu
cd "$(dirname "$0")/.."

# Sources of dependencies that are there already are not asked for again.
timeout 300 cargo fetch --locked
timeout 1800 cargo package --locked --offline \
    --package terrace-base --package terrace-env --package terrace-engine --package terrace "$@"
packages=${CARGO_TARGET_DIR:-target}/package
for file in LICENSE-MIT LICENSE-APACHE README.md; do
    for package in "$packages"/terrace-base-*.crate "$packages"/terrace-env-*.crate \
        "$packages"/terrace-engine-*.crate "$packages"/terrace-[0-9]*.crate; do
        tar -tzf "$package" | grep -q "/$file\$" || {
            echo "$package has no $file" >&2
            exit 1
        }
    done
done
timeout 1800 cargo test --locked --offline --package terrace --no-default-features --test codecs
