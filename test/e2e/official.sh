#!/usr/bin/env bash
# official.sh: Kubernetes' own network tests, those that this state of Weft must pass, on a cluster
# of two Linux nodes and a Windows one.
set -euo pipefail
cd "$(dirname "$0")/../.."
trap 'bin/weftlab --name e2e down' EXIT
bin/weftlab --name e2e up --linux 2 --windows 1
# Left out: what needs NodePorts, and what is not to run beside others.
bin/weftlab --name e2e e2e --procs 3 \
    --focus '\[sig-network\] (DNS|Services|Networking Granular Checks: Pods).*\[Conformance\]' \
    --skip 'NodePort service|ExternalName to NodePort|\[Serial\]|\[Disruptive\]' "$@"
