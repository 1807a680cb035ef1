#!/bin/sh
# Real clients against the real server: redis-cli, redis-benchmark and Python's redis package.
# TERRACE names a binary that is built already; else one is built.
set -eu
cd "$(dirname "$0")/.."

python=$(scripts/python-with-redis.sh)
terrace=${TERRACE:-}
if [ -z "$terrace" ]; then
    cargo build --locked --package terrace-cli
    terrace=${CARGO_TARGET_DIR:-target}/debug/terrace
fi
data=$(mktemp -d)
out=$(mktemp)
"$terrace" serve --data "$data" --listen 127.0.0.1:0 >"$out" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$data" "$out"' EXIT
until grep -q '^listening on ' "$out"; do
    kill -0 "$server" 2>/dev/null || { echo "the server did not start" >&2; exit 1; }
    sleep 0.1
done
address=$(sed -n 's/^listening on //p' "$out")
port=${address##*:}

expect() { # wanted, command...
    wanted=$1
    shift
    found=$("$@")
    if [ "$found" != "$wanted" ]; then
        echo "FAILED: $*: '$found', not '$wanted'" >&2
        exit 1
    fi
}

cli="redis-cli -p $port"
expect PONG $cli PING
expect OK $cli SET fruit apple EX 100
expect apple $cli GET fruit
expect "$(printf 'fruit\napple')" $cli RANGE f g
expect 1 $cli RANGECOUNT - +
expect apple "$terrace" get --connect "$address" fruit
expect 1 $cli -3 DEL fruit
redis-benchmark -p "$port" -t set,get,incr,mset -P 16 -n 100000 -q

"$python" - "$port" <<'PYTHON'
import sys

import redis

for protocol in (2, 3):
    try:
        client = redis.Redis(port=int(sys.argv[1]), protocol=protocol)
    except TypeError:  # an old package speaks version 2 only
        client = redis.Redis(port=int(sys.argv[1]))
    client.flushdb()
    assert client.set("key", b"\x00value") is True
    assert client.get("key") == b"\x00value"
    assert client.incr("n", 5) == 5
    assert client.set("key", "x", nx=True) is None
    assert client.expire("key", 100) and 0 < client.ttl("key") <= 100
    with client.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.set(f"many:{number:04}", number)
        assert all(pipeline.execute())
    assert len(list(client.scan_iter(match="many:*", count=100))) == 1000
    assert client.execute_command("RANGE", "many:0500", "many:0502") == [
        b"many:0500", b"500", b"many:0501", b"501"]
    assert client.dbsize() == 1002
print("Python's redis", redis.__version__, "is served")
PYTHON
kill -TERM "$server"
wait "$server"
trap 'rm -rf "$data" "$out"' EXIT
echo "clients are served"
