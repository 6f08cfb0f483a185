package ovn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// outward is a Service of some age with node ports and addresses outside.
func (s *scene) outward(name string, age int, number uint16, addresses ...string) *objects.Service {
	o := s.service(name, "10.96.0."+fmt.Sprint(10+len(s.objects)))
	o.CreationTimestamp = metav1.NewTime(time.Unix(int64(1700000000-age), 0))
	if number != 0 {
		o.NodePorts = []objects.NodePort{{ServicePort: o.Ports[0], Number: number}}
	}
	for _, a := range addresses {
		o.ExternalIPs = append(o.ExternalIPs, netip.MustParseAddr(a))
	}
	return o
}

// served are the VIPs outside of all Services, except for those of ClusterIPs.
func (s *scene) served() string {
	var list []string
	for _, owner := range s.c.services.Dirty(true) {
		_, name := part.Split(owner)
		for _, r := range s.northbound[owner].Rows {
			row, ok := r.Model.(*nb.LoadBalancer)
			if !ok {
				continue
			}
			for at := range row.Vips {
				if !strings.HasPrefix(at, "10.96.") && !strings.HasPrefix(at, "^HOSTIP") {
					list = append(list, strings.TrimPrefix(name, "default/")+" "+at)
				}
			}
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

func TestClaims(t *testing.T) {
	newClaims := func(t *testing.T) *scene {
		s := newScene(t, allowHosts)
		n1 := s.node("n1", "10.244.1.0/24")
		n1.Facts = ovntest.Facts(1, false)
		s.do(n1)
		return s
	}
	const here = "^NODEIP4_0:%d, %[2]s ^NODEIP4_1:%[1]d"
	onNodes := func(name string, port int) string { return name + " " + fmt.Sprintf(here, port, name) }

	t.Run("a Service has a node's address once", func(t *testing.T) {
		s := newClaims(t)
		same := s.outward("same", 1, 30080, "192.0.2.1", "198.51.100.1")
		same.Ports[0].Port, same.NodePorts[0].Port = 30080, 30080
		s.do(same)
		s.want("by its NodePort", s.served(), "same 198.51.100.1:30080, "+onNodes("same", 30080))
		s.wantReasons()
		s.remove(objects.ServiceKind, "default/same")

		other := s.outward("other", 1, 30080, "192.0.2.1")
		other.Ports = append(other.Ports, objects.ServicePort{Name: "alt", Protocol: "tcp", Port: 30080})
		s.do(other)
		s.want("by another port's NodePort", s.served(), "other 192.0.2.1:80, "+onNodes("other", 30080))
		s.wantReasons("Service default/other AddressConflict")
		s.remove(objects.ServiceKind, "default/other")

		guarded := s.outward("guarded", 1, 30080, "192.0.2.1")
		guarded.Ports[0].Port, guarded.NodePorts[0].Port = 30080, 30080
		guarded.Ingress, guarded.SourceRanges = guarded.ExternalIPs, []string{"192.0.2.0/24"}
		s.do(guarded)
		s.want("by its NodePort", s.served(), onNodes("guarded", 30080))
		if change := s.c.changeOf(northbound.ServiceOwner("default/guarded")); !slices.ContainsFunc(change.Rows,
			func(r ovsdb.Row) bool {
				row, ok := r.Model.(*nb.ACL)
				return ok && row.Action == nb.ACLActionDrop && strings.Contains(row.Match, "192.0.2.1")
			}) {
			t.Errorf("nobody is kept from the load balancer's address: %v", change.Rows)
		}
	})
	t.Run("the older Service has an address, and when it goes the other", func(t *testing.T) {
		s := newClaims(t)
		s.do(s.outward("young", 1, 0, "198.51.100.1"))
		s.want("alone", s.served(), "young 198.51.100.1:80")
		s.do(s.outward("old", 2, 0, "198.51.100.1", "198.51.100.2"))
		s.want("both", s.served(), "old 198.51.100.1:80, old 198.51.100.2:80")
		if len(s.problems) != 1 {
			t.Fatalf("problems %v", s.problems)
		}
		for _, word := range []string{"Service default/young", "AddressConflict", "spec.externalIPs", "198.51.100.1:80/tcp",
			"Service default/old", "choose another"} {
			if !strings.Contains(s.problems[0].String(), word) {
				t.Errorf("%q lacks %q", s.problems[0], word)
			}
		}
		s.problems = nil
		s.remove(objects.ServiceKind, "default/old")
		s.want("without the old", s.served(), "young 198.51.100.1:80")
		s.wantReasons()
	})
	t.Run("of the same age the name decides, and another port is another", func(t *testing.T) {
		s := newClaims(t)
		a, b, other := s.outward("a", 1, 0, "198.51.100.1"), s.outward("b", 1, 0, "198.51.100.1"),
			s.outward("other", 0, 0, "198.51.100.1")
		other.Ports[0].Port = 81
		s.do(b, other, a)
		s.want("served", s.served(), "a 198.51.100.1:80, other 198.51.100.1:81")
		s.wantReasons("Service default/b AddressConflict")
	})
	t.Run("an address by two ways is one Service's", func(t *testing.T) {
		s := newClaims(t)
		a, b := s.outward("a", 2, 0), s.outward("b", 1, 0, "198.51.100.1")
		a.Ingress = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
		s.do(a, b)
		s.want("served", s.served(), "a 198.51.100.1:80")
		s.wantReasons("Service default/b AddressConflict")
		freed := *a
		freed.Ingress = nil
		s.do(&freed)
		s.want("freed", s.served(), "b 198.51.100.1:80")
	})
	t.Run("a node port twice", func(t *testing.T) {
		s := newClaims(t)
		s.do(s.outward("a", 1, 30080), s.outward("b", 2, 30080))
		s.want("served", s.served(), onNodes("b", 30080))
		s.wantReasons("Service default/a AddressConflict")
		udp := s.outward("udp", 0, 30080)
		udp.Ports[0].Protocol, udp.NodePorts[0].Protocol = "udp", "udp"
		s.do(udp)
		s.wantReasons()
	})
	t.Run("a node port is its Service's at nodes' own addresses, too", func(t *testing.T) {
		s := newClaims(t)
		taker := s.outward("taker", 3, 0, "192.0.2.1", "198.51.100.1")
		taker.Ports[0].Port = 30080
		s.do(taker)
		s.want("alone", s.served(), "taker 192.0.2.1:30080, taker 198.51.100.1:30080")
		s.do(s.outward("a", 1, 30080))
		s.want("both", s.served(), onNodes("a", 30080)+", taker 198.51.100.1:30080")
		s.wantMessage("Service default/taker", "AddressConflict", "spec.externalIPs", "192.0.2.1:30080/tcp", "Node n1",
			"Service default/a", "choose another")
		udp := *taker
		udp.Ports = []objects.ServicePort{{Name: "x", Protocol: "udp", Port: 30080}}
		s.do(&udp)
		s.wantReasons()
		s.do(taker)
		s.remove(objects.ServiceKind, "default/a")
		s.want("without the node port", s.served(), "taker 192.0.2.1:30080, taker 198.51.100.1:30080")
	})
	t.Run("so is the port of a health check, which has nothing else outside", func(t *testing.T) {
		s := newClaims(t)
		taker := s.outward("taker", 3, 0, "192.0.2.1", "198.51.100.1")
		taker.Ports[0].Port = 30080
		s.do(taker)
		s.want("alone", s.served(), "taker 192.0.2.1:30080, taker 198.51.100.1:30080")
		checked := s.outward("checked", 1, 0)
		checked.ExternalLocal, checked.HealthPort = true, 30080
		s.do(checked)
		s.want("both", s.served(), "taker 198.51.100.1:30080")
		s.wantMessage("Service default/taker", "AddressConflict", "spec.externalIPs", "192.0.2.1:30080/tcp", "Node n1",
			"Service default/checked", "(spec.healthCheckNodePort)", "choose another")
		other := *checked
		other.HealthPort = 30081
		s.do(&other)
		s.want("another port", s.served(), "taker 192.0.2.1:30080, taker 198.51.100.1:30080")
		s.do(checked)
		s.remove(objects.ServiceKind, "default/checked")
		s.want("without the health check", s.served(), "taker 192.0.2.1:30080, taker 198.51.100.1:30080")
	})
	t.Run("a health check at a port of the host's own", func(t *testing.T) {
		s := newClaims(t)
		checked := s.outward("checked", 1, 0)
		checked.ExternalLocal, checked.HealthPort = true, 10250
		s.do(checked)
		s.wantMessage("Service default/checked", "AddressTaken", "spec.healthCheckNodePort", "10250/tcp", "host-ports")
	})
	t.Run("a node port out of the range is served and told", func(t *testing.T) {
		s := newClaims(t)
		s.do(s.outward("a", 1, 8080))
		s.want("served", s.served(), onNodes("a", 8080))
		s.wantReasons("Service default/a NodePortOutOfRange")
	})
	t.Run("addresses that cannot be", func(t *testing.T) {
		s := newClaims(t)
		s.do(s.outward("bad", 1, 0, "127.0.0.1", "169.254.1.1", "224.0.0.5", "0.0.0.0", "10.244.9.9", "10.96.9.9",
			"100.64.0.7", "198.51.100.1"))
		s.want("served", s.served(), "bad 198.51.100.1:80")
		if len(s.problems) != 7 {
			t.Errorf("problems %v", s.problems)
		}
		for _, p := range s.problems {
			if p.Reason != "BadExternalAddress" || !strings.Contains(p.Message, "spec.externalIPs: ") ||
				!strings.Contains(p.Message, "give an address") {
				t.Errorf("problem %v", p)
			}
		}
		s.problems = nil
		s.do(s.serviceCIDR("more", "198.51.100.0/24"))
		s.want("a new range of ClusterIPs has it", s.served(), "")
		s.wantReasons("Service default/bad BadExternalAddress")
		s.remove(objects.ServiceCIDRKind, "more")
		s.want("the range is gone", s.served(), "bad 198.51.100.1:80")
	})
	t.Run("a load balancer's address goes before an older Service's externalIPs", func(t *testing.T) {
		s := newClaims(t)
		old, young := s.outward("old", 2, 0, "198.51.100.1"), s.outward("young", 1, 0)
		young.Ingress = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
		s.do(old)
		s.do(young)
		s.want("served", s.served(), "young 198.51.100.1:80")
		s.wantReasons("Service default/old AddressConflict")
	})
	t.Run("what a node cannot do without stays its host's", func(t *testing.T) {
		s := newClaims(t)
		a := s.outward("a", 1, 22, "192.0.2.1", "198.51.100.1", "203.0.113.1")
		a.Ports[0].Port = 10250
		s.do(a)
		s.want("served", s.served(), "a 198.51.100.1:10250")
		s.wantReasons("Service default/a AddressTaken", "Service default/a AddressTaken", "Service default/a AddressTaken",
			"Service default/a NodePortOutOfRange")
		s.remove(objects.NodeKind, "n1")
		s.want("without the node", s.served(), "a 192.0.2.1:10250, a 198.51.100.1:10250, a 203.0.113.1:10250")
		udp := s.outward("udp", 1, 0, "192.0.2.1")
		udp.Ports[0] = objects.ServicePort{Name: "x", Protocol: "udp", Port: 10250}
		s.do(udp)
		s.wantReasons()
	})
	t.Run("the API server's address stays so", func(t *testing.T) {
		s := newClaims(t)
		a := s.outward("a", 1, 0, "198.51.100.1")
		s.do(a)
		s.want("before", s.served(), "a 198.51.100.1:80")
		s.do(s.slice("kubernetes", "kubernetes", []objects.ServicePort{{Name: "https", Protocol: "tcp", Port: 80}},
			ready("198.51.100.1", "")))
		s.want("with it", s.served(), "")
		s.wantReasons("Service default/a AddressTaken")
		s.remove(objects.SliceKind, "default/kubernetes")
		s.want("after", s.served(), "a 198.51.100.1:80")
	})
	t.Run("an address of a pool is its holder's, on every port", func(t *testing.T) {
		s := newScene(t, withBalancers)
		n1 := s.node("n1", "10.244.1.0/24")
		n1.Facts, n1.Ready = ovntest.Facts(1, false), true
		s.do(n1, s.namespace("default"), s.addressPool("p", "203.0.113.40/32"))
		thief := s.outward("thief", 9, 0, "203.0.113.40")
		thief.Ports = append(thief.Ports, objects.ServicePort{Name: "other", Protocol: "tcp", Port: 81})
		s.do(thief)
		s.want("nobody has it", s.served(), "thief 203.0.113.40:80, thief 203.0.113.40:81")
		s.do(s.balanced("b"))
		s.want("allocated", s.external("b"), "203.0.113.40")
		s.want("a holder", s.served(), "b 203.0.113.40:80")
		s.wantReasons("Service default/thief AddressConflict", "Service default/thief AddressConflict")
		s.remove(objects.ServiceKind, "default/b")
		s.want("nobody again", s.served(), "thief 203.0.113.40:80, thief 203.0.113.40:81")
	})
	t.Run("very many addresses are bounded, and what is told of them", func(t *testing.T) {
		s := newClaims(t)
		o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
			Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.9"}}}
		for i := range 100 {
			o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint(i), Port: int32(1 + i)})
		}
		for i := range 250 {
			o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, fmt.Sprintf("198.51.100.%d", i))
		}
		s.do(objects.TrimService(o))
		s.want("VIPs", fmt.Sprint(strings.Count(s.served(), " ")), fmt.Sprint(2*outside.Most-1))
		s.wantMessage("TooManyExternalAddresses", "240 addresses are left out")
		s.problems = nil
		b := s.outward("b", 9, 0)
		b.Ports, b.ExternalIPs = objects.TrimService(o).Ports, objects.TrimService(o).ExternalIPs
		s.do(b)
		if n := len(s.problems); n != objects.MaxTold+1 {
			t.Errorf("%d problems are told: %v", n, s.problems)
		}
	})
	t.Run("a node's own address may be one", func(t *testing.T) {
		s := newClaims(t)
		s.do(s.outward("a", 1, 0, "192.0.2.1"))
		s.want("served", s.served(), "a 192.0.2.1:80")
		s.wantReasons()
	})
}

// TestWhoIsLookedAtAmongRivals: whoever was first for an address and port and whoever is now, and who was told of the
// former.
func TestWhoIsLookedAtAmongRivals(t *testing.T) {
	s := newScene(t, nil)
	ports := make([]objects.ServicePort, 2*objects.MaxTold)
	for i := range ports {
		ports[i] = objects.ServicePort{Name: fmt.Sprint("p", i), Protocol: "tcp", Port: uint16(1000 + i)}
	}
	of := func(name string, age int, ports []objects.ServicePort) *objects.Service {
		o := s.outward(name, age, 0, "198.51.100.1")
		o.Ports = ports
		return o
	}
	// touched are the Services that are looked at with an event of one.
	touched := func(keys []part.Event) string {
		t.Helper()
		s.c.update(keys, s.Get)
		all := strings.Join(slices.Sorted(s.c.services.Touched()), " ")
		s.write(s.c.takeChanges())
		s.touch(s.absorb(s.c))
		return strings.ReplaceAll(all, "default/", "")
	}
	a, b, c := of("a", 3, ports), of("b", 2, ports), of("c", 1, ports)
	s.do(a, b, c)
	s.want("told", fmt.Sprint(len(s.problems)), fmt.Sprint(2*(objects.MaxTold+1)))
	s.problems = nil
	again := *c
	again.PublishNotReady = true
	s.want("the last changes", touched(s.put(&again)), "c")
	without := *a
	without.Ports = ports[:len(ports)-1]
	s.want("the first gives up what the last was not told of", touched(s.put(&without)), "a b")
	s.want("whose that is", fmt.Sprint(strings.Count(s.served(), "b 198")), "1")
	s.problems = nil
	without.Ports = ports[1 : len(ports)-1]
	s.want("the first gives up what it was told of", touched(s.put(&without)), "a b c")
	if told := fmt.Sprint(s.problems); !strings.Contains(told, "Service default/c: AddressConflict: spec.externalIPs: "+
		"Service default/b already has 198.51.100.1:1000/tcp") {
		t.Errorf("told is %s", told)
	}
	s.do(a)
	s.problems = nil
	given := *c
	given.Ingress = given.ExternalIPs
	s.want("the last has it by its load balancer", touched(s.put(&given)), "a b c")
	s.want("what is served", fmt.Sprint(strings.Count(s.served(), "c 198")), fmt.Sprint(len(ports)))
	delete(s.objects, objects.Key{Kind: objects.ServiceKind, Name: "default/c"})
	s.want("it goes", touched([]part.Event{objects.Key{Kind: objects.ServiceKind, Name: "default/c"}}), "a b c")
	s.want("what is served", fmt.Sprint(strings.Count(s.served(), "a 198")), fmt.Sprint(len(ports)))
}

// TestStickyServicesTakeNothing: an endpoint that is somebody's address of a load balancer is not mapped to
// itself, which would cut that off; whoever comes first.
func TestStickyServicesTakeNothing(t *testing.T) {
	s := newScene(t, nil)
	n1 := s.node("n1", "10.244.1.0/24")
	n1.Facts = ovntest.Facts(1, false)
	s.do(n1)
	self := func(when, want string) {
		t.Helper()
		got := ""
		for _, r := range s.c.changeOf(northbound.ServiceOwner("default/thief")).Rows {
			if row, ok := r.Model.(*nb.LoadBalancer); ok && r.Key == "tcp/self" {
				got = strings.Join(slices.Sorted(maps.Keys(row.Vips)), " ")
			}
		}
		s.want(when, got, want)
	}
	thief := s.service("thief", "10.96.0.66")
	thief.ClientIP = true
	s.do(thief, s.slice("thief", "thief", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 30080}},
		ready("10.96.0.10", ""), ready("198.51.100.1", ""), ready("192.0.2.1", ""), ready("10.244.1.9", "n1")))
	self("alone", "10.244.1.9:30080 192.0.2.1:30080 198.51.100.1:30080")
	victim := s.outward("victim", 1, 0, "198.51.100.1")
	victim.Ports[0].Port = 30080
	s.do(victim)
	self("an external address", "10.244.1.9:30080 192.0.2.1:30080")
	s.do(s.outward("other", 1, 30080))
	self("a NodePort", "10.244.1.9:30080")
	s.remove(objects.ServiceKind, "default/other")
	self("no NodePort", "10.244.1.9:30080 192.0.2.1:30080")
	pod := s.pod("default", "p", "n1")
	pod.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 30080, Into: 80}}
	s.do(pod)
	self("a host port", "10.244.1.9:30080")
	s.remove(objects.PodKind, "default/p")
	s.remove(objects.ServiceKind, "default/victim")
	self("alone again", "10.244.1.9:30080 192.0.2.1:30080 198.51.100.1:30080")
}

func TestPortRange(t *testing.T) {
	for text, want := range map[string]settings.PortRange{
		"30000-32767": {First: 30000, Last: 32767}, "30000+100": {First: 30000, Last: 30100},
		"1-65535": {First: 1, Last: 65535}, "30080": {First: 30080, Last: 30080}, "30080-30080": {First: 30080, Last: 30080},
	} {
		if got, err := settings.ParsePortRange(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-", "30000-", "-30000", "32767-30000", "0-5", "0", "1-65536", "65535+1",
		"30000-32767x", "30000 - 32767", "1+70000"} {
		if got, err := settings.ParsePortRange(text); err == nil || !strings.Contains(err.Error(), "node-port-range: ") ||
			!strings.Contains(err.Error(), "write it like") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}
