//go:build cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// sees is nil when a server says of its client's address that it is this one.
func (h heard) sees(client netip.Addr) error {
	if err := h.failed(); err != nil {
		return err
	}
	for _, answer := range h.answers() {
		if addr, err := netip.ParseAddrPort(answer); err != nil || addr.Addr() != client {
			return fmt.Errorf("the server's client is %q, want %s: %v", answer, client, h.replies)
		}
	}
	return nil
}

// outsideAddress is a host's address of a family on the Linux nodes' network.
func outsideAddress(t testing.TB, of place, family netip.Addr) netip.Addr {
	t.Helper()
	version := "-6"
	if family.Is4() {
		version = "-4"
	}
	out := of.must(t, "sh", "-c", "ip "+version+" -o addr show dev ex0 scope global | awk 'NR == 1 {print $4}'")
	return netip.MustParsePrefix(out).Addr()
}

// healthOf asks a node's health check node port, and returns its status and how many endpoints it counts.
func healthOf(t testing.TB, from place, addr netip.Addr, port int) (status string, endpoints int, err error) {
	t.Helper()
	h := from.ask(httpURL(addr, port, ""))
	if err := h.failed(); err != nil {
		return "", 0, err
	}
	status, text := "200", h.answers()[0]
	if !strings.HasPrefix(text, "{") {
		status, text, _ = strings.Cut(text, " ")
	}
	var health struct {
		Service        struct{ Namespace, Name string }
		LocalEndpoints int
	}
	if err := json.Unmarshal([]byte(text), &health); err != nil {
		return "", 0, fmt.Errorf("%s port %d answers %q: %w", addr, port, text, err)
	}
	if health.Service.Name == "" {
		return "", 0, fmt.Errorf("%s port %d does not say of which Service it speaks: %q", addr, port, text)
	}
	return status, health.LocalEndpoints, nil
}

// TestExternalTrafficPolicyLocal: endpoints are on l1 and w1 only. They see the client's own address; l2
// and w2 give no answer, and say so to who asks for their health.
func TestExternalTrafficPolicyLocal(t *testing.T) {
	t.Parallel()
	cluster.Apply(t, service("local", "type: LoadBalancer\nexternalTrafficPolicy: Local")+slicesOf(t, "local", "l1", "w1"))
	ports := nodePorts(t, "local")
	var health int
	if _, err := fmt.Sscan(cluster.Kubectl(t, "get", "service", "local", "-o", "jsonpath={.spec.healthCheckNodePort}"),
		&health); err != nil {
		t.Fatal(err)
	}
	healthIs := func(node, status string, endpoints int) {
		t.Helper()
		for _, addr := range nodeAddresses(t, node) {
			eventually(t, inForce, fmt.Sprintf("the health check of %s says %s, %d endpoints", addr, status, endpoints),
				func() error {
					got, count, err := healthOf(t, outsideHost, addr, health)
					if err == nil && (got != status || count != endpoints) {
						err = fmt.Errorf("it says %s, %d endpoints", got, count)
					}
					return err
				})
		}
	}
	urls := func(node, word string) []string {
		var urls []string
		for _, addr := range nodeAddresses(t, node) {
			urls = append(urls, httpURL(addr, ports["http"], word), udpURL(addr, ports["udp"], word))
		}
		return urls
	}
	for _, node := range []string{"l1", "w1"} {
		served(t, outsideHost, []string{web(node)}, urls(node, "hostname")...)
		for _, addr := range nodeAddresses(t, node) {
			want := outsideAddress(t, outsideHost, addr)
			if err := outsideHost.ask(httpURL(addr, ports["http"], "clientip"), udpURL(addr, ports["udp"], "clientip")).sees(
				want); err != nil {
				t.Error(err)
			}
		}
		healthIs(node, "200", 1)
	}
	for _, node := range []string{"l2", "w2"} {
		if err := outsideHost.ask(append([]string{"-timeout", "1s"}, urls(node, "hostname")...)...).unanswered(); err != nil {
			t.Error(err)
		}
		healthIs(node, "503", 0)
		// What comes from inside is no external traffic: all endpoints serve it.
		served(t, inWeb(t, node), []string{web("l1"), web("w1")}, urls(node, "hostname")...)
		served(t, host(node), []string{web("l1"), web("w1")}, urls(node, "hostname")...)
	}
	seesItself(t, ports, "l1", "l2", "w2")

	// The last endpoint of a node goes on serving while it ends, and the health check turns clients away.
	const ending = ": {ready: false, serving: true, terminating: true}"
	setEndpoints(t, "local", "l1"+ending, "w1"+ending, "l2")
	for _, node := range []string{"l1", "w1"} {
		healthIs(node, "503", 0)
		served(t, outsideHost, []string{web(node)}, urls(node, "hostname")...)
	}
	healthIs("l2", "200", 1)
	served(t, outsideHost, []string{web("l2")}, urls("l2", "hostname")...)
	// One that is ready takes the place of one that ends.
	setEndpoints(t, "local", "l1"+ending, "w2", "w1: {ready: false, serving: false, terminating: true}")
	served(t, inWeb(t, "l2"), []string{web("w2")}, httpURL(clusterAddresses(t, "local")[0], 80, "hostname"))
	for _, addr := range nodeAddresses(t, "w1") {
		eventually(t, inForce, "w1 has no endpoint that serves", func() error {
			return outsideHost.ask("-timeout", "1s", httpURL(addr, ports["http"], "hostname")).unanswered()
		})
	}
}

// seesItself: servers see a node's address when its host asks itself, wherever their pods are. With gateways
// that have addresses of their own it is the pods' node's host that passes other hosts' connections on.
func seesItself(t *testing.T, ports map[string]int, nodes ...string) {
	t.Helper()
	if *gateway != "host" {
		return
	}
	for _, node := range nodes {
		for _, addr := range nodeAddresses(t, node) {
			urls := []string{httpURL(addr, ports["http"], "clientip"), udpURL(addr, ports["udp"], "clientip")}
			for range 4 { // endpoints here and there
				if err := host(node).ask(urls...).sees(addr); err != nil {
					t.Errorf("the host of %s, at %s: %v", node, addr, err)
				}
			}
		}
	}
}

// TestTerminatingEndpointsServeIfNobodyElseDoes, and only then; without any, clients are refused.
func TestTerminatingEndpointsServeIfNobodyElseDoes(t *testing.T) {
	t.Parallel()
	long(t)
	const ending = ": {ready: false, serving: true, terminating: true}"
	cluster.Apply(t, service("ending", "type: ClusterIP")+slicesOf(t, "ending", "l1", "w1"+ending))
	var urls []string
	for _, addr := range clusterAddresses(t, "ending") {
		urls = append(urls, httpURL(addr, 80, "hostname"), udpURL(addr, 81, "hostname"))
	}
	for _, from := range []place{inWeb(t, "l2"), inWeb(t, "w2"), host("w1")} {
		served(t, from, []string{web("l1")}, urls...)
	}
	setEndpoints(t, "ending", "w1"+ending, "l2: {ready: false, serving: false, terminating: true}")
	for _, from := range []place{inWeb(t, "l2"), inWeb(t, "w2"), host("w1")} {
		eventually(t, inForce, "the endpoint that ends serves "+from.String(), func() error {
			return from.ask(urls...).are(web("w1"))
		})
	}
	setEndpoints(t, "ending")
	for _, from := range []place{inWeb(t, "l2"), inWeb(t, "w2"), host("w1")} {
		eventually(t, inForce, "nobody serves "+from.String(), func() error { return from.ask(urls...).refused() })
	}
}

// TestInternalTrafficPolicyLocal, for pods and for hosts, over TCP and UDP.
func TestInternalTrafficPolicyLocal(t *testing.T) {
	t.Parallel()
	cluster.Apply(t, service("inside", "internalTrafficPolicy: Local")+slicesOf(t, "inside", "l1", "w1"))
	var urls []string
	for _, addr := range clusterAddresses(t, "inside") {
		urls = append(urls, httpURL(addr, 80, "hostname"), udpURL(addr, 81, "hostname"))
	}
	for _, node := range []string{"l1", "w1"} {
		served(t, inWeb(t, node), []string{web(node)}, urls...)
		served(t, host(node), []string{web(node)}, urls...)
	}
	for _, node := range []string{"l2", "w2"} {
		for _, from := range []place{inWeb(t, node), host(node)} {
			if err := from.ask(append([]string{"-timeout", "1s"}, urls...)...).unanswered(); err != nil {
				t.Errorf("%s: %v", from, err)
			}
		}
	}
}

// TestTrafficDistribution: clients of both systems keep to their zone or their node, hosts too.
func TestTrafficDistribution(t *testing.T) {
	t.Parallel()
	long(t)
	cluster.Apply(t, service("near", "selector: {app: web}"))
	urls := webURLs(clusterAddresses(t, "near")...)
	served(t, inWeb(t, "w2"), everyone, urls...)
	zones := map[string][]string{"l1": {web("l1"), web("w1")}, "w1": {web("l1"), web("w1")}, "l2": {web("l2"), web("w2")},
		"w2": {web("l2"), web("w2")}}
	for _, c := range []struct {
		distribution string
		want         func(node string) []string
	}{
		{"PreferSameZone", func(node string) []string { return zones[node] }},
		{"PreferSameNode", func(node string) []string { return []string{web(node)} }},
	} {
		patch(t, "service/near", `{"spec":{"trafficDistribution":"`+c.distribution+`"}}`)
		for _, node := range nodes {
			for _, from := range []place{inWeb(t, node), host(node)} {
				eventually(t, inForce, c.distribution+" for "+from.String(), func() error {
					return from.ask(append([]string{"-n", "10", "-timeout", "2s"}, urls...)...).are(c.want(node)...)
				})
			}
		}
	}
}
