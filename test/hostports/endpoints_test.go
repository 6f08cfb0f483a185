package hostports

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/services"
	"github.com/weftnet/weft/test/cases"
)

// portsOfLarge are so many that the endpoints of a Service are more than are served.
const portsOfLarge = 100

// TestControllerAndAgentChooseTheSameEndpoints of a Service with policy Local that has more than are served.
func TestControllerAndAgentChooseTheSameEndpoints(t *testing.T) {
	cases.Long(t)
	compared, full := 0, 0
	for number := range uint64(3) {
		c, err := newCluster(*seed, number)
		if err != nil {
			t.Fatal(err)
		}
		service := c.large()
		for range 2 {
			if err := c.apply(append(c.slices(), service), nil); err != nil {
				t.Fatal(err)
			}
			for i := range nodes {
				all, bounded := c.compareEndpoints(t, i)
				compared, full = compared+all, full+bounded
			}
		}
		if told := c.controller.Problems(); !slices.ContainsFunc(told, func(p objects.Problem) bool {
			return p.Reason == "TooManyEndpoints"
		}) {
			t.Errorf("cluster %d: its endpoints are not too many: told %.1000q", number, told)
		}
	}
	if compared < 10 || full < 5 {
		t.Errorf("%d ports are compared, of them %d with as many endpoints as are served", compared, full)
	}
}

// compareEndpoints compares those of some NodePorts of a node, and counts those with as many as are served.
func (c *cluster) compareEndpoints(t *testing.T, node int) (compared, full int) {
	t.Helper()
	of := c.objects[keyOf(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "large"}})].(*corev1.Service)
	most := outside.Backends(len(of.Spec.ClusterIPs), len(of.Spec.ExternalIPs)+len(of.Status.LoadBalancer.Ingress),
		portsOfLarge, true)
	agent, _, err := c.agent(node)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := agent.Run()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range outcome.Sockets { // one of each protocol and family, since each takes the controller a while
		k := fmt.Sprint(s.Protocol, s.At.Addr().Is4())
		if s.At.Addr().IsLoopback() || s.At.Port() < 32000 || seen[k] || c.random.IntN(8) > 0 {
			continue
		}
		seen[k] = true
		b, ok := c.controller.Behind(s.Protocol, s.At, services.Door{Node: nodeName(node)})
		if !ok {
			t.Errorf("%s listens at %s %v, and OVN does not serve it", nodeName(node), s.Protocol, s.At)
			continue
		}
		var want []netip.Addr
		for _, at := range b.Endpoints {
			if s.Protocol != "udp" || at.Port() != contract.TunnelPort { // which the agent leaves to OVN
				want = append(want, at.Addr())
			}
		}
		if compared++; !slices.Equal(s.Endpoints, want) {
			t.Errorf("%s at %s %v: %d endpoints\n%v\nand OVN has %d\n%v", nodeName(node), s.Protocol, s.At,
				len(s.Endpoints), s.Endpoints, len(want), want)
		}
		if len(b.Endpoints) > most {
			t.Errorf("%v has %d endpoints, and at most %d", s.At, len(b.Endpoints), most)
		}
		if len(b.Endpoints) == most {
			full++
		}
	}
	return compared, full
}

// large is a Service of many ports.
func (c *cluster) large() *corev1.Service {
	o := &corev1.Service{ObjectMeta: c.meta("default", "large")}
	o.Spec.Type, o.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	o.Spec.ClusterIPs = one(c, []string{"10.96.0.100"}, []string{"10.96.0.100", "fd00:10:96::100"})
	o.Spec.PublishNotReadyAddresses = c.random.IntN(4) == 0
	for i := range int32(portsOfLarge) {
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: 1000 + i, NodePort: 32000 + i,
			Protocol: one(c, corev1.ProtocolTCP, corev1.ProtocolUDP)})
	}
	o.Spec.ExternalIPs = []string{"198.51.100.1", "198.51.100.2"}[:c.random.IntN(3)]
	for i := range c.random.IntN(3) {
		one := corev1.LoadBalancerIngress{IP: fmt.Sprint("198.51.100.10", i)}
		o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, one)
	}
	return o
}

// slices are those of that Service: some with all ports, some with a part of them, at other numbers.
func (c *cluster) slices() (list []runtime.Object) {
	unready := one(c, 0, 0, 1, 8) // for one that is ready
	for i := range 8 {
		kind := discoveryv1.AddressTypeIPv4
		if i%2 == 1 {
			kind = discoveryv1.AddressTypeIPv6
		}
		o := again(c, &discoveryv1.EndpointSlice{ObjectMeta: c.meta("default", fmt.Sprint("large-", i)), AddressType: kind})
		o.Labels = map[string]string{discoveryv1.LabelServiceName: "large"}
		service, _ := c.objects[keyOf(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "large"}})].(*corev1.Service)
		number := one(c, 8080, 8080, 9090, int32(contract.TunnelPort))
		for p := range portsOfLarge {
			if number != 8080 && c.random.IntN(3) == 0 {
				continue
			}
			port := discoveryv1.EndpointPort{Name: new(fmt.Sprint("p", p)), Port: &number, Protocol: new(corev1.ProtocolTCP)}
			if service != nil {
				port.Protocol = new(service.Spec.Ports[p].Protocol)
			}
			o.Ports = append(o.Ports, port)
		}
		for range 150 {
			o.Endpoints = append(o.Endpoints, c.endpoint(i%2 == 0, unready))
		}
		list = append(list, o)
	}
	return list
}

// endpoint is a pod, a host or somebody outside; one in several slices says of it what another does not.
func (c *cluster) endpoint(ipv4 bool, unready int) discoveryv1.Endpoint {
	pod, network := c.random.IntN(400), one(c, 0, 0, 0, 0, 0, 1)
	addr := fmt.Sprintf([2]string{"10.244.%d.%d", "198.51.%d.%d"}[network], pod/200, 2+pod%200)
	if !ipv4 {
		addr = fmt.Sprintf([2]string{"fd00:10:244:%x::%x", "2001:db8:9:%x::%x"}[network], pod/200, 2+pod%200)
	}
	e := discoveryv1.Endpoint{Addresses: []string{addr}}
	if c.random.IntN(4) > 0 {
		e.NodeName = new(nodeName(c.random.IntN(nodes)))
	}
	ready, serving := c.random.IntN(1+unready) == 0, c.random.IntN(2) == 0
	e.Conditions = discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving}
	e.Conditions.Terminating = new(!ready && c.random.IntN(2) == 0)
	return e
}
