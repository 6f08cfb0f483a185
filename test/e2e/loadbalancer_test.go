//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// webURLs are those of the workload's HTTP and UDP ports behind virtual addresses.
func webURLs(addrs ...netip.Addr) []string {
	var urls []string
	for _, a := range addrs {
		urls = append(urls, httpURL(a, 80, "hostname"), udpURL(a, 81, "hostname"))
	}
	return urls
}

// TestStatusAddressesOfOthersAreServed: a cloud's controller, or MetalLB, writes the address to the status
// and brings packets to a node; Weft serves them there, and takes the short way from inside.
func TestStatusAddressesOfOthersAreServed(t *testing.T) {
	t.Parallel()
	long(t)
	cluster.Apply(t, service("cloud", "type: LoadBalancer\nallocateLoadBalancerNodePorts: false\nselector: {app: web}"))
	if ports := strings.TrimSpace(cluster.Kubectl(t, "get", "service", "cloud", "-o",
		"jsonpath={.spec.ports[*].nodePort}")); ports != "" {
		t.Errorf("it has the node ports %q, and was to have none", ports)
	}
	linux, windows := parseAddrs("203.0.113.10", "2001:db8:113::10"), parseAddrs("203.0.113.11", "2001:db8:113::11")
	for i := range linux {
		route(t, outsideHost, nodeAddresses(t, "l1")[i], linux[i])
		route(t, outsideHost, ofFamily(parseAddrs("172.31.0.254", "fd00:31::254"), windows[i]), windows[i])
		route(t, central, nodeAddresses(t, "w1")[i], windows[i])
	}
	setStatus(t, "cloud", "VIP", slices.Concat(linux, windows)...)
	urls := webURLs(slices.Concat(linux, windows)...)
	for _, from := range clients(t) {
		served(t, from, everyone, urls...)
	}
	setStatus(t, "cloud", "VIP", linux...)
	for _, from := range []place{host("w1"), inWeb(t, "l2")} {
		eventually(t, inForce, "an address that was taken away is not served "+from.String(), func() error {
			return from.ask(append([]string{"-timeout", "1s"}, webURLs(windows...)...)...).unanswered()
		})
	}
	served(t, outsideHost, everyone, webURLs(linux...)...)
}

// TestProxiesAddressesAreLeftToThem: with ipMode Proxy the address is that of a load balancer outside,
// which pods and hosts have to pass.
func TestProxiesAddressesAreLeftToThem(t *testing.T) {
	t.Parallel()
	long(t)
	cluster.Apply(t, service("proxied", "type: LoadBalancer\nselector: {app: web}"))
	proxy := parseAddrs("203.0.113.20", "2001:db8:113::20")
	// The host outside stands in for that load balancer: its own server answers, not the workload.
	own(t, outsideHost, proxy...)
	route(t, central, outsideAddress(t, outsideHost, proxy[0]), proxy[0])
	route(t, central, outsideAddress(t, outsideHost, proxy[1]), proxy[1])
	setStatus(t, "proxied", "Proxy", proxy...)
	served(t, inWeb(t, "l1"), everyone, webURLs(clusterAddresses(t, "proxied")...)...) // it is in force
	outsideHost.serveWeb(t, 80)
	for _, from := range []place{inWeb(t, "l1"), inWeb(t, "w1"), host("l2"), host("w2")} {
		served(t, from, []string{outsideHost.machine}, httpURL(proxy[0], 80, "hostname"), httpURL(proxy[1], 80, "hostname"))
	}
}

// TestExternalIPs, and addresses of a load balancer that are nodes' own, which nobody has by spec.externalIPs.
func TestExternalIPs(t *testing.T) {
	t.Parallel()
	nodes := slices.Concat(nodeAddresses(t, "l2"), nodeAddresses(t, "w2"))
	ips := slices.Concat(parseAddrs("203.0.113.30", "2001:db8:113::30"), nodes)
	manifest := service("external", `type: LoadBalancer
selector: {app: web}
externalIPs: [203.0.113.30, "2001:db8:113::30"]`)
	// Ports that no host has a use for.
	cluster.Apply(t, strings.NewReplacer("port: 80,", "port: 8380,", "port: 81,", "port: 8381,", "port: 7000",
		"port: 8370, targetPort: 7000").Replace(manifest))
	setStatus(t, "external", "VIP", nodes...)
	for i := range 2 {
		route(t, outsideHost, nodeAddresses(t, "l1")[i], ips[i])
	}
	cluster.Apply(t, service("taker", fmt.Sprintf("selector: {app: web}\nexternalIPs: [%q]", nodes[0])))
	eventMentions(t, "Service", "default", "taker", nodes[0].String(), "Node l2", "host-external-ip-cidrs")
	var urls []string
	for _, a := range ips {
		urls = append(urls, httpURL(a, 8380, "hostname"), udpURL(a, 8381, "hostname"))
	}
	for _, from := range clients(t) {
		served(t, from, everyone, urls...)
	}
	// The nodes' own ports at the same addresses are still theirs.
	for _, node := range []string{"l2", "w2"} {
		for _, a := range nodeAddresses(t, node) {
			if h := outsideHost.ask("-timeout", "2s", "http://"+netip.AddrPortFrom(a, 10250).String()+
				"/healthz"); h.failed() != nil {
				t.Errorf("the kubelet of %s: %v", node, h.failed())
			}
		}
	}
}

// TestLoadBalancerSourceRanges lets in whom they name, and nobody else from outside.
func TestLoadBalancerSourceRanges(t *testing.T) {
	t.Parallel()
	friends, strangers := parseAddrs("198.51.100.7", "2001:db8:51::7"), parseAddrs("198.51.100.107", "2001:db8:51::107:7")
	cluster.Apply(t, service("ranged", "type: LoadBalancer\nselector: {app: web}\nloadBalancerSourceRanges: "+
		"[198.51.100.0/26, \"2001:db8:51::/112\"]"))
	vips := parseAddrs("203.0.113.40", "2001:db8:113::40")
	own(t, outsideHost, append(friends, strangers...)...)
	for i := range vips {
		for _, from := range []place{outsideHost, central} { // which forwards answers of none that it knows no way to
			route(t, from, nodeAddresses(t, "l1")[i], vips[i])
		}
		route(t, central, outsideAddress(t, outsideHost, vips[i]), friends[i], strangers[i])
	}
	setStatus(t, "ranged", "VIP", vips...)
	for i, vip := range vips {
		eventually(t, inForce, "friends are served", func() error {
			return outsideHost.ask(append([]string{"-from", friends[i].String()}, webURLs(vip)...)...).failed()
		})
		if err := outsideHost.ask(append([]string{"-n", "20", "-from", friends[i].String()}, webURLs(vip)...)...).are(
			everyone...); err != nil {
			t.Error(err)
		}
		if err := outsideHost.ask(append([]string{"-timeout", "1s", "-from", strangers[i].String()},
			webURLs(vip)...)...).unanswered(); err != nil {
			t.Error(err)
		}
	}
	patch(t, "service/ranged", `{"spec":{"loadBalancerSourceRanges":null}}`)
	for i, vip := range vips {
		eventually(t, inForce, "without ranges all are served", func() error {
			return outsideHost.ask(append([]string{"-from", strangers[i].String()}, webURLs(vip)...)...).failed()
		})
	}
}
