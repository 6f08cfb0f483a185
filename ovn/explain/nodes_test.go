package explain

import (
	"strings"
	"testing"
)

// twoNodes are a pod on each of two nodes, with a host that shares its network, and a policy that isolates one.
const twoNodes = `
{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {weft.net/node-network: '{"id":1,"podCIDRs":["10.1.0.0/24"],"clusterCIDRs":["10.1.0.0/16"],"serviceCIDRs":["10.2.0.0/16"],"joinCIDRs":["100.64.0.0/16"]}', weft.net/node-facts: '{"chassis":"n1","mtu":1400,"addresses":["192.0.2.11","172.16.0.11"],"gateway":{"network":"external","mac":"02:00:00:00:00:01","addresses":["192.0.2.11/24"],"nextHops":["192.0.2.1"],"hostAddresses":true}}'}}, status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, annotations: {weft.net/node-network: '{"id":2,"podCIDRs":["10.1.1.0/24"],"clusterCIDRs":["10.1.0.0/16"],"serviceCIDRs":["10.2.0.0/16"],"joinCIDRs":["100.64.0.0/16"]}', weft.net/node-facts: '{"chassis":"n2","mtu":1400,"addresses":["192.0.2.12"],"gateway":{"network":"external","mac":"02:00:00:00:00:02","addresses":["192.0.2.12/24"],"nextHops":["192.0.2.1"],"hostAddresses":true}}'}}, status: {addresses: [{type: InternalIP, address: 192.0.2.12}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}}, spec: {nodeName: n1, containers: []}, status: {podIPs: [{ip: 10.1.0.8}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {nodeName: n2, containers: []}, status: {podIPs: [{ip: 10.1.1.7}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: agent1}, spec: {nodeName: n1, hostNetwork: true, containers: []}, status: {hostIPs: [{ip: 192.0.2.11}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: agent2}, spec: {nodeName: n2, hostNetwork: true, containers: []}, status: {hostIPs: [{ip: 192.0.2.12}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: db}, spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]}}`

// answers asks a running cluster, each question for a part of its answer.
func answers(t *testing.T, objects string, questions []question) {
	t.Helper()
	c, err := newCluster(read(t, objects), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range questions {
		if got := ask(t, c, q.from, q.to); !strings.Contains(got, q.want) {
			t.Errorf("%s -> %s: there is no %q in:\n%s", q.from, q.to, q.want, got)
		}
	}
}

type question struct{ from, to, want string }

func TestTwoNodes(t *testing.T) {
	const isolated = ": refused\n  %: allowed\n    @: no policy is about it\n  ingress of default/db: refused\n    " +
		"NetworkPolicy  Deny: isolated by NetworkPolicy default/db, no rule of which allows it\n"
	answers(t, twoNodes, []question{
		{"web", "db:5432", "Accept by NetworkPolicy default/db, spec.ingress[0]"},
		{"web", "db:80", "egress of default/web: allowed\n    no policy selects it: allowed by default\n  ingress of " +
			"default/db: refused\n    NetworkPolicy  Deny"},
		{"192.0.2.11", "db:80", "before all     Accept: a node reaches the pods on it, whatever policies say"},
		{"10.1.0.2", "db:80", "before all     Accept: a node reaches the pods on it, whatever policies say"},
		{"agent1", "db:80", "before all     Accept: a node reaches the pods on it, whatever policies say"},
		{"192.0.2.12", "db:80", strings.NewReplacer("%", "egress", "@", "192.0.2.12 is an address of Node n2").Replace(
			isolated)},
		{"192.0.2.12", "db:80", "192.0.2.12 -> default/db:80/tcp: refused\n\n10.1.1.2 -> 10.1.0.8:80: refused"},
		{"192.0.2.12", "198.51.100.1:80", "192.0.2.12 -> 198.51.100.1:80: allowed"},
		{"10.1.1.2", "db:80", strings.NewReplacer("%", "egress", "@", "10.1.1.2 is an address of Node n2").Replace(isolated)},
		{"agent2", "db:80", "egress of default/agent2: allowed\n    the pod shares its node's address, so that no policy " +
			"selects it\n  ingress of default/db: refused\n    NetworkPolicy  Deny"},
		{"db", "web:80", "egress of default/db: refused\n    NetworkPolicy  Deny: isolated by NetworkPolicy default/db, no " +
			"rule of which allows it\n  ingress of default/web: allowed\n    no policy selects it"},
	})
}

func TestItself(t *testing.T) {
	const pod, host = "a pod reaches itself: no policy is asked\n", "a host reaches itself: no policy is asked\n"
	answers(t, twoNodes, []question{
		{"db", "db:5432", "10.1.0.8 -> 10.1.0.8:5432: allowed\n  egress of default/db: allowed\n    " + pod +
			"  ingress of default/db: allowed\n    " + pod},
		{"db", "10.1.0.8:icmp", pod},
		{"10.1.0.8", "db:80", pod},
		{"agent1", "192.0.2.11:22", host},
		{"agent1", "agent1:22", host},
	})
	c, err := New(read(t, "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: networking.k8s.io/v1, "+
		"kind: NetworkPolicy, metadata: {name: none}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, "a", "a:80"); !strings.Contains(got, "over IPv4 and over IPv6: allowed") ||
		!strings.Contains(got, pod) {
		t.Error(got)
	}
}

// TestProblemsOfEnds has policies that are wrong, of which only those of the ends are told.
func TestProblemsOfEnds(t *testing.T) {
	const wrong = `
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{ipBlock: {cidr: x}}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: nobody}, spec: {podSelector: {matchExpressions: [{key: a, operator: Is}]}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: other, name: nobody}, spec: {podSelector: {matchExpressions: [{key: a, operator: Is}]}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: default, annotations: {weft.net/acl-logging: loud}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other, annotations: {weft.net/acl-logging: loud}}}`
	c, err := newCluster(read(t, twoNodes+wrong), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct{ from, to, want string }{
		{"web", "db:80", "Namespace default NetworkPolicy default/nobody NetworkPolicy default/web"},
		{"192.0.2.99", "web:80", "Namespace default NetworkPolicy default/nobody NetworkPolicy default/web"},
		{"192.0.2.99", "db:80", "Namespace default NetworkPolicy default/nobody"},
		{"192.0.2.99", "agent1:80", ""},
	} {
		question, err := ParseQuestion(q.from, q.to, "default")
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Ask(question, "")
		if err != nil {
			t.Fatal(err)
		}
		var objects []string
		for _, p := range a.Problems {
			objects = append(objects, p.Key().String())
		}
		if got := strings.Join(objects, " "); got != q.want {
			t.Errorf("%s -> %s: told are %q", q.from, q.to, got)
		}
	}
}
