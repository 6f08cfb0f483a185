package hostservice

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errNoAddress is what bind(2) says of an address that the host does not have.
const errNoAddress = unix.EADDRNOTAVAIL

// taken says whether another socket has the port.
func taken(err error) bool { return errors.Is(err, unix.EADDRINUSE) }

// refused says whether there is nobody at the other end of a socket of datagrams, or no way to it.
func refused(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH)
}
