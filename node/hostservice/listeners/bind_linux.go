package listeners

import (
	"errors"

	"golang.org/x/sys/unix"
)

// ErrNoAddress is the error of bind(2) for an address that the host does not have.
const ErrNoAddress = unix.EADDRNOTAVAIL

// taken says whether another socket has the port.
func taken(err error) bool { return errors.Is(err, unix.EADDRINUSE) }
