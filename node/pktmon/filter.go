package pktmon

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// filterName is the name of our filters, one word.
const filterName = "weft"

// Filter is fitted by packets of an adapter that are as all its fields say.
type Filter struct {
	// EtherType is IPv4, IPv6 or ARP. Empty is any.
	EtherType string
	// Protocol is TCP, UDP, ICMP, ICMPv6 or a number of IP's. Empty is any.
	Protocol string
	// Address is that of one of the packet's ends. The zero address is any.
	Address netip.Addr
	// Port is that of one of the packet's ends. 0 is any.
	Port uint16
}

// arguments add the filter.
func (f Filter) arguments(adapter net.HardwareAddr) []string {
	arguments := []string{"filter", "add", filterName, "--mac-address",
		strings.ToUpper(strings.ReplaceAll(adapter.String(), ":", "-"))}
	if f.EtherType != "" {
		arguments = append(arguments, "--data-link", f.EtherType)
	}
	if f.Protocol != "" {
		arguments = append(arguments, "--transport-protocol", f.Protocol)
	}
	if f.Address.IsValid() {
		arguments = append(arguments, "--ip-address", f.Address.String())
	}
	if f.Port != 0 {
		arguments = append(arguments, "--port", strconv.Itoa(int(f.Port)))
	}
	return arguments
}
