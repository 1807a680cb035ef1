#!/bin/sh
# `make cloud`: a database whose lower levels lie in a real S3 server on this machine. Loads this
# machine's own Debian package index, most of which goes to the store; shows what lies where and what
# a read meets; kills the server of the database, and goes on where it was. Then the store alone is
# read, kept as a checkpoint, and copied; and another directory goes on with it, as after the loss of
# a machine, with all that was acknowledged as durable: by the log in the store, and by one on a volume. With the binary in TERRACE, and a
# store in TERRACE_S3_URL, nothing is built.
set -eu
cd "$(dirname "$0")/.."

if [ -z "${TERRACE_S3_URL:-}" ]; then
    scripts/setup.sh
    cargo build --release --locked --package terrace-cli
    exec scripts/s3.sh "$0"
fi

terrace=${TERRACE:-${CARGO_TARGET_DIR:-target}/release/terrace}
place=$(mktemp -d)
data=$place/data
server=
taken=
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

say() {
    printf '\n# %s\n' "$*"
}

show() {
    printf '$ terrace %s\n' "$*"
    "$terrace" "$@"
}

address=
mirror=1s
log=
serve() {
    : >"$place/listening"
    options="--cloud-url $TERRACE_S3_URL --local-bytes 16M --cloud-mirror $mirror $log"
    printf '$ terrace serve --data %s %s &\n' "$(basename "$data")" "$options $taken"
    # shellcheck disable=SC2086
    "$terrace" serve --data "$data" $taken --listen 127.0.0.1:0 $options >"$place/listening" &
    server=$!
    until grep -q listening "$place/listening"; do
        kill -0 "$server" 2>/dev/null || {
            wait "$server"
            exit 1
        }
        sleep 0.1
    done
    cat "$place/listening"
    address=$(sed -n 's/^listening on //p' "$place/listening")
}

# Every package that apt knows of; without apt's lists, those that are installed.
index=$place/index
{ command -v apt-cache >/dev/null 2>&1 && apt-cache dumpavail >"$index" 2>/dev/null; } || true
[ -s "$index" ] || cp /var/lib/dpkg/status "$index"

say "A server whose database may take 16 MiB of this disk; the rest of it lies in S3."
serve
say "This machine's package index, $(($(wc -c <"$index") / 1048576)) MiB."
show import --connect "$address" --format deb822 "$index"
count=$("$terrace" count --connect "$address")
say "Some of it lies here, the rest there."
show stats --connect "$address"
say "What a read of a key meets."
key=$("$terrace" scan --connect "$address" --limit 1 --keys-only)
show explain --connect "$address" get "$key"

say "The database's server is killed; another one opens the directory."
kill -9 "$server"
wait "$server" 2>/dev/null || true
serve
say "Indexes and filters of the tables in S3 lie here: after a restart a read asks for a block at most."
show explain --connect "$address" get "$key"
again=$("$terrace" count --connect "$address")
echo "$again of $count entries are there"
[ "$again" = "$count" ]

say "Keys are read, and read again after a restart, which leaves nothing in memory: what is found near,
# and what the requests of each run cost."
keys=$("$terrace" scan --connect "$address" --keys-only | awk 'NR % 100 == 0')
for run in first second; do
    # shellcheck disable=SC2086
    "$terrace" get --connect "$address" $keys >"$place/values"
    printf '\n# the %s run\n' "$run"
    show stats --connect "$address" cache
    "$terrace" stats --connect "$address" | grep -A2 '^  requests'
    kill "$server"
    wait "$server"
    server=
    [ "$run" = second ] || serve
done

say "All of it is read and judged, here and there."
show check --data "$data"

say "Whoever has the store alone reads the database, keeps it as it is now, and copies it."
again=$("$terrace" count --data "$TERRACE_S3_URL")
echo "$again of $count entries are there"
[ "$again" = "$count" ]
show cloud --data "$TERRACE_S3_URL" checkpoint monday
show clone --data "$TERRACE_S3_URL" --checkpoint monday "$place/copy"
again=$("$terrace" count --data "$place/copy")
echo "$again of $count entries are in the copy"
[ "$again" = "$count" ]

say "The machine is lost: an empty directory goes on with the database. So does a third one, which has
# to be told to, because the database was not closed this time."
for next in second third; do
    rm -rf "$data"
    data=$place/$next
    serve
    again=$("$terrace" count --connect "$address")
    echo "$again of $count entries are there"
    [ "$again" = "$count" ]
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
    server=
    taken=--take-over
done

say "With the log in S3 a write of the class durable is acknowledged when it is there. The machine is
# lost right after the last one, and moments are a minute apart."
log="--cloud-log 20ms --cloud-archive 1d --durability durable"
mirror=60s
serve
seq 300 | awk '{ print "durable-" $1 "\tvalue " $1 }' >"$place/durable"
show import --connect "$address" --format tsv "$place/durable"
"$terrace" stats --connect "$address" | grep -A1 '^  log there'
kill -9 "$server"
wait "$server" 2>/dev/null || true
server=
rm -rf "$data"
data=$place/fourth
serve
again=$("$terrace" count --connect "$address" --prefix durable-)
echo "$again of 300 durable entries are there"
[ "$again" = 300 ]

say "Somebody deletes what they should not have. The owner keeps an archive, so the state before that is
# there still."
sleep 2
before=$(date -u +%Y-%m-%dT%H:%M:%SZ)
sleep 1
show delete --connect "$address" --prefix durable-
show count --connect "$address" --prefix durable-
again=$("$terrace" count --data "$TERRACE_S3_URL" --at "$before" --prefix durable-)
echo "$again of 300 entries were there at $before"
[ "$again" = 300 ]
show clone --data "$TERRACE_S3_URL" --at "$before" "$place/before"
again=$("$terrace" count --data "$place/before")
echo "$again of $((count + 300)) entries are in the clone"
[ "$again" = "$((count + 300))" ]
"$terrace" stats --connect "$address" | grep '^  archive'

say "So it is with a log on a volume that outlives the machine, here a directory beside it: a durable write
# waits for a sync, and for no request."
kill "$server"
wait "$server"
server=
volume=$place/volume
mkdir "$volume"
log="--log-volume $volume --durability durable"
taken=
serve
seq 3000 | awk '{ print "on-the-volume-" $1 "\tvalue " $1 }' >"$place/durable"
show import --connect "$address" --format tsv "$place/durable"
"$terrace" stats --connect "$address" | grep '^  log on volume'
kill -9 "$server"
wait "$server" 2>/dev/null || true
server=
rm -rf "$data"
data=$place/fifth
taken=--take-over
serve
again=$("$terrace" count --connect "$address" --prefix on-the-volume-)
echo "$again of 3000 durable entries are there"
[ "$again" = 3000 ]
show stats --connect "$address" | grep -A2 '^  requests'
