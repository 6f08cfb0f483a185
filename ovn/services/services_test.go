package services

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/claims"
	"github.com/weftnet/weft/ovn/flushes"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound/northboundtest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
)

// others are what the parts see: one node. They note what they are told.
type others struct {
	node *topology.Node
	told []string
}

func (o *others) At(string) *topology.Node { return o.node }

func (*others) Placements() *loadbalancer.Nodes {
	return &loadbalancer.Nodes{Names: []string{"n1"}, Zones: map[string][]string{"": {"n1"}},
		Announcer: func(netip.Addr) (string, bool) { return "", false }}
}

func (o *others) SlicesChanged(service string) { o.told = append(o.told, "slices of "+service) }

func (o *others) APIServersMoved() { o.told = append(o.told, "API servers moved") }

func (o *others) TouchHostPorts(list []objects.Claim) {
	for _, one := range list {
		o.told = append(o.told, "host ports like "+one.String())
	}
}

func (o *others) TouchHostPortsOn(node string) { o.told = append(o.told, "host ports on "+node) }

func (*others) WantsHostPort(objects.Protocol, uint16) bool { return false }

func (*others) Holder(netip.Addr) (service string, ok bool) { return "", false }

// TestPart plays Services and slices that come and go, and what changes around them. It says after each step whose rows
// are made again, with all their VIPs, and what others are told.
func TestPart(t *testing.T) {
	config := &settings.Settings{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	around := &others{node: &topology.Node{Name: "n1", Object: &objects.Node{}, Placed: true,
		Facts: contract.NodeFacts{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}}
	out := part.NewOutbox()
	b := &Part{}
	*b = New(out, config, around, around, around, claims.New(config, around, b, around, around), flushes.New(out),
		NewPending(out, config))
	there := map[part.Event]any{}
	take := func(kind *objects.Kind, name string, object any) func() {
		return func() {
			k := objects.Key{Kind: kind, Name: "default/" + name}
			if there[k] = object; object == nil {
				delete(there, k)
			}
			b.Take(part.NewBatch([]part.Event{k}, func(e part.Event) any { return there[e] }))
		}
	}
	service := func(name string, edits ...func(*objects.Service)) func() {
		s := &objects.Service{ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			Ports: []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 80}}}
		s.Namespace, s.Name, s.UID = "default", name, types.UID(name)
		for _, edit := range edits {
			edit(s)
		}
		return take(objects.ServiceKind, name, s)
	}
	slice := func(name string, port uint16, ends ...objects.Endpoint) func() {
		s := &objects.EndpointSlice{Service: name, Ports: []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: port}}}
		s.Namespace, s.Name = "default", name
		for _, e := range ends {
			e.Ready, e.Serving = true, true
			s.Endpoints = append(s.Endpoints, e)
		}
		return take(objects.SliceKind, name, s)
	}
	end := func(addr string) objects.Endpoint {
		return objects.Endpoint{Addr: netip.MustParseAddr(addr), Node: "n1"}
	}
	hinted := end("10.244.0.5")
	hinted.Zones = "z1"
	external := func(s *objects.Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("203.0.113.1")} }
	for _, step := range []struct {
		name        string
		play        func()
		dirty, told string
	}{
		{"slices come first", slice("web", 8080, end("10.244.0.5")), "web", "slices of default/web"},
		{"their Service", service("web"), "web 10.96.0.1:80=10.244.0.5:8080", ""},
		{"it is known outside", service("web", external),
			"web 10.96.0.1:80=10.244.0.5:8080 203.0.113.1:80=10.244.0.5:8080", "host ports like 203.0.113.1:80/tcp"},
		{"a sticky one with a host's endpoint", func() {
			slice("sticky", 80, end("203.0.113.1"))()
			service("sticky", func(s *objects.Service) { s.ClientIP = true })()
		}, "sticky 10.96.0.1:80=203.0.113.1:80", "slices of default/sticky"},
		{"what it must not take is nobody's any more", service("web"),
			"sticky 10.96.0.1:80=203.0.113.1:80 203.0.113.1:80=203.0.113.1:80; web 10.96.0.1:80=10.244.0.5:8080",
			"host ports like 203.0.113.1:80/tcp"},
		{"another zone", b.ZonesChanged, "", ""},
		{"an endpoint has hints", slice("web", 8080, hinted), "web 10.96.0.1:80=10.244.0.5:8080",
			"slices of default/web"},
		{"another zone", b.ZonesChanged, "web 10.96.0.1:80=10.244.0.5:8080", ""},
		{"another datapath", b.DatapathsChanged, "", ""},
		{"SCTP", service("web", func(s *objects.Service) { s.Ports[0].Protocol = "sctp" }), "web 10.96.0.1:80=", ""},
		{"another datapath", b.DatapathsChanged, "web 10.96.0.1:80=", ""},
		{"a node with an address that one wants", func() {
			service("web", func(s *objects.Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("192.0.2.1")} })()
			b.Clean()
			around.told = nil
			b.UpdateHosts(around.node)
		}, "web 10.96.0.1:80=10.244.0.5:8080", ""},
		{"a daemon listens there", func() {
			around.node.Facts.Listeners = contract.Listeners{{Protocol: "tcp", Port: 80}}
			b.UpdateHosts(around.node)
		}, "web 10.96.0.1:80=10.244.0.5:8080", "host ports like 192.0.2.1:80/tcp"},
		{"its NodePorts have the address", func() { b.UpdateNodePorts([]*topology.Node{around.node}) },
			"sticky 10.96.0.1:80=203.0.113.1:80 203.0.113.1:80=203.0.113.1:80; web 10.96.0.1:80=10.244.0.5:8080",
			"host ports on n1"},
		{"the API server has an address that one wants", func() {
			service("web", external)()
			b.Clean()
			around.told = nil
			slice("kubernetes", 80, end("203.0.113.1"))()
		}, "kubernetes; web 10.96.0.1:80=10.244.0.5:8080",
			"API servers moved; host ports like 203.0.113.1:80/tcp; slices of default/kubernetes"},
		{"all go", func() {
			for _, name := range []string{"web", "sticky", "kubernetes"} {
				take(objects.ServiceKind, name, nil)()
				take(objects.SliceKind, name, nil)()
			}
			around.told = nil
		}, "kubernetes; sticky; web", ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			b.Clean()
			around.told = nil
			step.play()
			var dirty []string
			for _, owner := range b.Dirty(false) {
				_, name := part.Split(owner)
				line := strings.TrimPrefix(name, "default/")
				vips := map[string]string{}
				for _, r := range northboundtest.Change(t, b, owner).Rows {
					if row, ok := r.Model.(*nb.LoadBalancer); ok {
						maps.Copy(vips, row.Vips)
					}
				}
				for _, at := range slices.Sorted(maps.Keys(vips)) {
					line += fmt.Sprintf(" %s=%s", at, vips[at])
				}
				dirty = append(dirty, line)
			}
			if text := strings.Join(dirty, "; "); text != step.dirty {
				t.Errorf("dirty are %q, want %q", text, step.dirty)
			}
			slices.Sort(around.told)
			if text := strings.Join(slices.Compact(around.told), "; "); text != step.told {
				t.Errorf("others are told %q, want %q", text, step.told)
			}
		})
	}
	if b.Known()+len(b.sliceOf)+len(b.perNode)+len(b.outward)+len(b.hinted)+len(b.sctp) > 0 {
		t.Errorf("what remains is %+v", b)
	}
}

// TestPending plays a Service that nobody gives addresses, and says after each step whether it is told, and whether it
// is looked at again in a while.
func TestPending(t *testing.T) {
	out := part.NewOutbox()
	b := NewPending(out, &settings.Settings{})
	service := func(uid types.UID, edits ...func(*objects.LoadBalancer)) func() {
		s := &objects.Service{Balancer: objects.LoadBalancer{Wanted: true}}
		s.Namespace, s.Name, s.UID = "default", "web", uid
		for _, edit := range edits {
			edit(&s.Balancer)
		}
		return func() { b.update("default/web", s) }
	}
	overdue := func(uid string) func() {
		return func() {
			b.Take(part.NewBatch([]part.Event{part.Signal{What: addressesOverdue, Name: "default/web/" + uid}}, nil))
		}
	}
	answered := func(l *objects.LoadBalancer) { l.Answered = true }
	for _, step := range []struct {
		name           string
		play           func()
		told, expected int
	}{
		{"it comes", service("1"), 0, 1},
		{"it changes", service("1", func(l *objects.LoadBalancer) { l.Local = true }), 0, 0},
		{"its time is over", overdue("1"), 1, 0},
		{"again", overdue("1"), 0, 0},
		{"somebody answers", service("1", answered), 0, 0},
		{"its time is over", overdue("1"), 0, 0},
		{"another one of its name", service("2"), 0, 1},
		{"the former one's time is over", overdue("1"), 0, 0},
		{"its own", overdue("2"), 1, 0},
		{"it has a class", service("2", func(l *objects.LoadBalancer) { l.Class = "example.org/cloud" }), 0, 0},
		{"it waits again", service("2"), 0, 1},
		{"it is gone", func() { b.update("default/web", nil) }, 0, 0},
		{"its time is over", overdue("2"), 0, 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.play()
			if told := out.TakeProblems(); len(told) != step.told {
				t.Errorf("told are %v, want %d", told, step.told)
			}
			if expected := out.TakeExpected(); len(expected) != step.expected {
				t.Errorf("expected are %v, want %d", expected, step.expected)
			}
		})
	}
	if len(b.all)+len(out.Told) > 0 {
		t.Errorf("what remains is %v, %v", b.all, out.Told)
	}
}
