package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovsdb"
)

// TestServicesGoBeforeHostPorts: a port of a node's address that a Service has is no pod's, for as long as
// the Service has it.
func TestServicesGoBeforeHostPorts(t *testing.T) {
	s := nodePortScene(t)
	p := s.pod("default", "web", "own")
	p.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 8443, Into: 443}}
	other := s.pod("default", "other", "own")
	other.HostPorts = []objects.HostPort{{Protocol: "udp", Port: 8443, Into: 443}}
	s.do(p, other)
	const (
		all    = `hostport/tcp [gw-own own] keep drop 192.0.2.1:8443=10.244.1.3:443 203.0.113.1:8443=10.244.1.3:443`
		second = `hostport/tcp [gw-own own] keep drop 203.0.113.1:8443=10.244.1.3:443`
	)
	sameLines(t, s.entries(s.c.changeOf(northbound.PodOwner("default/web"))), all)
	change := func(edit func(*objects.Service)) (pods []string) {
		t.Helper()
		now := s.service("shop", "10.96.0.10")
		edit(now)
		s.c.update(s.put(now), s.Get)
		for _, change := range s.c.takeChanges() {
			if slices.Contains([]string{string(northbound.PodOwner("default/web")),
				string(northbound.PodOwner("default/other"))}, string(change.Owner)) {
				pods = append(pods, string(change.Owner))
			}
		}
		s.absorb(s.c)
		return pods
	}
	own := netip.MustParseAddr("192.0.2.1")
	for _, step := range []struct {
		name string
		edit func(*objects.Service)
		want string
		pods int
	}{
		{"a Service inside", func(*objects.Service) {}, all, 0},
		{"another number", func(o *objects.Service) {
			o.NodePorts = []objects.NodePort{{ServicePort: o.Ports[0], Number: 30080}}
		}, all, 0},
		{"a NodePort", func(o *objects.Service) { o.NodePorts = []objects.NodePort{{ServicePort: o.Ports[0], Number: 8443}} },
			``, 1},
		{"of IPv6", func(o *objects.Service) {
			o.NodePorts, o.ClusterIPs = []objects.NodePort{{ServicePort: o.Ports[0], Number: 8443}},
				[]netip.Addr{netip.MustParseAddr("fd00:10:96::10")}
		}, all, 1},
		{"a health check, of IPv6", func(o *objects.Service) {
			o.HealthPort, o.ClusterIPs = 8443, []netip.Addr{netip.MustParseAddr("fd00:10:96::10")}
		}, ``, 1},
		{"an external address that is the node's, which it does not get", func(o *objects.Service) {
			o.ExternalIPs, o.Ports[0].Port = []netip.Addr{own}, 8443
		}, all, 1},
		{"a load balancer's address that is the node's", func(o *objects.Service) {
			o.Ingress, o.Ports[0].Port = []netip.Addr{own}, 8443
		}, second, 1},
		{"nothing again", func(*objects.Service) {}, all, 1},
	} {
		if pods := change(step.edit); len(pods) != step.pods || step.pods == 1 &&
			pods[0] != string(northbound.PodOwner("default/web")) {
			t.Errorf("%s: pods %v were looked at", step.name, pods)
		}
		t.Run(step.name, func(t *testing.T) {
			sameLines(t, s.entries(s.c.changeOf(northbound.PodOwner("default/web"))), step.want)
		})
	}
	s.do(s.pod("default", "web", "own")) // without host ports
	if kept := within(reflect.ValueOf(&s.c.pods), "hostPorted"); kept.Len() != 1 {
		t.Errorf("host ports of %v are kept", kept)
	}
}

// TestOneHostPortOfTwoPods is the older one's, whichever came first to the controller, and the other's when it goes.
func TestOneHostPortOfTwoPods(t *testing.T) {
	own, gateway := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.1")
	type has map[string]string // address and port on the node to pod
	both := func(pod string) has { return has{"192.0.2.1:8443": pod, "203.0.113.1:8443": pod} }
	for _, c := range []struct {
		name                  string
		old, young            objects.HostPort
		node                  string // of the young one
		together, when, alone has    // when: the young one is alone
	}{
		{"the same", objects.HostPort{Protocol: "tcp", IP: netip.Addr{}, Port: 8443, Into: 443},
			objects.HostPort{Protocol: "tcp", IP: netip.Addr{}, Port: 8443, Into: 443}, "own", both("old"), both("young"),
			both("old")},
		{"one address of all", objects.HostPort{Protocol: "tcp", IP: own, Port: 8443, Into: 443},
			objects.HostPort{Protocol: "tcp", IP: netip.Addr{}, Port: 8443, Into: 443}, "own",
			has{"192.0.2.1:8443": "old", "203.0.113.1:8443": "young"}, both("young"), has{"192.0.2.1:8443": "old"}},
		{"two addresses", objects.HostPort{Protocol: "tcp", IP: own, Port: 8443, Into: 443}, objects.HostPort{Protocol: "tcp",
			IP: gateway, Port: 8443, Into: 443}, "own",
			has{"192.0.2.1:8443": "old", "203.0.113.1:8443": "young"}, has{"203.0.113.1:8443": "young"},
			has{"192.0.2.1:8443": "old"}},
		{"two nodes", objects.HostPort{Protocol: "tcp", IP: netip.Addr{}, Port: 8443, Into: 443},
			objects.HostPort{Protocol: "tcp", IP: netip.Addr{}, Port: 8443, Into: 443}, "bare", both("old"), has{}, both("old")},
		{"another port", objects.HostPort{Protocol: "tcp", IP: own, Port: 8443, Into: 443}, objects.HostPort{Protocol: "tcp",
			IP: own, Port: 8444, Into: 443}, "own",
			has{"192.0.2.1:8443": "old", "192.0.2.1:8444": "young"}, has{"192.0.2.1:8444": "young"},
			has{"192.0.2.1:8443": "old"}},
	} {
		for _, order := range [][]string{{"old", "young"}, {"young", "old"}} {
			t.Run(c.name+", first "+order[0], func(t *testing.T) {
				s := nodePortScene(t)
				pods := map[string]*objects.Pod{"old": s.pod("default", "old", "own"), "young": s.pod("a", "young", c.node)}
				s.do(s.namespace("a"), s.namespace("default"))
				pods["old"].HostPorts, pods["young"].HostPorts = []objects.HostPort{c.old}, []objects.HostPort{c.young}
				pods["old"].CreationTimestamp = metav1.NewTime(time.Unix(1700000000, 0))
				pods["young"].CreationTimestamp = metav1.NewTime(time.Unix(1700000001, 0))
				rows := has{} // as changes have written them
				follow := func(keys []part.Event) {
					s.c.update(keys, s.Get)
					changes := s.c.takeChanges()
					nameOf := func(change ovsdb.Change) string {
						return string(change.Owner[strings.LastIndexByte(string(change.Owner), '/')+1:])
					}
					for _, change := range changes {
						maps.DeleteFunc(rows, func(_, pod string) bool { return pod == nameOf(change) })
					}
					for _, change := range changes {
						for _, r := range change.Rows {
							name := nameOf(change)
							if row, ok := r.Model.(*nb.LoadBalancer); ok {
								for at := range row.Vips {
									if rows[at] != "" && rows[at] != name {
										t.Errorf("%s is of %s and of %s", at, rows[at], name)
									}
									rows[at] = name
								}
							}
						}
					}
					s.absorb(s.c)
				}
				want := func(what string, want has) {
					t.Helper()
					if fmt.Sprint(rows) != fmt.Sprint(want) {
						t.Errorf("%s: %v, want %v", what, rows, want)
					}
				}
				begin := func() {
					for _, name := range order {
						follow(s.put(pods[name]))
					}
				}
				begin()
				want("both", c.together)
				leave := func(name string) {
					p := pods[name]
					delete(s.objects, objects.Key{Kind: objects.PodKind, Name: p.Namespace + "/" + p.Name})
					follow([]part.Event{objects.Key{Kind: objects.PodKind, Name: p.Namespace + "/" + p.Name}})
				}
				leave("old")
				want("without the old", c.when)
				follow(s.put(pods["old"]))
				want("it is back", c.together)
				leave("young")
				want("without the young", c.alone)
			})
		}
	}
}

// TestHostPortsAtAnAddressOfAPool: a Service whose status has a node's address, as if from a pool, has its own ports of
// it. The address' other ports are other Services' and the pods', and so are the Service's when it goes.
func TestHostPortsAtAnAddressOfAPool(t *testing.T) {
	s := newScene(t, withBalancers)
	n := s.egressNode(1)
	n.PodCIDRs, n.Facts = n.PodCIDRs[:1], ovntest.Facts(1, false)
	at := netip.MustParseAddr("203.0.113.1")
	had := s.balanced("web", func(b *objects.LoadBalancer) { b.Ingress = at.String() })
	had.Ingress = []netip.Addr{at}
	p, q := s.pod("default", "p", "e1"), s.pod("default", "q", "e1")
	p.HostPorts, q.HostPorts = []objects.HostPort{{Protocol: "tcp", IP: at, Port: 80, Into: 8080}},
		[]objects.HostPort{{Protocol: "tcp", IP: at, Port: 8443, Into: 443}}
	s.do(n, s.addressPool("p", "203.0.113.0/29"), p, q)
	rows := map[ovsdb.Owner]ovsdb.Change{}
	ports := func(keys []part.Event) string {
		s.c.update(keys, s.Get)
		for _, change := range s.c.takeChanges() {
			rows[change.Owner] = change
		}
		var list []string
		for _, r := range slices.Concat(rows[northbound.PodOwner("default/p")].Rows,
			rows[northbound.PodOwner("default/q")].Rows) {
			if b, ok := r.Model.(*nb.LoadBalancer); ok {
				list = append(list, slices.Sorted(maps.Keys(b.Vips))...)
			}
		}
		return strings.Join(list, " ")
	}
	const both, other = "203.0.113.1:80 203.0.113.1:8443", "203.0.113.1:8443"
	s.want("alone", ports([]part.Event{objects.Key{Kind: objects.PodKind, Name: "default/p"},
		objects.Key{Kind: objects.PodKind, Name: "default/q"}}), both)
	s.want("beside the Service", ports(s.put(had)), other)
	holder, _ := s.c.pools.Holder(at)
	s.want("the Service has the address", holder, "default/web")
	rival := s.service("rival", "10.96.0.20") // somebody else's load balancer
	rival.Ingress, rival.Ports[0].Port = []netip.Addr{at}, 8443
	s.want("beside one that has another port of the node's address", ports(s.put(rival)), "")
	delete(s.objects, objects.Key{Kind: objects.ServiceKind, Name: "default/web"})
	s.want("when the first has gone", ports([]part.Event{objects.Key{Kind: objects.ServiceKind, Name: "default/web"}}),
		"203.0.113.1:80")
	delete(s.objects, objects.Key{Kind: objects.ServiceKind, Name: "default/rival"})
	s.want("when both have gone", ports([]part.Event{objects.Key{Kind: objects.ServiceKind, Name: "default/rival"}}), both)
}

// TestHostPortsOfOtherAddresses make nobody look again: of two pods with one number at different addresses each has its
// own. A pod of all addresses is the rival of both.
func TestHostPortsOfOtherAddresses(t *testing.T) {
	s := nodePortScene(t)
	with := func(name string, at netip.Addr) *objects.Pod {
		p := s.pod("default", name, "own")
		p.HostPorts = []objects.HostPort{{Protocol: "tcp", IP: at, Port: 8443, Into: 443}}
		return p
	}
	first, second := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.1")
	s.do(s.namespace("default"), with("first", first), with("second", second),
		with("nowhere", netip.MustParseAddr("127.0.0.1")))
	looked := func(objects ...any) string {
		s.c.update(s.put(objects...), s.Get)
		var pods []string
		for _, owner := range s.c.pods.Dirty(false) {
			pods = append(pods, strings.TrimPrefix(string(owner), "Pod/default/"))
		}
		slices.Sort(pods)
		s.c.takeChanges()
		s.absorb(s.c)
		return strings.Join(pods, " ")
	}
	changed := with("first", first)
	changed.Labels = objects.NewLabelSet(map[string]string{"a": "b"})
	s.want("a label of one", looked(changed), "first")
	s.want("one of all addresses", looked(with("all", netip.Addr{})), "all first second")
	s.want("the first without, its rival and the rivals of that", looked(s.pod("default", "first", "own")),
		"all first second")
}
