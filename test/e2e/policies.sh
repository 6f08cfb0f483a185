#!/usr/bin/env bash
# policies.sh: the Network Policy API's conformance tests (ClusterNetworkPolicy, every feature), on a cluster
# of two Linux nodes and a Windows one. The report is written to the file that is named, or to
# bin/conformance.yaml; docs/conformance.md has the last one.
set -euo pipefail
cd "$(dirname "$0")/../.."

report=${1:-bin/conformance.yaml}
lab() { bin/weftlab --name policies "$@"; }
trap 'lab down' EXIT

lab up --linux 2 --windows 1
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
until lab kubectl -- run centaur-0 --image none --dry-run=server -o yaml | grep -q 'kubernetes.io/os: linux'; do :; done
lab conformance --report "$report"
