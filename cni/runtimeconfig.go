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
		return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf(`network configuration: "runtimeConfig.%s" %s`,
			field, fmt.Sprintf(format, args...)), "")
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
	return nil
}
