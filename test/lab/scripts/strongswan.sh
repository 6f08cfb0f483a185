#!/usr/bin/env bash
# strongswan.sh DIRECTORY: this distribution's strongSwan, unpacked below DIRECTORY as it would be below /. It is not
# installed: that would start charon on this machine.
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
directory=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chown _apt "$work" 2> /dev/null || true # who downloads
cd "$work"
apt-get -q update
apt-get -q download charon-systemd strongswan-libcharon strongswan-swanctl libstrongswan libstrongswan-standard-plugins
rm -rf "$directory"
mkdir -p "$directory"
for deb in ./*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$directory"
done
touch "$directory/.complete"
