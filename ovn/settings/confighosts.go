package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
)

// hostSettings reads the keys about hosts. Those of the Northbound are the cluster's central hosts.
func (c Config) hostSettings(s *Settings) error {
	ports, err := contract.ParseHostPorts(c.HostPorts)
	if err == nil && len(ports) == 0 {
		err = errors.New("host-ports: is empty: Services could have ssh's port and the API server's; leave the key " +
			"out, or give the ports that are hosts' own")
	}
	errs := []error{err}
	s.HostPorts = ports
	if !slices.Equal(c.HostPorts, contract.DefaultHostPorts) {
		s.ToldHostPorts = c.HostPorts
	}
	for key, list := range map[string]struct {
		texts []string
		to    *[]netip.Prefix
	}{"host-cidrs": {c.HostCIDRs, &s.Hosts}, "host-external-ip-cidrs": {c.HostExternalIPCIDRs, &s.HostExternals}} {
		for _, text := range list.texts {
			p, err := netip.ParsePrefix(strings.TrimSpace(text))
			if err != nil || p != p.Masked() || p.Addr().Is4In6() {
				errs = append(errs, fmt.Errorf("%s: %q is not a CIDR; write it like 192.0.2.0/24 or 192.0.2.7/32",
					key, text))
				continue
			}
			*list.to = append(*list.to, p)
		}
	}
	for _, endpoint := range c.Northbound {
		_, endpoint = splitEndpoint(endpoint)
		_, rest, _ := strings.Cut(endpoint, ":")
		host, _, err := net.SplitHostPort(rest)
		if addr, err2 := netip.ParseAddr(host); err == nil && err2 == nil && !addr.IsLoopback() {
			s.Hosts = append(s.Hosts, netip.PrefixFrom(addr.Unmap().WithZone(""), addr.Unmap().BitLen()))
		}
	}
	return errors.Join(errs...)
}
