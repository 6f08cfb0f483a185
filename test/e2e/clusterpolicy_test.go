//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// clusterPolicy is the manifest of one about a namespace's pods; rules are in YAML's flow style.
func (n tenancy) clusterPolicy(name, tier string, priority int, rules string) string {
	return fmt.Sprintf("\n---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: "+
		"{name: %s}\nspec: {tier: %s, priority: %d, subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: "+
		"%s}}}, %s}\n",
		name, tier, priority, n.name, rules)
}

// ready waits until a ClusterNetworkPolicy's condition has a status and a reason, and mentions all the words.
func ready(t testing.TB, policy, status, reason string, words ...string) {
	t.Helper()
	eventually(t, inForce, "the status of ClusterNetworkPolicy "+policy, func() error {
		out, err := cluster.Try("kubectl", "--", "get", "clusternetworkpolicy", policy, "-o",
			`jsonpath={.metadata.generation} {range .status.conditions[?(@.type=="Ready")]}{.observedGeneration} {.status} {.reason} {.message}{end}`)
		if err != nil {
			return err
		}
		fields := strings.SplitN(out, " ", 5)
		if len(fields) < 5 || fields[0] != fields[1] || fields[2] != status || fields[3] != reason ||
			slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(fields[4], word) }) {
			return fmt.Errorf("it is %q, want %s, %s, %q", out, status, reason, words)
		}
		return nil
	})
}

// obeyClusterPolicies in their order: Admin, NetworkPolicy, Baseline.
func (n tenancy) obeyClusterPolicies(t *testing.T, p peers) {
	n.removeAll(t)
	const (
		fromClient = "ingress: [{action: %s, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {name: " +
			"client}}}}]}]"
		inward = "podSelector: {matchExpressions: [{key: name, operator: NotIn, values: [client]}]}, "
	)
	servers := func(p packet) bool { return p.to == "linux" || p.to == "windows" }
	cluster.Apply(t, n.clusterPolicy("changing-admin", "Admin", 731, fmt.Sprintf(fromClient, "Deny")))
	put(t, n.policy("allow", inward+"ingress: [{from: [{podSelector: {matchLabels: {name: client}}}]}]"))
	ready(t, "changing-admin", "True", "InForce", "1 ACL in the OVN Northbound", "port group")
	p.obeys(t, func(p packet) bool { return !servers(p) })

	put(t, n.clusterPolicy("changing-admin", "Admin", 731, fmt.Sprintf(fromClient, "Pass")))
	p.obeys(t, func(p packet) bool { return !servers(p) || p.from == "client" })

	// What no NetworkPolicy selects is left to the Baseline.
	cluster.Apply(t, n.clusterPolicy("changing-baseline", "Baseline", 731, "ingress: [{action: Deny, from: "+
		"[{namespaces: {}}]}]"))
	ready(t, "changing-baseline", "True", "InForce")
	p.obeys(t, func(p packet) bool { return servers(p) && p.from == "client" || p.to == web("l2") })
	n.remove(t, "allow")
	p.obeys(t, func(p packet) bool { return p.to == web("l2") })
	cluster.Kubectl(t, "delete", "clusternetworkpolicy", "changing-baseline")

	// Nodes by their labels: l2 is refused, the others are not.
	host("l2").serveWeb(t, nodesOwnPort)
	host("w2").serveWeb(t, nodesOwnPort)
	urls := func(node string) (list []string) {
		for _, a := range nodeAddresses(t, node) {
			list = append(list, httpURL(a, nodesOwnPort, "hostname"), udpURL(a, nodesOwnPort, "hostname"))
		}
		return list
	}
	put(t, n.clusterPolicy("changing-admin", "Admin", 731, "egress: [{action: Deny, to: [{nodes: {matchLabels: "+
		"{kubernetes.io/hostname: l2}}}]}]"))
	for _, pod := range []string{"linux", "windows"} {
		eventually(t, inForce, pod+" is kept off l2", func() error {
			return n.inside[pod].ask(append([]string{"-timeout", "1s"}, urls("l2")...)...).unanswered()
		})
		served(t, n.inside[pod], []string{"w2"}, urls("w2")...)
	}
	p.obeys(t, func(p packet) bool { return true })
}

// nodesOwnPort is where hosts serve that pods are kept off.
const nodesOwnPort = 7020

// tellWhatIsWrong: the status and Events name the field, and the rest of the policy is in force.
func (n tenancy) tellWhatIsWrong(t *testing.T, p peers) {
	n.removeAll(t)
	put(t, n.policy("missing", "podSelector: {matchLabels: {name: nobody}}, ingress: [{ports: [{port: nobody-has-it}]}]"))
	n.says(t, "missing", "InForce", `"nobody-has-it"`)
	// The API server takes what older ones have stored.
	put(t, n.policy("wrong", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 010.0.0.0/8}}]}, {ports: [{port: "+
		"8080}]}]"))
	since := n.says(t, "wrong", "PartlyInForce", "spec.ingress[0].from[0].ipBlock.cidr").Since
	if since == nil || time.Since(*since).Abs() > time.Minute {
		t.Errorf("in force since %v", since)
	}
	eventMentions(t, "NetworkPolicy", n.name, "wrong", "spec.ingress[0].from[0].ipBlock.cidr", "010.0.0.0/8")
	p.obeys(t, func(p packet) bool { return p.to == web("l2") || p.port == "http" })
	n.remove(t, "wrong")

	// One that can be read in parts alone: an Accept whose peer is not understood accepts nothing.
	cluster.Apply(t, n.clusterPolicy("changing-a", "Admin", 732, "ingress: [{name: good, action: Deny, from: [{pods: "+
		"{namespaceSelector: {}, podSelector: {matchLabels: {name: client}}}}]}], "+
		"egress: [{action: Accept, to: [{nodes: {matchLabels: {'no label': here}}}]}]"))
	ready(t, "changing-a", "False", "PartlyInForce", "spec.egress[0].to[0].nodes")
	eventMentions(t, "ClusterNetworkPolicy", "default", "changing-a", "spec.egress[0].to[0].nodes")
	p.obeys(t, func(p packet) bool { return p.from != "client" || p.to == web("l2") })
	cluster.Apply(t, n.clusterPolicy("changing-b", "Admin", 732, "ingress: [{action: Accept, from: [{namespaces: {}}]}]"))
	eventMentions(t, "ClusterNetworkPolicy", "default", "changing-b", "spec.priority", "732", "changing-a")
	ready(t, "changing-b", "True", "InForce")
}
