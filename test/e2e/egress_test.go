//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

const (
	// knownAgain is when a neighbour that believes in an IPv6 address' old hardware address asks for it again:
	// OVN tells it of new ones of IPv4 only.
	knownAgain = 60 * time.Second
)

var (
	fixedAddresses = []string{"172.31.0.150", "fd00:31::150"}
	poolAddresses  = []string{"172.31.0.160", "fd00:31::160"}
)

// conditionSays waits until an object's condition Ready has that status and its message all the words.
func conditionSays(t testing.TB, object, status string, words ...string) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("the condition Ready of %s is %s and speaks of %q", object, status, words),
		func() error {
			out, err := cluster.Try("kubectl", "--", "get", object, "-o",
				`jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.message}{end}`)
			if err != nil {
				return err
			}
			got, message, _ := strings.Cut(out, " ")
			if got != status {
				return fmt.Errorf("it is %q", out)
			}
			for _, word := range words {
				if !strings.Contains(message, word) {
					return fmt.Errorf("it is %q, without %q", out, word)
				}
			}
			return nil
		})
}

func label(t testing.TB, object string, labels ...string) {
	t.Helper()
	cluster.Kubectl(t, append([]string{"label", object, "--overwrite"}, labels...)...)
}

// TestFixedAddresses: pods that are selected, of either system, leave with the address, others do not; and
// the address, as one of a pool's, goes to another node when its own dies.
func TestFixedAddresses(t *testing.T) {
	for _, node := range []string{"l1", "l2"} {
		label(t, "node/"+node, "weft.net/egress=")
		t.Cleanup(func() { label(t, "node/"+node, "weft.net/egress-") })
	}
	selected := []string{"l1", "l2", "w1"}
	for _, node := range selected {
		label(t, "pod/"+web(node), "leaves=fixed")
		t.Cleanup(func() { label(t, "pod/"+web(node), "leaves-") })
	}
	cluster.Apply(t, fmt.Sprintf(`
apiVersion: weft.net/v1alpha1
kind: EgressIP
metadata: {name: fixed}
spec:
  addresses: [%q, %q]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
  podSelector: {matchLabels: {leaves: fixed}}
`, fixedAddresses[0], fixedAddresses[1]))
	conditionSays(t, "egressip/fixed", "True")
	fixed := parseAddrs(fixedAddresses...)
	for _, node := range selected {
		from := inWeb(t, node)
		eventually(t, inForce, from.String()+" leaves with the fixed address", func() error {
			return leavesAs(t, from, fixed)
		})
		for _, addr := range outsideAddresses(t) {
			if out, err := from.try("ping", "-c", "1", "-W", "3", addr.String()); err != nil {
				t.Errorf("%s: %s %v", from, out, err)
			}
		}
		// What stays inside does not take that way.
		served(t, from, everyone, webURLs(clusterAddresses(t, "web")...)...)
	}
	if err := leavesAs(t, inWeb(t, "w2"), nodeAddresses(t, "w2")); err != nil {
		t.Errorf("who is not selected: %v", err)
	}
	label(t, "pod/"+web("l2"), "leaves-")
	eventually(t, inForce, "who is no longer selected leaves with its node's address", func() error {
		return leavesAs(t, inWeb(t, "l2"), nodeAddresses(t, "l2"))
	})
	label(t, "pod/"+web("l2"), "leaves=fixed")

	pooled := poolService(t, "announced")
	eventually(t, inForce, "the pool's addresses are served", func() error {
		return outsideHost.ask(webURLs(pooled...)...).failed()
	})
	carrier := cluster.Kubectl(t, "get", "egressip", "fixed", "-o", "jsonpath={.status.node}")
	nodeDies(t, carrier, fixed, pooled)
	if *thorough {
		nodeDies(t, map[string]string{"l1": "l2", "l2": "l1"}[carrier], fixed, pooled)
	}
}

// poolService makes a pool of these addresses alone, and a Service that has them.
func poolService(t testing.TB, name string) []netip.Addr {
	t.Helper()
	cluster.Apply(t, fmt.Sprintf(`
apiVersion: weft.net/v1alpha1
kind: AddressPool
metadata: {name: %s}
spec: {ranges: [%s/32, "%s/128"], autoAssign: false}
`, name, poolAddresses[0], poolAddresses[1]))
	conditionSays(t, "addresspool/"+name, "True")
	cluster.Apply(t, strings.Replace(service(name, "type: LoadBalancer\nloadBalancerClass: "+
		"weft.net/address-pool\nselector: {app: web}"), "metadata: {",
		fmt.Sprintf(`metadata: {annotations: {weft.net/load-balancer-addresses: "%s,%s"}, `, poolAddresses[0],
			poolAddresses[1]), 1))
	var addrs []netip.Addr
	eventually(t, inForce, "the Service has addresses of the pool", func() (err error) {
		addrs, err = tryAddresses("service/"+name, "{.status.loadBalancer.ingress[*].ip}")
		return err
	})
	for i, a := range addrs {
		if a.String() != poolAddresses[i] {
			t.Errorf("the Service has the addresses %v, want %v", addrs, poolAddresses)
		}
	}
	return addrs
}

// nodeDies cuts off a node that may have any of these addresses, and brings it back.
func nodeDies(t *testing.T, carrier string, fixed, pooled []netip.Addr) {
	t.Helper()
	if carrier != "l1" && carrier != "l2" {
		t.Fatalf("the carrier is %q", carrier)
	}
	links := func(state string) {
		for _, device := range []string{"ul0", "ex0"} {
			host(carrier).must(t, "ip", "link", "set", device, state)
		}
	}
	pod := inWeb(t, "w1")
	outside := outsideAddresses(t)
	// A node that was cut off just before asks its databases again only after a while.
	cluster.Must(t, "nbctl", "--", "--timeout=60", "--wait=hv", "sync")
	links("down")
	t.Cleanup(func() { links("up") })
	died := time.Now()
	answers := func(addr netip.Addr) func() error {
		return func() error { // one of the endpoints has died, too, and Kubernetes does not know yet
			if h := outsideHost.ask("-timeout", "1s", "-n", "6", httpURL(addr, 80, "hostname")); len(h.answers()) == 0 {
				return fmt.Errorf("nobody answers: %v %v", h.replies, h.err)
			}
			return nil
		}
	}
	for _, c := range []struct {
		what  string
		again func() error
	}{
		{"the egress address", func() error {
			return pod.ask("-timeout", "1s", outsideURLs(outside[0], "clientip")[0],
				outsideURLs(outside[1], "clientip")[0]).failed()
		}},
		{"the pool's IPv4 address", answers(pooled[0])},
		{"the pool's IPv6 address", answers(pooled[1])},
	} {
		eventually(t, knownAgain, c.what+" is on another node", c.again)
		t.Logf("%s died: %s was back after %v at the latest", carrier, c.what, time.Since(died).Round(100*time.Millisecond))
	}
	if err := leavesAs(t, pod, fixed); err != nil {
		t.Error(err)
	}
	links("up")
	for _, node := range []string{"l1", "l2", "w1"} {
		from := inWeb(t, node)
		eventually(t, 60*time.Second, from.String()+" leaves with the fixed address when all are back", func() error {
			return leavesAs(t, from, fixed)
		})
	}
	eventually(t, 30*time.Second, "the pool's addresses are served when all are back", func() error {
		return outsideHost.ask(webURLs(pooled...)...).failed()
	})
}

// ages waits until an object is older than one that is created now: the API server counts in seconds.
func ages(t testing.TB, object string) {
	t.Helper()
	created, err := time.Parse(time.RFC3339, cluster.Kubectl(t, "get", object, "-o",
		"jsonpath={.metadata.creationTimestamp}"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, object+" has an age", func() error {
		if age := time.Since(created); age < time.Second {
			return fmt.Errorf("it is %s", age)
		}
		return nil
	})
}

// TestBadFixedAddresses are refused by the API server, or told by a condition.
func TestBadFixedAddresses(t *testing.T) {
	t.Parallel()
	egress := func(name string, addresses string) string {
		return fmt.Sprintf(`
apiVersion: weft.net/v1alpha1
kind: EgressIP
metadata: {name: %s}
spec: {addresses: [%s], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: nowhere}}, nodeSelector: {matchLabels: {kubernetes.io/os: linux}}}
`, name, addresses)
	}
	for addresses, word := range map[string]string{
		`"300.0.0.1"`:                    "is not an IP address",
		`"127.0.0.1"`:                    "loopback",
		`"172.31.0.151", "172.31.0.152"`: "two addresses of one family",
	} {
		if out, err := cluster.TryWith(egress("refused", addresses), "kubectl", "--", "apply", "-f", "-"); err == nil ||
			!strings.Contains(err.Error(), word) {
			t.Errorf("%s: the API server says %s %v, without %q", addresses, out, err, word)
		}
	}
	for name, c := range map[string]struct{ address, word string }{
		"nowhere":     {"203.0.113.99", "172.31.0.0/24"},
		"nodes-own":   {"172.31.0.11", "l1"},
		"pods":        {"10.244.0.99", "10.244.0.0/16"},
		"of-services": {"10.96.0.99", "10.96.0.0/16"},
	} {
		cluster.Apply(t, egress(name, fmt.Sprintf("%q", c.address)))
		conditionSays(t, "egressip/"+name, "False", c.address, c.word, "addresses")
	}
	cluster.Apply(t, egress("early", `"172.31.0.155"`))
	conditionSays(t, "egressip/early", "True")
	ages(t, "egressip/early")
	cluster.Apply(t, egress("late", `"172.31.0.155"`))
	conditionSays(t, "egressip/late", "False", "172.31.0.155", "early")
	conditionSays(t, "egressip/early", "True")
}

// TestAddressPools: addresses are given, asked for, exhausted and given back; and pools that overlap what is
// somebody else's are told.
func TestAddressPools(t *testing.T) {
	t.Parallel()
	pool := func(name, ranges string) string {
		return fmt.Sprintf(`
apiVersion: weft.net/v1alpha1
kind: AddressPool
metadata: {name: %s}
spec: {ranges: [%s], autoAssign: true, serviceSelector: {matchLabels: {pool: small}}}
`, name, ranges)
	}
	pooled := func(name string) string {
		return strings.Replace(service(name, "type: LoadBalancer\nloadBalancerClass: weft.net/address-pool\nselector: "+
			"{app: web}"),
			"metadata: {", "metadata: {labels: {pool: small}, ", 1)
	}
	cluster.Apply(t, pool("small", `172.31.0.170-172.31.0.171, "fd00:31::170-fd00:31::171"`))
	conditionSays(t, "addresspool/small", "True")
	addressesOf := func(name string) []netip.Addr {
		t.Helper()
		var addrs []netip.Addr
		eventually(t, inForce, name+" has addresses", func() (err error) {
			addrs, err = tryAddresses("service/"+name, "{.status.loadBalancer.ingress[*].ip}")
			return err
		})
		return addrs
	}
	for _, name := range []string{"pooled-1", "pooled-2"} {
		cluster.Apply(t, pooled(name))
		for _, from := range []place{outsideHost, inWeb(t, "l2"), inWeb(t, "w1"), host("l1"), host("w2")} {
			served(t, from, everyone, webURLs(addressesOf(name)...)...)
		}
	}
	cluster.Apply(t, pooled("pooled-3"))
	eventMentions(t, "Service", "default", "pooled-3", "AddressPools", "taken", "spec.ranges")
	freed := addressesOf("pooled-1")
	patch(t, "service/pooled-1", `{"spec":{"type":"ClusterIP","loadBalancerClass":null}}`)
	if got := addressesOf("pooled-3"); fmt.Sprint(got) != fmt.Sprint(freed) {
		t.Errorf("pooled-3 has %v, want %v, which are free again", got, freed)
	}
	for name, c := range map[string]struct{ ranges, word string }{
		"in-pods":     {"10.244.3.0/24", "10.244.0.0/16"},
		"in-services": {"10.96.4.0/24", "10.96.0.0/16"},
		"in-nodes":    {"172.31.0.8/29", "l1"},
		"in-small":    {"172.31.0.171-172.31.0.180", "small"},
	} {
		cluster.Apply(t, pool(name, c.ranges))
		conditionSays(t, "addresspool/"+name, "False", c.ranges, c.word, "ranges")
	}
	conditionSays(t, "addresspool/small", "True")
	served(t, outsideHost, everyone, webURLs(addressesOf("pooled-2")...)...)
}
