package ovn

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// of edits a Service.
func of(protocol corev1.Protocol) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Protocol = protocol }
}

// TestWhatIsGoneIsFlushedAgain: a second time a while after, and a third time a longer while after.
func TestWhatIsGoneIsFlushedAgain(t *testing.T) {
	const a, b = "10.244.1.3", "10.244.1.4"
	log := func(edit ...func(*corev1.Service)) *objects.Service {
		named := func(s *corev1.Service) { s.Namespace, s.Name = "default", "log" }
		return trim(web(append(edit, named)...)).(*objects.Service)
	}
	newLog := func(t *testing.T, s *objects.Service) *scene {
		sc := newScene(t, nil)
		n1 := sc.node("n1", "10.244.1.0/24")
		n1.Facts = ovntest.Facts(1, false)
		sc.do(n1, s)
		return sc
	}
	at := func(s *scene, addresses ...string) {
		var list []objects.Endpoint
		for _, addr := range addresses {
			list = append(list, ready(addr, "n1"))
		}
		s.do(s.slice("log", "log", []objects.ServicePort{{Name: s.c.services.Service("default/log").Ports[0].Name,
			Protocol: "udp", Port: 8080}}, list...))
	}
	shown := func(s *scene) string {
		var list []string
		change := s.c.changeOf(northbound.FlushOwner("default/log"))
		for _, m := range change.Memberships {
			if m.UUID != northbound.JoinSwitchID {
				t.Errorf("a load balancer is a member of %v", m)
			}
		}
		for _, r := range change.Rows {
			if row, ok := r.Model.(*nb.LoadBalancer); ok {
				if row.Options["ct_flush"] != "true" {
					t.Errorf("options %v", row.Options)
				}
				for at, endpoints := range row.Vips {
					list = append(list, row.Options["address-family"]+" "+at+" "+endpoints)
				}
			}
		}
		slices.Sort(list)
		return strings.TrimSpace(strings.Join(list, ", "))
	}
	step := func(s *scene, what, want string) {
		t.Helper()
		s.touch(s.c.TakeExpected())
		s.want(what, shown(s), want)
	}
	vip := log().ClusterIPs[0].String() + ":80"
	udp := of(corev1.ProtocolUDP)

	t.Run("an endpoint goes, and more of them while it is shown", func(t *testing.T) {
		s := newLog(t, log(udp))
		at(s, a, b)
		step(s, "nothing has gone", "")
		at(s, b)
		s.want("not yet", shown(s), "")
		step(s, "a while after", vip+" "+a+":8080")
		at(s)
		s.want("the other is for later", shown(s), vip+" "+a+":8080")
		step(s, "another while after", vip+" "+b+":8080")
		step(s, "both once more", vip+" "+a+":8080,"+b+":8080")
		step(s, "at last", "")
		if expected := s.c.TakeExpected(); len(expected) > 0 {
			t.Errorf("%v are still expected", expected)
		}
	})
	t.Run("an endpoint comes back", func(t *testing.T) {
		s := newLog(t, log(udp))
		at(s, a)
		at(s)
		at(s, a)
		step(s, "it is there", "")
	})
	t.Run("an endpoint comes back between the times", func(t *testing.T) {
		s := newLog(t, log(udp))
		at(s, a)
		at(s)
		step(s, "the first time", vip+" "+a+":8080")
		step(s, "for a while", "")
		at(s, a)
		step(s, "it is there", "")
		if expected := s.c.TakeExpected(); len(expected) > 0 {
			t.Errorf("%v are still expected", expected)
		}
	})
	t.Run("NodePorts are templates", func(t *testing.T) {
		s := newLog(t, log(udp, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30514
		}))
		at(s, a)
		at(s)
		step(s, "all", vip+" "+a+":8080, ipv4 ^HOSTIP4:30514 "+a+":8080, ipv4 ^NODEIP4_0:30514 "+a+
			":8080, ipv4 ^NODEIP4_1:30514 "+a+":8080")
	})
	t.Run("nobody asks where there is no Service any more", func(t *testing.T) {
		s := newLog(t, log(udp))
		at(s, a)
		s.remove(objects.ServiceKind, "default/log")
		step(s, "nothing", "")
		for _, owner := range s.c.flushes.Dirty(true) {
			t.Errorf("%s is kept", owner)
		}
	})
	t.Run("TCP ends by itself", func(t *testing.T) {
		s := newLog(t, log())
		s.do(s.slice("log", "log", []objects.ServicePort{{Name: log().Ports[0].Name, Protocol: "tcp", Port: 8080}},
			ready(a, "n1")))
		at(s)
		step(s, "nothing", "")
	})
	t.Run("with a Windows node, whose agent lets no flush through", func(t *testing.T) {
		s := newLog(t, log(udp))
		windows := s.node("w1", "10.244.2.0/24")
		windows.OS = contract.Windows
		s.do(windows)
		at(s, a, b)
		at(s, b)
		step(s, "what has gone", vip+" "+a+":8080")
	})
}
