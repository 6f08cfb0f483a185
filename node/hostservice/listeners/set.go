package listeners

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/weftnet/weft/models/contract"
)

// Protocols of sockets, as OVN writes them.
const (
	TCP = "tcp"
	UDP = "udp"
)

// Socket is an address and a port of one protocol.
type Socket struct {
	Protocol string
	At       netip.AddrPort
}

// String is the socket as in "tcp 192.0.2.1:53".
func (s Socket) String() string { return s.Protocol + " " + s.At.String() }

// parseSocket reads what String writes of a socket that can listen.
func parseSocket(text string) (Socket, error) {
	protocol, address, _ := strings.Cut(text, " ")
	at, err := netip.ParseAddrPort(address)
	if err != nil || protocol != TCP && protocol != UDP || at.Port() == 0 || at.Addr().Zone() != "" ||
		at.Addr().Is4In6() {
		return Socket{}, fmt.Errorf("%q is no listener", text)
	}
	return Socket{protocol, at}, nil
}

// compareSockets puts those first that clients know: of low ports.
func compareSockets(a, b Socket) int {
	return cmp.Or(cmp.Compare(a.At.Port(), b.At.Port()), cmp.Compare(a.Protocol, b.Protocol),
		a.At.Addr().Compare(b.At.Addr()))
}

// Set are the sockets at which programs listen. The unspecified address of a family stands for all of that family.
type Set map[Socket]struct{}

// Reported is the set of listeners that a node has in its facts.
func Reported(facts contract.Listeners) Set {
	set := Set{}
	for _, l := range facts {
		addrs := []netip.Addr{l.Addr}
		if !l.Addr.IsValid() {
			addrs = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
		}
		for _, addr := range addrs {
			set.Add(Socket{l.Protocol, netip.AddrPortFrom(addr, l.Port)})
		}
	}
	return set
}

// Has says whether a listener is in the way of a socket.
func (s Set) Has(at Socket) bool {
	every := netip.IPv6Unspecified()
	if at.At.Addr().Is4() {
		every = netip.IPv4Unspecified()
	}
	_, one := s[at]
	_, all := s[Socket{at.Protocol, netip.AddrPortFrom(every, at.At.Port())}]
	return one || all
}

// Add puts sockets in.
func (s Set) Add(sockets ...Socket) {
	for _, at := range sockets {
		s[at] = struct{}{}
	}
}

// addDaemons puts in the sockets that may be a daemon's. A socket of datagrams at a client's port is that of a client:
// a resolver's live for one question.
func (s Set) addDaemons(sockets []Socket) {
	for _, at := range sockets {
		if port := at.At.Port(); port != 0 && (at.Protocol == TCP || port < clientPorts) {
			s.Add(at)
		}
	}
}
