#!/usr/bin/env bash
# run-image.sh ARCHIVE NAME ARGUMENT...: imports an OCI archive into a containerd of its own, as docs/releases.md tells
# users to do, and runs the image NAME of it once, with a root file system that is read-only. It needs root.
set -euo pipefail
archive=$1 name=$2
shift 2
work=$(mktemp -d)
printf 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n' > "$work/config.toml"
# Its mounts are its own, and it ends with this script in any case.
unshare --mount setpriv --pdeathsig KILL containerd --config "$work/config.toml" --root "$work/root" --state "$work/state" \
    --address "$work/sock" --log-level warn 2> "$work/log" &
containerd=$!
# shellcheck disable=SC2317
end() {
    kill "$containerd" && wait "$containerd" || true
    rm -rf "$work"
}
trap end EXIT
ctr=(ctr --address "$work/sock" --namespace k8s.io)
deadline=$((SECONDS + 60))
until "${ctr[@]}" version > /dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] && kill -0 "$containerd" || { cat "$work/log" >&2; exit 1; }
    read -rt 0.1 <> <(:) || true
done
"${ctr[@]}" images import "$archive" >&2
"${ctr[@]}" run --rm --read-only "$name" once "$@"
