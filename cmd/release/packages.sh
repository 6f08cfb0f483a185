#!/usr/bin/env bash
# packages.sh: writes packages.txt anew, with the present versions of the packages of Debian 13 of which images and OVN's
# archives have files, with its security updates. It has them from mirrors whose indexes Debian has signed. Run it
# before a release, and look at what has changed: `make release` takes exactly what the file names.
set -euo pipefail
cd "$(dirname "$0")"
release=trixie
# OVN's programs and Open vSwitch's, and what they are linked with. `make release` says which one is missing.
packages=(ovn-common ovn-central ovn-host openvswitch-common libc6 libcap-ng0 libssl3t64 libunbound8
    libevent-2.1-7t64 libnuma1 libxdp1 libbpf1 libelf1t64 zlib1g libzstd1 libudev1 libcap2)
# shellcheck source=../../test/lab/scripts/debian.sh
. ../../test/lab/scripts/debian.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/status"
mirror=$(debian_mirror)
debian_security=$(debian_security_mirror)
for architecture in amd64 arm64; do
    mkdir "$work/$architecture"
    printf 'APT::Architecture "%s";\nAPT::Architectures { "%s"; };\nAcquire::ForceHash "SHA256";\n' \
        $architecture $architecture > "$work/apt.conf"
    APT_CONFIG=$work/apt.conf debian_apt "$mirror" $release "$work/$architecture" "$work/status" \
        download --print-uris "${packages[@]}" > "$work/uris"
    # 'URL' FILE SIZE SHA256:SUM, where URL has signs of versions as %2b and %7e
    sed -nE "s|^'.*/(pool/.*\.deb)' .* SHA256:([0-9a-f]{64})$|\2  \1|p" "$work/uris" | sed 's/%2b/+/g; s/%7e/~/g' >> "$work/pins"
done
{
    echo "# Packages of Debian that images and OVN's archives have files of; packages.sh writes this."
    echo "snapshot $(date --utc +%Y%m%dT%H%M%SZ)"
    sort --key 2 "$work/pins"
} > packages.txt
