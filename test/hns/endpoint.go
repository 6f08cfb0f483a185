package hns

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// endpointPolicies are the types that HNS knows (hcsshim, hcn/hcnpolicy.go).
var endpointPolicies = []string{"PortMapping", "ACL", "QOS", "L2Driver", "OutBoundNAT", "SDNRoute", "L4Proxy",
	"L4WFPPROXY",
	"PortName", "EncapOverhead", "Iov", "ProviderAddress", "InterfaceConstraint", "TierAcl"}

func (s *Service) createEndpoint(id string, parent handle, body string) (string, Error) {
	e := &Endpoint{}
	if json.Unmarshal([]byte(body), e) != nil {
		return "", ErrInvalidJSON
	}
	if parent.kind == kindNetwork {
		e.HostComputeNetwork = parent.id
	}
	return s.addEndpoint(id, e)
}

func (s *Service) addEndpoint(id string, e *Endpoint) (string, Error) {
	n := s.network(e.HostComputeNetwork)
	if n == nil {
		return "", ErrNetworkNotFound
	}
	e.ID, e.HostComputeNetwork = newID(id, e.ID), n.ID
	for _, o := range s.objects.Endpoints {
		if sameID(o.ID, e.ID) || e.Name != "" && o.Name == e.Name {
			return "", ErrObjectExists
		}
	}
	if err := s.checkAddresses(n, e); err != 0 {
		return "", err
	}
	if err := s.checkPolicies(e, e.Policies); err != 0 {
		return "", err
	}
	if e.MacAddress == "" {
		tail := make([]byte, 3)
		_, _ = rand.Read(tail) // never fails
		e.MacAddress = fmt.Sprintf("00-15-5D-%02X-%02X-%02X", tail[0], tail[1], tail[2])
	}
	if _, err := net.ParseMAC(e.MacAddress); err != nil {
		return "", ErrInvalidEndpoint
	}
	e.MacAddress, e.SchemaVersion = formatMAC(e.MacAddress), schemaVersion
	space := e.HostComputeNamespace
	e.HostComputeNamespace = ""
	if space != "" && s.namespace(space) == nil {
		return "", ErrElementNotFound
	}
	s.objects.Endpoints = append(s.objects.Endpoints, e)
	if space != "" {
		return e.ID, s.attach(s.namespace(space), e)
	}
	return e.ID, 0
}

// checkAddresses refuses what HNS does: an address outside of the network's subnets, where it has
// any, and one that another endpoint of the network has.
func (s *Service) checkAddresses(n *Network, e *Endpoint) Error {
	subnets := n.prefixes()
	for _, c := range e.IPConfigurations {
		address, err := netip.ParseAddr(c.IPAddress)
		if err != nil || int(c.PrefixLength) > address.BitLen() {
			return ErrInvalidIP
		}
		if len(subnets) > 0 && !slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Contains(address) }) {
			return ErrInvalidIP
		}
		for _, o := range s.objects.Endpoints {
			if sameID(o.HostComputeNetwork, n.ID) && slices.ContainsFunc(o.IPConfigurations, func(oc IPConfig) bool {
				return oc.IPAddress == address.String()
			}) {
				return ErrAddressReserved
			}
		}
	}
	return 0
}

func (s *Service) checkPolicies(e *Endpoint, policies []Policy) Error {
	for _, p := range policies {
		if !slices.Contains(endpointPolicies, p.Type) {
			return ErrInvalidPolicyType
		}
		if p.Type != "PortMapping" {
			continue
		}
		port, ok := parsePortMapping(p)
		if !ok {
			return ErrInvalidPolicy
		}
		if port.InternalPort == 0 {
			return ErrInvalidInternalPort
		}
		for _, o := range s.objects.Endpoints {
			for _, op := range o.Policies {
				if taken, ok := parsePortMapping(op); ok && !sameID(o.ID, e.ID) && taken.takes(port) {
					return ErrPortExists
				}
			}
		}
	}
	return 0
}

type portMapping struct {
	Protocol     uint32
	InternalPort uint16
	ExternalPort uint16
	VIP          string
}

func parsePortMapping(p Policy) (portMapping, bool) {
	var m portMapping
	ok := p.Type == "PortMapping" && json.Unmarshal(p.Settings, &m) == nil
	return m, ok && (m.Protocol == 6 || m.Protocol == 17)
}

// takes says whether both want the same port of the host.
func (m portMapping) takes(o portMapping) bool {
	return m.Protocol == o.Protocol && m.ExternalPort == o.ExternalPort && m.ExternalPort != 0 &&
		(m.VIP == o.VIP || m.VIP == "" || o.VIP == "")
}

func (s *Service) modifyEndpoint(e *Endpoint, m modification) Error {
	if m.ResourceType != "Policy" {
		return ErrRequestUnsupported
	}
	var settings struct{ Policies []Policy }
	if json.Unmarshal(m.Settings, &settings) != nil {
		return ErrInvalidJSON
	}
	if m.RequestType != "Remove" {
		if err := s.checkPolicies(e, settings.Policies); err != 0 {
			return err
		}
	}
	e.Policies = changePolicies(e.Policies, settings.Policies, m.RequestType)
	return 0
}

func (s *Service) removeEndpoint(e *Endpoint) {
	if space := s.namespace(e.HostComputeNamespace); space != nil {
		s.detach(space, e)
	}
	for _, l := range s.objects.LoadBalancers {
		l.HostComputeEndpoints = slices.DeleteFunc(l.HostComputeEndpoints, func(id string) bool { return sameID(id, e.ID) })
	}
	delete(s.late, e.ID)
	s.objects.Endpoints = slices.DeleteFunc(s.objects.Endpoints, func(o *Endpoint) bool { return o == e })
}

func (s *Service) createLoadBalancer(id, body string) (string, Error) {
	l := &LoadBalancer{}
	if json.Unmarshal([]byte(body), l) != nil {
		return "", ErrInvalidJSON
	}
	l.ID, l.SchemaVersion = newID(id, l.ID), schemaVersion
	for i, endpoint := range l.HostComputeEndpoints {
		if s.endpoint(endpoint) == nil {
			return "", ErrEndpointNotFound
		}
		l.HostComputeEndpoints[i] = strings.ToUpper(endpoint)
	}
	s.objects.LoadBalancers = append(s.objects.LoadBalancers, l)
	return l.ID, 0
}
