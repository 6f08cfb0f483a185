#!/usr/bin/env bash
# kernel.sh VERSION OUT: the Linux kernel of a Debian release as a program, OUT, for user-mode Linux. 6.1 is Debian 12's
# and 6.12 Debian 13's.
# It is compiled from Debian's source with test/lab/kernel/config: Open vSwitch's datapath, connection tracking with zones,
# GENEVE, nftables, XFRM, namespaces and cgroups, and no driver of any device.
set -euo pipefail
. "$(dirname "$0")/debian.sh"

[ $# = 2 ] || { echo "usage: $0 VERSION OUT" >&2; exit 2; }
version=$1 out=$(realpath -m "$2") dir=$(realpath "$(dirname "$0")/../kernel")
config=$dir/config
case $version in
6.1) release=bookworm ;;
6.12) release=trixie ;;
*) echo "$0: VERSION is $version, and this script knows 6.1 and 6.12" >&2; exit 2 ;;
esac
missing=""
for pair in gcc=gcc make=make flex=flex bison=bison bc=bc xz=xz-utils; do
    command -v "${pair%%=*}" > /dev/null || missing="$missing ${pair##*=}"
done
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing
fi

mkdir -p "$(dirname "$out")"
work=$(mktemp -d -p "$(dirname "$out")" .making.XXXXXX)
trap 'rm -rf "$work"' EXIT
mirror=$(debian_mirror)
touch "$work/status"
cd "$work"
debian_apt "$mirror" "$release" "$work/apt" "$work/status" download "linux-source-$version"
dpkg-deb --fsys-tarfile "linux-source-$version"_*.deb | tar -x --to-stdout "./usr/src/linux-source-$version.tar.xz" | xz -d | tar -x --strip-components=1
rm -rf ./*.deb apt
# See there.
registers=arch/x86/um/os-Linux/registers.c
sed -i -e "/^#include <registers.h>/a #include \"$dir/xstate.h\"" -e 's/ptrace(PTRACE_\([GS]\)ETREGSET, pid, NT_X86_XSTATE, &iov)/\L\1et_xstate(pid, \&iov)/' $registers
[ "$(grep -c 'et_xstate(pid, &iov)' $registers)" = 3 ] || { echo "$0: $registers of Linux $version is not as expected" >&2; exit 1; }
make -s ARCH=um tinyconfig
ARCH=um scripts/kconfig/merge_config.sh -m .config "$config" > /dev/null
make -s ARCH=um olddefconfig
# An option whose dependencies are not met is dropped without a word.
while read -r option; do
    grep -qx "$option" .config || { echo "$0: Linux $version does not take $option of $config" >&2; exit 1; }
done < <(grep -E '^CONFIG_[A-Z0-9_]+=' "$config" | grep -v '=n$')
make ARCH=um -j"$(nproc)" vmlinux # which says what it compiles
strip -o vmlinux.stripped vmlinux
mv vmlinux.stripped "$out" # which may be running
