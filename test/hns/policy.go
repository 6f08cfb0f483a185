package hns

import (
	"encoding/json"
	"slices"
)

// endpointPolicies are the types that HNS knows (hcsshim, hcn/hcnpolicy.go).
var endpointPolicies = []string{"PortMapping", "ACL", "QOS", "L2Driver", "OutBoundNAT", "SDNRoute", "L4Proxy",
	"L4WFPPROXY", "PortName", "EncapOverhead", "Iov", "ProviderAddress", "InterfaceConstraint", "TierAcl"}

// checkPolicies refuses policies of an endpoint: those that HNS does not know, and ports of the host that another
// endpoint has.
func (all endpoints) checkPolicies(e *Endpoint, policies []Policy) Error {
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
		for _, o := range all {
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

// modify changes an endpoint's policies. Nothing else of it can be changed.
func (all endpoints) modify(e *Endpoint, m modification) Error {
	if m.ResourceType != "Policy" {
		return ErrRequestUnsupported
	}
	var settings struct{ Policies []Policy }
	if json.Unmarshal(m.Settings, &settings) != nil {
		return ErrInvalidJSON
	}
	if m.RequestType != "Remove" {
		if err := all.checkPolicies(e, settings.Policies); err != 0 {
			return err
		}
	}
	e.Policies = changePolicies(e.Policies, settings.Policies, m.RequestType)
	return 0
}

func changePolicies(have, change []Policy, request string) []Policy {
	switch request {
	case "Add":
		return append(have, change...)
	case "Remove":
		return slices.DeleteFunc(have, func(p Policy) bool {
			return slices.ContainsFunc(change, func(c Policy) bool { return samePolicy(p, c) })
		})
	case "Update", "Refresh":
		return change
	}
	return have
}

func samePolicy(a, b Policy) bool {
	var x, y any
	_, _ = json.Unmarshal(a.Settings, &x), json.Unmarshal(b.Settings, &y)
	one, _ := json.Marshal(x)
	other, _ := json.Marshal(y)
	return a.Type == b.Type && string(one) == string(other)
}
