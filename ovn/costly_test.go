package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/test/cases"
)

// costly is a Service of many ports with so many endpoints, as the API server has it, and of everything else that has a
// number.
func costly(ports, endpoints int) (*corev1.Service, []*discoveryv1.EndpointSlice) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "big", UID: "u-big"}}
	s.Spec.Type, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeLoadBalancer, "10.96.9.9", []string{"10.96.9.9"}
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}, {IP: "198.51.100.2"}}
	for i := range 5000 {
		s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, fmt.Sprintf("11.%d.%d.0/25", i/256, i%256))
	}
	tcp, ready, node := corev1.ProtocolTCP, true, "n1"
	var served []discoveryv1.EndpointPort
	for i := range ports {
		name, number := fmt.Sprint("p", i), int32(i+1)
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Protocol: tcp, Port: number})
		served = append(served, discoveryv1.EndpointPort{Name: &name, Protocol: &tcp, Port: &number})
	}
	var list []*discoveryv1.EndpointSlice
	for i := range endpoints {
		if i%100 == 0 {
			list = append(list, &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: served,
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: fmt.Sprint("big-", i), Labels: map[string]string{discoveryv1.LabelServiceName: "big"}}})
		}
		last := list[len(list)-1]
		last.Endpoints = append(last.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.%d", i/100, i%100+3)}, NodeName: &node,
				Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return s, list
}

// What one Service or one pod may cost all nodes has a bound, whatever has a number in it.
func TestCostlyServices(t *testing.T) {
	w := newWorld()
	c := newCluster(ovntest.Settings(t, func(*settings.Config) {}))
	n1 := w.node("n1", "10.244.0.0/16")
	n1.Facts = ovntest.Facts(1, true)
	object, from := costly(3000, 300)
	keys := w.put(n1, objects.TrimService(object))
	for _, s := range from {
		keys = append(keys, w.put(objects.TrimSlice(s))...)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "many", UID: "u-many"},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{}}}}
	for i := range int32(3000) {
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: 20000 + i,
			ContainerPort: 1 + i, HostIP: "192.0.2.200"})
	}
	keys = append(keys, w.put(objects.TrimPod(pod))...)
	c.begin(records.Records{}, keys, w.Get)
	vips, endpoints, match := 0, 0, 0
	for _, change := range c.takeEverything() {
		for _, row := range change.Rows {
			switch m := row.Model.(type) {
			case *nb.LoadBalancer:
				for _, to := range m.Vips {
					vips++
					endpoints += strings.Count(to, ":")
				}
			case *nb.ACL:
				match = max(match, len(m.Match))
			}
		}
	}
	if vips == 0 || vips > 5*outside.Most {
		t.Errorf("%d addresses and ports", vips)
	}
	if endpoints == 0 || endpoints > outside.MostBackends {
		t.Errorf("%d endpoints of all addresses and ports", endpoints)
	}
	if match > 32<<10 {
		t.Errorf("a match of %d bytes", match)
	}
	told := map[string]int{}
	for _, p := range c.TakeProblems() {
		told[p.Reason]++
	}
	for _, reason := range []string{"TooManyServicePorts", "TooManySourceRanges", "TooManyEndpoints", "TooManyHostPorts"} {
		if told[reason] == 0 || told[reason] > objects.MaxTold+1 {
			t.Errorf("%s is told %d times, of %v", reason, told[reason], told)
		}
	}
	for reason, count := range told {
		if count > objects.MaxTold+1 {
			t.Errorf("%s is told %d times", reason, count)
		}
	}
}

// TestCostlyServicesOfManyNodes: where each node has rows of its own of a Service, all of these have a bound, too, and
// the Service is told how to do without. What one node can bear is served whole in a small cluster.
func TestCostlyServicesOfManyNodes(t *testing.T) {
	cases.Long(t)
	for _, c := range []struct {
		name string
		edit func(s *objects.Service, all, first *objects.EndpointSlice) // first has the first port, all the others
		cut  bool                                                        // with many nodes
	}{
		{"plain", func(*objects.Service, *objects.EndpointSlice, *objects.EndpointSlice) {}, false},
		{"sticky", func(s *objects.Service, _, _ *objects.EndpointSlice) { s.ClientIP, s.StickySeconds = true, 100 }, true},
		{"hinted by node", func(_ *objects.Service, all, first *objects.EndpointSlice) { eachForItsNode(all, first) }, false},
		{"a port hinted by node", func(_ *objects.Service, _, first *objects.EndpointSlice) { eachForItsNode(first) }, true},
		{"aliased", func(_ *objects.Service, all, _ *objects.EndpointSlice) {
			for i := range 100 {
				all.Endpoints[i].Addr = netip.AddrFrom4([4]byte{203, 0, 113, byte(1 + i)})
			}
		}, true},
	} {
		for _, nodes := range []int{1, 100} {
			t.Run(fmt.Sprintf("%s, %d nodes", c.name, nodes), func(t *testing.T) {
				s := newScene(t, nil)
				o, all, first := s.manyPorts(nodes)
				c.edit(o, all, first)
				s.do(o, all, first)
				endpoints := 0
				for _, row := range s.northbound[northbound.ServiceOwner("default/big")].Rows {
					if m, ok := row.Model.(*nb.LoadBalancer); ok {
						for at, to := range m.Vips {
							if to == "" {
								t.Errorf("nobody serves %s of %s", at, m.Name)
							}
							endpoints += strings.Count(to, ":")
						}
					}
				}
				if endpoints == 0 || endpoints > outside.MostWritten {
					t.Errorf("%d endpoints in all rows", endpoints)
				}
				told := fmt.Sprint(s.problems)
				cut := c.cut && nodes > 1
				if strings.Contains(told, "TooManyEndpoints") != cut || cut && (endpoints < outside.MostWritten/25 ||
					!strings.Contains(told, "do without sessionAffinity ClientIP with NodePorts, hints for nodes")) {
					t.Errorf("with %d endpoints in all rows told %.500s", endpoints, told)
				}
			})
		}
	}
}

// manyPorts are a Service with twenty ports and 400 endpoints of each, and so many nodes.
func (s *scene) manyPorts(nodes int) (o *objects.Service, all, first *objects.EndpointSlice) {
	s.t.Helper()
	var keys []part.Event
	for i := 1; i <= nodes; i++ {
		n := s.node(fmt.Sprint("n", i), fmt.Sprintf("10.244.%d.0/24", i))
		n.Facts = ovntest.EditFacts(i, false, func(f *contract.NodeFacts) { f.Gateway.HostAddresses = true })
		keys = append(keys, s.put(n)...)
	}
	s.touch(append(keys, s.put(s.namespace("default"))...))
	s.problems = nil
	o = s.service("big", "10.96.0.10")
	o.Ports = nil
	o.Ingress = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")}
	var served []objects.ServicePort
	for i := range 20 {
		p := objects.ServicePort{Name: fmt.Sprint("p", i), Protocol: "tcp", Port: uint16(1 + i)}
		o.Ports, o.NodePorts = append(o.Ports, p),
			append(o.NodePorts, objects.NodePort{ServicePort: p, Number: uint16(30000 + i)})
		served = append(served, objects.ServicePort{Name: p.Name, Protocol: "tcp", Port: 8080})
	}
	var list []objects.Endpoint
	for i := range 400 {
		list = append(list, ready(fmt.Sprintf("10.244.%d.%d", 1+i%100, 3+i/100), fmt.Sprint("n", 1+i%100)))
	}
	return o, s.slice("big-1", "big", served[1:], list...), s.slice("big-2", "big", served[:1], slices.Clone(list)...)
}

// eachForItsNode gives endpoints hints, as trafficDistribution PreferSameNode does.
func eachForItsNode(list ...*objects.EndpointSlice) {
	for _, s := range list {
		for i := range s.Endpoints {
			s.Endpoints[i].Nodes = objects.NewHints([]string{s.Endpoints[i].Node})
		}
	}
}

// A Service of very many sticky ports has so many rows for all nodes that even one endpoint of each is too much: it has
// fewer ports.
func TestSoManyPortsOfSoManyNodes(t *testing.T) {
	cases.Long(t)
	w := newWorld()
	o := w.service("big", "10.96.0.10")
	o.ClientIP, o.StickySeconds, o.Ports = true, 100, nil
	var served []objects.ServicePort
	for i := range outside.Most {
		p := objects.ServicePort{Name: fmt.Sprint("p", i), Protocol: "tcp", Port: uint16(1 + i)}
		o.Ports, o.NodePorts = append(o.Ports, p),
			append(o.NodePorts, objects.NodePort{ServicePort: p, Number: uint16(30000 + i)})
		served = append(served, objects.ServicePort{Name: p.Name, Protocol: "tcp", Port: 8080})
	}
	on := &loadbalancer.Nodes{Balanced: func(objects.Claim) bool { return false },
		Announcer: func(netip.Addr) (string, bool) { return "", false }}
	for i := range 500 {
		on.Names = append(on.Names, fmt.Sprintf("n%03d", i))
		addr := netip.AddrFrom4([4]byte{198, 18, byte(i / 256), byte(i % 256)})
		on.Own[0] = append(on.Own[0], loadbalancer.OwnAddress{Addr: addr, Node: on.Names[i]})
	}
	from := []*objects.EndpointSlice{w.slice("big-1", "big", served, ready("10.244.1.3", "n001"),
		ready("10.244.1.4", "n001"))}
	_, to := loadbalancer.Rows(o, from, on)
	if to.Endpoints != 1 || to.Ports == 0 || to.Ports > 500 || to.Ports < 100 {
		t.Errorf("%d ports of %d endpoints are served", to.Ports, to.Endpoints)
	}
	var told []string
	for _, p := range loadbalancer.Problems(o, from, to, on) {
		told = append(told, p.String())
	}
	left := fmt.Sprintf("the last %d are not served", outside.Most-to.Ports)
	if text := strings.Join(told, "\n"); !strings.Contains(text, left) || !strings.Contains(text, "sessionAffinity") {
		t.Errorf("told %.1000s", text)
	}
}
