package load

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weftnet/weft/models/contract"
)

// Load is how much of everything.
type Load struct {
	Nodes, Namespaces int
	Pods, Apps        int // Apps is the number of different values of the label "app"
	Services          int // of type ClusterIP
	Ports             int // of each of them: one or two
	NodePorts         int // Services of type NodePort, one port each
	Endpoints         int // of each Service
	Policies          int // a namespace, the first of them a default deny
	ChurnPods         int // deleted, then made again
	ChurnServices     int // whose endpoints change in number
	ChurnEndpoints    int // to so many
	Windows           int // so many nodes, the last ones, are Windows nodes
	// HostAddresses: gateway routers have their hosts' addresses, as agents have it by default.
	HostAddresses bool
	// PodNetworks: agents say that they read the addresses of their pods from PodNetworks.
	PodNetworks bool
}

// Default is the load that the figures in docs/measurements.md are of.
func Default() Load {
	return Load{
		Nodes: 20, Namespaces: 20, Pods: 2000, Apps: 50,
		Services: 1000, Ports: 2, NodePorts: 50, Endpoints: 10, Policies: 20,
		ChurnPods: 500, ChurnServices: 200, ChurnEndpoints: 20,
	}
}

// Backends is the number of endpoints summed over all ports of all Services, before any churn.
func (l Load) Backends() int { return (l.Ports*l.Services + l.NodePorts) * l.Endpoints }

// BackendsAfterChurn is the same after ScaleServices.
func (l Load) BackendsAfterChurn() int {
	return l.Backends() + l.Ports*l.ChurnServices*(l.ChurnEndpoints-l.Endpoints)
}

// The cluster's ranges, which the controller has to be told. There is room for 3,000 nodes.
const (
	PodCIDR     = "10.240.0.0/12"
	ServiceCIDR = "10.96.0.0/16"
)

// Network is what gateways call the network outside.
const Network = "physnet"

// NodeName is the name of node i.
func NodeName(i int) string { return fmt.Sprintf("pn%02d", i) }

// Chassis is the chassis name of node i.
func Chassis(i int) string { return "chassis-" + NodeName(i) }

// NodeAddress is the address of node i, which is its tunnel's end too.
func NodeAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{172, 18, byte((i + 10) / 250), byte((i + 10) % 250)})
}

// PodAddress is one of node i's, by its last number. A node has a subnet of 256 addresses.
func PodAddress(i, last int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(244 + i/256), byte(i % 256), byte(last)})
}

func (l Load) namespace(i int) string { return fmt.Sprintf("ns%02d", i%l.Namespaces) }

// CreateNodes makes nodes with a pod subnet each. No agent runs on them, so what agents publish
// about their nodes is written here: an uplink with 1500 bytes and a gateway.
func (l Load) CreateNodes(ctx context.Context, api *API) (Phase, error) {
	return api.run(ctx, "nodes", l.Nodes, func(ctx context.Context, i int) error {
		node := l.Node(i)
		if err := api.create(ctx, "/api/v1/nodes", node); err != nil {
			return err
		}
		return api.patch(ctx, "/api/v1/nodes/"+node.Name+"/status", map[string]any{"status": readyStatus(i)})
	})
}

// Node i, with what its agent would have published.
func (l Load) Node(i int) *corev1.Node {
	name, address, subnet := NodeName(i), NodeAddress(i), netip.PrefixFrom(PodAddress(i, 0), 24).String()
	gateway := netip.AddrFrom4([4]byte{172, 18, 100, byte(i + 10)})
	facts := contract.NodeFacts{
		Chassis: Chassis(i), MTU: 1442, Addresses: []netip.Addr{address}, PodNetworks: l.PodNetworks,
		Gateway: &contract.Gateway{
			Network: Network, MAC: contract.MAC(gateway).String(),
			Addresses: []netip.Prefix{netip.PrefixFrom(gateway, 16)},
			NextHops:  []netip.Addr{netip.MustParseAddr("172.18.0.1")},
		},
	}
	if l.HostAddresses {
		facts.Gateway.HostAddresses = true
		facts.Gateway.MAC = contract.MAC(address).String()
		facts.Gateway.Addresses = []netip.Prefix{netip.PrefixFrom(address, 16)}
	}
	system := contract.Linux
	if i >= l.Nodes-l.Windows {
		system = contract.Windows
		facts.OS = system
		facts.Hosted = &contract.Hosted{Address: netip.AddrPortFrom(address, 16642).String()}
	}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: system,
				corev1.LabelArchStable: "amd64"},
			Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)},
		},
		Spec: corev1.NodeSpec{PodCIDR: subnet, PodCIDRs: []string{subnet}},
	}
}

func readyStatus(i int) map[string]any {
	capacity := map[string]string{"cpu": "32", "memory": "256Gi", "pods": "500"}
	return map[string]any{
		"addresses": []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: NodeAddress(i).String()},
			{Type: corev1.NodeHostName, Address: NodeName(i)},
		},
		"conditions": []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "made up",
			LastHeartbeatTime: metav1.NewTime(time.Now()), LastTransitionTime: metav1.NewTime(time.Now()),
		}},
		"capacity": capacity, "allocatable": capacity,
		"nodeInfo": corev1.NodeSystemInfo{KernelVersion: "6.1", OSImage: "x", ContainerRuntimeVersion: "x://1",
			KubeletVersion: "v1.35.4", OperatingSystem: "linux", Architecture: "amd64"},
	}
}

// CreateNamespaces makes the namespaces that everything else is in.
func (l Load) CreateNamespaces(ctx context.Context, api *API) (Phase, error) {
	return api.run(ctx, "namespaces", l.Namespaces, func(ctx context.Context, i int) error {
		return api.create(ctx, "/api/v1/namespaces", l.namespaceObject(i))
	})
}

func (l Load) namespaceObject(i int) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: l.namespace(i), Labels: map[string]string{"team": team(i),
			corev1.LabelMetadataName: l.namespace(i)}},
	}
}

func team(i int) string { return fmt.Sprintf("t%d", i%5) }

// CreatePods is W1.
func (l Load) CreatePods(ctx context.Context, api *API) (Phase, error) {
	return api.run(ctx, "pods", l.Pods, func(ctx context.Context, i int) error { return l.createPod(ctx, api, i) })
}

// DeletePods is the first half of the pods' churn, RecreatePods the second.
func (l Load) DeletePods(ctx context.Context, api *API) (Phase, error) {
	return api.run(ctx, "pods deleted", l.ChurnPods, func(ctx context.Context, i int) error {
		return api.delete(ctx, "/api/v1/namespaces/"+l.namespace(i)+"/pods/"+podName(i)+"?gracePeriodSeconds=0")
	})
}

// RecreatePods makes new pods with the names of those that DeletePods deleted.
func (l Load) RecreatePods(ctx context.Context, api *API) (Phase, error) {
	return api.run(ctx, "pods recreated", l.ChurnPods, func(ctx context.Context, i int) error {
		return l.createPod(ctx, api, i)
	})
}

func podName(i int) string { return fmt.Sprintf("pod-%04d", i) }

func (l Load) createPod(ctx context.Context, api *API, i int) error {
	return api.create(ctx, "/api/v1/namespaces/"+l.namespace(i)+"/pods", l.Pod(i))
}

// Pod i of the load has its port "http" at 8080 or 8081, as it differs among the pods of one app.
func (l Load) Pod(i int) *corev1.Pod {
	k := i / l.Namespaces // which pod of its namespace
	noToken := false
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace(i), Name: podName(i), Labels: map[string]string{"app": l.app(k),
			"side": sides[k%2]}},
		Spec: corev1.PodSpec{
			NodeName:                     NodeName((i + k) % l.Nodes),
			AutomountServiceAccountToken: &noToken,
			Containers: []corev1.Container{{Name: "c", Image: "x", Ports: []corev1.ContainerPort{
				{Name: "http", ContainerPort: int32(8080 + k/l.Apps%2), Protocol: corev1.ProtocolTCP}}}},
		},
	}
}

func (l Load) app(k int) string { return fmt.Sprintf("a%d", k%l.Apps) }

// CreateServices is W2: each Service and its EndpointSlice.
func (l Load) CreateServices(ctx context.Context, api *API) (Phase, error) {
	return api.run(ctx, "services", l.Services+l.NodePorts, func(ctx context.Context, i int) error {
		return l.createService(ctx, api, i)
	})
}

func serviceName(i int) string { return fmt.Sprintf("svc-%04d", i) }

// ServiceObjects are those that CreateServices makes, with the ClusterIPs that an API server would have given.
func (l Load) ServiceObjects() []runtime.Object {
	var list []runtime.Object
	for i := range l.Services + l.NodePorts {
		service, slice := l.service(i)
		service.Spec.ClusterIP = netip.AddrFrom4([4]byte{10, 96, byte(1 + i/250), byte(1 + i%250)}).String()
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
		service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		list = append(list, service, slice)
	}
	return list
}

func (l Load) createService(ctx context.Context, api *API, i int) error {
	service, slice := l.service(i)
	if err := api.create(ctx, "/api/v1/namespaces/"+service.Namespace+"/services", service); err != nil {
		return err
	}
	return api.create(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+service.Namespace+"/endpointslices", slice)
}

// service i is of type ClusterIP, and of type NodePort after all of these.
func (l Load) service(i int) (*corev1.Service, *discoveryv1.EndpointSlice) {
	name, kind := serviceName(i), corev1.ServiceTypeClusterIP
	if i >= l.Services {
		i -= l.Services
		name, kind = fmt.Sprintf("np-%02d", i), corev1.ServiceTypeNodePort
	}
	ports := []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080),
		Protocol: corev1.ProtocolTCP}}
	if kind == corev1.ServiceTypeNodePort {
		ports[0].NodePort = int32(30000 + i)
	} else if l.Ports > 1 {
		ports = append(ports, corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443),
			Protocol: corev1.ProtocolTCP})
	}
	slice := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace(i), Name: name + "-x", Labels: map[string]string{
			discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: "load"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   l.endpoints(i, l.Endpoints),
	}
	for i := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &ports[i].Name, Port: &ports[i].TargetPort.IntVal,
			Protocol: &ports[i].Protocol})
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace(i), Name: name},
		// Nothing here makes EndpointSlices from the selector: it is what a Service has.
		Spec: corev1.ServiceSpec{Type: kind, Ports: ports, Selector: map[string]string{"app": l.app(i)}},
	}, slice
}

func (l Load) endpoints(service, n int) []discoveryv1.Endpoint {
	yes, no := true, false
	list := make([]discoveryv1.Endpoint, n)
	for j := range list {
		// Hardly two of 5,000 Services have the same endpoints: OVN would have but one group for them.
		k := (service*10 + j*(1+service/72)) % min(2000, 240*l.Nodes)
		node := NodeName(k % l.Nodes)
		list[j] = discoveryv1.Endpoint{
			Addresses:  []string{PodAddress(k%l.Nodes, 3+k/l.Nodes%240).String()},
			NodeName:   &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
		}
	}
	return list
}

// ScaleServices is the churn of Services.
func (l Load) ScaleServices(ctx context.Context, api *API) (Phase, error) {
	return api.run(ctx, "endpoints scaled", l.ChurnServices, func(ctx context.Context, i int) error {
		return api.patch(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+l.namespace(i)+"/endpointslices/"+serviceName(i)+"-x",
			map[string]any{"endpoints": l.endpoints(i, l.ChurnEndpoints)})
	})
}

// ReplaceEndpoint puts an address in the place of the first endpoint of Service i, of type ClusterIP.
func (l Load) ReplaceEndpoint(ctx context.Context, api *API, i int, addr netip.Addr) error {
	slice := l.WithEndpoint(i, addr)
	return api.patch(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+slice.Namespace+"/endpointslices/"+slice.Name,
		map[string]any{"endpoints": slice.Endpoints})
}

// WithEndpoint is the slice of Service i, of type ClusterIP, with an address in the place of the first endpoint's.
func (l Load) WithEndpoint(i int, addr netip.Addr) *discoveryv1.EndpointSlice {
	_, slice := l.service(i)
	slice.Endpoints[0].Addresses = []string{addr.String()}
	return slice
}
