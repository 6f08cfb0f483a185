#!/usr/bin/env bash
# unpack.sh DIRECTORY PACKAGE...: this distribution's packages, unpacked below DIRECTORY as they would be below /. They are
# not installed: that would start their daemons on this machine.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 DIRECTORY PACKAGE..." >&2; exit 2; }
directory=$(realpath -m "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chown _apt "$work" 2> /dev/null || true # who downloads
cd "$work"
apt-get -q update
apt-get -q download "$@"
rm -rf "$directory"
mkdir -p "$directory"
for deb in ./*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$directory"
done
touch "$directory/.complete"
