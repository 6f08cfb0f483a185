package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"
)

// What the kernel makes of a reset and of ICMP (icmp_err_convert in net/ipv4/icmp.c, tab_unreach in net/ipv6/icmp.c),
// and of a network without a route.
var (
	refusals     = []syscall.Errno{unix.ECONNREFUSED}
	unreachables = []syscall.Errno{unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENONET, unix.ENOPROTOOPT,
		unix.EACCES}
)

const notAvailable = unix.EADDRNOTAVAIL

// tellErrors has a socket tell of every ICMP error. Without it, the kernel keeps those of UDP to itself that may pass,
// as that of a host which is not there (ip(7), IP_RECVERR).
func tellErrors(network, _ string, conn syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if strings.HasSuffix(network, "6") {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	var failed error
	err := conn.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, failed)
}

// associate opens an association by SCTP, and closes it.
func associate(ctx context.Context, source, destination netip.AddrPort) error {
	family := unix.AF_INET6
	if destination.Addr().Is4() {
		family = unix.AF_INET
	}
	conn, err := socket.Socket(family, unix.SOCK_STREAM, unix.IPPROTO_SCTP, "sctp", nil)
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ESOCKTNOSUPPORT) {
		return fmt.Errorf("the node's kernel has no SCTP (load its module sctp): %w", err)
	}
	if err != nil {
		return err
	}
	if err = conn.Bind(sockaddr(source)); err == nil {
		_, err = conn.Connect(ctx, sockaddr(destination))
	}
	return errors.Join(err, conn.Close())
}

func sockaddr(at netip.AddrPort) unix.Sockaddr {
	if at.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	}
	return &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())}
}
