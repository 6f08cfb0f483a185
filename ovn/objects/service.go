package objects

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/endpointslice"
	"github.com/weftnet/weft/models/outside"
)

// Service is a Service.
type Service struct {
	metav1.ObjectMeta
	Ignored         bool // headless, ExternalName, or somebody else's
	ClusterIPs      []netip.Addr
	Ports           []ServicePort
	NodePorts       []NodePort
	ExternalIPs     []netip.Addr // as the user gave them
	Ingress         []netip.Addr // of a load balancer in front of the nodes that hands packets on as they are
	LeftOut         int          // how many more addresses it has outside than are served
	PortsLeft       int          // how many more ports
	RangesLeft      int          // how many more sourceRanges
	Unreadable      []string     // what is wrong with addresses that are left out
	PublishNotReady bool
	InternalLocal   bool   // internalTrafficPolicy: Local
	ExternalLocal   bool   // externalTrafficPolicy: Local
	HealthPort      uint16 // healthCheckNodePort, 0 without one
	ClientIP        bool   // sessionAffinity: ClientIP
	StickySeconds   int    // with it: for how long after its last new connection a client keeps its endpoint
	SourceRanges    []string
	Rejected        *Rejection // not the API server's: what of it others have
	Balancer        LoadBalancer
	Asked           Unserved // of what weft does not serve
}

type ServicePort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// NodePort is one of a Service's ports that every node has, too.
type NodePort struct {
	ServicePort
	Number uint16
}

func TrimService(o *corev1.Service) *Service {
	s := &Service{
		ObjectMeta:      trimMeta(&o.ObjectMeta),
		Ignored:         contract.Unserved(o.Labels) || o.Spec.Type == corev1.ServiceTypeExternalName,
		Balancer:        trimLoadBalancer(o),
		PublishNotReady: o.Spec.PublishNotReadyAddresses,
		InternalLocal: o.Spec.InternalTrafficPolicy != nil &&
			*o.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal,
		ClientIP: o.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
		Asked:    trimUnserved(serviceKind, o.Annotations),
	}
	if s.ClientIP {
		s.StickySeconds = stickySeconds(o.Spec.SessionAffinityConfig)
	}
	s.RangesLeft = len(o.Spec.LoadBalancerSourceRanges) - len(outside.Ranges(o))
	for _, text := range outside.Ranges(o) {
		s.SourceRanges = append(s.SourceRanges, strings.TrimSpace(text))
	}
	ips := o.Spec.ClusterIPs
	if len(ips) == 0 && o.Spec.ClusterIP != "" {
		ips = []string{o.Spec.ClusterIP}
	}
	for _, text := range ips {
		if text == corev1.ClusterIPNone || o.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		if addr, ok := s.parseAddr("spec.clusterIPs", text); ok {
			s.ClusterIPs = append(s.ClusterIPs, addr)
		}
	}
	s.Ignored = s.Ignored || len(s.ClusterIPs) == 0
	ports := outside.Ports(o)
	s.PortsLeft = len(o.Spec.Ports) - len(ports)
	for i := range ports {
		p := &ports[i]
		if protocol, ok := protocolOf(p.Protocol); ok {
			port := ServicePort{Interned(p.Name), protocol, uint16(p.Port)}
			s.Ports = append(s.Ports, port)
			if p.NodePort != 0 {
				s.NodePorts = append(s.NodePorts, NodePort{port, uint16(p.NodePort)})
			}
		}
	}
	s.trimExternal(o)
	return s
}

// trimExternal reads by what addresses a Service is known outside.
func (s *Service) trimExternal(o *corev1.Service) {
	s.ExternalLocal = o.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer && s.ExternalLocal {
		s.HealthPort = uint16(o.Spec.HealthCheckNodePort)
	}
	a := outside.Read(o, len(s.Ports))
	s.ExternalIPs, s.Ingress, s.LeftOut = a.External, a.Balancer, a.LeftOut
	for _, bad := range a.Unreadable {
		s.noteUnreadable(bad.Field, bad.Text, bad.Why)
	}
}

func (s *Service) noteUnreadable(field, text, why string) {
	s.Unreadable = append(s.Unreadable, fmt.Sprintf("%s: %q: %s", field, Quoted(text), why))
}

// parseAddr reads an address of a Service's, or notes why it cannot be read.
func (s *Service) parseAddr(field, text string) (addr netip.Addr, ok bool) {
	addr, why := endpointslice.ParseIP(text)
	if why != "" {
		s.noteUnreadable(field, text, why)
	}
	return addr, why == ""
}

func (s *Service) equal(o *Service) bool {
	return s.UID == o.UID && s.Ignored == o.Ignored && s.Asked == o.Asked && s.Balancer == o.Balancer &&
		s.PublishNotReady == o.PublishNotReady && s.InternalLocal == o.InternalLocal &&
		s.ExternalLocal == o.ExternalLocal && s.HealthPort == o.HealthPort &&
		s.ClientIP == o.ClientIP && s.StickySeconds == o.StickySeconds &&
		s.LeftOut == o.LeftOut && s.PortsLeft == o.PortsLeft && s.RangesLeft == o.RangesLeft &&
		slices.Equal(s.Unreadable, o.Unreadable) && slices.Equal(s.SourceRanges, o.SourceRanges) &&
		slices.Equal(s.ClusterIPs, o.ClusterIPs) && slices.Equal(s.Ports, o.Ports) &&
		slices.Equal(s.NodePorts, o.NodePorts) && slices.Equal(s.ExternalIPs, o.ExternalIPs) &&
		slices.Equal(s.Ingress, o.Ingress)
}

// stickySeconds is what a Service with sessionAffinity ClientIP asks for.
func stickySeconds(config *corev1.SessionAffinityConfig) int {
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return int(corev1.DefaultClientIPServiceAffinitySeconds)
	}
	return int(*config.ClientIP.TimeoutSeconds)
}

// MaxSticky is the longest, in seconds, that OVN keeps a client at its endpoint: an OpenFlow idle timeout
// has 16 bits, while Kubernetes allows a day.
const MaxSticky = 1<<16 - 1

// AffinityTimeout is OVN's option of that name.
func (s *Service) AffinityTimeout() string { return strconv.Itoa(min(s.StickySeconds, MaxSticky)) }
