package hostservice

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/outside"
)

// Protocols as OVN writes them.
const (
	tcp  = "tcp"
	udp  = "udp"
	sctp = "sctp"
)

// service is a Service cut down to what its hosts do for it. Of one that is served inside the cluster only
// it is little more than the name.
type service struct {
	metav1.ObjectMeta
	outside    bool           // a NodePort, an external address or a health check is to be served
	clusterIPs []netip.Addr   // none: it is not served
	ports      []servicePort  // in the order of the Service
	external   []netip.Addr   // spec.externalIPs
	balancer   []netip.Addr   // status.loadBalancer.ingress, those with ipMode VIP
	ranges     []netip.Prefix // loadBalancerSourceRanges
	restricted bool           // it has ranges, even if none can be read
	local      bool           // externalTrafficPolicy is Local
	sticky     bool           // sessionAffinity is ClientIP
	unready    bool           // publishNotReadyAddresses
	health     uint16         // healthCheckNodePort
}

type servicePort struct {
	name     string
	protocol string
	port     uint16
	nodePort uint16 // 0: none
}

func protocolOf(p corev1.Protocol) string {
	if p == "" {
		return tcp
	}
	return strings.ToLower(string(p))
}

// trimService is the informer's transform.
func trimService(object any) (any, error) {
	o, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	s := &service{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID,
		ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp}}
	if contract.Unserved(o.Labels) || o.Spec.Type == corev1.ServiceTypeExternalName {
		return s, nil
	}
	ips := o.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{o.Spec.ClusterIP}
	}
	clusterIPs := parseAddrs(ips) // "None" does not parse: a headless Service has no address
	if len(clusterIPs) == 0 {
		return s, nil
	}
	s.trimOutside(o)
	if s.outside {
		s.clusterIPs = clusterIPs
	} else {
		s.ports = nil
	}
	return s, nil
}

func (s *service) trimOutside(o *corev1.Service) {
	for _, p := range outside.Ports(o) {
		port := servicePort{name: p.Name, protocol: protocolOf(p.Protocol), port: uint16(p.Port)}
		if o.Spec.Type == corev1.ServiceTypeNodePort || o.Spec.Type == corev1.ServiceTypeLoadBalancer {
			port.nodePort = uint16(p.NodePort)
			s.outside = s.outside || port.nodePort != 0
		}
		s.ports = append(s.ports, port)
	}
	addresses := outside.Read(o, len(s.ports))
	s.external, s.balancer = addresses.External, addresses.Balancer
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer {
		s.trimRanges(o)
		if o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			s.health = uint16(o.Spec.HealthCheckNodePort)
		}
	}
	s.local = o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	s.sticky = o.Spec.SessionAffinity == corev1.ServiceAffinityClientIP
	s.unready = o.Spec.PublishNotReadyAddresses
	s.outside = s.outside || s.health != 0 || len(s.external) > 0 || len(s.balancer) > 0
}

func (s *service) trimRanges(o *corev1.Service) {
	s.restricted = len(o.Spec.LoadBalancerSourceRanges) > 0
	for _, text := range outside.Ranges(o) {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
			s.ranges = append(s.ranges, prefix.Masked())
		}
	}
}

// parseAddrs leaves out what is no address: the API server lets a few spellings pass that nobody can use.
func parseAddrs(texts []string) []netip.Addr {
	var addrs []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}

// clusterIP is the Service's address of a family.
func (s *service) clusterIP(ipv4 bool) (netip.Addr, bool) {
	for _, addr := range s.clusterIPs {
		if addr.Is4() == ipv4 {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

func (s *service) key() string { return s.Namespace + "/" + s.Name }

func (s *service) object() Object {
	return Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}

// follows says whether its endpoints matter here.
func (s *service) follows() bool { return s.local || s.health != 0 }

// older orders Services that want the same thing by the same field: the first one has it.
func older(a, b *service) int {
	right := func(s *service) outside.Right {
		return outside.Right{Created: s.CreationTimestamp.Time, Namespace: s.Namespace, Name: s.Name}
	}
	return right(a).Compare(right(b))
}

// same says whether two incarnations of a Service make no difference here.
func (s *service) same(o *service) bool {
	return s.UID == o.UID && s.outside == o.outside && s.restricted == o.restricted && s.health == o.health &&
		s.local == o.local && s.sticky == o.sticky && s.unready == o.unready &&
		slices.Equal(s.clusterIPs, o.clusterIPs) && slices.Equal(s.ports, o.ports) && slices.Equal(s.external, o.external) &&
		slices.Equal(s.balancer, o.balancer) && slices.Equal(s.ranges, o.ranges)
}
