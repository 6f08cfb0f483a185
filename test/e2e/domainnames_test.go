//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// outsideName is what the cluster's DNS servers know the host outside by.
const outsideName = "outside.weft.example"

// reaches says whether a pod gets an answer of a host outside; name is a domain name or an address.
func reaches(pod, name string) error {
	_, err := cluster.In(pod, "curl", "-sS", "--max-time", "4", fmt.Sprintf("http://%s:8080/clientip", name))
	return err
}

func unreached(pod, name string) error {
	if err := reaches(pod, name); err == nil {
		return fmt.Errorf("%s reaches %s", pod, name)
	}
	return nil
}

// urlHost is an address as a URL has it.
func urlHost(addr netip.Addr) string {
	if addr.Is6() {
		return "[" + addr.String() + "]"
	}
	return addr.String()
}

// TestDomainNames: pods of both systems reach the host that a policy names once somebody has asked for the
// name, and nobody else outside.
func TestDomainNames(t *testing.T) {
	t.Parallel()
	resolvers := []string{"resolver-l1", "resolver-w1"}
	manifest := ""
	for _, pod := range resolvers {
		_, node, _ := strings.Cut(pod, "-")
		manifest += fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: resolver}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 1
  containers: [{name: pause, image: %q, args: [pause]}]
`, pod, node, image)
	}
	cluster.Apply(t, manifest)
	cluster.Kubectl(t, "wait", "--for=condition=Ready", "--timeout=120s", "pod", "-l", "app=resolver")
	addrs := outsideAddresses(t)
	for _, pod := range resolvers {
		for _, addr := range addrs {
			eventually(t, inForce, pod+" reaches everybody", func() error { return reaches(pod, urlHost(addr)) })
		}
	}
	cluster.Apply(t, `
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: domain-names}
spec:
  tier: Admin
  priority: 700
  subject: {pods: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}, podSelector: {matchLabels: {app: resolver}}}}
  egress:
  - name: dns
    action: Accept
    to: [{pods: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}}]
  - name: named
    action: Accept
    to: [{domainNames: ["*.Weft.example"]}]
    protocols: [{tcp: {destinationPort: {number: 8080}}}]
  - name: others
    action: Deny
    to: [{networks: [0.0.0.0/0, "::/0"]}]
`)
	for _, pod := range resolvers {
		for _, addr := range addrs {
			eventually(t, inForce, "nobody has asked for the name", func() error { return unreached(pod, urlHost(addr)) })
		}
	}
	eventually(t, inForce, resolvers[0]+" reaches the host by its name", func() error {
		return reaches(resolvers[0], outsideName)
	})
	for _, pod := range resolvers {
		for _, addr := range addrs {
			eventually(t, inForce, pod+" reaches the host", func() error { return reaches(pod, urlHost(addr)) })
			if out, err := cluster.In(pod, "ping", "-c", "1", "-W", "2", addr.String()); err == nil {
				t.Errorf("%s: the rule is for one port: %s", pod, out)
			}
		}
	}
	out := cluster.Kubectl(t, "get", "resolvednames", "-o", `jsonpath={range .items[*]}{.names[*].name} {end}`)
	if !strings.Contains(out, "*.weft.example") {
		t.Errorf("nodes report %q", out)
	}
	nodesSpeakForThemselves(t, strings.Fields(cluster.Kubectl(t, "get", "resolvednames", "-o",
		"jsonpath={.items[*].metadata.name}"))[0])
}

// nodesSpeakForThemselves: a node's credentials do not write what another one's agent has seen.
func nodesSpeakForThemselves(t *testing.T, of string) {
	t.Helper()
	write := func(as string) error {
		_, err := cluster.Try("kubectl", "--", "--as=system:node:"+as, "--as-group=system:nodes", "patch", "resolvednames",
			of, "--type=merge",
			"-p", `{"metadata":{"annotations":{"example.com/written":"yes"}}}`)
		return err
	}
	if err := write(of); err != nil {
		t.Errorf("the agent of %s may not write its own: %v", of, err)
	}
	if err := write("w1"); err == nil || !strings.Contains(err.Error(), "is for the agent of that node alone") {
		t.Errorf("another node's agent writes: %v", err)
	}
}
