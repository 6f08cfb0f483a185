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

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/outside"
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
			list = append(list, &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: served, ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprint("big-", i), Labels: map[string]string{discoveryv1.LabelServiceName: "big"}}})
		}
		last := list[len(list)-1]
		last.Endpoints = append(last.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.%d", i/100, i%100+3)}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return s, list
}

// What one Service or one pod may cost all nodes has a bound, whatever has a number in it.
func TestCostlyServices(t *testing.T) {
	w := newWorld()
	c := newCluster(testSettings(t, func(*Config) {}))
	n1 := w.node("n1", "10.244.0.0/16")
	n1.facts = facts(1, true)
	object, from := costly(3000, 300)
	keys := w.put(n1, trimService(object))
	for _, s := range from {
		keys = append(keys, w.put(trimSlice(s))...)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "many", UID: "u-many"}, Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{}}}}
	for i := range int32(3000) {
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: 20000 + i, ContainerPort: 1 + i, HostIP: "192.0.2.200"})
	}
	keys = append(keys, w.put(trimPod(pod))...)
	c.begin(records{}, keys, w.get)
	vips, endpoints, match := 0, 0, 0
	for _, change := range c.everything() {
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
	for _, p := range c.takeProblems() {
		told[p.reason]++
	}
	for _, reason := range []string{"TooManyServicePorts", "TooManySourceRanges", "TooManyEndpoints", "TooManyHostPorts"} {
		if told[reason] == 0 || told[reason] > maxTold+1 {
			t.Errorf("%s is told %d times, of %v", reason, told[reason], told)
		}
	}
	for reason, count := range told {
		if count > maxTold+1 {
			t.Errorf("%s is told %d times", reason, count)
		}
	}
}

// Endpoints that get traffic come before others, and the list stays in order.
func TestFirstEndpoints(t *testing.T) {
	var list []backend
	for i, b := range []backend{{}, {ready: true}, {serving: true, terminating: true}, {ready: true}} {
		b.at = netip.MustParseAddrPort(fmt.Sprintf("10.244.0.%d:80", i+1))
		list = append(list, b)
	}
	for most, want := range map[int][]string{1: {"10.244.0.2:80"}, 3: {"10.244.0.2:80", "10.244.0.3:80", "10.244.0.4:80"}, 4: {"10.244.0.1:80", "10.244.0.2:80", "10.244.0.3:80", "10.244.0.4:80"}} {
		var got []string
		for _, b := range first(slices.Clone(list), most) {
			got = append(got, b.at.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d of them: %q, want %q", most, got, want)
		}
	}
}
