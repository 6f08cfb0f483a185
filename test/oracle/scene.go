package oracle

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/models/contract"
)

// scene is a cluster with its policies, as the API server has them: its defaults are filled in.
type scene struct {
	families   families
	nodes      []*corev1.Node
	namespaces []*corev1.Namespace
	pods       []*corev1.Pod
	policies   []*networkingv1.NetworkPolicy
	wide       []*v1alpha2.ClusterNetworkPolicy
}

// families says which a cluster has.
type families struct{ ipv4, ipv6 bool }

func (f families) has(a netip.Addr) bool { return a.Is4() && f.ipv4 || a.Is6() && f.ipv6 }

func (s *scene) objects() []runtime.Object {
	return slices.Concat(objectsOf(s.nodes), objectsOf(s.namespaces), objectsOf(s.pods), objectsOf(s.policies),
		objectsOf(s.wide))
}

func objectsOf[O runtime.Object](list []O) []runtime.Object {
	all := make([]runtime.Object, len(list))
	for i, o := range list {
		all[i] = o
	}
	return all
}

// copy shares no object with the original.
func (s *scene) copy() *scene {
	return &scene{s.families, copies(s.nodes), copies(s.namespaces), copies(s.pods), copies(s.policies), copies(s.wide)}
}

func copies[O interface{ DeepCopy() O }](list []O) []O {
	all := make([]O, len(list))
	for i, o := range list {
		all[i] = o.DeepCopy()
	}
	return all
}

// String is the scene's manifests, without what nobody reads.
func (s *scene) String() string {
	var texts []string
	for _, o := range s.objects() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			panic(err)
		}
		if content["kind"] != "Pod" {
			delete(content, "status")
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			panic(err)
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, "---\n")
}

func (s *scene) namespace(name string) *corev1.Namespace {
	i := slices.IndexFunc(s.namespaces, func(n *corev1.Namespace) bool { return n.Name == name })
	return s.namespaces[i]
}

// node is the one that has an address in its status or among its pods; nil if it is nobody's.
func (s *scene) node(a netip.Addr) *corev1.Node {
	for _, n := range s.nodes {
		if slices.Contains(hostAddresses(n), a) || slices.Contains(managementAddresses(n), a) {
			return n
		}
	}
	return nil
}

// hostAddresses are those of a node's status.
func hostAddresses(n *corev1.Node) []netip.Addr {
	var list []netip.Addr
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil {
			list = append(list, addr)
		}
	}
	return list
}

// managementAddresses are those that a node's host has among its pods.
func managementAddresses(n *corev1.Node) []netip.Addr {
	var list []netip.Addr
	for _, cidr := range n.Spec.PodCIDRs {
		list = append(list, contract.ManagementAddress(netip.MustParsePrefix(cidr)))
	}
	return list
}

// connection is the first packet of one. Its ends are pods, as namespace/name, or addresses; the latter are
// of somebody outside, or of a node's host.
type connection struct {
	from, to string
	protocol corev1.Protocol // or ICMP
	port     uint16          // of the destination; 0: of ICMP
	family   int             // between two pods, which one of those that both have
}

const icmp corev1.Protocol = "ICMP"

func (c connection) String() string {
	return fmt.Sprintf("%s > %s %s/%d family %d", c.from, c.to, c.protocol, c.port, c.family)
}

// containers are those of a pod whose ports are open while it runs: of init containers those that run beside
// the others.
func containers(p *corev1.Pod) []corev1.Container {
	list := slices.DeleteFunc(slices.Clone(p.Spec.InitContainers), func(c corev1.Container) bool {
		return c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	})
	return append(list, p.Spec.Containers...)
}

// completed pods have given their address back.
func completed(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
