package oracle

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// end is one of a packet.
type end struct {
	address   netip.Addr
	pod       *corev1.Pod // one with an address of its own; nil: somebody else
	namespace *corev1.Namespace
	port      string // of the pod's switch
}

// packet is a connection whose ends are known.
type packet struct {
	from, to *end
	protocol corev1.Protocol
	port     uint16
}

// opinion is what somebody says of a packet.
type opinion struct {
	who     string
	allowed bool
}

// oracles are those that have an opinion of a scene.
type oracles struct {
	wide     bool // the scene has ClusterNetworkPolicies, of which cyclonus knows nothing
	cyclonus cyclonus
	knp      *kubeNetworkPolicies
}

func newOracles(s *scene, ends map[string][]*end, knp *kubeNetworkPolicies) (*oracles, error) {
	return &oracles{len(s.wide) > 0, newCyclonus(s), knp}, knp.load(s, ends)
}

func (o *oracles) ask(p *packet) (opinions []opinion, err error) {
	if !o.wide {
		opinions = append(opinions, opinion{"cyclonus", o.cyclonus.allows(p)})
	}
	allowed, err := o.knp.allows(p)
	return append(opinions, opinion{"kube-network-policies", allowed}), err
}
