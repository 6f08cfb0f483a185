package hostservice

import (
	"errors"

	"golang.org/x/sys/windows"
)

// errNoAddress is what bind says of an address that the host does not have.
const errNoAddress = windows.WSAEADDRNOTAVAIL

// taken says whether another socket has the port. Windows says "access denied" where that wants it for itself,
// or where the system has reserved a range of ports.
func taken(err error) bool {
	return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, windows.WSAEACCES)
}

// refused says whether there is nobody at the other end of a socket of datagrams: nothing of the kind is
// reported, see passing.
func refused(error) bool { return false }

// mostConnections: Windows has no small limit of sockets.
func mostConnections() int64 { return 16384 }

// mostSessions of UDP on the host, each with a buffer of the largest datagram.
func mostSessions() int64 { return 1024 }
