#!/usr/bin/env bash
# deps.sh: installs what the lab and the tests need of a Debian or Ubuntu machine, if it is missing. It asks nothing.
set -euo pipefail

# program=package
needed="containerd=containerd runc=runc debootstrap=debootstrap ethtool=ethtool nft=nftables ip=iproute2
    nsenter=util-linux tar=tar dpkg-deb=dpkg sysctl=procps ping=iputils-ping curl=curl ssh-keygen=openssh-client
    wine=wine /usr/lib/wine/wine64=wine64 x86_64-w64-mingw32-gcc=gcc-mingw-w64-x86-64 gcc=gcc"
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing=""
for pair in $needed; do
    command -v "${pair%%=*}" > /dev/null || missing="$missing ${pair##*=}"
done
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
[ -e /usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1 ] || missing="$missing libfaketime"
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing="$missing ca-certificates"

if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] || { echo "$0: run it as root: it has to install$missing" >&2; exit 1; }
    command -v apt-get > /dev/null || { echo "$0: no apt-get here; install$missing by hand" >&2; exit 1; }
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086,SC2016
    "$(dirname "$0")/progress.sh" "installing$missing" sh -c 'apt-get -q update && apt-get -q -y --no-install-recommends install "$@"' - $missing
fi
[ -c /dev/net/tun ] || modprobe tun 2> /dev/null || { echo "$0: the kernel has no /dev/net/tun, which Open vSwitch needs" >&2; exit 1; }
