#!/usr/bin/env bash
# deps.sh: installs what the lab and the tests need of a Debian or Ubuntu machine, if it is missing.
set -euo pipefail
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

"$(dirname "$0")/install.sh" containerd=containerd runc=runc debootstrap=debootstrap ethtool=ethtool nft=nftables \
    ip=iproute2 nsenter=util-linux tar=tar dpkg-deb=dpkg sysctl=procps ping=iputils-ping curl=curl \
    ssh-keygen=openssh-client wine=wine /usr/lib/wine/wine64=wine64 x86_64-w64-mingw32-gcc=gcc-mingw-w64-x86-64 gcc=gcc \
    /usr/share/keyrings/debian-archive-keyring.gpg=debian-archive-keyring \
    /usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1=libfaketime /usr/include/stdio.h=libc6-dev \
    /etc/ssl/certs/ca-certificates.crt=ca-certificates
[ -c /dev/net/tun ] || modprobe tun 2> /dev/null || { echo "$0: the kernel has no /dev/net/tun, which Open vSwitch needs" >&2; exit 1; }
