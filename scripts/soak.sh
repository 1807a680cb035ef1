#!/bin/sh
# Everything that looks for bugs by chance, for longer than a test may take:
# scripts/soak.sh [MINUTES] [SEED]. Two things at a time:
#
#   simulated machines ──────────────────────────────────────────────────►
#   models ─► memory ─► planted bugs ─► worlds ─► values ─► bit rot ─► hostile bytes ─► kills ►
#
# Each leaves a report in docs/reliability/soak, and all together docs/reliability/soak.md. Ctrl-C
# ends it well: what was found until then is reported. Exits with 1 if anything was found.
set -eu
cd "$(dirname "$0")/.."

minutes=${1:-60}
seed=${2:-$(date +%s)}
out=docs/reliability/soak
logs=${CARGO_TARGET_DIR:-target}/soak
bin=${CARGO_TARGET_DIR:-target}/release
mkdir -p "$out" "$logs"
rm -f "$out"/*.json

scripts/setup.sh soak
# The server first: a kill test without it would build it.
cargo build --locked --release --package terrace-sim --package terrace-rot --package terrace-fuzz
cargo build --locked --release --target-dir "$logs/planted" --package terrace-sim --features planted-bugs
kill_test=$(cargo test --locked --release --no-run --package terrace-cli --features fail-points \
    --test kill 2>&1 | sed -n 's/.*Executable.*(\(.*\))/\1/p')
engine_test=$(cargo test --locked --release --no-run --package terrace-engine --lib 2>&1 |
    sed -n 's/.*Executable.*(\(.*\))/\1/p')

finished=0
trap 'finished=1' INT TERM

# A share of the time in minutes, at least one.
share() {
    part=$((minutes * $1 / 100))
    [ "$part" -gt 0 ] || part=1
    echo "$part"
}

# One part: name, then the command. What it says goes into a log.
part() {
    name=$1
    shift
    [ "$finished" -eq 0 ] || return 0
    echo "$(date +%T) $name: $logs/$name.log"
    "$@" >"$logs/$name.log" 2>&1 || echo "$(date +%T) $name FOUND something: see $out/$name.json and $logs/$name.log"
}

# Kills the server over and over, each time with another seed.
kills() {
    end=$(($(date +%s) + 60 * $1))
    rounds=0
    failed=0
    while [ "$(date +%s)" -lt "$end" ] && [ "$finished" -eq 0 ]; do
        TERRACE_TEST_SEED=$((seed + rounds)) "$kill_test" --nocapture --test-threads 1 || failed=$((failed + 1))
        rounds=$((rounds + 1))
    done
    random=$(grep -c '^killed at random' "$logs/kill.log" || true)
    named=$(sed -n 's/^\([0-9]*\) deaths at named points/\1/p' "$logs/kill.log" | awk '{ sum += $1 } END { print sum + 0 }')
    printf '{\n  "first_seed": %s,\n  "rounds": %s,\n  "killed_at_random": %s,\n  "killed_at_named_points": %s,\n  "findings": %s\n}\n' \
        "$seed" "$rounds" "$random" "$named" "$failed" >"$out/kill.json"
    [ "$failed" -eq 0 ]
}

# The models in every order of steps, one switch of threads deeper than in the tests.
models() {
    status=0
    scripts/models.sh || status=$?
    count=$(grep -c '^test models::.* ok$\|^test .*models::.* ok$' "$logs/models.log" || true)
    printf '{\n  "models": %s,\n  "findings": %s\n}\n' "$count" "$status" >"$out/models.json"
    return "$status"
}

# Simulated worlds of the object store: owners, those who take over, readers, checkpoints; and machines
# that are lost with their disks.
worlds() {
    status=0
    TERRACE_TEST_SEED=$seed TERRACE_TEST_SEEDS=20000 "$engine_test" --nocapture \
        worlds::whatever_happens || status=$?
    TERRACE_TEST_SEED=$seed TERRACE_TEST_SEEDS=10000 "$engine_test" --nocapture \
        lost::what_is_durable || status=$?
    printf '{\n  "first_seed": %s,\n  "worlds": %s,\n  "findings": %s\n}\n' \
        "$seed" "$(sed -n 's/^\([0-9]*\) worlds: .*/\1/p' "$logs/worlds.log")" \
        "$(grep -c '^failed: seed' "$logs/worlds.log" || true)" >"$out/worlds.json"
    return "$status"
}

# Databases that are written over and over, with bounds and sizes by seed: of value logs, and of what
# they may take of the local disk beside an object store.
values() {
    status=0
    TERRACE_TEST_SEED=$seed TERRACE_TEST_SEEDS=$1 "$engine_test" --nocapture \
        value_space::whatever_is_overwritten || status=$?
    TERRACE_TEST_SEED=$seed TERRACE_TEST_SEEDS=$1 "$engine_test" --nocapture \
        local_space::whatever_is_written_over || status=$?
    printf '{\n  "first_seed": %s,\n  "databases": %s,\n  "findings": %s\n}\n' \
        "$seed" "$(($1 * 2))" "$(grep -c '^failed: seed' "$logs/values.log" || true)" >"$out/values.json"
    return "$status"
}

start=$(date +%s)
part sim "$bin/terrace-sim" soak --minutes "$minutes" --seed "$seed" --out "$out/sim.json" &
sim=$!
(
    part models models
    part memcheck scripts/memcheck.sh "$(($(share 5) * 60))" "$out/memcheck.json"
    part planted "$logs/planted/release/terrace-sim" soak --minutes "$(share 15)" --seed "$seed" --hunt 1000 --out "$out/planted.json"
    part worlds worlds
    part values values "$((minutes * 2))"
    part rot "$bin/terrace-rot" soak --minutes "$(share 30)" --seed "$seed" --out "$out/rot.json"
    part fuzz "$bin/terrace-fuzz" soak --minutes "$(share 25)" --seed "$seed" --jobs 1 --out "$out/fuzz.json"
    left=$((minutes - ($(date +%s) - start) / 60))
    [ "$left" -gt 0 ] || left=1
    part kill kills "$left"
) &
others=$!
# An interrupted wait is taken up again: each part ends well by itself.
while ! wait "$sim"; do [ "$finished" -eq 1 ] || break; finished=2; done
while ! wait "$others"; do [ "$finished" -ge 1 ] || break; finished=3; done
cargo xtask soak-page "$minutes" "$seed"
