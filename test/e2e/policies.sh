#!/usr/bin/env bash
# policies.sh: Kubernetes' own tests of NetworkPolicy, on clusters of two Linux nodes and a Windows one with
# IPv4 and with both address families (official.sh has those of SCTP), and the Network Policy API's
# conformance tests of ClusterNetworkPolicy, every feature. These write a report to the file that is named,
# or to bin/conformance.yaml; docs/conformance.md has the last one. WINDOWS_FAULTS are those of the Windows nodes'
# emulated driver (docs/hyperv.md); all of them if it is not set.
set -euo pipefail
cd "$(dirname "$0")/../.."

report=${1:-bin/conformance.yaml}
lab() { bin/weftlab --name policies "$@"; }
trap 'lab down' EXIT
mixed() { # a cluster with a Windows node, whose driver has these faults
    lab up --linux 2 --windows 1 --windows-faults "$@"
}
netpol() {
    lab e2e --procs 2 --timeout 2h --focus '\[sig-network\] Netpol' --skip 'Feature:SCTPConnectivity'
    lab executed
}

mixed "${WINDOWS_FAULTS:-all}" --dual
netpol
lab down

mixed "${WINDOWS_FAULTS:-all}"
netpol
lab down

# ClusterNetworkPolicy's tests use SCTP on all nodes, which the driver does not track (the fault protocols).
mixed "${WINDOWS_FAULTS:-all},-protocols"

# The tests' policies on node peers select Linux nodes: the pods that stand for nodes have to be there.
lab kubectl -- apply --server-side -f - <<'POLICY'
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicy
metadata: {name: host-pods-on-linux}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions:
  - {name: stands-for-a-node, expression: "object.metadata.name.startsWith('centaur-')"}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "add", path: "/spec/nodeSelector", value: {"kubernetes.io/os": "linux"}}]'
---
apiVersion: admissionregistration.k8s.io/v1beta1
kind: MutatingAdmissionPolicyBinding
metadata: {name: host-pods-on-linux}
spec: {policyName: host-pods-on-linux}
POLICY
deadline=$((SECONDS + 30))
until lab kubectl -- run centaur-0 --image none --dry-run=server -o yaml | grep -q 'kubernetes.io/os: linux'; do ((SECONDS < deadline)); done
lab conformance --report "$report"
lab executed
