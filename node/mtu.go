package node

import "net/netip"

// GENEVE's overhead in bytes, with OVN's option: outer IP, UDP, GENEVE, its option, inner Ethernet.
const (
	overheadIPv4 = 58
	overheadIPv6 = 78
)

// podMTU is what an uplink's MTU leaves for a packet inside the tunnel.
func podMTU(uplink int, encapsulation netip.Addr) int {
	if encapsulation.Is6() && !encapsulation.Is4In6() {
		return uplink - overheadIPv6
	}
	return uplink - overheadIPv4
}
