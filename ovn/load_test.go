package ovn

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// load is a cluster of 20 nodes, 2,000 pods, and 1,050 Services with 10 endpoints each, 1,000 of them
// with two ports: what peers' figures are known for.
func load() []runtime.Object {
	const nodes, pods, services, twoPorts = 20, 2000, 1050, 1000
	var list []runtime.Object
	for i := range nodes {
		list = append(list, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: loadNode(i),
			UID: types.UID(fmt.Sprintf("node-%d", i))}})
	}
	for i := range pods {
		k := i / nodes
		list = append(list, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: loadNamespace(i), Name: fmt.Sprintf("pod-%04d", i),
				UID: types.UID(fmt.Sprintf("pod-%d", i))},
			Spec: corev1.PodSpec{NodeName: loadNode(i + k)}})
	}
	for i := range services {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: loadNamespace(i), Name: fmt.Sprintf("svc-%04d", i),
			UID: types.UID(fmt.Sprintf("svc-%d", i))},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP,
				ClusterIPs: []string{fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250)}}}
		e := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-x",
				UID:    types.UID(fmt.Sprintf("slice-%d", i)),
				Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}}}
		for p, port := range []int32{80, 443} {
			if p == 1 && i >= twoPorts {
				break
			}
			name, target, protocol := fmt.Sprintf("port-%d", port), 8000+port, corev1.ProtocolTCP
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.FromInt32(target),
				Protocol: protocol})
			e.Ports = append(e.Ports, discoveryv1.EndpointPort{Name: &name, Port: &target, Protocol: &protocol})
		}
		for j := range 10 {
			k, ready := (i*10+j)%pods, true
			node := loadNode(k)
			e.Endpoints = append(e.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.244.%d.%d", k%nodes, 3+(k/nodes)%240)}, NodeName: &node,
				Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready}})
		}
		list = append(list, s, e)
	}
	return list
}

func loadNode(i int) string      { return fmt.Sprintf("pn%02d", i%20) }
func loadNamespace(i int) string { return fmt.Sprintf("ns%02d", i%20) }

// loadWorld is load as the informers keep it.
func loadWorld() *world {
	w := newWorld()
	for _, o := range load() {
		w.put(trim(o))
	}
	return w
}
