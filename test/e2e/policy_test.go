//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/lab/labtest"
)

// tenancy is a namespace with pods of its own, which the policies of one test select.
type tenancy struct {
	name string
	// at are the pods' addresses, and inside their networks, by their names.
	at     map[string][]netip.Addr
	inside map[string]place
}

// guest is a pod of such a namespace: it serves HTTP on a port named http, and UDP on 8081.
type guest struct {
	name, node string
	http       int
}

const guestTemplate = `
---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s, labels: {name: %[2]s}}
spec:
  nodeName: %[3]s
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: %[4]s
    args: [netexec, --http-port=%[5]d, --udp-port=8081]
    ports: [{name: http, containerPort: %[5]d}]
    readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 6}
    livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1, failureThreshold: 10}
`

// newNamespace is the manifest of one with annotations.
func newNamespace(name, annotations string) string {
	return fmt.Sprintf("\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s, annotations: {%s}}\n", name,
		annotations)
}

// inhabit makes a namespace, what else a manifest says that begins with it, and its pods, and waits until
// these are ready.
func inhabit(t testing.TB, name, manifest string, guests ...guest) tenancy {
	t.Helper()
	for _, g := range guests {
		manifest += fmt.Sprintf(guestTemplate, name, g.name, g.node, image, g.http)
	}
	cluster.Apply(t, manifest)
	if _, err := cluster.Try("kubectl", "--", "wait", "-n", name, "--for=condition=Ready", "--timeout=120s", "pod",
		"--all"); err != nil {
		t.Fatal(err, cluster.Kubectl(t, "describe", "pods", "-n", name)) // with Events, which go with the namespace
	}
	n := tenancy{name, map[string][]netip.Addr{}, map[string]place{}}
	for _, g := range guests {
		n.found(t, g.name, g.node)
	}
	return n
}

// found takes in a pod as soon as it has addresses.
func (n tenancy) found(t testing.TB, pod, node string) {
	t.Helper()
	eventually(t, 60*time.Second, pod+" has addresses", func() (err error) {
		n.at[pod], err = tryAddresses("pod/"+pod, podIPs, "-n", n.name)
		return err
	})
	n.inside[pod] = place{node, podNamespace(t, node, n.at[pod][0])}
}

// networkPolicy is the manifest of one in a namespace; spec is in YAML's flow style.
func networkPolicy(namespace, name, spec string) string {
	return fmt.Sprintf("\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: %s, namespace: "+
		"%s}\nspec: {%s}\n", name, namespace, spec)
}

func (n tenancy) policy(name, spec string) string { return networkPolicy(n.name, name, spec) }

// put applies what a manifest says; whoever made the namespace removes it.
func put(t testing.TB, manifest string) {
	t.Helper()
	if out, err := cluster.TryWith(manifest, "kubectl", "--", "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
}

func (n tenancy) remove(t testing.TB, policies ...string) {
	t.Helper()
	cluster.Kubectl(t, append([]string{"delete", "networkpolicy", "-n", n.name}, policies...)...)
}

// removeAll of a namespace's NetworkPolicies when the test ends.
func (n tenancy) removeAll(t testing.TB) {
	t.Cleanup(func() { cluster.Kubectl(t, "delete", "networkpolicy", "-n", n.name, "--all") })
}

// packet is what a policy judges: from one pod to another one's port.
type packet struct{ from, to, port string }

// peers are pods that talk to each other, by their names: those of a namespace, and beside them some of
// the workload in another one.
type peers struct {
	inside map[string]place
	urls   map[packet][]string // by destination and port
}

// among are a namespace's pods together with the workload's of some nodes.
func (n tenancy) among(t testing.TB, guests []guest, others ...string) peers {
	t.Helper()
	c := peers{maps.Clone(n.inside), map[packet][]string{}}
	add := func(name string, addrs []netip.Addr, port int) {
		for _, a := range addrs {
			c.reach(packet{to: name, port: "http"}, httpURL(a, port, "hostname"))
			c.reach(packet{to: name, port: "udp"}, udpURL(a, 8081, "hostname"))
		}
	}
	for _, g := range guests {
		add(g.name, n.at[g.name], g.http)
	}
	for _, node := range others {
		c.inside[web(node)] = inWeb(t, node)
		add(web(node), podAddresses(t, web(node)), 8080)
	}
	return c
}

func (c peers) reach(to packet, urls ...string) { c.urls[to] = append(c.urls[to], urls...) }

// obeys waits until all packets pass that are allowed, by both address families, and no other one does.
func (c peers) obeys(t testing.TB, allowed func(packet) bool) {
	t.Helper()
	var all sync.WaitGroup
	for name, from := range c.inside {
		all.Go(func() {
			asked := newTrial(from, c.verdicts(name, allowed))
			if err := labtest.Poll(inForce, func() error { _, err := asked.round(); return err }); err != nil {
				t.Errorf("from %s: %v", name, err)
			}
		})
	}
	all.Wait()
}

// verdicts say of each URL that a peer asks whether it is to be answered.
func (c peers) verdicts(name string, allowed func(packet) bool) map[string]bool {
	want := map[string]bool{}
	for to, urls := range c.urls {
		if to.to != name {
			for _, url := range urls {
				want[url] = allowed(packet{name, to.to, to.port})
			}
		}
	}
	return want
}

// TestPoliciesHoldOnAllNodes, whatever the system of the node that is the client's or the server's.
func TestPoliciesHoldOnAllNodes(t *testing.T) {
	t.Parallel()
	guests := []guest{{"a", "l1", 8080}, {"b", "l2", 8080}, {"c", "w1", 8090}}
	const deny = "podSelector: {}, policyTypes: [Ingress, Egress]"
	n := inhabit(t, "policies", newNamespace("policies", "")+networkPolicy("policies", "tried", deny), guests...)
	c := n.among(t, guests, "l2", "w2")
	put(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: c, namespace: %s}
spec: {ipFamilyPolicy: PreferDualStack, selector: {name: c}, ports: [{port: 80, targetPort: http}]}
`, n.name))
	service := addresses(t, "service/c", "{.spec.clusterIPs[*]}", "-n", n.name)
	for _, a := range service {
		c.reach(packet{to: "c", port: "http"}, httpURL(a, 80, "hostname"))
	}
	ours := func(name string) bool { return len(name) == 1 }
	b := n.at["b"]
	t.Run("but nodes reach their own pods", func(t *testing.T) { n.isReachedByNodes(t) })
	for _, row := range []struct {
		name, spec string
		allowed    func(packet) bool
	}{
		{"nothing", deny, func(p packet) bool { return !ours(p.from) && !ours(p.to) }},
		{"from pods of the namespace", "podSelector: {matchLabels: {name: c}}, ingress: [{from: [{podSelector: " +
			"{matchExpressions: [{key: name, operator: In, values: [a]}]}}]}]",
			func(p packet) bool { return p.to != "c" || p.from == "a" }},
		{"from pods of another namespace", "podSelector: {matchLabels: {name: a}}, ingress: [{from: [{namespaceSelector: " +
			"{matchLabels: {kubernetes.io/metadata.name: default}}, podSelector: {matchLabels: {app: web}}}]}]",
			func(p packet) bool { return p.to != "a" || !ours(p.from) }},
		{"a named port, by whatever number", "podSelector: {}, ingress: [{ports: [{port: http}]}]",
			func(p packet) bool { return !ours(p.to) || p.port == "http" }},
		{"others' named port", "podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}], ports: [{port: " +
			"http}]}]",
			func(p packet) bool { return !ours(p.from) || ours(p.to) && p.port == "http" }},
		{"from everywhere but one node's pods", fmt.Sprintf("podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "+
			"0.0.0.0/0, except: [%s]}}, {ipBlock: {cidr: '::/0', except: ['%s']}}]}]",
			netip.PrefixFrom(b[0], 24).Masked(), netip.PrefixFrom(b[1], 64).Masked()),
			func(p packet) bool { return !ours(p.to) || p.from != "b" && p.from != web("l2") }},
		{"to a Service's endpoint", "podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: " +
			"{name: c}}}]}]",
			func(p packet) bool { return !ours(p.from) || p.to == "c" }},
		{"not to a Service's own address", fmt.Sprintf("podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: "+
			"{cidr: %s/32}}, {ipBlock: {cidr: '%s/128'}}]}]", service[0], service[1]),
			func(p packet) bool { return !ours(p.from) }},
	} {
		put(t, n.policy("tried", row.spec))
		t.Run(row.name, func(t *testing.T) { c.obeys(t, row.allowed) })
	}
	t.Run("names are looked up", func(t *testing.T) {
		put(t, n.policy("tried", deny))
		want := clusterAddresses(t, "web")[0].String()
		lookup := func() error {
			for _, pod := range []string{"b", "c"} {
				out, err := cluster.Try("kubectl", "--", "exec", "-n", n.name, pod, "--", "dig", "+short", "+time=1", "+tries=1",
					"web.default.svc.cluster.local")
				if err != nil {
					return err
				}
				if out != want {
					return fmt.Errorf("%s finds %q, want %s", pod, out, want)
				}
			}
			return nil
		}
		eventually(t, inForce, "nobody is asked", func() error {
			if lookup() == nil {
				return fmt.Errorf("somebody answers")
			}
			return nil
		})
		put(t, n.policy("names", "podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: "+
			"{kubernetes.io/metadata.name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]"))
		eventually(t, inForce, "names are found", lookup)
		c.obeys(t, func(p packet) bool { return !ours(p.from) && !ours(p.to) })
	})
	n.remove(t, "tried", "names")
	c.obeys(t, func(packet) bool { return true })
	if restarts := cluster.Kubectl(t, "get", "pods", "-n", n.name, "-o",
		"jsonpath={.items[*].status.containerStatuses[*].restartCount}"); restarts != "0 0 0" {
		t.Errorf("containers have been restarted %s times: their probes failed", restarts)
	}
}

// isReachedByNodes under a policy that lets nobody in: the pods are ready, since probes come to them, as does
// whatever their node's host sends. Other hosts are like anybody else.
func (n tenancy) isReachedByNodes(t *testing.T) {
	a, c := n.at["a"], n.at["c"]
	toLinux := []string{httpURL(a[0], 8080, "hostname"), httpURL(a[1], 8080, "hostname"), udpURL(a[0], 8081, "hostname"),
		udpURL(a[1], 8081, "hostname")}
	toWindows := []string{httpURL(c[0], 8090, "hostname"), httpURL(c[1], 8090, "hostname"), udpURL(c[0], 8081, "hostname"),
		udpURL(c[1], 8081, "hostname")}
	served(t, host("l1"), []string{"a"}, toLinux...)
	served(t, host("w1"), []string{"c"}, toWindows...)
	for _, other := range []place{host("l2"), host("w2")} {
		if err := other.ask(append([]string{"-timeout", "1s"},
			slices.Concat(toLinux, toWindows)...)...).unanswered(); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// says waits until a policy's status has a reason and mentions all the words.
func (n tenancy) says(t testing.TB, policy, reason string, words ...string) contract.PolicyStatus {
	t.Helper()
	var s contract.PolicyStatus
	eventually(t, inForce, "the status of NetworkPolicy "+policy, func() error {
		out, err := cluster.Try("kubectl", "--", "get", "networkpolicy", "-n", n.name, policy, "-o",
			`jsonpath={.metadata.generation} {.metadata.annotations.weft\.net/policy-status}`)
		if err != nil {
			return err
		}
		generation, text, _ := strings.Cut(out, " ")
		s = contract.PolicyStatus{}
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		if fmt.Sprint(s.Generation) != generation || s.Reason != reason || slices.ContainsFunc(words, func(word string) bool {
			return !strings.Contains(s.Message, word)
		}) {
			return fmt.Errorf("it is %s of generation %s", text, generation)
		}
		return nil
	})
	return s
}
