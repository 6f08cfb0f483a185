package hostservice

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/node/hostservice/proxy"
)

// Each socket of the host's tells pods from the host itself, whichever of its addresses that has, and passes nothing on
// that comes back from the cluster's routers.
func TestSocketsKnowTheirClients(t *testing.T) {
	host := dual()
	host.Addresses, host.Routers = append(host.Addresses, addrs("172.31.0.17")...), addrs("172.31.0.99")
	host.Network.SharedGateways = addrs("172.31.0.98")
	pod := Pod{Namespace: "shop", Name: "cache", UID: "cache-uid", Addresses: addrs("10.244.1.5", "fd00:1::5"),
		Ports: []PodPort{{HostPort: 8080, Port: 80, Protocol: tcp}, {HostPort: 8053, Port: 53, Protocol: udp}}}
	p := makePlan(state{host: host, nodes: map[netip.Addr]struct{}{}, apiServers: map[netip.AddrPort]bool{},
		pods: []Pod{pod}, services: []*service{
			trimmed(t, nodePortOf("web", 1, "46", corev1.ServicePort{Port: 80, NodePort: 30080})),
			trimmed(t, externalOf("mail", 2, "172.31.0.1", 25)),
		}})
	clients := &proxy.Clients{
		Host: addrs("172.31.0.1", "2001:db8::1", "172.31.0.17", "10.244.1.2", "fd00:1::2"),
		Pods: prefixes("10.244.0.0/16", "fd00::/16", "fe80::/10"),
	}
	if len(p.sockets) != 5+10+1 {
		t.Fatalf("there are other sockets:\n%s", p.text())
	}
	for at, to := range p.sockets {
		if !reflect.DeepEqual(to.Clients, clients) {
			t.Errorf("%v has the clients %+v, want %+v", at, to.Clients, clients)
		}
		want := addrs("169.254.169.3", "fd69::3", "172.31.0.99", "172.31.0.98")
		switch {
		case to.Direct && at.Protocol == udp: // the datagrams of the host's own pods come by its router, too
			want = want[:3]
		case to.Direct:
			want = nil
		}
		if !slices.Equal(to.Returns, want) {
			t.Errorf("%v passes nothing on from %v, want %v", at, to.Returns, want)
		}
	}
}
