package nodeconfig

import (
	"net/netip"

	"github.com/weftnet/weft/node/ipsec"
)

// GENEVE's overhead in bytes, with OVN's option: outer IP, UDP, GENEVE, its option, inner Ethernet.
const (
	headerIPv4   = 20
	headerIPv6   = 40
	geneve       = 38 // all behind the outer IP
	overheadIPv4 = headerIPv4 + geneve
	overheadIPv6 = headerIPv6 + geneve
)

// PodMTU is what an uplink's MTU leaves for a packet inside the tunnel, and inside ESP where tunnels are encrypted.
func PodMTU(uplink int, encapsulation netip.Addr, encrypted bool) int {
	header := headerIPv4
	if encapsulation.Is6() && !encapsulation.Is4In6() {
		header = headerIPv6
	}
	if !encrypted {
		return uplink - header - geneve
	}
	return ipsec.Payload(uplink, header) - geneve
}
