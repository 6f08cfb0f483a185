package hostservice

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Pods are refused at each socket of the host's; the host itself, whichever of its addresses it has, other nodes
// and clients outside are served.
func TestPodsAreRefused(t *testing.T) {
	host := dual()
	host.Addresses, host.Routers = append(host.Addresses, addrs("172.31.0.17")...), addrs("172.31.0.99")
	pod := Pod{Namespace: "shop", Name: "cache", UID: "cache-uid", Addresses: addrs("10.244.1.5", "fd00:1::5"),
		Ports: []PodPort{{HostPort: 8080, Port: 80, Protocol: tcp}, {HostPort: 8053, Port: 53, Protocol: udp}}}
	p := makePlan(state{host: host, nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{},
		pods: []Pod{pod}, services: []*service{
			trimmed(t, nodePortOf("web", 1, "46", corev1.ServicePort{Port: 80, NodePort: 30080})),
			trimmed(t, externalOf("mail", 2, "172.31.0.1", 25)),
		}})
	clients := map[string]bool{ // by whether they are served
		"172.31.0.1": true, "172.31.0.17": true, "127.0.0.1": true, "10.244.1.2": true, "172.31.0.2": true,
		"198.51.100.1": true, "172.31.0.99": true,
		"10.244.1.9": false, "10.244.2.9": false, "10.244.2.2": false,
		"2001:db8::1": true, "::1": true, "fd00:1::2": true, "2001:db8::2": true,
		"fd00:1::9": false, "fd00:2::9": false, "fe80::858:aff:fef4:109": false,
	}
	if len(p.sockets) != 5+10+1 {
		t.Fatalf("there are other sockets:\n%s", p.text())
	}
	for at, to := range p.sockets {
		for text, served := range clients {
			client := netip.MustParseAddr(text)
			if at.at.Addr().IsLoopback() || client.Is4() != at.at.Addr().Is4() {
				continue
			}
			if reason := to.refuses(client, at.at.Addr()); (reason == "") != served {
				t.Errorf("%v: %v is refused: %q", at, client, reason)
			}
		}
		// The datagrams of the host's own pods come by its router, too.
		for _, router := range addrs("169.254.169.3", "172.31.0.99") {
			if len(to.waysOf(router)) > 0 && (at.protocol == udp || !to.direct) {
				t.Errorf("%v passes on what comes from %v", at, router)
			}
		}
	}
}
