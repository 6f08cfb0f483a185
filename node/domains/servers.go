package domains

import (
	"net/netip"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/contract"
)

// Pod is a DNS server's.
type Pod struct{ Namespace, Name, UID string }

// server is a DNS server's endpoint on this node.
type server struct {
	pod   Pod // empty: the endpoint names none
	addr  netip.Addr
	ports []uint16
}

// slice is an EndpointSlice cut down to the endpoints on this node. One that is not ready counts, too: until
// its last client has gone elsewhere it goes on answering.
type slice struct {
	metav1.ObjectMeta
	servers []server
}

// trimSlice is an informer's transform.
func trimSlice(node string) cache.TransformFunc {
	return func(object any) (any, error) {
		o, ok := object.(*discoveryv1.EndpointSlice)
		if !ok {
			return object, nil
		}
		s := &slice{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID,
			ResourceVersion: o.ResourceVersion}}
		ports := dnsPorts(o.Ports)
		for _, e := range o.Endpoints {
			if e.NodeName == nil || *e.NodeName != node || len(e.Addresses) == 0 || len(ports) == 0 {
				continue
			}
			one := server{ports: ports}
			if of := e.TargetRef; of != nil && of.Kind == "Pod" {
				one.pod = Pod{of.Namespace, of.Name, string(of.UID)}
			}
			var err error
			if one.addr, err = netip.ParseAddr(e.Addresses[0]); err == nil {
				s.servers = append(s.servers, one)
			}
		}
		return s, nil
	}
}

// dnsPorts are the ports where DNS is spoken.
func dnsPorts(list []discoveryv1.EndpointPort) []uint16 {
	var ports []uint16
	for _, p := range list {
		if p.Port == nil {
			continue
		}
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if port := uint16(*p.Port); contract.DNSPort(name, port) && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// newServers watches the slices of a Service, NAMESPACE/NAME.
func newServers(client kubernetes.Interface, service, node string) cache.SharedIndexInformer {
	namespace, name, _ := strings.Cut(service, "/")
	return informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = discoveryv1.LabelServiceName + "=" + name
		}),
		informers.WithTransform(trimSlice(node)),
	).Discovery().V1().EndpointSlices().Informer()
}
