#!/usr/bin/env bash
# prometheus.sh DIRECTORY: this distribution's Prometheus and promtool, unpacked below DIRECTORY as they would be below /.
# They are not installed: that would start a server on this machine.
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
directory=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chown _apt "$work" 2> /dev/null || true # who downloads
cd "$work"
apt-get -q update
apt-get -q download prometheus
rm -rf "$directory"
mkdir -p "$directory"
dpkg-deb --fsys-tarfile ./prometheus_*.deb | tar -x -C "$directory" ./usr/bin
touch "$directory/.complete"
