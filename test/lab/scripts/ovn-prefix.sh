#!/usr/bin/env bash
# ovn-prefix.sh PREFIX: OVN 25.03 and Open vSwitch 3.5 of Debian 13, unpacked below PREFIX and
# runnable from PREFIX/bin on any Debian, without installing anything: each program there is a
# wrapper that brings its own loader and libraries.
#
# The mirror is $DEBIAN_MIRROR, or the one this machine's apt already uses for Debian, or debootstrap's.
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 PREFIX" >&2; exit 2; }
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
release=trixie
packages="ovn-central ovn-common ovn-host openvswitch-common openvswitch-switch"
[ -e "$prefix/.complete" ] && exit 0

mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 'Origin: Debian' |
    grep -v security | head -1)}
mirror=${mirror:-$(sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$(command -v debootstrap)")}
[ -n "$mirror" ] || { echo "$0: neither apt nor debootstrap knows a mirror of Debian; name one with DEBIAN_MIRROR=URL" >&2; exit 1; }
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || { echo "$0: install debian-archive-keyring, which signs the packages" >&2; exit 1; }

# An apt of our own: its lists, cache and (empty) package status live in a temporary directory.
apt_root=$(mktemp -d)
trap 'rm -rf "$apt_root"' EXIT
mkdir -p "$apt_root"/{lists/partial,cache/archives/partial}
touch "$apt_root/status"
echo "deb [signed-by=$keyring] $mirror $release main" > "$apt_root/sources.list"
apt=(apt-get -q -o Dir::Etc::SourceList="$apt_root/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State="$apt_root" -o Dir::State::Lists="$apt_root/lists" -o Dir::State::status="$apt_root/status"
    -o Dir::Cache="$apt_root/cache" -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Acquire::Languages=none)
"${apt[@]}" update
"${apt[@]}" --download-only -y install $packages

rm -rf "$prefix/root" "$prefix/bin"
mkdir -p "$prefix/root" "$prefix/bin"
for deb in "$apt_root"/cache/archives/*.deb; do
    case ${deb##*/} in
    perl* | python3* | libpython* | media-types* | tzdata* | systemd* | dbus* | passwd*) continue ;;
    esac
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$prefix/root" --keep-directory-symlink
done

# Debian 13 has one /usr; packages of it may still name /lib and /lib64.
for d in lib lib64; do
    if [ -d "$prefix/root/$d" ] && [ ! -L "$prefix/root/$d" ]; then cp -a "$prefix/root/$d/." "$prefix/root/usr/$d/"; fi
done
for program in "$prefix"/root/usr/bin/{ovn,ovs,ovsdb}* "$prefix"/root/usr/sbin/ov* \
    "$prefix"/root/usr/lib/openvswitch-switch/ovs-vswitchd; do
    [ -f "$program" ] || continue
    name=${program##*/}
    head -c4 "$program" | grep -q ELF || continue
    cat > "$prefix/bin/$name" <<W
#!/bin/sh
exec "$prefix/root/usr/lib64/ld-linux-x86-64.so.2" --argv0 "$name" --library-path "$prefix/root/usr/lib/x86_64-linux-gnu" "$program" "\$@"
W
    chmod 755 "$prefix/bin/$name"
done
ln -sfn root/usr/share "$prefix/share"
"$prefix/bin/ovn-nbctl" --version
"$prefix/bin/ovs-vsctl" --version
touch "$prefix/.complete"
