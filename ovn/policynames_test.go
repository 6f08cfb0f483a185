package ovn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovn/policy"
)

// TestForeignSelectors: whatever label keys somebody's policy asks for, others' policies hold for their pods.
func TestForeignSelectors(t *testing.T) {
	const pods = `
{kind: Namespace, metadata: {name: prod, labels: {stage: prod}}}
---
{kind: Namespace, metadata: {name: evil, labels: {stage: evil}}}
---
{kind: Pod, metadata: {namespace: prod, name: db, labels: {app: db}}}
---
{kind: Pod, metadata: {namespace: evil, name: e, labels: {app: e}}}
`
	for _, key := range []string{"all", "namespaces", "pods", "in", "notin", "exists"} {
		for name, policies := range map[string]string{
			"all namespaces": `
{kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}
---
{kind: NetworkPolicy, metadata: {namespace: evil, name: x}, spec: {podSelector: {matchLabels: {no: pod}}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: KEY, operator: Exists}]}}]}]}}`,
			"one namespace": `
{kind: NetworkPolicy, metadata: {namespace: prod, name: deny}, spec: {podSelector: {}}}
---
{kind: NetworkPolicy, metadata: {namespace: prod, name: a}, spec: {podSelector: {matchExpressions: [{key: KEY, operator: Exists}]}}}`,
		} {
			t.Run(key+" in "+name, func(t *testing.T) {
				offline, err := Translate(testConfig(), manifests(t, pods+"---"+strings.ReplaceAll(policies, "KEY", key)))
				if err != nil {
					t.Fatal(err)
				}
				if verdicts(t, offline)("evil/e > prod/db tcp/22") {
					t.Error("the connection is allowed")
				}
			})
		}
	}
}

// TestNamesOfSets: two selections have two names, also where a user has looked for two with one.
func TestNamesOfSets(t *testing.T) {
	seen := map[string]policy.Selection{}
	for i := range 100000 {
		s := policy.Selection{Pods: fmt.Sprintf("!%s%d", strings.Repeat("x", 45), i)}
		name := groupName(s, "", portNumber{})
		if other, twice := seen[name]; twice {
			t.Fatalf("%v and %v are both %s", s, other, name)
		}
		seen[name] = s
	}
}
