#!/bin/sh
# Runs a command beside a real S3 server on this machine, versitygw over a temporary directory:
# scripts/s3.sh [--or-without] COMMAND [ARGUMENT...]. The command finds the store in TERRACE_S3_URL,
# and its address and credentials in the variables of S3 clients. The server is built on first use,
# below the target directory, and stopped afterwards. Needs Go; with --or-without, the command runs
# without a store where the server cannot be built.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
version=v1.8.0

or_without=
if [ "${1:-}" = --or-without ]; then
    or_without=yes
    shift
fi
[ $# -gt 0 ] || {
    echo "usage: scripts/s3.sh [--or-without] COMMAND [ARGUMENT...]" >&2
    exit 2
}

target=${CARGO_TARGET_DIR:-$root/target}
tools=$target/tools/versitygw-$version
build() {
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null 2>&1 || {
        echo "go is not here, and the S3 server is built by it: https://go.dev/dl" >&2
        return 1
    }
    mkdir -p "$tools"
    tools=$(cd "$tools" && pwd)
    echo "building versitygw $version, which takes some two minutes" >&2
    # Outside of any module, and with what it downloads below the target directory too.
    (cd "$tools" && GOBIN=$tools GOPATH=$tools/go GOCACHE=$tools/cache GOFLAGS=-modcacherw \
        go install "github.com/versity/versitygw/cmd/versitygw@$version") || {
        echo "versitygw could not be built" >&2
        return 1
    }
    rm -rf "$tools/go" "$tools/cache"
}
if ! [ -x "$tools/versitygw" ] && ! build; then
    [ -n "$or_without" ] || exit 3
    echo "WITHOUT AN S3 SERVER: what needs one is left out" >&2
    exec "$@"
fi

place=$(mktemp -d)
server=
cleanup() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$place"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

bucket=terrace
mkdir -p "$place/data/$bucket"
AWS_ACCESS_KEY_ID=terrace-$$-access
AWS_SECRET_ACCESS_KEY=terrace-$$-only-on-this-machine
AWS_REGION=us-east-1
AWS_ALLOW_HTTP=true
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION AWS_ALLOW_HTTP

# A port that somebody has is refused by the server: another one is tried.
attempt=0
while :; do
    attempt=$((attempt + 1))
    port=$((20000 + ($$ * 31 + attempt * 997) % 20000))
    ROOT_ACCESS_KEY=$AWS_ACCESS_KEY_ID ROOT_SECRET_KEY=$AWS_SECRET_ACCESS_KEY \
        "$tools/versitygw" --port "127.0.0.1:$port" posix "$place/data" \
        >"$place/log" 2>&1 &
    server=$!
    waited=0
    while kill -0 "$server" 2>/dev/null && [ $waited -lt 100 ] &&
        ! grep -qs "127.0.0.1:$port" "$place/log"; do
        sleep 0.1
        waited=$((waited + 1))
    done
    sleep 0.3
    kill -0 "$server" 2>/dev/null && break
    wait "$server" 2>/dev/null || true
    server=
    [ $attempt -lt 10 ] || {
        echo "the S3 server does not start:" >&2
        cat "$place/log" >&2
        exit 3
    }
done
AWS_ENDPOINT=http://127.0.0.1:$port
TERRACE_S3_URL=s3://$bucket/test
export AWS_ENDPOINT TERRACE_S3_URL

"$@"
