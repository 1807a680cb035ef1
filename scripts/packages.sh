#!/bin/sh
# The library as a stranger gets it: packs `terrace` and the crates that it needs, builds them from
# their packages alone, and tests what a build without codecs answers. Ends by itself if something hangs.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}/packages
# What an earlier run unpacked or built bears the same version: cargo would take it for the same.
forget() {
    rm -rf "$target" "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/terrace-*
}
forget
trap forget EXIT

# What dependencies are made of is here already; nothing is asked for again.
timeout 300 cargo fetch --locked
timeout 1800 cargo package --locked --offline --target-dir "$target" \
    --package terrace-base --package terrace-env --package terrace-engine --package terrace "$@"
for file in LICENSE-MIT LICENSE-APACHE README.md; do
    for name in terrace-base terrace-env terrace-engine terrace; do
        for package in "$target"/package/"$name"-[0-9]*.crate; do
            tar -tzf "$package" | grep -q "/$file\$" || {
                echo "$package has no $file" >&2
                exit 1
            }
        done
    done
done
# Whoever does not ask for it gets no runtime.
if cargo tree --locked --offline --package terrace --edges normal | grep tokio; then
    echo "terrace depends on tokio without its feature" >&2
    exit 1
fi
# One short test: it takes longer to optimise what it calls than to call it.
CARGO_PROFILE_DEV_OPT_LEVEL=0 \
    timeout 1800 cargo test --locked --offline --package terrace --no-default-features --test codecs
