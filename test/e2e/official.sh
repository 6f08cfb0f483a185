#!/usr/bin/env bash
# official.sh: Kubernetes' own Service and network tests, on a cluster of two Linux nodes and a Windows
# one, those of two address families on another. Those of SCTP are on Linux nodes alone: Windows has none. So are
# those of UDP connections that are forgotten, unless the driver forgets no others with them. policies.sh has the
# rest of NetworkPolicy's. What is left out, docs/conformance.md explains.
# WINDOWS_FAULTS are those of the Windows nodes' emulated driver (docs/hyperv.md); all of them if it is not set.
# `make e2e-mended-driver` sets those of a driver with the two changes that docs/conformance.md names.
set -euo pipefail
cd "$(dirname "$0")/../.."

lab() { bin/weftlab --name e2e "$@"; }
trap 'lab down' EXIT
mixed() { # a cluster with a Windows node
    lab up --linux 2 --windows 1 --windows-faults "${WINDOWS_FAULTS:-all}" "$@"
}

# Those of Services and networks, and whatever else of [sig-network] is [Conformance].
specs='(Services|DNS|EndpointSlice|Networking|Proxy|HostPort|KubeProxy|LoadBalancers|Conntrack|.*\[Conformance\])'
forgotten='Conntrack should be able to (preserve UDP traffic|cleanup conntrack entries)'
flushes=true # unless the emulated driver has the fault for which conntrack-flush is false
case ,${WINDOWS_FAULTS:-all}, in
*,-flush-nat,*) ;;
*,all,* | *,flush-nat,*) flushes=false ;;
esac

mixed
lab e2e --procs 3 \
    --focus '\[sig-network\] '"$specs" \
    --skip '\[(Disruptive|Slow|Feature:[^]]+)\]|NetworkPolicy|KubeProxy should set TCP CLOSE_WAIT|should check kube-proxy urls|'"$forgotten" "$@"
if $flushes; then
    lab exec w1 -- sh -c 'echo "conntrack-flush: true" >> /etc/weft/node.yaml'
    lab restart w1 weft-node
    lab e2e --procs 3 --focus '\[sig-network\] '"$forgotten" "$@"
fi
lab executed
lab down

mixed --dual
lab e2e --procs 3 --focus '\[sig-network\] \[Feature:IPv6DualStack\]' --skip 'Feature:SCTPConnectivity' "$@"
lab executed
lab down

lab up --linux 2 --dual
lab e2e --procs 3 --focus '\[sig-network\].*\[Feature:SCTPConnectivity\]' --skip 'node-(pod communication|Service): sctp' "$@"
lab e2e --procs 3 --focus '\[sig-network\] '"$forgotten" "$@"
