package claims

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// others are what an arbiter sees: Services by key, nodes by name, and Services by the addresses of AddressPools that
// they have. No pod wants a port.
type others struct {
	services map[string]*objects.Service
	nodes    map[string]*topology.Node
	pools    map[netip.Addr]string
}

func (o *others) At(name string) *topology.Node { return o.nodes[name] }

func (o *others) Service(key string) *objects.Service { return o.services[key] }

func (o *others) NodePortsAt(addr netip.Addr) (node string, ok bool) {
	for name, n := range o.nodes {
		if slices.Contains(n.Facts.Addresses, addr) {
			return name, true
		}
	}
	return "", false
}

func (*others) WantsHostPort(objects.Protocol, uint16) bool { return false }

func (o *others) Holder(addr netip.Addr) (service string, ok bool) {
	service, ok = o.pools[addr]
	return service, ok
}

// TestArbiter plays Services that want addresses and ports outside. It says after each step for whom it makes a
// difference, and of a Service the ports of the claims that have changed. Then who gets what: a Service's name, and
// what of its claims it has or - where that is nothing.
func TestArbiter(t *testing.T) {
	const vip, host = "198.51.100.1", "192.0.2.1"
	all := &others{map[string]*objects.Service{}, map[string]*topology.Node{}, map[netip.Addr]string{}}
	a := New(&settings.Settings{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		NodePorts: settings.PortRange{First: 30000, Last: 32767}, HostExternals: []netip.Prefix{netip.MustParsePrefix(
			host + "/32")}}, all, all, all, all)
	n := &topology.Node{Name: "n1", Object: &objects.Node{}, Facts: contract.NodeFacts{Addresses: []netip.Addr{
		netip.MustParseAddr(host)}}}
	all.nodes["n1"] = n
	a.UpdateHosts(n)
	// wants is a Service that was made at some second, with a port, a NodePort unless that is 0, and external addresses.
	wants := func(made int64, port, nodePort uint16, addresses ...string) *objects.Service {
		s := &objects.Service{ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			Ports: []objects.ServicePort{{Protocol: "tcp", Port: port}}}
		s.CreationTimestamp = metav1.NewTime(time.Unix(made, 0))
		if nodePort != 0 {
			s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: nodePort}}
		}
		for _, text := range addresses {
			s.ExternalIPs = append(s.ExternalIPs, netip.MustParseAddr(text))
		}
		return s
	}
	given := wants(3, 80, 0)
	given.Ingress = []netip.Addr{netip.MustParseAddr(vip)}
	put := func(name string, s *objects.Service) func() []string {
		return func() []string {
			if all.services[name] = s; s == nil {
				delete(all.services, name)
			} else {
				s.Namespace, s.Name = "default", name
			}
			touched, changed := a.Update(name, s)
			list := slices.Sorted(maps.Keys(touched))
			for _, one := range changed {
				list = append(list, fmt.Sprintf(":%d", one.Port))
			}
			return list
		}
	}
	for _, step := range []struct {
		name          string
		play          func() []string
		touched, have string
	}{
		{"one alone", put("b", wants(2, 80, 0, vip)), "b :80", "b 198.51.100.1:80/tcp"},
		{"a younger one", put("c", wants(3, 80, 0, vip)), ":80", "b 198.51.100.1:80/tcp; c -"},
		{"an older one", put("a", wants(1, 80, 0, vip)), "a b c :80", "a 198.51.100.1:80/tcp; b -; c -"},
		{"it wants another port", put("a", wants(1, 81, 0, vip)), "a b c :80 :81",
			"a 198.51.100.1:81/tcp; b 198.51.100.1:80/tcp; c -"},
		{"the youngest has it by its load balancer", put("c", given), "b c :80 :80",
			"a 198.51.100.1:81/tcp; b -; c 198.51.100.1:80/tcp"},
		{"a pool gives it to one, with all ports", func() []string {
			all.pools[netip.MustParseAddr(vip)] = "a"
			return slices.Sorted(a.WantingAt(netip.MustParseAddr(vip)))
		}, "a b c", "a 198.51.100.1:81/tcp; b -; c -"},
		{"the pool is gone", func() []string {
			clear(all.pools)
			return slices.Sorted(a.WantingAt(netip.MustParseAddr(vip)))
		}, "a b c", "a 198.51.100.1:81/tcp; b -; c 198.51.100.1:80/tcp"},
		{"the API server comes to have it", func() []string {
			a.UpdateAPIServers(map[netip.AddrPort]bool{netip.MustParseAddrPort(vip + ":81"): true})
			return nil
		}, "", "a -; b -; c 198.51.100.1:80/tcp"},
		{"nor has the API server it any more", func() []string {
			a.UpdateAPIServers(map[netip.AddrPort]bool{})
			return nil
		}, "", "a 198.51.100.1:81/tcp; b -; c 198.51.100.1:80/tcp"},
		{"the one with the load balancer goes", put("c", nil), "b c :80", "a 198.51.100.1:81/tcp; b 198.51.100.1:80/tcp"},
		{"an older one wants a NodePort", put("a", wants(1, 80, 30080)), "a :30080 :81",
			"a node port 30080/tcp; b 198.51.100.1:80/tcp"},
		{"and a younger one that port of a node", put("b", wants(2, 30080, 0, host)), "b :30080 :80",
			"a node port 30080/tcp; b -"},
		{"the older one goes", put("a", nil), ":30080", "b 192.0.2.1:30080/tcp"},
		{"a daemon listens there", func() []string {
			n.Facts.Listeners = contract.Listeners{{Protocol: "tcp", Port: 30080}}
			touched, heard := a.UpdateHosts(n)
			return []string{fmt.Sprint(touched, heard)}
		}, "[192.0.2.1 192.0.2.1] false", "b -"},
		{"all are gone", put("b", nil), ":30080", ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			if touched := strings.Join(step.play(), " "); touched != step.touched {
				t.Errorf("touched are %q, want %q", touched, step.touched)
			}
			var have []string
			for _, name := range slices.Sorted(maps.Keys(all.services)) {
				s, _ := a.Arbitrate(name, all.services[name])
				a.Told(name, s.Rejected)
				line := name
				for _, one := range a.Claims(name) {
					if !s.Rejected.Rejects(one) {
						line += " " + one.String()
					}
				}
				if line == name {
					line += " -"
				}
				have = append(have, line)
			}
			if text := strings.Join(have, "; "); text != step.have {
				t.Errorf("who has what is %q, want %q", text, step.have)
			}
		})
	}
	if b := a.book; len(b.by)+len(b.of)+len(b.as)+len(b.at)+len(b.told)+len(b.telling) > 0 {
		t.Errorf("what remains is %+v", b)
	}
}
