package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// nodePortScene has a node with a gateway of its own (own), one whose gateway has the host's address
// 203.0.113.2 (host), a Windows node like the first (win), and one without a gateway (bare).
func nodePortScene(t *testing.T) *scene { return nodePortSceneOf(t, nil) }

func nodePortSceneOf(t *testing.T, edit func(*settings.Config)) *scene {
	s := newScene(t, edit)
	own, host, win := s.node("own", "10.244.1.0/24"), s.node("host", "10.244.2.0/24"), s.node("win", "10.244.3.0/24")
	own.Facts = ovntest.Facts(1, false)
	host.Facts = ovntest.EditFacts(2, false, func(f *contract.NodeFacts) {
		f.Gateway.HostAddresses, f.Addresses = true, contract.Addrs(f.Gateway.Addresses)
	})
	win.Facts = ovntest.EditFacts(3, false, func(f *contract.NodeFacts) { f.OS = contract.Windows })
	s.do(own, host, win, s.node("bare", "10.244.4.0/24"))
	s.problems = nil
	return s
}

// entries are a change's load balancers as "key [where] options vip=endpoints".
func (s *scene) entries(change ovsdb.Change) []string {
	places := map[string]string{northbound.ClusterGroupID: "all", northbound.LinuxGroupID: "linux",
		northbound.GatewaysGroupID: "gateways", northbound.LinuxGatewaysGroupID: "linux-gateways"}
	for _, name := range s.c.nodes.Names() {
		places[northbound.SwitchID(name)], places[northbound.GatewayID(name)] = name, "gw-"+name
	}
	var list []string
	for _, r := range change.Rows {
		row, ok := r.Model.(*nb.LoadBalancer)
		if !ok {
			continue
		}
		var where []string
		for _, m := range change.Memberships {
			if slices.Contains(m.Values, ovsdb.ID(nb.LoadBalancerTable, change.Owner, r.Key)) {
				where = append(where, places[m.UUID])
			}
		}
		slices.Sort(where)
		words := []string{r.Key, "[" + strings.Join(where, " ") + "]"}
		for option, word := range map[string]string{"template": row.Options["address-family"], "skip_snat": "keep",
			"ct_flush": "flush"} {
			if row.Options[option] == "true" {
				words = append(words, word)
			}
		}
		slices.Sort(words[2:])
		if row.Options["reject"] != "true" {
			words = append(words, "drop")
		}
		for _, v := range slices.Sorted(maps.Keys(row.Vips)) {
			words = append(words, v+"="+row.Vips[v])
		}
		list = append(list, strings.Join(words, " "))
	}
	slices.Sort(list)
	return list
}

func sameLines(t *testing.T, got []string, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		lines = append(lines, strings.TrimSpace(line))
	}
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
}

// TestServicesFromOutside states what NodePorts and external addresses become.
func TestServicesFromOutside(t *testing.T) {
	nodePort := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	}
	external := func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.51.100.1"} }
	keep := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	of := func(kind corev1.Protocol) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.Ports[0].Protocol = kind }
	}
	clientIP := func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }
	twoPorts := func(s *corev1.Service) { // of the second the slices know nothing
		other := corev1.ServicePort{Name: "https", Port: 443}
		if s.Spec.Type == corev1.ServiceTypeNodePort {
			other.NodePort = 30443
		}
		s.Spec.Ports = append(s.Spec.Ports, other)
	}
	type given []runtime.Object
	sliceOf := func(kind corev1.Protocol, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return edit(webSlice("a", endpoints...), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = &kind })
	}
	for _, c := range []struct {
		name   string
		given  given
		want   string
		config func(*settings.Config)
	}{
		{name: "NodePort", given: given{web(nodePort), webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080
			tcp/nodeport4 [all gateways] ipv4 ^HOSTIP4:30080=10.244.1.3:8080 ^NODEIP4_0:30080=10.244.1.3:8080 ^NODEIP4_1:30080=10.244.1.3:8080`},

		{name: "LoadBalancer without NodePorts", given: given{web(balanced("198.51.100.1", corev1.LoadBalancerIPModeVIP)),
			webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080
			tcp/external [all gateways] 198.51.100.1:80=10.244.1.3:8080`},

		{name: "LoadBalancer that is a proxy", given: given{web(balanced("198.51.100.1", corev1.LoadBalancerIPModeProxy)),
			webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080`},

		{name: "an address of a type that it no longer has",
			given: given{web(balanced("198.51.100.1", corev1.LoadBalancerIPModeVIP), func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeClusterIP
			}), webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080`},

		{name: "an external address that is also the load balancer's",
			given: given{web(balanced("198.51.100.1", corev1.LoadBalancerIPModeVIP), external),
				webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080
			tcp/external [all gateways] 198.51.100.1:80=10.244.1.3:8080`},

		{name: "an external address of another family",
			given: given{web(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"2001:db8:5::1"} }),
				webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080`},

		{name: "no endpoint is refused, from the address that was asked", given: given{web(nodePort, external)},
			want: `tcp [all] 10.96.0.10:80=
			tcp/external [all gateways] keep 198.51.100.1:80=
			tcp/nodeport4 [all gateways] ipv4 keep ^HOSTIP4:30080= ^NODEIP4_0:30080= ^NODEIP4_1:30080=`},

		{name: "with the client's address", given: given{web(external, keep), webSlice("a", at("10.244.1.3", "own"),
			at("10.244.1.4", "own"), at("10.244.4.3", "bare"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080,10.244.1.4:8080,10.244.4.3:8080
			tcp/external [all] 198.51.100.1:80=10.244.1.3:8080,10.244.1.4:8080,10.244.4.3:8080
			tcp/external@gw=* [gw-host gw-win] keep drop 198.51.100.1:80=
			tcp/external@gw=own [gw-own] keep drop 198.51.100.1:80=10.244.1.3:8080,10.244.1.4:8080`},

		{name: "with the client's address, terminating", given: given{web(nodePort, keep),
			webSlice("a", terminating(at("10.244.1.3", "own"), true), at("10.244.2.3", "host"))},
			want: `tcp [all] 10.96.0.10:80=10.244.2.3:8080
			tcp/nodeport4 [all] ipv4 ^HOSTIP4:30080=10.244.2.3:8080 ^NODEIP4_0:30080=10.244.2.3:8080 ^NODEIP4_1:30080=10.244.2.3:8080
			tcp/nodeport4@gw=* [gw-win] ipv4 keep drop ^HOSTIP4:30080= ^NODEIP4_0:30080= ^NODEIP4_1:30080=
			tcp/nodeport4@gw=host [gw-host] ipv4 keep drop ^HOSTIP4:30080=10.244.2.3:8080 ^NODEIP4_0:30080=10.244.2.3:8080 ^NODEIP4_1:30080=10.244.2.3:8080
			tcp/nodeport4@gw=own [gw-own] ipv4 keep drop ^HOSTIP4:30080=10.244.1.3:8080 ^NODEIP4_0:30080=10.244.1.3:8080 ^NODEIP4_1:30080=10.244.1.3:8080`},

		{name: "a port that nobody serves, beside one that is served", given: given{web(nodePort, external, twoPorts),
			webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:443= 10.96.0.10:80=10.244.1.3:8080
			tcp/external [all gateways] 198.51.100.1:80=10.244.1.3:8080
			tcp/external/refused [all gateways] keep 198.51.100.1:443=
			tcp/nodeport4 [all gateways] ipv4 ^HOSTIP4:30080=10.244.1.3:8080 ^NODEIP4_0:30080=10.244.1.3:8080 ^NODEIP4_1:30080=10.244.1.3:8080
			tcp/nodeport4/refused [all gateways] ipv4 keep ^HOSTIP4:30443= ^NODEIP4_0:30443= ^NODEIP4_1:30443=`},

		{name: "a port that nobody serves, with the client's address", given: given{web(external, keep, twoPorts),
			webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:443= 10.96.0.10:80=10.244.1.3:8080
			tcp/external [all] 198.51.100.1:80=10.244.1.3:8080
			tcp/external/refused [all gw-host gw-own gw-win] keep 198.51.100.1:443=
			tcp/external@gw=* [gw-host gw-win] keep drop 198.51.100.1:80=
			tcp/external@gw=own [gw-own] keep drop 198.51.100.1:80=10.244.1.3:8080`},

		{name: "a family that nobody serves", given: given{web(external, keep, func(s *corev1.Service) {
			s.Spec.ClusterIPs, s.Spec.ExternalIPs = append(s.Spec.ClusterIPs, "fd00:10:96::a"),
				append(s.Spec.ExternalIPs, "2001:db8:5::1")
		}), webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080 [fd00:10:96::a]:80=
			tcp/external [all] 198.51.100.1:80=10.244.1.3:8080
			tcp/external/refused [all gw-host gw-own gw-win] keep [2001:db8:5::1]:80=
			tcp/external@gw=* [gw-host gw-win] keep drop 198.51.100.1:80=
			tcp/external@gw=own [gw-own] keep drop 198.51.100.1:80=10.244.1.3:8080`, config: ovntest.Dual},

		{name: "a sticky NodePort is on its own node alone", given: given{web(nodePort, clientIP),
			webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080
			tcp/nodeport4@bare [bare] 169.254.169.4:30080=10.244.1.3:8080
			tcp/nodeport4@host [gw-host host] 169.254.169.4:30080=10.244.1.3:8080 203.0.113.2:30080=10.244.1.3:8080
			tcp/nodeport4@own [gw-own own] 169.254.169.4:30080=10.244.1.3:8080 192.0.2.1:30080=10.244.1.3:8080 203.0.113.1:30080=10.244.1.3:8080
			tcp/nodeport4@win [gw-win win] 169.254.169.4:30080=10.244.1.3:8080 192.0.2.3:30080=10.244.1.3:8080 203.0.113.3:30080=10.244.1.3:8080
			tcp/self [all gateways] drop 10.244.1.3:8080=10.244.1.3:8080`},

		{name: "a sticky NodePort with the client's address", given: given{web(nodePort, clientIP, keep),
			webSlice("a", at("10.244.1.3", "own"))},
			want: `tcp [all] 10.96.0.10:80=10.244.1.3:8080
			tcp/nodeport4@bare [bare] 169.254.169.4:30080=10.244.1.3:8080
			tcp/nodeport4@gw=host [gw-host] keep drop 169.254.169.4:30080= 203.0.113.2:30080=
			tcp/nodeport4@gw=own [gw-own] keep drop 169.254.169.4:30080=10.244.1.3:8080 192.0.2.1:30080=10.244.1.3:8080 203.0.113.1:30080=10.244.1.3:8080
			tcp/nodeport4@gw=win [gw-win] keep drop 169.254.169.4:30080= 192.0.2.3:30080= 203.0.113.3:30080=
			tcp/nodeport4@host [host] 169.254.169.4:30080=10.244.1.3:8080 203.0.113.2:30080=10.244.1.3:8080
			tcp/nodeport4@own [own] 169.254.169.4:30080=10.244.1.3:8080 192.0.2.1:30080=10.244.1.3:8080 203.0.113.1:30080=10.244.1.3:8080
			tcp/nodeport4@win [win] 169.254.169.4:30080=10.244.1.3:8080 192.0.2.3:30080=10.244.1.3:8080 203.0.113.3:30080=10.244.1.3:8080
			tcp/self [all gateways] keep drop 10.244.1.3:8080=10.244.1.3:8080`},

		{name: "with the client's address, nobody serves", given: given{web(external, keep),
			webSlice("a", unready(at("10.244.1.3", "own")))},
			want: `tcp [all] 10.96.0.10:80=
			tcp/external [all] keep 198.51.100.1:80=
			tcp/external@gw=* [gw-host gw-own gw-win] keep 198.51.100.1:80=`},

		{name: "both policies", given: given{web(external, keep, local), webSlice("a", at("10.244.1.3", "own"),
			at("10.244.4.3", "bare"))},
			want: `tcp@* [host win] 10.96.0.10:80=
			tcp@bare [bare] 10.96.0.10:80=10.244.4.3:8080
			tcp@own [own] 10.96.0.10:80=10.244.1.3:8080
			tcp/external [all] 198.51.100.1:80=10.244.1.3:8080,10.244.4.3:8080
			tcp/external@gw=* [gw-host gw-win] keep drop 198.51.100.1:80=
			tcp/external@gw=own [gw-own] keep drop 198.51.100.1:80=10.244.1.3:8080`},

		{name: "an endpoint on a host whose gateway has its address",
			given: given{web(external), webSlice("a", at("203.0.113.2", "host"), at("203.0.113.77", "own"))},
			want: `tcp [all] 10.96.0.10:80=203.0.113.2:8080,203.0.113.77:8080
			tcp/external [all gw-own gw-win] 198.51.100.1:80=203.0.113.2:8080,203.0.113.77:8080
			tcp/external@gw=host [gw-host] 198.51.100.1:80=169.254.169.2:8080,203.0.113.77:8080`},

		{name: "UDP", given: given{web(external, of(corev1.ProtocolUDP)),
			sliceOf(corev1.ProtocolUDP, at("10.244.1.3", "own"))},
			want: `udp [all] flush 10.96.0.10:80=10.244.1.3:8080
			udp/external [all gateways] flush 198.51.100.1:80=10.244.1.3:8080`},

		{name: "SCTP has no Windows node", given: given{web(nodePort, of(corev1.ProtocolSCTP)),
			sliceOf(corev1.ProtocolSCTP, at("10.244.1.3", "own"), at("10.244.3.3", "win"))},
			want: `sctp [linux] 10.96.0.10:80=10.244.1.3:8080
			sctp/nodeport4 [linux linux-gateways] ipv4 ^HOSTIP4:30080=10.244.1.3:8080 ^NODEIP4_0:30080=10.244.1.3:8080 ^NODEIP4_1:30080=10.244.1.3:8080`},

		{name: "SCTP with the client's address", given: given{web(external, keep, of(corev1.ProtocolSCTP)),
			sliceOf(corev1.ProtocolSCTP, at("10.244.1.3", "own"), at("10.244.3.3", "win"))},
			want: `sctp [linux] 10.96.0.10:80=10.244.1.3:8080
			sctp/external [linux] 198.51.100.1:80=10.244.1.3:8080
			sctp/external@gw=* [gw-host] keep drop 198.51.100.1:80=
			sctp/external@gw=own [gw-own] keep drop 198.51.100.1:80=10.244.1.3:8080`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := nodePortSceneOf(t, c.config)
			for _, o := range c.given {
				s.do(trim(o))
			}
			sameLines(t, s.entries(s.c.changeOf(northbound.ServiceOwner("default/web"))), c.want)
		})
	}
}

// TestServicesFollowGateways: whatever sort of rows a Service has, a gateway or a node that comes or goes after it
// leaves those that a new controller would write.
func TestServicesFollowGateways(t *testing.T) {
	hinted := func(zones, nodes objects.Hints) func(*objects.EndpointSlice) {
		return func(sl *objects.EndpointSlice) {
			for i := range sl.Endpoints {
				sl.Endpoints[i].Zones, sl.Endpoints[i].Nodes = zones, nodes
			}
		}
	}
	for name, c := range map[string]struct {
		service func(*objects.Service)
		slice   func(*objects.EndpointSlice)
	}{
		"plain":              {},
		"hints of nodes":     {slice: hinted("", "own,bare,")},
		"hints of zones":     {slice: hinted("z1,", "")},
		"hints of both":      {slice: hinted("z1,", "own,")},
		"local within":       {service: func(s *objects.Service) { s.InternalLocal = true }},
		"local from outside": {service: func(s *objects.Service) { s.ExternalLocal = true }},
		"sticky":             {service: func(s *objects.Service) { s.ClientIP, s.StickySeconds = true, 60 }},
		"sticky, hints of nodes": {func(s *objects.Service) { s.ClientIP, s.StickySeconds = true, 60 },
			hinted("", "own,bare,")},
		"on hosts": {slice: func(sl *objects.EndpointSlice) {
			sl.Endpoints = append(sl.Endpoints, ready("203.0.113.4", "bare"))
		}},
		"UDP, hints of nodes": {func(s *objects.Service) { s.Ports[0].Protocol, s.NodePorts[0].Protocol = "udp", "udp" },
			func(sl *objects.EndpointSlice) {
				hinted("", "own,bare,")(sl)
				sl.Ports[0].Protocol = "udp"
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := nodePortScene(t)
			web := s.service("web", "10.96.0.10")
			web.NodePorts, web.ExternalIPs = []objects.NodePort{{ServicePort: web.Ports[0], Number: 30080}},
				[]netip.Addr{netip.MustParseAddr("198.51.100.1")}
			sl := s.slice("web-a", "web", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
				ready("10.244.1.3", "own"), ready("10.244.4.3", "bare"))
			if c.service != nil {
				c.service(web)
			}
			if c.slice != nil {
				c.slice(sl)
			}
			s.do(web, sl)
			written := s.c.changeOf(northbound.ServiceOwner("default/web"))
			follow := func(what string, keys []part.Event) {
				s.c.update(keys, s.Get)
				for _, change := range s.c.takeChanges() {
					if change.Owner == written.Owner {
						written = change
					}
				}
				s.absorb(s.c)
				fresh := newCluster(s.c.settings)
				fresh.begin(records.Records{}, s.Keys(), s.Get)
				want := (&scene{t: t, world: s.world, c: fresh}).entries(fresh.changeOf(northbound.ServiceOwner("default/web")))
				if got := s.entries(written); !slices.Equal(got, want) {
					t.Errorf("%s: got\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
				}
			}
			for i, step := range []struct {
				what  string
				facts string
			}{
				{"a gateway comes", ovntest.Facts(4, false)},
				{"it goes", ""},
				{"a node is one of Windows", ovntest.EditFacts(4, false, func(f *contract.NodeFacts) {
					f.OS, f.Gateway = contract.Windows, nil
				})},
				{"and has a gateway", ovntest.EditFacts(4, false, func(f *contract.NodeFacts) { f.OS = contract.Windows })},
			} {
				n := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "bare"}].(*objects.Node)
				n.Facts, n.Zone = step.facts, "z1"
				follow(fmt.Sprint(i+1, ". ", step.what), s.put(&n))
			}
			delete(s.objects, objects.Key{Kind: objects.NodeKind, Name: "bare"})
			follow("the node goes", []part.Event{objects.Key{Kind: objects.NodeKind, Name: "bare"}})
			follow("another one comes", s.put(s.node("late", "10.244.5.0/24")))
		})
	}
}

// TestHostPorts states what pods' ports on their nodes become, and what is said of those that cannot be.
func TestHostPorts(t *testing.T) {
	all := objects.HostPort{Protocol: "tcp", Port: 8443, Into: 443}
	of := func(p objects.HostPort, change func(*objects.HostPort)) objects.HostPort { change(&p); return p }
	for _, c := range []struct {
		name, node string
		ports      []objects.HostPort
		want, told string
	}{
		{"all addresses", "own", []objects.HostPort{all},
			`hostport/tcp [gw-own own] keep drop 192.0.2.1:8443=10.244.1.3:443 203.0.113.1:8443=10.244.1.3:443`, ""},
		{"one address", "own", []objects.HostPort{of(all, func(p *objects.HostPort) {
			p.IP = netip.MustParseAddr("192.0.2.1")
		})},
			`hostport/tcp [gw-own own] keep drop 192.0.2.1:8443=10.244.1.3:443`, ""},
		{"another's address", "own",
			[]objects.HostPort{of(all, func(p *objects.HostPort) { p.IP = netip.MustParseAddr("192.0.2.9") })},
			``, "hostPort 8443: hostIP 192.0.2.9 is no address of Node own"},
		{"of a family that the pod lacks", "own",
			[]objects.HostPort{of(all, func(p *objects.HostPort) { p.IP = netip.MustParseAddr("2001:db8::1") })},
			``, "hostPort 8443: hostIP 2001:db8::1 is no address of Node own"},
		{"UDP", "own", []objects.HostPort{of(all, func(p *objects.HostPort) { p.Protocol = "udp" })},
			`hostport/udp [gw-own own] flush keep drop 192.0.2.1:8443=10.244.1.3:443 203.0.113.1:8443=10.244.1.3:443`, ""},
		{"UDP on Windows", "win", []objects.HostPort{of(all, func(p *objects.HostPort) { p.Protocol = "udp" })},
			`hostport/udp [gw-win win] keep drop 192.0.2.3:8443=10.244.3.3:443 203.0.113.3:8443=10.244.3.3:443`, ""},
		{"SCTP on Windows", "win", []objects.HostPort{of(all, func(p *objects.HostPort) { p.Protocol = "sctp" })}, ``,
			"hostPort 8443: SCTP is not served on Windows nodes"},
		{"on a host whose gateway has its address", "host", []objects.HostPort{all},
			`hostport/tcp [gw-host host] keep drop 203.0.113.2:8443=10.244.2.3:443`, ""},
		{"on a node that has said nothing", "bare", []objects.HostPort{all}, ``, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := nodePortScene(t)
			p := s.pod("default", "web", c.node)
			p.HostPorts = c.ports
			s.do(p)
			sameLines(t, s.entries(s.c.changeOf(northbound.PodOwner("default/web"))), c.want)
			told := fmt.Sprint(s.problems)
			if c.told == "" && len(s.problems) > 0 || !strings.Contains(told, c.told) {
				t.Errorf("told %s, want %q", told, c.told)
			}
		})
	}
}

// TestNodePortAddressesFollowNodes: what a node's facts change of Services and pods is looked at again, and nothing
// else.
func TestNodePortAddressesFollowNodes(t *testing.T) {
	s := nodePortScene(t)
	onNodes, host, plain := s.service("nodeport", "10.96.0.10"), s.service("host", "10.96.0.11"),
		s.service("plain", "10.96.0.12")
	onNodes.NodePorts = []objects.NodePort{{ServicePort: onNodes.Ports[0], Number: 30080}}
	host.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	p := s.pod("default", "web", "own")
	p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 8443, Into: 443}}
	s.do(onNodes, host, plain, p, s.pod("default", "other", "own"),
		s.slice("host-a", "host", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
			ready("203.0.113.1", "own")),
		s.slice("plain-a", "plain", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
			ready("10.244.1.3", "own")))
	change := func(edit func(*contract.NodeFacts)) (owners []string) {
		n := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "own"}].(*objects.Node)
		f := ovntest.ReadFacts(n.Facts)
		edit(&f)
		n.Facts = contract.Format(f)
		s.c.update(s.put(&n), s.Get)
		for _, change := range s.c.takeChanges() {
			owners = append(owners, string(change.Owner))
		}
		s.absorb(s.c)
		return owners
	}
	for _, step := range []struct {
		name string
		edit func(*contract.NodeFacts)
		want string
	}{
		{"another address than before", func(f *contract.NodeFacts) { f.Addresses[0] = netip.MustParseAddr("192.0.2.100") },
			"Node/own Pod/default/web"},
		{"one address more than any node", func(f *contract.NodeFacts) {
			f.Addresses = append(f.Addresses, netip.MustParseAddr("192.0.2.101"))
		}, "Node/own Pod/default/web Service/default/nodeport"},
		{"the gateway gets the host's address", func(f *contract.NodeFacts) { f.Gateway.HostAddresses = true },
			"Node/own Pod/default/web Service/default/host"},
		{"the gateway goes", func(f *contract.NodeFacts) { f.Gateway = nil },
			"Node/own Pod/default/web Service/default/host Service/default/nodeport"},
	} {
		if got := strings.Join(change(step.edit), " "); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// TestGatewayModes shows the rows of gateways of every kind, as an operator sees them.
func TestGatewayModes(t *testing.T) {
	w := newWorld()
	node := func(number int, name string, change func(*contract.NodeFacts)) {
		n := w.node(name, fmt.Sprintf("10.244.%d.0/24", number), fmt.Sprintf("fd00:10:244:%d::/64", number))
		n.Facts = ovntest.EditFacts(number, true, change)
		w.put(n)
	}
	node(1, "host", func(f *contract.NodeFacts) {
		f.Gateway.HostAddresses = true
		f.Gateway.Addresses = append(f.Gateway.Addresses, netip.MustParsePrefix("203.0.113.101/24"))
		f.Addresses = contract.Addrs(f.Gateway.Addresses)
	})
	node(2, "routed", func(f *contract.NodeFacts) { f.Gateway.HostAddresses, f.Gateway.Routed = true, true })
	node(3, "routed-own", func(f *contract.NodeFacts) { f.Gateway.Routed = true })
	node(4, "two-hops", func(f *contract.NodeFacts) {
		f.Gateway.NextHops = append(f.Gateway.NextHops, netip.MustParseAddr("203.0.113.253"))
	})
	node(5, "on-link", func(f *contract.NodeFacts) {
		f.OS, f.Gateway.HostAddresses, f.Gateway.NextHops = contract.Windows, true, nil
	})
	p := w.pod("default", "web", "host")
	p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 8443, Into: 443}}
	s := w.service("web", "10.96.0.10", "fd00:10:96::a")
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30080}}
	http := []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}}
	w.put(p, s, w.slice("web-4", "web", http, ready("203.0.113.1", "host")),
		w.slice("web-6", "web", http, ready("fd00:10:244:1::3", "host")))
	d := ovsdbtest.Northbound(t)
	server := ovsdbtest.Server(t, d)
	settings := ovntest.Settings(t, ovntest.Dual)
	start := func() (*cluster, *ovsdb.Engine) {
		e := ovsdb.NewEngine(ovsdbtest.Connect(t, d, server.Endpoint, northbound.Tables...))
		c := newCluster(settings)
		c.begin(engine{Engine: e}.Records(settings), w.Keys(), w.Get)
		if err := e.Replace(t.Context(), c.takeEverything()); err != nil {
			t.Fatal(err)
		}
		return c, e
	}
	c, e := start()
	golden(t, "gateways.txt", ovsdb.Dump(e.Client()))
	ways := map[string]string{}
	for _, router := range ovsdb.List(e.Client(), func(*nb.LogicalRouter) bool { return true }) {
		ways[router.Name] = router.ExternalIDs["weft.net/pods-leave"]
	}
	if want := map[string]string{"cluster": "",
		"gw-host": "as 203.0.113.1 2001:db8::1, translated by flows on the node's external bridge and by no row of NAT",
		"gw-routed": "with their own addresses, and to gateways of other nodes as 203.0.113.2 2001:db8::2, translated by " +
			"this router's rows of NAT",
		"gw-routed-own": "with their own addresses, and to gateways of other nodes as 203.0.113.3 2001:db8::3, translated " +
			"by this router's rows of NAT",
		"gw-two-hops": "as 203.0.113.4 2001:db8::4, translated by this router's rows of NAT",
		"gw-on-link":  "as 203.0.113.5 2001:db8::5, translated by flows on the node's external bridge and by no row of NAT",
	}; !maps.Equal(ways, want) {
		t.Errorf("pods leave\n%q, want\n%q", ways, want)
	}
	w.absorb(c)
	if r := w.reasons(); !slices.Equal(r, []string{"Node on-link WindowsDatapath"}) {
		t.Errorf("problems %q", r)
	}
	before := server.Transactions()
	start()
	if after := server.Transactions(); after != before {
		t.Errorf("a new controller needs %d transactions", after-before)
	}
}

// TestBadGateways: of what cannot be, that part alone is left out, and the node's owner is told.
func TestBadGateways(t *testing.T) {
	for _, c := range []struct {
		name, told string
		edit       func(*contract.NodeFacts)
		hops       int
	}{
		{"a next hop of another family", "gateway.nextHops holds 2001:db8::ffff, but gateway.addresses 203.0.113.1/24 has " +
			"no address of its family; the node has no default route by it",
			func(f *contract.NodeFacts) {
				f.Gateway.NextHops = append(f.Gateway.NextHops, netip.MustParseAddr("2001:db8::ffff"))
			}, 1},
		{"a next hop that is the gateway", "gateway.nextHops holds 203.0.113.1, which is the gateway's own address",
			func(f *contract.NodeFacts) { f.Gateway.NextHops[0] = netip.MustParseAddr("203.0.113.1") }, 0},
		{"very many addresses", "addresses holds 20 of one family; NodePorts are served on its gateway's and the first 16",
			func(f *contract.NodeFacts) {
				for i := range 19 {
					f.Addresses = append(f.Addresses, netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}))
				}
			}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, nil)
			n := s.node("n1", "10.244.1.0/24")
			n.Facts = ovntest.EditFacts(1, false, c.edit)
			s.do(n)
			if len(s.problems) != 1 || !strings.Contains(s.problems[0].Message, c.told) {
				t.Errorf("told %v, want %q", s.problems, c.told)
			}
			hops := 0
			for _, r := range s.c.changeOf(northbound.NodeOwner("n1")).Rows {
				switch row := r.Model.(type) {
				case *nb.LogicalRouterStaticRoute:
					if strings.HasPrefix(r.Key, "default/") {
						hops++
					}
				case *nb.ChassisTemplateVar:
					if len(row.Variables) > 2+topology.MaxNodePortAddresses || row.Variables[loadbalancer.NodePortVariable(true,
						0)] == "" {
						t.Errorf("variables %v", row.Variables)
					}
				}
			}
			if hops != c.hops {
				t.Errorf("%d default routes, want %d", hops, c.hops)
			}
		})
	}
}

// TestNodePortsCostServices: nodes add no row to a Service, and a Service none to a node.
func TestNodePortsCostServices(t *testing.T) {
	rows := func(nodes, services int) (balancers, members, variables int) {
		s := newScene(t, func(c *settings.Config) { c.AllocateNodeCIDRs = true })
		for i := range nodes {
			n := s.node(fmt.Sprintf("n%d", i))
			n.Facts = ovntest.Facts(1+i, false)
			s.put(n)
		}
		for i := range services {
			v := s.service(fmt.Sprintf("s%d", i), fmt.Sprintf("10.96.1.%d", i))
			v.NodePorts = []objects.NodePort{{ServicePort: v.Ports[0], Number: uint16(30000 + i)}}
			s.put(v, s.slice(fmt.Sprintf("s%d-a", i), v.Name, []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
				ready("10.244.0.3", "n0")))
		}
		s.c.begin(records.Records{}, s.Keys(), s.Get)
		for _, change := range s.c.takeEverything() {
			for _, r := range change.Rows {
				switch row := r.Model.(type) {
				case *nb.LoadBalancer:
					balancers++
				case *nb.ChassisTemplateVar:
					variables += len(row.Variables)
				}
			}
			for _, m := range change.Memberships {
				if m.Column == "load_balancer" {
					members += len(m.Values)
				}
			}
		}
		return balancers, members, variables
	}
	for _, nodes := range []int{3, 40} {
		balancers, members, variables := rows(nodes, 100)
		if balancers != 200 || members != 300 || variables != 4*nodes {
			t.Errorf("100 NodePort Services on %d nodes: %d load balancers with %d memberships, %d variables; want 200 with "+
				"300, and %d",
				nodes, balancers, members, variables, 4*nodes)
		}
	}
}
