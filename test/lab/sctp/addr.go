package sctp

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// SCTPAddr is a port at one address, or at every address of the host if it names none.
type SCTPAddr struct {
	IPAddrs []net.IPAddr
	Port    int
}

// ResolveSCTPAddr reads "host:port". network is "sctp", "sctp4" or "sctp6".
func ResolveSCTPAddr(network, address string) (*SCTPAddr, error) {
	if !strings.HasPrefix(network, "sctp") {
		return nil, net.UnknownNetworkError(network)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("sctp: port of %q: %w", address, err)
	}
	addr := &SCTPAddr{Port: int(port)}
	if host == "" {
		return addr, nil
	}
	ip, err := net.ResolveIPAddr("ip"+strings.TrimPrefix(network, "sctp"), host)
	if err != nil {
		return nil, err
	}
	addr.IPAddrs = []net.IPAddr{*ip}
	return addr, nil
}

// Network is "sctp".
func (a *SCTPAddr) Network() string { return "sctp" }

func (a *SCTPAddr) String() string {
	host := ""
	if len(a.IPAddrs) > 0 {
		host = a.IPAddrs[0].String()
	}
	return net.JoinHostPort(host, strconv.Itoa(a.Port))
}

// ip is the address, or the zero one if all of the host's are meant.
func (a *SCTPAddr) ip() netip.Addr {
	if a == nil || len(a.IPAddrs) == 0 {
		return netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(a.IPAddrs[0].IP)
	if ip = ip.Unmap(); ip.IsUnspecified() {
		return netip.Addr{}
	}
	return ip.WithZone(a.IPAddrs[0].Zone)
}

func sctpAddr(ip netip.Addr, port uint16) *SCTPAddr {
	return &SCTPAddr{IPAddrs: []net.IPAddr{{IP: ip.AsSlice(), Zone: ip.Zone()}}, Port: int(port)}
}
