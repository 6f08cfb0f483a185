#!/usr/bin/env bash
# official.sh: Kubernetes' own Service and network tests, on a cluster of two Linux nodes and a Windows
# one, those of two address families on another, and those of SCTP on Linux nodes alone: Windows has
# none. policies.sh has the rest of NetworkPolicy's. What is left out, docs/conformance.md explains.
set -euo pipefail
cd "$(dirname "$0")/../.."

lab() { bin/weftlab --name e2e "$@"; }
trap 'lab down' EXIT

lab up --linux 2 --windows 1
lab e2e --procs 3 \
    --focus '\[sig-network\] (Services|DNS|EndpointSlice|Networking|Proxy|HostPort|KubeProxy|LoadBalancers|Conntrack)' \
    --skip '\[(Disruptive|Slow|Feature:[^]]+)\]|NetworkPolicy|KubeProxy should set TCP CLOSE_WAIT|should check kube-proxy urls' "$@"
lab down

lab up --linux 2 --windows 1 --dual
lab e2e --procs 3 --focus '\[sig-network\] \[Feature:IPv6DualStack\]' --skip 'Feature:SCTPConnectivity' "$@"
lab down

lab up --linux 2 --dual
lab e2e --procs 3 --focus '\[sig-network\].*\[Feature:SCTPConnectivity\]' --skip 'node-(pod communication|Service): sctp' "$@"
