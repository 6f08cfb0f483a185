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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovsdb"
)

// TestServices states what a Service and its slices become, as "name vip=endpoints" a load balancer;
// where it is attached stands in brackets.
func TestServices(t *testing.T) {
	type services []runtime.Object
	for _, c := range []struct {
		name    string
		objects services
		want    string
	}{
		{"ready endpoints", services{
			web(), webSlice("a", at("10.244.1.3", "n2"), at("10.244.0.3", "n1")),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080,10.244.1.3:8080`},

		{"no endpoint is refused", services{
			web(), webSlice("a"),
		}, `tcp [cluster] 10.96.0.10:80=`},

		{"no slice is refused", services{web()}, `tcp [cluster] 10.96.0.10:80=`},

		{"not ready gets nothing", services{
			web(), webSlice("a", at("10.244.0.3", "n1"), unready(at("10.244.0.4", "n1"))),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080`},

		{"terminating gets nothing while another is ready", services{
			web(), webSlice("a", at("10.244.0.3", "n1"), terminating(at("10.244.0.4", "n1"), true)),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080`},

		{"terminating serves when nobody else does", services{
			web(), webSlice("a", unready(at("10.244.0.3", "n1")), terminating(at("10.244.0.4", "n1"), true),
				terminating(at("10.244.0.5", "n1"), false)),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.4:8080`},

		{"an endpoint that serves but is neither ready nor terminating", services{
			web(), webSlice("a", *edit(ptr(at("10.244.0.3", "n1")), func(e *discoveryv1.Endpoint) {
				e.Conditions.Ready = ptr(false)
			})),
		}, `tcp [cluster] 10.96.0.10:80=`},

		{"without conditions an endpoint is ready", services{
			web(), webSlice("a", discoveryv1.Endpoint{Addresses: []string{"10.244.0.3"}}),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080`},

		{"publishNotReadyAddresses", services{
			web(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }),
			webSlice("a", unready(at("10.244.0.3", "n1")), at("10.244.0.4", "n1")),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080,10.244.0.4:8080`},

		{"sessionAffinity ClientIP", services{
			web(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }),
			webSlice("a", at("10.244.0.3", "n1")),
		}, `tcp [cluster] for 10800s 10.96.0.10:80=10.244.0.3:8080
			tcp/self [cluster] 10.244.0.3:8080=10.244.0.3:8080`},
		{"sessionAffinity for a minute, nobody there", services{sticky(60)}, `tcp [cluster] for 60s 10.96.0.10:80=`},
		{"sessionAffinity for longer than OVN can", services{sticky(86400)}, `tcp [cluster] for 65535s 10.96.0.10:80=`},
		{"sessionAffinity with internalTrafficPolicy Local", services{
			sticky(60, local), webSlice("a", at("10.244.0.3", "n1")),
		}, `tcp@* [n2 n3] for 60s 10.96.0.10:80=
			tcp@n1 [n1] for 60s 10.96.0.10:80=10.244.0.3:8080
			tcp/self [cluster] 10.244.0.3:8080=10.244.0.3:8080`},

		{"only an endpoint's first address counts", services{
			web(), webSlice("a", discoveryv1.Endpoint{Addresses: []string{"10.244.0.3", "10.244.0.4"}}),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080`},

		{"an endpoint in two slices counts once", services{
			web(), webSlice("a", at("10.244.0.3", "n1"), at("10.244.0.4", "n1")), webSlice("b", at("10.244.0.3", "n1")),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080,10.244.0.4:8080`},

		{"an endpoint that is ready in one of two slices is ready", services{
			web(), webSlice("a", unready(at("10.244.0.3", "n1"))), webSlice("b", at("10.244.0.3", "n1")),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080`},

		{"a named target port differs by slice", services{
			web(), webSlice("a", at("10.244.0.3", "n1")), edit(webSlice("b", at("10.244.1.3", "n2")),
				func(s *discoveryv1.EndpointSlice) {
					s.Ports[0].Port = ptr(int32(9090))
				}),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080,10.244.1.3:9090`},

		{"two ports with the same target", services{
			web(func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "alt", Port: 81, TargetPort: intstr.FromInt32(8080)})
			}),
			edit(webSlice("a", at("10.244.0.3", "n1")), func(s *discoveryv1.EndpointSlice) {
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr("alt"), Port: ptr(int32(8080))})
			}),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080 10.96.0.10:81=10.244.0.3:8080`},

		{"one port, three protocols", services{
			web(func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{
					{Name: "t", Port: 53, Protocol: corev1.ProtocolTCP}, {Name: "u", Port: 53, Protocol: corev1.ProtocolUDP},
					{Name: "s", Port: 53, Protocol: corev1.ProtocolSCTP}}
			}),
			edit(webSlice("a", at("10.244.0.3", "n1")), func(s *discoveryv1.EndpointSlice) {
				s.Ports = []discoveryv1.EndpointPort{
					{Name: ptr("t"), Port: ptr(int32(1053))},
					{Name: ptr("u"), Port: ptr(int32(1054)), Protocol: ptr(corev1.ProtocolUDP)},
					{Name: ptr("s"), Port: ptr(int32(1055)), Protocol: ptr(corev1.ProtocolSCTP)}}
			}),
		}, `tcp [cluster] 10.96.0.10:53=10.244.0.3:1053
			udp [cluster] flush 10.96.0.10:53=10.244.0.3:1054
			sctp [linux] 10.96.0.10:53=10.244.0.3:1055`},

		{"a slice's port of the same name and another protocol is another port", services{
			web(), edit(webSlice("a", at("10.244.0.3", "n1")), func(s *discoveryv1.EndpointSlice) {
				s.Ports[0].Protocol = ptr(corev1.ProtocolUDP)
			}),
		}, `tcp [cluster] 10.96.0.10:80=`},

		{"a slice without a port number serves none", services{
			web(), edit(webSlice("a", at("10.244.0.3", "n1")), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil }),
		}, `tcp [cluster] 10.96.0.10:80=`},

		{"dual stack", services{
			web(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.10", "fd00:10:96::a"} }),
			webSlice("a", at("10.244.0.3", "n1")), webSlice("b", at("fd00:10:244::3", "n1")),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080 [fd00:10:96::a]:80=[fd00:10:244::3]:8080`},

		{"single stack takes the slices of its family", services{
			web(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"fd00:10:96::a"} }),
			webSlice("a", at("10.244.0.3", "n1")), webSlice("b", at("fd00:10:244::3", "n1")),
		}, `tcp [cluster] [fd00:10:96::a]:80=[fd00:10:244::3]:8080`},

		{"internalTrafficPolicy Local", services{
			web(local), webSlice("a", at("10.244.0.3", "n1"), at("10.244.1.3", "n2"), at("10.244.1.4", "n2")),
		}, `tcp@* [n3] 10.96.0.10:80=
			tcp@n1 [n1] 10.96.0.10:80=10.244.0.3:8080
			tcp@n2 [n2] 10.96.0.10:80=10.244.1.3:8080,10.244.1.4:8080`},

		{"Local falls back to terminating endpoints a node", services{
			web(local), webSlice("a", at("10.244.0.3", "n1"), terminating(at("10.244.1.3", "n2"), true)),
		}, `tcp@* [n3] 10.96.0.10:80=
			tcp@n1 [n1] 10.96.0.10:80=10.244.0.3:8080
			tcp@n2 [n2] 10.96.0.10:80=10.244.1.3:8080`},

		{"Local without any endpoint", services{
			web(local), webSlice("a", unready(at("10.244.0.3", "n1"))),
		}, `tcp@* [n1 n2 n3] 10.96.0.10:80=`},

		{"Local with an endpoint on every node", services{
			web(local), webSlice("a", at("10.244.0.3", "n1"), at("10.244.1.3", "n2"), at("10.244.2.3", "n3")),
		}, `tcp@n1 [n1] 10.96.0.10:80=10.244.0.3:8080
			tcp@n2 [n2] 10.96.0.10:80=10.244.1.3:8080
			tcp@n3 [n3] 10.96.0.10:80=10.244.2.3:8080`},

		{"NodePort and LoadBalancer Services have a ClusterIP too", services{
			web(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }), webSlice("a", at("10.244.0.3", "n1")),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080`},

		{"headless", services{
			web(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"None"} }), webSlice("a", at("10.244.0.3", "n1")),
		}, ``},
		{"labelled headless", services{
			web(func(s *corev1.Service) { s.Labels = map[string]string{objects.HeadlessLabel: ""} }),
			webSlice("a", at("10.244.0.3", "n1")),
		}, ``},
		{"another proxy's", services{
			web(func(s *corev1.Service) { s.Labels = map[string]string{objects.ProxyNameLabel: "other"} }),
			webSlice("a", at("10.244.0.3", "n1")),
		}, ``},
		{"ExternalName", services{
			web(func(s *corev1.Service) { s.Spec.Type, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, nil }),
		}, ``},
		{"a Service without an address yet", services{
			web(func(s *corev1.Service) { s.Spec.ClusterIPs = nil }),
		}, ``},
		{"another proxy's slice", services{
			web(), edit(webSlice("a", at("10.244.0.3", "n1")), func(s *discoveryv1.EndpointSlice) {
				s.Labels[objects.ProxyNameLabel] = "other"
			}),
		}, `tcp [cluster] 10.96.0.10:80=`},
		{"a slice of names", services{
			web(), edit(webSlice("a", at("10.244.0.3", "n1")), func(s *discoveryv1.EndpointSlice) {
				s.AddressType = discoveryv1.AddressTypeFQDN
			}),
		}, `tcp [cluster] 10.96.0.10:80=`},
		{"an endpoint with and without its node, in two slices", services{
			web(local), webSlice("a", discoveryv1.Endpoint{Addresses: []string{"10.244.0.3"}}),
			webSlice("b", at("10.244.0.3", "n1")),
		}, `tcp@* [n2 n3] 10.96.0.10:80=
			tcp@n1 [n1] 10.96.0.10:80=10.244.0.3:8080`},
		{"an endpoint without its node is ready, and terminates with it", services{
			web(local), webSlice("a", discoveryv1.Endpoint{Addresses: []string{"10.244.0.3"}}),
			webSlice("b", terminating(at("10.244.0.3", "n1"), true)),
		}, `tcp@* [n2 n3] 10.96.0.10:80=
			tcp@n1 [n1] 10.96.0.10:80=10.244.0.3:8080`},
		{"a slice's port that is none", services{
			web(func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "ssh", Port: 81}, corev1.ServicePort{Name: "zero",
					Port: 82}, corev1.ServicePort{Name: "less", Port: 83})
			}),
			edit(webSlice("a", at("10.244.0.3", "n1")), func(s *discoveryv1.EndpointSlice) {
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr("ssh"), Port: ptr(int32(65558))},
					discoveryv1.EndpointPort{Name: ptr("zero"), Port: ptr(int32(0))}, discoveryv1.EndpointPort{Name: ptr("less"),
						Port: ptr(int32(-65456))})
			}),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080 10.96.0.10:81= 10.96.0.10:82= 10.96.0.10:83=`},
		{"a bad address is left out", services{
			web(), webSlice("a", at("10.244.0.3", "n1"), at("10.244.0.400", "n1"), at("127.0.0.1", "n1"), discoveryv1.Endpoint{},
				at("10.244.0.4", "n1")),
		}, `tcp [cluster] 10.96.0.10:80=10.244.0.3:8080,10.244.0.4:8080`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []string
			for line := range strings.Lines(c.want) {
				want = append(want, strings.TrimSpace(line))
			}
			got := balancers(t, c.objects)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
		})
	}
}

// balancers translates as the controller does, and writes the result as TestServices reads it.
func balancers(t *testing.T, given []runtime.Object, windows ...string) []string {
	t.Helper()
	var s *objects.Service
	var from []*objects.EndpointSlice
	for _, o := range given {
		switch o := trim(o).(type) {
		case *objects.Service:
			s = o
		case *objects.EndpointSlice:
			from = append(from, o)
		}
	}
	nodes := []string{"n1", "n2", "n3"}
	on := &loadbalancer.Nodes{Names: nodes, Balanced: func(objects.Claim) bool { return false },
		Windows: map[string]struct{}{}, Zones: map[string][]string{"z1": {"n1"}, "z2": {"n2"}, "": {"n3"}}}
	for _, name := range windows {
		on.Windows[name] = struct{}{}
	}
	change, _ := loadbalancer.Rows(s, from, on)
	var list []string
	for _, r := range change.Rows {
		row := r.Model.(*nb.LoadBalancer)
		where := strings.TrimPrefix(strings.TrimPrefix(r.Key, *row.Protocol), "/")
		if where == "" || where[0] == '@' {
			where = "cluster" + where
		}
		if want := "web/" + where + "/default/" + *row.Protocol; row.Name != want {
			t.Errorf("name %s, want %s", row.Name, want)
		}
		if !strings.HasPrefix(r.Key, *row.Protocol) {
			t.Errorf("%s has protocol %s", row.Name, *row.Protocol)
		}
		if self := strings.HasSuffix(r.Key, "/self"); row.Options["reject"] == "true" == self ||
			row.Options["hairpin_snat_ip"] == "" || row.Options["ct_flush"] == "true" && *row.Protocol != "udp" {
			t.Errorf("%s has options %v", row.Name, row.Options)
		}
		text := r.Key + " " + attached(change, ovsdb.ID(nb.LoadBalancerTable, change.Owner, r.Key), nodes)
		if row.Options["ct_flush"] == "true" {
			text += " flush"
		}
		if len(row.SelectionFields) > 0 {
			text += " by " + strings.Join(row.SelectionFields, ",")
		}
		if timeout := row.Options["affinity_timeout"]; timeout != "" {
			text += " for " + timeout + "s"
		}
		for _, v := range slices.Sorted(maps.Keys(row.Vips)) {
			text += " " + v + "=" + row.Vips[v]
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

func attached(change ovsdb.Change, id string, nodes []string) string {
	var where []string
	for _, m := range change.Memberships {
		if !slices.Contains(m.Values, id) {
			continue
		}
		if group := map[string]string{northbound.ClusterGroupID: "cluster",
			northbound.LinuxGroupID: "linux"}[m.UUID]; group != "" {
			where = append(where, group)
		}
		for _, zone := range []string{"", "z1", "z2", "z3"} {
			for _, os := range []string{contract.Linux, contract.Windows} {
				if m.UUID == loadbalancer.ZoneGroupID(zone, os, loadbalancer.OnSwitches) {
					where = append(where, loadbalancer.ZoneGroup(zone, os, loadbalancer.OnSwitches))
				}
			}
		}
		for _, n := range nodes {
			if m.UUID == northbound.SwitchID(n) {
				where = append(where, n)
			}
		}
	}
	return "[" + strings.Join(where, " ") + "]"
}

func TestBadAddressesAreReported(t *testing.T) {
	w := newWorld()
	s := trim(web()).(*objects.Service)
	bad := trim(webSlice("a", at("10.244.0.3", "n1"), at("10.244.0.400", "n1"))).(*objects.EndpointSlice)
	c := newCluster(ovntest.Settings(t, nil))
	c.update(w.put(s, bad), w.Get)
	c.takeChanges()
	w.absorb(c)
	if len(w.problems) != 1 {
		t.Fatalf("problems %v", w.problems)
	}
	for _, word := range []string{"Service default/web", "BadEndpointAddress", "web-a", "1 of 2 addresses", "endpoints[1]",
		`"10.244.0.400"`, "correct or remove"} {
		if !strings.Contains(w.problems[0].String(), word) {
			t.Errorf("%q lacks %q", w.problems[0], word)
		}
	}
	w.problems = nil
	c.update([]part.Event{objects.Key{Kind: objects.ServiceKind, Name: "default/web"}}, w.Get)
	c.takeChanges()
	if w.absorb(c); len(w.problems) > 0 {
		t.Errorf("told twice: %v", w.problems)
	}
}

// TestUnservableIsTold of ports and addresses that the API server admits, and the rest is served.
func TestUnservableIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		service func(*corev1.Service)
		slice   func(*discoveryv1.EndpointSlice)
		vips    string // of the load balancers that are left
		words   []string
	}{
		"a port that is too large": {nil, func(s *discoveryv1.EndpointSlice) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr("alt"), Port: ptr(int32(70000))})
		}, "10.96.0.10:80=10.244.0.3:8080", []string{"BadEndpointPort", "EndpointSlice web-a: 1 of 2 ports",
			"ports[1] port 70000", "1 to 65535", "correct or remove"}},
		"no port": {nil, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr(int32(0)) },
			"10.96.0.10:80=", []string{"BadEndpointPort", "1 of 1 ports", "ports[0] port 0"}},
		"an endpoint with leading zeros": {nil, func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, at("010.244.000.012", "n1"))
		}, "10.96.0.10:80=10.244.0.3:8080", []string{"BadEndpointAddress", "010.244.000.012", "leading zeros",
			"write 10.244.0.12"}},
		"an external address with leading zeros": {func(s *corev1.Service) {
			s.Spec.ExternalIPs = []string{"198.51.100.007", "198.51.100.8"}
		}, nil,
			"10.96.0.10:80=10.244.0.3:8080 198.51.100.8:80=10.244.0.3:8080", []string{"BadAddress", "spec.externalIPs",
				"198.51.100.007", "write 198.51.100.7"}},
		"a load balancer's address with leading zeros": {func(s *corev1.Service) {
			balanced("198.51.100.007", corev1.LoadBalancerIPModeVIP)(s)
		}, nil, "10.96.0.10:80=10.244.0.3:8080", []string{"BadAddress", "status.loadBalancer.ingress", "198.51.100.007"}},
		"a ClusterIP with leading zeros": {func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"010.96.0.10"} }, nil,
			"", []string{"BadAddress", "spec.clusterIPs", "write 10.96.0.10"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, sl := web(), webSlice("a", at("10.244.0.3", "n1"))
			if c.service != nil {
				c.service(s)
			}
			if c.slice != nil {
				c.slice(sl)
			}
			w := newWorld()
			cluster := newCluster(ovntest.Settings(t, nil))
			cluster.update(w.put(trim(s), trim(sl)), w.Get)
			var vips []string
			for _, change := range cluster.takeChanges() {
				for _, r := range change.Rows {
					if row, ok := r.Model.(*nb.LoadBalancer); ok && change.Owner == northbound.ServiceOwner("default/web") {
						for at, to := range row.Vips {
							vips = append(vips, at+"="+to)
						}
					}
				}
			}
			slices.Sort(vips)
			if got := strings.Join(vips, " "); got != c.vips {
				t.Errorf("serves %s, want %s", got, c.vips)
			}
			if w.absorb(cluster); len(w.problems) != 1 {
				t.Fatalf("problems %v", w.problems)
			}
			for _, word := range append(c.words, "Service default/web") {
				if !strings.Contains(w.problems[0].String(), word) {
					t.Errorf("%q lacks %q", w.problems[0], word)
				}
			}
		})
	}
}

// TestManyBadAddressesAreOneProblem a slice, and short.
func TestManyBadAddressesAreOneProblem(t *testing.T) {
	w := newWorld()
	w.put(trim(web()))
	for _, suffix := range []string{"a", "b"} {
		var endpoints []discoveryv1.Endpoint
		for range 1000 {
			endpoints = append(endpoints, at(strings.Repeat("x", 5000), "n1"))
		}
		w.put(trim(webSlice(suffix, endpoints...)))
	}
	c := newCluster(ovntest.Settings(t, nil))
	c.update(w.Keys(), w.Get)
	c.takeChanges()
	w.absorb(c)
	if len(w.problems) != 2 {
		t.Fatalf("%d problems", len(w.problems))
	}
	for _, p := range w.problems {
		if !strings.Contains(p.Message, "1000 of 1000 addresses") || !strings.HasSuffix(p.Message, "in the slice") ||
			len(p.Message) > objects.MaxMessage {
			t.Errorf("%d bytes: %s", len(p.Message), p.Message)
		}
	}
}

// TestEndpointsInAnyOrder must give the same rows, or every slice update would rewrite them.
func TestEndpointsInAnyOrder(t *testing.T) {
	one := balancers(t, []runtime.Object{web(), webSlice("a", at("10.244.0.3", "n1"), at("10.244.0.20", "n1"),
		at("10.244.0.100", "n1"))})
	other := balancers(t, []runtime.Object{web(), webSlice("b", at("10.244.0.100", "n1")),
		webSlice("a", at("10.244.0.20", "n1"), at("10.244.0.3", "n1"))})
	if !slices.Equal(one, other) {
		t.Errorf("%s and %s", one, other)
	}
}

func web(edits ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIPs: []string{"10.96.0.10"},
			Ports:      []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}}}}
	for _, e := range edits {
		e(s)
	}
	return s
}

func local(s *corev1.Service) {
	s.Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
}

// webSlice is of the family of its first endpoint.
func webSlice(suffix string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + suffix,
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080))}}}
	if len(endpoints) > 0 && len(endpoints[0].Addresses) > 0 {
		if addr, err := netip.ParseAddr(endpoints[0].Addresses[0]); err == nil && addr.Is6() {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
	}
	return s
}

func edit[T any](object *T, change func(*T)) *T {
	change(object)
	return object
}

func at(addr, node string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &node,
		Conditions: discoveryv1.EndpointConditions{Ready: ptr(true), Serving: ptr(true), Terminating: ptr(false)}}
}

func unready(e discoveryv1.Endpoint) discoveryv1.Endpoint {
	e.Conditions.Ready, e.Conditions.Serving = ptr(false), ptr(false)
	return e
}

func terminating(e discoveryv1.Endpoint, serving bool) discoveryv1.Endpoint {
	e.Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: &serving, Terminating: ptr(true)}
	return e
}

func ptr[T any](v T) *T { return &v }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestSCTPOfManyAddresses: each has the endpoints that are not on Windows nodes, and nothing else.
func TestSCTPOfManyAddresses(t *testing.T) {
	w := newWorld()
	s := w.service("web", "10.96.0.10")
	s.Ports[0].Protocol = "sctp"
	s.NodePorts = []objects.NodePort{{ServicePort: s.Ports[0], Number: 30080}}
	from := []*objects.EndpointSlice{w.slice("a", "web", []objects.ServicePort{{Name: "http", Protocol: "sctp", Port: 80}},
		ready("10.244.0.3", "win"), ready("10.244.1.3", "n1"), ready("10.244.0.4", "win"))}
	on := &loadbalancer.Nodes{Names: []string{"n1", "win"}, Windows: map[string]struct{}{"win": {}}, Widths: [2]int{3, 0}}
	vips, most := 0, loadbalancer.SizeOf(s, from).Endpoints
	for _, one := range loadbalancer.At(s, "sctp", from, on, most, loadbalancer.OnSwitches, "n1") {
		if vips++; fmt.Sprint(one.Endpoints) != "[10.244.1.3:80]" {
			t.Errorf("%s has %v", one.At, one.Endpoints)
		}
	}
	if vips != 5 { // the ClusterIP, the host's own and three of the nodes'
		t.Errorf("%d addresses and ports", vips)
	}
}
