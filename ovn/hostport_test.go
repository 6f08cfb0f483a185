package ovn

import (
	"net/netip"
	"slices"
	"testing"
)

// TestServicesGoBeforeHostPorts: a port of a node's address that a Service has is no pod's, for as long as
// the Service has it.
func TestServicesGoBeforeHostPorts(t *testing.T) {
	s := entranceScene(t)
	p := s.pod("default", "web", "own")
	p.hostPorts = []hostPort{{protocol: "tcp", port: 8443, into: 443}}
	other := s.pod("default", "other", "own")
	other.hostPorts = []hostPort{{protocol: "udp", port: 8443, into: 443}}
	s.do(p, other)
	const (
		all    = `hostport/tcp [gw-own own] keep drop 192.0.2.1:8443=10.244.1.3:443 203.0.113.1:8443=10.244.1.3:443`
		second = `hostport/tcp [gw-own own] keep drop 203.0.113.1:8443=10.244.1.3:443`
	)
	sameLines(t, s.entries(s.c.podChange("default/web")), all)
	change := func(edit func(*service)) (pods []string) {
		t.Helper()
		now := s.service("shop", "10.96.0.10")
		edit(now)
		s.c.update(s.put(now), s.get)
		for _, change := range s.c.changes() {
			if slices.Contains([]string{string(podOwner("default/web")), string(podOwner("default/other"))}, string(change.Owner)) {
				pods = append(pods, string(change.Owner))
			}
		}
		s.absorb(s.c)
		return pods
	}
	own := netip.MustParseAddr("192.0.2.1")
	for _, step := range []struct {
		name string
		edit func(*service)
		want string
		pods int
	}{
		{"a Service inside", func(*service) {}, all, 0},
		{"another number", func(o *service) { o.nodePorts = []nodePort{{o.ports[0], 30080}} }, all, 0},
		{"a NodePort", func(o *service) { o.nodePorts = []nodePort{{o.ports[0], 8443}} }, ``, 1},
		{"of IPv6", func(o *service) {
			o.nodePorts, o.clusterIPs = []nodePort{{o.ports[0], 8443}}, []netip.Addr{netip.MustParseAddr("fd00:10:96::10")}
		}, all, 1},
		{"a health check, of IPv6", func(o *service) {
			o.healthPort, o.clusterIPs = 8443, []netip.Addr{netip.MustParseAddr("fd00:10:96::10")}
		}, ``, 1},
		{"an external address that is the node's", func(o *service) {
			o.externalIPs, o.ports[0].port = []netip.Addr{own}, 8443
		}, second, 1},
		{"nothing again", func(*service) {}, all, 1},
	} {
		if pods := change(step.edit); len(pods) != step.pods || step.pods == 1 && pods[0] != string(podOwner("default/web")) {
			t.Errorf("%s: pods %v were looked at", step.name, pods)
		}
		t.Run(step.name, func(t *testing.T) { sameLines(t, s.entries(s.c.podChange("default/web")), step.want) })
	}
	s.do(s.pod("default", "web", "own")) // without host ports
	if len(s.c.hostPorted) != 1 {
		t.Errorf("host ports of %v are kept", s.c.hostPorted)
	}
}
