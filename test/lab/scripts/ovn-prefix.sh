#!/usr/bin/env bash
# ovn-prefix.sh PREFIX: OVN 25.03 and Open vSwitch 3.5 of Debian 13, unpacked below PREFIX and
# runnable from PREFIX/bin on any Debian, without installing anything: each program there is a
# wrapper that brings its own loader and libraries.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

[ $# = 1 ] || { echo "usage: $0 PREFIX" >&2; exit 2; }
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
release=trixie
packages="ovn-central ovn-common ovn-host openvswitch-common openvswitch-switch"
[ -e "$prefix/.complete" ] && exit 0

mirror=$(debian_mirror)
apt_root=$(mktemp -d)
trap 'rm -rf "$apt_root"' EXIT
touch "$apt_root/status" # nothing is installed
# shellcheck disable=SC2086
debian_apt "$mirror" "$release" "$apt_root" "$apt_root/status" --download-only -y install $packages

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
