//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// outsideHost is on the Linux nodes' network and no part of the cluster. The Windows nodes' network is
// behind its router, which is the central.
var outsideHost = host("outside")

var everyone = []string{web("l1"), web("l2"), web("w1"), web("w2")}

// nodeAddresses are those by which Kubernetes knows a node, IPv4 first.
func nodeAddresses(t testing.TB, node string) []netip.Addr {
	t.Helper()
	return addresses(t, "node/"+node, `{.status.addresses[?(@.type=="InternalIP")].address}`)
}

// managementAddresses are a node's on a network that its gateway is not on.
func managementAddresses(t testing.TB, node string) []netip.Addr {
	t.Helper()
	out := host(node).must(t, "sh", "-c", "ip -o addr show dev eth0 scope global | awk '{print $4}'")
	var addrs []netip.Addr
	for field := range strings.FieldsSeq(out) {
		addrs = append(addrs, netip.MustParsePrefix(field).Addr())
	}
	if len(addrs) != 2 {
		t.Fatalf("%s has the addresses %v on eth0, want one of each family", node, addrs)
	}
	return addrs
}

// nodePorts of a Service, by the names of its ports.
func nodePorts(t testing.TB, service string) map[string]int {
	t.Helper()
	out := cluster.Kubectl(t, "get", "service", service, "-o", `jsonpath={range .spec.ports[*]}{.name}={.nodePort} {end}`)
	ports := map[string]int{}
	for field := range strings.FieldsSeq(out) {
		name, text, _ := strings.Cut(field, "=")
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("Service %s has the node ports %q", service, out)
		}
		ports[name] = port
	}
	return ports
}

// slicesOf is the manifest of a Service's EndpointSlices, made by hand, of pods of the workload. An
// endpoint is a node's name, and what its conditions are after a colon: "w1" or
// "w1: {ready: false, serving: true, terminating: true}". The ports are the workload's: http, udp, lines.
func slicesOf(t testing.TB, service string, endpoints ...string) string {
	t.Helper()
	manifest := ""
	for i, family := range []string{"IPv4", "IPv6"} {
		list := ""
		for _, e := range endpoints {
			node, conditions, has := strings.Cut(e, ":")
			if !has {
				conditions = "{ready: true}"
			}
			list += fmt.Sprintf("\n- {addresses: [%q], nodeName: %s, conditions: %s}", podAddresses(t, web(node))[i], node,
				conditions)
		}
		if list == "" {
			list = " []"
		}
		manifest += fmt.Sprintf(`
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s-%s, labels: {kubernetes.io/service-name: %s}}
addressType: %s
ports: [{name: http, port: 8080}, {name: udp, port: 8081, protocol: UDP}, {name: lines, port: 7000}]
endpoints:%s
`, service, strings.ToLower(family), service, family, list)
	}
	return manifest
}

// setEndpoints replaces the endpoints of a Service that slicesOf has made.
func setEndpoints(t testing.TB, service string, endpoints ...string) {
	t.Helper()
	if out, err := cluster.TryWith(slicesOf(t, service, endpoints...), "kubectl", "--", "apply", "-f", "-"); err != nil {
		t.Fatal(out, err)
	}
}

// workloadPorts are the ports of a Service in front of the workload.
const workloadPorts = "[{name: http, port: 80, targetPort: 8080}, {name: udp, port: 81, targetPort: 8081, protocol: " +
	"UDP}, {name: lines, port: 7000}]"

// service is the manifest of a dual-stack Service of the workload's ports; spec is more of it.
func service(name, spec string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %s}
spec:
  ipFamilyPolicy: PreferDualStack
  ports: %s
%s`, name, workloadPorts, indent(spec))
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// patch changes an object of the API.
func patch(t testing.TB, object, patch string, args ...string) {
	t.Helper()
	cluster.Kubectl(t, append([]string{"patch", object, "--type=merge", "-p", patch}, args...)...)
}

// setStatus gives a Service load balancer addresses, as a cloud's controller would.
func setStatus(t testing.TB, service, mode string, addrs ...netip.Addr) {
	t.Helper()
	var ingress []string
	for _, a := range addrs {
		ingress = append(ingress, fmt.Sprintf(`{"ip":%q,"ipMode":%q}`, a, mode))
	}
	patch(t, "service/"+service, fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[%s]}}}`, strings.Join(ingress, ",")),
		"--subresource=status")
}

// clients are all places that ask: pods and hosts of both systems, and a host outside.
func clients(t testing.TB) []place {
	t.Helper()
	all := []place{outsideHost}
	for _, node := range nodes {
		all = append(all, inWeb(t, node), host(node))
	}
	return all
}

// inForce is how long a change may take until it is in force everywhere, on a machine that has little
// time for it.
const inForce = 20 * time.Second

// served waits until only those who are wanted answer a place at each of the URLs. From then on all of them do, and
// nobody else.
func served(t testing.TB, from place, want []string, urls ...string) {
	t.Helper()
	eventually(t, inForce, from.String()+" is served", func() error {
		return from.ask(append([]string{"-timeout", "2s"}, urls...)...).among(want)
	})
	// The odds to miss one of four backends are 1 in 25,000 with forty questions.
	times := fmt.Sprint(max(1, 40/len(urls)+1))
	ask := func() heard { return from.ask(append([]string{"-n", times}, urls...)...) }
	h := ask()
	// Of some ten thousand connections in a run of all tests one may have no answer (docs/lab.md): one, and not
	// twice in a row.
	if h.lost() == 1 {
		t.Logf("%s: %v", from, h.failed())
		h = ask()
	}
	if err := h.are(want...); err != nil {
		t.Errorf("%s: %v", from, err)
	}
}

// route gives a host outside the way to addresses or prefixes, and takes it back when the test ends.
func route[D fmt.Stringer](t testing.TB, from place, via netip.Addr, destinations ...D) {
	t.Helper()
	for _, d := range destinations {
		from.must(t, "ip", "route", "replace", d.String(), "via", via.String())
		t.Cleanup(func() { from.must(t, "ip", "route", "del", d.String()) })
	}
}

// own gives a place more addresses, or whole prefixes of them, until the test ends.
func own[D fmt.Stringer](t testing.TB, where place, addrs ...D) {
	t.Helper()
	where.must(t, "sysctl", "-qw", "net.ipv6.ip_nonlocal_bind=1") // a route is not enough for clients
	for _, a := range addrs {
		where.must(t, "ip", "route", "add", "local", a.String(), "dev", "lo")
		t.Cleanup(func() { where.must(t, "ip", "route", "del", "local", a.String(), "dev", "lo") })
	}
}

func parseAddrs(texts ...string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range texts {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs
}

// ofFamily is the address among addrs that is of the other's family.
func ofFamily(addrs []netip.Addr, other netip.Addr) netip.Addr {
	return addrs[slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Is4() == other.Is4() })]
}
