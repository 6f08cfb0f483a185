#!/usr/bin/env bash
# hosts.sh DIR: what the lab's hosts with a systemd of their own are made of, below DIR:
#   base/RELEASE   the root file system of a server with that release of Debian
#   apt/RELEASE    a repository of the packages that a server is given later, with all their dependencies
#   nspawn         systemd-nspawn of Debian 12, runnable on any Debian or Ubuntu without installing it
# What is complete is not made again.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
releases="bookworm trixie"
server="systemd-sysv,dbus,libpam-systemd,udev,openssh-server,sudo,python3,python3-apt,iproute2,iputils-ping,procps,kmod,less,
    nftables,iptables,ethtool,conntrack,socat,curl,openssl,ca-certificates,containerd,runc,crun"
packages="openvswitch-switch openvswitch-common ovn-central ovn-common ovn-host python3-cryptography stunnel4 tcpdump charon-systemd strongswan-swanctl libstrongswan-standard-plugins"

mirror=$(debian_mirror)

work=$(mktemp -d -p "$dir" .making.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir -p "$dir"/{base,apt}

# quietly NAME COMMAND...: its output is shown only if it fails.
quietly() {
    echo "$1"
    local log=$work/$1.log
    shift
    "$@" > "$log" 2>&1 || { tail -20 "$log" >&2; echo "${0##*/}: $1 failed (Debian from $mirror)" >&2; exit 1; }
}

# apt_of RELEASE ARGUMENT...: it takes for installed what the base has.
apt_of() { debian_apt "$mirror" "$1" "$work/apt-$1" "$dir/base/$1/var/lib/dpkg/status" "${@:2}"; }

# make_base RELEASE. debootstrap mounts /proc inside; in a mount namespace of its own no mount outlives it.
make_base() {
    local root=$work/base-$1
    quietly "debootstrap-$1" unshare --mount --propagation private debootstrap --variant=minbase --include="${server//[[:space:]]/}" \
        "$1" "$root" "$mirror"
    rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info}/* "$root"/var/log/*.log
    rm -f "$root"/etc/ssh/ssh_host_* "$root"/etc/apt/sources.list "$root"/etc/resolv.conf "$root"/etc/hostname
    : > "$root/etc/resolv.conf"
    : > "$root/etc/machine-id" # a first boot makes one
    rm -f "$root/var/lib/dbus/machine-id"
    mkdir -p "$root/var/log/journal"
    touch -d @0 "$root/var/lib/apt/lists" # its lists of packages are those of an old image
    # Its administrator comes by ssh, and becomes root by sudo; at the console is nobody.
    ln -s /dev/null "$root/etc/systemd/system/console-getty.service"
    chroot "$root" useradd --create-home --shell /bin/bash admin
    echo 'admin ALL=(ALL:ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/admin"
    printf 'AuthorizedKeysFile /etc/ssh/authorized_keys\nPasswordAuthentication no\n' > "$root/etc/ssh/sshd_config.d/lab.conf"
    # containerd is a node's; its unit is enabled there. Packages are asked for by nobody but tests.
    rm -f "$root"/etc/systemd/system/{multi-user.target.wants/containerd.service,timers.target.wants/apt-daily*}
    mv "$root" "$dir/base/$1"
}

# make_repository RELEASE: a flat one, with an index that apt reads.
make_repository() {
    local repository=$work/repository-$1 deb
    # shellcheck disable=SC2086
    quietly "download-$1" apt_of "$1" --download-only -y install $packages
    mkdir "$repository"
    cp "$work/apt-$1"/cache/archives/*.deb "$repository"
    cd "$repository"
    for deb in *.deb; do
        dpkg-deb --field "$deb"
        printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -d' ' -f1)"
    done > Packages
    mv "$repository" "$dir/apt/$1"
}

make_nspawn() {
    local release=bookworm root=$work/nspawn
    mkdir -p "$root/root"
    cd "$root"
    quietly download-nspawn apt_of $release download systemd-container
    dpkg-deb --fsys-tarfile systemd-container_*.deb | tar -x -C root ./usr/bin/systemd-nspawn
    rm systemd-container_*.deb
    cat > systemd-nspawn <<W
#!/bin/sh
base="$dir/base/$release"
lib=\$base/usr/lib/x86_64-linux-gnu
exec "\$base/usr/lib64/ld-linux-x86-64.so.2" --argv0 systemd-nspawn --library-path "\$lib:\$lib/systemd" "$dir/nspawn/root/usr/bin/systemd-nspawn" "\$@"
W
    chmod 755 systemd-nspawn
    mv "$root" "$dir/nspawn"
}

for release in $releases; do
    [ -d "$dir/base/$release" ] || { echo "hosts: the root file system of $release"; make_base "$release"; }
    [ -d "$dir/apt/$release" ] || { echo "hosts: packages for $release"; make_repository "$release"; }
done
[ -d "$dir/nspawn" ] || make_nspawn
"$dir/nspawn/systemd-nspawn" --version | head -1
touch "$dir/.complete"
