package services

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/proxy"

	"github.com/weftnet/weft/models/contract"
)

// kubeProxy is what a node's kube-proxy knows in an address family, by its own code.
type kubeProxy struct {
	node      string
	family    corev1.IPFamily
	services  *proxy.ServiceChangeTracker
	slices    *proxy.EndpointsChangeTracker
	ports     proxy.ServicePortMap
	endpoints proxy.EndpointsMap
}

func newKubeProxy(node string, family corev1.IPFamily) *kubeProxy {
	return &kubeProxy{
		node: node, family: family, ports: proxy.ServicePortMap{}, endpoints: proxy.EndpointsMap{},
		services: proxy.NewServiceChangeTracker(family, nil, nil),
		slices:   proxy.NewEndpointsChangeTracker(family, node, nil, nil),
	}
}

// update takes in an event; before or now is nil of an object that comes or goes.
func (k *kubeProxy) update(before, now any) {
	before, now = watched(before), watched(now)
	switch {
	case is[*corev1.Service](before, now):
		k.services.Update(as[*corev1.Service](before), as[*corev1.Service](now))
		k.ports.Update(k.services)
	case is[*discoveryv1.EndpointSlice](before, now):
		was, is := as[*discoveryv1.EndpointSlice](before), as[*discoveryv1.EndpointSlice](now)
		if was != nil && (is == nil || sliceService(was) != sliceService(is)) {
			k.slices.EndpointSliceUpdate(was, true)
		}
		if is != nil {
			k.slices.EndpointSliceUpdate(servable(is), false)
		}
		k.endpoints.Update(k.slices)
	}
}

// watched is an object as kube-proxy's watches have it: nil where its labels leave it to another proxy.
func watched(o any) any {
	if meta, ok := o.(metav1.Object); ok {
		labels := meta.GetLabels()
		_, other := labels[contract.ProxyNameLabel]
		if _, headless := labels[contract.HeadlessLabel]; other || headless {
			return nil
		}
	}
	return o
}

func sliceService(s *discoveryv1.EndpointSlice) string { return s.Labels[discoveryv1.LabelServiceName] }

func is[T any](before, now any) bool {
	_, a := before.(T)
	_, b := now.(T)
	return a || b
}

func as[T any](o any) T {
	t, _ := o.(T)
	return t
}

// servable is a slice without what Weft leaves out with an Event, and kube-proxy hands on to the kernel unseen.
func servable(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s = s.DeepCopy()
	s.Ports = slices.DeleteFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return *p.Port < 1 || *p.Port > 65535 })
	s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
		addr, err := netip.ParseAddr(e.Addresses[0])
		return err != nil || addr.IsLoopback()
	})
	return s
}

// picked is what becomes of a client.
type picked struct {
	endpoints []string // sorted; none: the client is refused, or gets no answer
	dropped   bool     // the latter
	sticky    int      // seconds; 0: it is not
}

// pick is what a node's kube-proxy does with a client of a Service's port. The policy for clients outside holds for
// those alone: who is within the cluster has every endpoint at an address outside.
func (k *kubeProxy) pick(name proxy.ServicePortName, zone string, external, outside bool) picked {
	info := k.ports[name]
	cluster, local, _, any := proxy.CategorizeEndpoints(k.endpoints[name], info, k.node,
		map[string]string{corev1.LabelTopologyZone: zone})
	chosen := cluster
	if !external && info.InternalPolicyLocal() || outside && info.ExternalPolicyLocal() {
		chosen = local
	}
	p := picked{dropped: len(chosen) == 0 && any}
	for _, e := range chosen {
		p.endpoints = append(p.endpoints, e.String())
	}
	if info.SessionAffinityType() == corev1.ServiceAffinityClientIP {
		p.sticky = info.StickyMaxAgeSeconds()
	}
	slices.Sort(p.endpoints)
	return p
}
