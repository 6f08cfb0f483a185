package probe

import (
	"context"
	"errors"
	"net/netip"
	"syscall"

	"golang.org/x/sys/windows"
)

// Winsock's codes. A datagram that was answered by ICMP's "port unreachable" has the next call for its socket fail with
// WSAECONNRESET (recvfrom).
var (
	refusals     = []syscall.Errno{windows.WSAECONNREFUSED, windows.WSAECONNRESET}
	unreachables = []syscall.Errno{windows.WSAEHOSTUNREACH, windows.WSAENETUNREACH, windows.WSAEHOSTDOWN}
)

const notAvailable = windows.WSAEADDRNOTAVAIL

// tellErrors has nothing to ask for: Winsock tells what it tells.
func tellErrors(string, string, syscall.RawConn) error { return nil }

func associate(context.Context, netip.AddrPort, netip.AddrPort) error {
	return errors.New("no SCTP on Windows: send the probe from a pod on a Linux node")
}
