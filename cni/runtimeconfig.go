package cni

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// runtimeConfig is what the runtime adds for each capability that the network configuration list
// declares (CONVENTIONS.md of the CNI specification, "Dynamic Plugin specific fields").
type runtimeConfig struct {
	DNS *struct {
		Servers  []string `json:"servers"`
		Searches []string `json:"searches"`
		Options  []string `json:"options"`
	} `json:"dns"`
	PortMappings []PortMapping `json:"portMappings"`
}

// parseRuntimeConfig takes the runtime's values over. The pod's resolver configuration is preferred to
// the network's own.
func (c *NetworkConfig) parseRuntimeConfig(text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	var runtime runtimeConfig
	if err := json.Unmarshal(text, &runtime); err != nil {
		return decodingFailure(`"runtimeConfig" of the network configuration`, err)
	}
	invalid := func(field, format string, args ...any) error {
		return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf(`network configuration: "runtimeConfig.%s" %s`, field, fmt.Sprintf(format, args...)), "")
	}
	if dns := runtime.DNS; dns != nil {
		for _, server := range dns.Servers {
			if _, err := netip.ParseAddr(server); err != nil {
				return invalid("dns.servers", "has %q, which is not an IP address", server)
			}
		}
		for _, search := range dns.Searches {
			if search == "" || len(search) > 253 || strings.ContainsAny(search, " \t\r\n,") {
				return invalid("dns.searches", "has %q, which is not a domain name", search)
			}
		}
		c.DNS.Nameservers, c.DNS.Search, c.DNS.Options = dns.Servers, dns.Searches, dns.Options
	}
	taken := map[string]bool{}
	for i, mapping := range runtime.PortMappings {
		field := fmt.Sprintf("portMappings[%d]", i)
		if mapping.HostPort < 1 || mapping.HostPort > 65535 || mapping.ContainerPort < 1 || mapping.ContainerPort > 65535 {
			return invalid(field, "leads from hostPort %d to containerPort %d; ports are from 1 to 65535", mapping.HostPort, mapping.ContainerPort)
		}
		mapping.Protocol = strings.ToLower(mapping.Protocol)
		switch mapping.Protocol {
		case "":
			mapping.Protocol = "tcp"
		case "tcp", "udp", "sctp":
		default:
			return invalid(field, "has protocol %q, which is none of tcp, udp and sctp", mapping.Protocol)
		}
		if _, err := netip.ParseAddr(mapping.HostIP); err != nil && mapping.HostIP != "" {
			return invalid(field, "has hostIP %q, which is not an IP address", mapping.HostIP)
		}
		key := fmt.Sprintf("%s %d/%s", mapping.HostIP, mapping.HostPort, mapping.Protocol)
		if taken[key] {
			return invalid(field, "takes hostPort %d/%s a second time", mapping.HostPort, mapping.Protocol)
		}
		taken[key] = true
		c.PortMappings = append(c.PortMappings, mapping)
	}
	return nil
}
