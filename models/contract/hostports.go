package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// HostPorts are ports of hosts' own addresses that are always the host's, whatever a Service or a pod asks for. Without
// them nobody could take back what whoever may write Services has taken.
type HostPorts []HostPort

// HostPort is a range of ports of one protocol, tcp, udp or sctp, its ends among it.
type HostPort struct {
	Protocol    string
	First, Last uint16
}

// DefaultHostPorts are where nobody says otherwise: ssh's, RDP's and WinRM's; etcd's, the API server's, kubelet's,
// kube-proxy's and other control planes' parts'; OVN's databases', their clusters', `weft observe`'s and the tunnels'
// between hosts; Weft's metrics and that where agents are met by `weft observe` and a chassis host; those at which
// DHCP's clients have their leases renewed.
var DefaultHostPorts = []string{
	"tcp/22", "tcp/3389", "tcp/5985-5986",
	"tcp/2379-2381", "tcp/6443", "tcp/10248-10259",
	"tcp/6641-6645", "udp/6081",
	"tcp/9471-9472", "tcp/9641-9643", "tcp/16642",
	"udp/68", "udp/546",
}

var defaultHostPorts = must(ParseHostPorts(DefaultHostPorts))

func must(ports HostPorts, err error) HostPorts {
	if err != nil { // the list above
		panic(err)
	}
	return ports
}

// ParseHostPorts reads the key host-ports: PROTOCOL/PORT or PROTOCOL/FIRST-LAST each.
func ParseHostPorts(texts []string) (HostPorts, error) {
	var list HostPorts
	for _, text := range texts {
		protocol, numbers, _ := strings.Cut(strings.TrimSpace(text), "/")
		low, high, ranged := strings.Cut(numbers, "-")
		if !ranged {
			high = low
		}
		first, err1 := strconv.ParseUint(low, 10, 16)
		last, err2 := strconv.ParseUint(high, 10, 16)
		if !slices.Contains([]string{"tcp", "udp", "sctp"}, protocol) || err1 != nil || err2 != nil || first == 0 ||
			last < first {
			return nil, fmt.Errorf("host-ports: %q is no port of a protocol; write it like tcp/22 or tcp/10250-10259", text)
		}
		list = append(list, HostPort{protocol, uint16(first), uint16(last)})
	}
	return list, nil
}

// Has says whether a port is among them.
func (h HostPorts) Has(protocol string, port uint16) bool {
	return slices.ContainsFunc(h, func(p HostPort) bool {
		return p.Protocol == protocol && p.First <= port && port <= p.Last
	})
}

// OwnPorts are the hosts' own ports that the controller has decided on.
func (n NodeNetwork) OwnPorts() HostPorts {
	if ports, err := ParseHostPorts(n.HostPorts); err == nil && len(ports) > 0 {
		return ports
	}
	return defaultHostPorts
}
