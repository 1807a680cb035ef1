#!/bin/sh
# `make run`: builds, starts the server over ./data, puts this machine's own Debian package index
# into it the first time, prints what to try, and serves until Ctrl-C.
set -eu
cd "$(dirname "$0")/.."

data=${TERRACE_DATA:-data}
address=${TERRACE_LISTEN:-127.0.0.1:7379}
port=${address##*:}

scripts/setup.sh
cargo build --release --locked --package terrace-cli
terrace=${CARGO_TARGET_DIR:-target}/release/terrace

"$terrace" serve --data "$data" --listen "$address" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

# The server prints that it listens; wait until it answers.
until "$terrace" stats --connect "$address" >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { wait "$server"; exit 1; }
    sleep 0.1
done

if [ -z "$("$terrace" scan --connect "$address" --limit 1 --keys-only)" ]; then
    index=$(mktemp)
    # Every package that apt knows of; without apt's lists, those that are installed.
    { command -v apt-cache >/dev/null 2>&1 && apt-cache dumpavail >"$index" 2>/dev/null; } || true
    [ -s "$index" ] || cp /var/lib/dpkg/status "$index"
    echo "importing this machine's package index"
    "$terrace" import --connect "$address" --format deb822 "$index"
    rm -f "$index"
else
    echo "the data of an earlier start is there"
fi

cat <<TRY

Terrace serves $data on $address. Try, in another terminal:

  redis-cli -p $port RANGE bash c LIMIT 2 KEYS
  redis-cli -p $port SET hello world EX 60
  redis-cli -p $port RANGECOUNT - +

  $terrace scan --connect $address --prefix libc6 --limit 3 --keys-only
  $terrace scan --connect $address --from z --reverse --limit 1 --output json
  $terrace stats --connect $address

Ctrl-C stops the server; the data stays in $data.
TRY
wait "$server"
