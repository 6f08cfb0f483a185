#!/bin/sh
# collection.sh PROGRAMS FOLDER: builds this collection with the programs of one folder in it, as FOLDER/weftnet-weft-VERSION.tar.gz.
set -eu
[ $# = 2 ] || { echo "usage: $0 PROGRAMS FOLDER" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Definitions are links into models/api; a collection has nothing outside of itself.
cp -rL "$(dirname "$0")" "$work/weft"
mkdir "$work/weft/bin"
for program in weft weft-cni weft.exe weft-cni.exe; do
    cp "$1/$program" "$work/weft/bin/"
done
ansible-galaxy collection build --force --output-path "$2" "$work/weft"
