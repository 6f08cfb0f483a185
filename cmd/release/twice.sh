#!/usr/bin/env bash
# Makes a release of the present commit in two clones, and compares them. Then it installs what it can on this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/cmd/release
version=0.0.0-twice.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/key"
commit=$(git rev-parse HEAD) # another may come meanwhile
for clone in first second; do
    git clone --quiet . "$work/$clone"
    git -C "$work/$clone" checkout --quiet --detach "$commit"
    make -C "$work/$clone" release VERSION=$version SIGN_KEY="$work/key"
done
files=$work/first/bin/release/$version
diff -r "$files" "$work/second/bin/release/$version"

cd "$files"
sha256sum --check --strict SHA256SUMS
echo "releaser $(cat "$work/key.pub")" > "$work/signers"
ssh-keygen -Y verify -f "$work/signers" -I releaser -n release@weft.net -s SHA256SUMS.sig < SHA256SUMS

tell() { "$1" "${@:2}" -o json | grep -F "\"version\": \"$version\""; }
system=$(go env GOOS)-$(go env GOARCH)
tar -xzf "weft-$version-$system.tar.gz" -C "$work"
tell "$work/weft-$version-$system/weft" version
tell "$work/weft-$version-$system/weft-cni" --version

# krew makes weft a plugin of kubectl. KREW_OS and KREW_ARCH have it install for another platform than this machine's.
GOBIN=$work go install sigs.k8s.io/krew/cmd/krew@v0.5.0
for platform in linux-amd64 linux-arm64 windows-amd64; do
    KREW_ROOT=$work/krew-$platform KREW_OS=${platform%-*} KREW_ARCH=${platform#*-} \
        "$work/krew" install --manifest=weft.yaml --archive="$(echo weft-$version-$platform.*)" < /dev/null
done
tell "$work/krew-$system/bin/kubectl-weft" version
[ -x "$work/krew-windows-amd64/bin/kubectl-weft.exe" ]

# The programs for arm64 run in an emulator of such a processor.
tar -xzf "weft-$version-linux-arm64.tar.gz" -C "$work"
tell qemu-aarch64 "$work/krew-linux-arm64/bin/kubectl-weft" version
tell qemu-aarch64 "$work/weft-$version-linux-arm64/weft-cni" --version

root=$work/root
mkdir -p "$root"/var/lib/dpkg/{updates,info}
touch "$root/var/lib/dpkg/status"
dpkg --root="$root" --force-not-root --install weft_*_"$(go env GOARCH)".deb
tell "$root/usr/bin/weft" version
dpkg --root="$root" --force-not-root --remove weft
[ ! -e "$root/usr" ]

for image in weft-controller weft-node; do
    tell "$here/run-image.sh" $image-*.oci.tar localhost/$image:$version /usr/bin/weft version
done
"$here/run-image.sh" weft-node-*.oci.tar localhost/weft-node:$version /usr/bin/ovs-ofctl --version
for program in ovn-trace ovn-nbctl ovn-sbctl; do
    "$here/run-image.sh" weft-controller-*.oci.tar localhost/weft-controller:$version /usr/bin/$program --version
done

mkdir "$work/ovn"
tar -xzf ovn-*-"$system".tar.gz -C "$work/ovn"
"$work/ovn/bin/ovsdb-tool" create "$work/nb.db" "$work/ovn/share/ovn/ovn-nb.ovsschema"
for program in "$work"/ovn/bin/*; do
    "$program" --version
done

ansible-galaxy collection install --no-deps --offline --collections-path "$work/collections" weftnet-weft-*.tar.gz
tell "$work/collections/ansible_collections/weftnet/weft/bin/weft" version
echo "both releases are the same, and what is in them works"
