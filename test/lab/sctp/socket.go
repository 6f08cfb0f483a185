package sctp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const protocol = "132"

// socket carries SCTP packets of one address family. Every socket of a host sees all of them: who listens
// at other ports says nothing to those.
type socket interface {
	receive(b []byte) (n int, from, to netip.Addr, err error)
	send(b []byte, from, to netip.Addr) error
	Close() error
}

// openSockets returns one for the family of ip, or one for each that the host has if ip is the zero address.
func openSockets(ip netip.Addr) ([]socket, error) {
	var sockets []socket
	var errs []error
	add := func(s socket, err error) {
		if err != nil {
			errs = append(errs, err)
		} else {
			sockets = append(sockets, s)
		}
	}
	if !ip.Is6() {
		add(openV4())
	}
	if !ip.Is4() {
		add(openV6())
	}
	if len(sockets) == 0 {
		return nil, errors.Join(errs...)
	}
	return sockets, nil
}

type socketV4 struct{ *ipv4.PacketConn }

func openV4() (socket, error) {
	conn, err := net.ListenPacket("ip4:"+protocol, "0.0.0.0")
	if err != nil {
		return nil, err
	}
	s := socketV4{ipv4.NewPacketConn(conn)}
	return s, s.SetControlMessage(ipv4.FlagDst, true)
}

func (s socketV4) receive(b []byte) (int, netip.Addr, netip.Addr, error) {
	n, control, from, err := s.ReadFrom(b)
	if err != nil {
		return 0, netip.Addr{}, netip.Addr{}, err
	}
	return n, address(from), fromSlice(control.Dst), nil
}

func (s socketV4) send(b []byte, from, to netip.Addr) error {
	_, err := s.WriteTo(b, &ipv4.ControlMessage{Src: from.AsSlice()}, &net.IPAddr{IP: to.AsSlice()})
	return err
}

type socketV6 struct{ *ipv6.PacketConn }

func openV6() (socket, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, autoFlowLabel, 0)
		}); failed != nil {
			return failed
		}
		return err
	}}
	conn, err := config.ListenPacket(context.Background(), "ip6:"+protocol, "::")
	if err != nil {
		return nil, err
	}
	s := socketV6{ipv6.NewPacketConn(conn)}
	return s, s.SetControlMessage(ipv6.FlagDst, true)
}

// autoFlowLabel is IPV6_AUTOFLOWLABEL of linux/in6.h. Linux' own SCTP has a flow label for each association. A raw
// socket would have one for all packets to an address, and Open vSwitch's datapath in the kernel chooses an endpoint by
// the label, if there is one: it would choose one endpoint for all associations. Without labels it goes by the ports.
const autoFlowLabel = 70

func (s socketV6) receive(b []byte) (int, netip.Addr, netip.Addr, error) {
	n, control, from, err := s.ReadFrom(b)
	if err != nil {
		return 0, netip.Addr{}, netip.Addr{}, err
	}
	return n, address(from), fromSlice(control.Dst), nil
}

func (s socketV6) send(b []byte, from, to netip.Addr) error {
	_, err := s.WriteTo(b, &ipv6.ControlMessage{Src: from.WithZone("").AsSlice()},
		&net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()})
	return err
}

func address(a net.Addr) netip.Addr {
	ip := a.(*net.IPAddr) // as raw sockets have them
	return fromSlice(ip.IP).WithZone(ip.Zone)
}

func fromSlice(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// sourceFor is the address that the host sends from to that one.
func sourceFor(to netip.Addr) (netip.Addr, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9))) // nothing is sent
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
