#!/bin/sh
# Prints a Python that can import the redis package: the first on the path, or Debian's own, which is
# the one that Debian's package serves and which another installation may stand in front of.
set -eu
for python in python3 /usr/bin/python3; do
    if "$python" -c 'import redis' >/dev/null 2>&1; then
        echo "$python"
        exit 0
    fi
done
echo "no python3 here can import redis; scripts/setup.sh test installs one" >&2
exit 1
