#!/bin/sh
# collection.sh PROGRAMS FOLDER [VERSION]: builds this collection with the programs of one folder in it, as
# FOLDER/weftnet-weft-VERSION.tar.gz. The version is that of galaxy.yml, unless it is given.
set -eu
[ $# = 2 ] || [ $# = 3 ] || { echo "usage: $0 PROGRAMS FOLDER [VERSION]" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Definitions are links into models/api; a collection has nothing outside of itself.
cp -rL "$(dirname "$0")" "$work/weft"
[ $# = 2 ] || sed -i "s/^version: .*/version: $3/" "$work/weft/galaxy.yml"
mkdir "$work/weft/bin"
for program in weft weft-cni weft.exe weft-cni.exe; do
    cp "$1/$program" "$work/weft/bin/"
done
# Licences of the modules that the programs are linked from, where a release is made.
[ ! -f "$1/THIRD-PARTY-LICENSES.txt" ] || cp "$1/THIRD-PARTY-LICENSES.txt" "$work/weft/bin/"
ansible-galaxy collection build --force --output-path "$2" "$work/weft"
