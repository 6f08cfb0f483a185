package oracle

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Label is that of all objects which are made up for a real cluster. ClusterNetworkPolicies among them are about
// namespaces that have it.
const Label = "policy-oracle"

// Real makes up what is put into a real cluster: namespaces with pods that serve, and sets of policies about them. All
// follow from a seed.
type Real struct {
	seed  uint64
	names []string
}

func NewReal(seed uint64) Real { return Real{seed, []string{"oracle-a", "oracle-b", "oracle-c"}} }

func (r Real) generator(number uint64) *generator {
	g := newGenerator(r.seed, number)
	g.names = r.names
	return g
}

// podsPerNode is how many pods a node has.
const podsPerNode = 3

// Pods are the manifests of the namespaces and of their pods, which run agnhost, the image.
func (r Real) Pods(nodes []string, image string) string {
	g, s := r.generator(0), &scene{}
	for _, name := range r.names {
		s.namespaces = append(s.namespaces, g.namespace(name))
	}
	for i := range podsPerNode * len(nodes) {
		s.pods = append(s.pods, g.server(i, pick(g, r.names...), nodes[i%len(nodes)], image))
	}
	return s.labelled()
}

// server is a pod that answers on all ports that its container names.
func (g *generator) server(i int, namespace, node, image string) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p%d", i), Labels: g.labelled()}}
	c := corev1.Container{Name: "c", Image: image, Command: []string{"sh", "-c",
		"/agnhost netexec --http-port=80 --udp-port=80 & exec /agnhost netexec --http-port=8080 --udp-port=8081"}}
	names := append(slices.Clone(portNames), "")
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i, port := range []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP},
		{ContainerPort: 80, Protocol: corev1.ProtocolUDP},
		{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}, {ContainerPort: 8081, Protocol: corev1.ProtocolUDP}} {
		port.Name = names[i]
		c.Ports = append(c.Ports, port)
	}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz",
		Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1}
	grace := int64(1)
	p.Spec = corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{c}}
	return p
}

// Policies are the manifests of a set of policies. Every other one has ClusterNetworkPolicies, no two of them with one
// priority: what these mean together the API leaves open.
func (r Real) Policies(set uint64) string {
	g, s := r.generator(1+set), &scene{}
	for _, name := range r.names {
		s.namespaces = append(s.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	g.policies(s, set%2 == 1)
	s.namespaces = nil
	for i, priority := range g.Perm(len(s.wide)) {
		p := s.wide[i]
		p.Spec.Priority = int32(priority)
		namespaces := p.Spec.Subject.Namespaces
		if pods := p.Spec.Subject.Pods; pods != nil {
			namespaces = &pods.NamespaceSelector
		}
		namespaces.MatchExpressions = append(namespaces.MatchExpressions, metav1.LabelSelectorRequirement{Key: Label,
			Operator: metav1.LabelSelectorOpExists})
	}
	return s.labelled()
}

// labelled is the scene's manifests, with the label.
func (s *scene) labelled() string {
	for _, o := range s.objects() {
		metav1.SetMetaDataLabel(o.(interface{ metav1.ObjectMetaAccessor }).GetObjectMeta().(*metav1.ObjectMeta), Label, "")
	}
	return s.String()
}

// Verdict is what the oracles say of a connection.
type Verdict struct {
	From     string          `json:"from"` // a pod, as namespace/name
	To       string          `json:"to"`
	Address  netip.Addr      `json:"address"`
	Protocol corev1.Protocol `json:"protocol"`
	Port     uint16          `json:"port"`
	Allowed  bool            `json:"allowed"`
}

// Judge asks the oracles of all connections between the pods of a cluster: from each one to all ports that the others
// name, at each of their addresses. The list is what the API server has: Namespaces, Pods, NetworkPolicies and
// ClusterNetworkPolicies. It is an error if the oracles disagree.
func Judge(list corev1.List) ([]Verdict, error) {
	s, ends, err := read(list)
	if err != nil {
		return nil, err
	}
	o, err := newOracles(s, ends, newKubeNetworkPolicies())
	if err != nil {
		return nil, err
	}
	var verdicts []Verdict
	for p := range between(s.pods, ends) {
		opinions, err := o.ask(p)
		if err != nil {
			return nil, err
		}
		v := Verdict{name(p.from.pod), name(p.to.pod), p.to.address, p.protocol, p.port, opinions[0].allowed}
		if slices.ContainsFunc(opinions, func(o opinion) bool { return o.allowed != v.Allowed }) {
			return nil, fmt.Errorf("%+v: the oracles disagree: %v", v, opinions)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

func name(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// between yields the packets that begin the connections between pods.
func between(pods []*corev1.Pod, ends map[string][]*end) func(yield func(*packet) bool) {
	return func(yield func(*packet) bool) {
		for _, from := range pods {
			for _, to := range pods {
				for _, port := range to.Spec.Containers[0].Ports {
					for _, a := range ends[name(from)] {
						for _, b := range ends[name(to)] {
							if from != to && a.address.Is4() == b.address.Is4() &&
								!yield(&packet{a, b, port.Protocol, uint16(port.ContainerPort)}) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// read takes a cluster in.
func read(list corev1.List) (*scene, map[string][]*end, error) {
	s := &scene{}
	for _, item := range list.Items {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(item.Raw, &kind); err != nil {
			return nil, nil, err
		}
		var err error
		switch kind.Kind {
		case "Namespace":
			s.namespaces, err = add(s.namespaces, item.Raw)
		case "Pod":
			s.pods, err = add(s.pods, item.Raw)
		case "NetworkPolicy":
			s.policies, err = add(s.policies, item.Raw)
		case "ClusterNetworkPolicy":
			s.wide, err = add(s.wide, item.Raw)
		default:
			err = fmt.Errorf("the oracles know nothing of the kind %q", kind.Kind)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	ends := map[string][]*end{}
	for _, p := range s.pods {
		for _, ip := range p.Status.PodIPs {
			address, err := netip.ParseAddr(ip.IP)
			if err != nil {
				return nil, nil, fmt.Errorf("pod %s: %w", name(p), err)
			}
			ends[name(p)] = append(ends[name(p)], &end{address: address, pod: p, namespace: s.namespace(p.Namespace)})
		}
	}
	return s, ends, nil
}

func add[T any](list []*T, raw []byte) ([]*T, error) {
	o := new(T)
	return append(list, o), json.Unmarshal(raw, o)
}
