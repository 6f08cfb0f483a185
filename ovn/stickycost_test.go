package ovn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
)

// TestStickyNodePortsCostByNodes: addresses of nodes are written out for a sticky Service, and what that costs grows as
// the nodes do, not as their square: a tenant asks for it by one field.
func TestStickyNodePortsCostByNodes(t *testing.T) {
	work := func(nodes int) float64 {
		s := newScene(t, ovntest.Dual)
		var keys []part.Event
		for i := range nodes {
			n := s.node(fmt.Sprint("n", i), fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("fd00:10:244:%x::/64", i))
			n.Facts = strings.NewReplacer(`"192.0.2.1"`, fmt.Sprintf(`"192.0.2.%d"`, 1+i), `"203.0.113.1/24"`,
				fmt.Sprintf(`"203.0.113.%d/16"`, 1+i),
				"chassis-1", fmt.Sprint("chassis-", i), "2001:db8:1::1", fmt.Sprintf("2001:db8:1::%x", i+1), "2001:db8::1/",
				fmt.Sprintf("2001:db8::%x/", i+1)).Replace(ovntest.Facts(1, true))
			keys = append(keys, s.put(n)...)
		}
		s.touch(append(keys, s.put(s.namespace("default"))...))
		o := s.service("sticky", "10.96.0.10", "fd00:10:96::a")
		o.ClientIP, o.StickySeconds, o.Ports = true, 100, nil
		var ports []objects.ServicePort
		for i := range 10 {
			p := objects.ServicePort{Name: fmt.Sprint("p", i), Protocol: "tcp", Port: uint16(1 + i)}
			o.Ports, o.NodePorts = append(o.Ports, p),
				append(o.NodePorts, objects.NodePort{ServicePort: p, Number: uint16(30000 + i)})
			ports = append(ports, objects.ServicePort{Name: fmt.Sprint("p", i), Protocol: "tcp", Port: 8080})
		}
		var list []objects.Endpoint
		for i := range 10 {
			list = append(list, ready(fmt.Sprintf("10.244.0.%d", 5+i), "n0"))
		}
		s.do(o, s.slice("sticky-1", "sticky", ports, list...))
		key := objects.Key{Kind: objects.ServiceKind, Name: o.Namespace + "/" + o.Name}
		return testing.AllocsPerRun(1, func() {
			s.c.update([]part.Event{key}, s.Get)
			s.c.takeChanges()
		})
	}
	small, large := work(20), work(80)
	if ratio := large / small; ratio > 6 {
		t.Errorf("with four times the nodes it costs %.1f times as much", ratio)
	}
}
