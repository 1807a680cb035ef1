#!/bin/sh
# Looks for errors of memory where the engine's `unsafe` code is, in memtables and their arena, with
# Valgrind's Memcheck, and with Miri if a nightly toolchain has it: scripts/memcheck.sh [SECONDS]
# [REPORT]. Each test may take SECONDS (600), since both are many times slower than the machine; one
# that takes longer says nothing, and is counted. Writes a report for the page of a soak if asked.
# Exits with 1 if anything was found.
set -eu
cd "$(dirname "$0")/.."

seconds=${1:-600}
report=${2:-}
filter=memtable::

if ! command -v valgrind >/dev/null 2>&1; then
    echo "valgrind is not here: scripts/setup.sh soak installs it" >&2
    exit 3
fi
tests=$(cargo test --locked --no-run --package terrace-engine --lib 2>&1 |
    sed -n 's/.*Executable.*(\(.*\))/\1/p')
[ -x "$tests" ] || {
    echo "the tests of terrace-engine cannot be built" >&2
    exit 3
}

count=0
unfinished=0
findings=0

# One test under a checker: name, then the command. 124 is the code of `timeout`.
check() {
    name=$1
    shift
    count=$((count + 1))
    status=0
    timeout "$seconds" "$@" || status=$?
    case $status in
    0) echo "clean: $name" ;;
    124)
        unfinished=$((unfinished + 1))
        echo "not finished in $seconds s: $name"
        ;;
    *)
        findings=$((findings + 1))
        echo "FOUND something: $name ended with $status"
        ;;
    esac
}

# A list, and not a pipe: the counts are this shell's.
for name in $("$tests" --list --format terse "$filter" | sed -n 's/: test$//p'); do
    check "memcheck $name" valgrind --quiet --error-exitcode=99 --fair-sched=yes \
        --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        "$tests" --exact "$name" --test-threads 1
done
[ "$count" -gt 0 ] || {
    echo "no test has $filter in its name" >&2
    exit 3
}

miri=absent
if cargo +nightly miri --version >/dev/null 2>&1; then
    miri=$(cargo +nightly miri --version)
    # The tests are smaller under Miri by themselves.
    check "miri $filter" env MIRIFLAGS="-Zmiri-disable-isolation" \
        cargo +nightly miri test --locked --package terrace-engine --lib "$filter"
fi

echo "$count checks, $unfinished not finished, $findings with findings; Miri: $miri"
if [ -n "$report" ]; then
    printf '{\n  "checks": %s,\n  "not_finished": %s,\n  "miri": "%s",\n  "findings": %s\n}\n' \
        "$count" "$unfinished" "$miri" "$findings" >"$report"
fi
[ "$findings" -eq 0 ]
