#!/bin/sh
# Installs what is missing on a fresh Debian machine with rustup: a C compiler for the build, for the
# tests (`setup.sh test`) the Redis clients that they talk with, for a soak (`setup.sh soak`) Valgrind,
# and for the comparison (`setup.sh compare`) what RocksDB's bindings are made with.
set -eu

packages=""
want() { # command, package
    command -v "$1" >/dev/null 2>&1 || packages="$packages $2"
}

want cc build-essential
want cargo cargo
if [ "${1:-}" = test ]; then
    want redis-cli redis-tools
    "$(dirname "$0")/python-with-redis.sh" >/dev/null 2>&1 || packages="$packages python3 python3-redis"
fi
if [ "${1:-}" = soak ]; then
    want valgrind valgrind
fi
if [ "${1:-}" = compare ] && ! ls /usr/lib/llvm-*/lib/libclang.so* >/dev/null 2>&1; then
    packages="$packages libclang-dev"
fi
[ -n "$packages" ] || exit 0

case "$packages" in
*" cargo"*)
    echo "cargo is not here: install rustup (https://rustup.rs), then try again" >&2
    exit 1
    ;;
esac
if ! command -v apt-get >/dev/null 2>&1; then
    echo "please install:$packages" >&2
    exit 1
fi
run=""
if [ "$(id -u)" -ne 0 ]; then
    run="sudo"
fi
echo "installing:$packages"
$run apt-get update -q
# shellcheck disable=SC2086 # a list of packages
$run env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $packages
