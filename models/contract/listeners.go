package contract

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// MostOfFacts is how many of each list in a node's facts count, the first ones: they are in the memory of all nodes.
const MostOfFacts = 256

// Listener is where a daemon of a node's host listens.
type Listener struct {
	Protocol string // "tcp" or "udp"
	// Addr is the host's address; the unspecified one of a family stands for all of that, the zero one for all of both.
	Addr netip.Addr
	Port uint16
}

// String is the listener as JSON has it: "tcp/9100", "udp/192.0.2.1:53" or "tcp/[::]:8080".
func (l Listener) String() string {
	if l.Addr.IsValid() {
		return l.Protocol + "/" + netip.AddrPortFrom(l.Addr, l.Port).String()
	}
	return l.Protocol + "/" + strconv.Itoa(int(l.Port))
}

// MarshalText is String.
func (l Listener) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what String writes.
func (l *Listener) UnmarshalText(text []byte) error {
	protocol, where, _ := strings.Cut(string(text), "/")
	read := Listener{Protocol: protocol}
	if number, err := strconv.ParseUint(where, 10, 16); err == nil {
		read.Port = uint16(number)
	} else if at, err := netip.ParseAddrPort(where); err == nil {
		read.Addr, read.Port = at.Addr(), at.Port()
	}
	if err := read.check(); err != nil {
		return fmt.Errorf("%.100q: %w", text, err)
	}
	*l = read
	return nil
}

func (l Listener) check() error {
	switch {
	case l.Protocol != "tcp" && l.Protocol != "udp", l.Port == 0:
		return fmt.Errorf("no listener: it is written like tcp/9100 or udp/192.0.2.1:53")
	case l.Addr.IsValid():
		return checkAddrs("address", []netip.Addr{l.Addr})
	}
	return nil
}

// Listeners are those of a node.
type Listeners []Listener

// Have says whether one of them is in the way at an address of the node's host.
func (l Listeners) Have(protocol string, at netip.AddrPort) bool {
	return slices.ContainsFunc(l, func(one Listener) bool {
		if one.Protocol != protocol || one.Port != at.Port() {
			return false
		}
		every := one.Addr.IsUnspecified() && one.Addr.Is4() == at.Addr().Is4()
		return !one.Addr.IsValid() || every || one.Addr == at.Addr()
	})
}
