#!/usr/bin/env bash
# rootfs.sh OUT.tar: the root file system below the lab's container images: the machine's own
# distribution, minimal, with the programs that the official tests and their authors' scripts use.
set -euo pipefail

[ $# = 1 ] || { echo "usage: $0 OUT.tar" >&2; exit 2; }
out=$1
packages="curl wget bind9-dnsutils netcat-openbsd iproute2 iputils-ping iputils-tracepath procps tcpdump socat iperf3"

. /etc/os-release
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' \
    "Codename: $VERSION_CODENAME" | grep -v security | head -1)}
[ -n "$mirror" ] || { echo "$0: apt has no mirror for $VERSION_CODENAME; name one with DEBIAN_MIRROR=URL" >&2; exit 1; }
components=main
[ "$ID" != ubuntu ] || components=main,universe

# debootstrap mounts /proc inside. In a mount namespace of its own no mount outlives it, and none is
# there when the directory is removed, however it ends.
work=$(mktemp -d -p "$(dirname "$out")" .rootfs.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
unshare --mount --propagation private debootstrap --variant=minbase --components="$components" --include="${packages// /,}" \
    "$VERSION_CODENAME" "$work/root" "$mirror" || { echo "$0: debootstrap of $VERSION_CODENAME from $mirror failed" >&2; exit 1; }
cd "$work/root"
rm -rf var/cache/apt/* var/lib/apt/lists/* usr/share/{doc,man,locale,info} var/log/*
: > etc/resolv.conf
: > etc/machine-id
tar --numeric-owner --sort=name --mtime=@0 --exclude=./dev --exclude=./proc --exclude=./sys -cf "$work/rootfs.tar" .
mv "$work/rootfs.tar" "$out"
