// Package endpointslice says what is behind a Service: how its EndpointSlices are read, and which endpoints a node's
// clients get. The controller's rows, the agents and `weft policy explain` have one answer, from here.
package endpointslice

import (
	"fmt"
	"net/netip"
	"regexp"

	"github.com/weftnet/weft/models/contract"
)

// ParseAddr reads an endpoint's address, of a slice of IPv6 or of IPv4. why says what is wrong with one that nobody
// can serve; the API server admits more than that.
func ParseAddr(text string, ipv6 bool) (addr netip.Addr, why string) {
	addr, why = ParseIP(text)
	switch {
	case why != "":
		return addr, why
	case addr.Zone() != "":
		return addr, "it has a zone, which no other node can know"
	case addr.Is4In6():
		return addr, "it is an IPv4 address dressed as IPv6"
	case addr.Is6() != ipv6:
		return addr, "it is not of the slice's addressType"
	case addr.IsUnspecified(), addr.IsLoopback(), addr.IsMulticast(), addr.IsLinkLocalUnicast():
		return addr, "it is unspecified, loopback, link-local or multicast, which no pod can reach"
	case contract.OwnRanges[0].Contains(addr), contract.OwnRanges[1].Contains(addr):
		return addr, "it means something else on every node"
	}
	return addr, ""
}

// leadingZeros are those of an IPv4 address' parts.
var leadingZeros = regexp.MustCompile(`(^|\.)0+([0-9])`)

// ParseIP reads an address of an object's; why says what is wrong with one that cannot be read. The API server takes
// leading zeros for nothing, other programs for octal numbers: nobody may be sent to an address that its author has
// not meant.
func ParseIP(text string) (addr netip.Addr, why string) {
	addr, err := netip.ParseAddr(text)
	if err == nil {
		return addr, ""
	}
	if plain := leadingZeros.ReplaceAllString(text, "$1$2"); plain != text {
		if _, err := netip.ParseAddr(plain); err == nil {
			return addr, fmt.Sprintf("it has leading zeros, which some programs read as octal; write %s if that is meant", plain)
		}
	}
	return addr, "it is not an IP address"
}

// ParsePort reads the number of a slice's port. The API server admits any.
func ParsePort(number int32) (port uint16, why string) {
	if number < 1 || number > 65535 {
		return 0, "it is not a port number from 1 to 65535"
	}
	return uint16(number), ""
}
