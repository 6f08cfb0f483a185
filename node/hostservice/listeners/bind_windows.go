package listeners

import (
	"errors"

	"golang.org/x/sys/windows"
)

// ErrNoAddress is the error of bind for an address that the host does not have.
const ErrNoAddress = windows.WSAEADDRNOTAVAIL

// taken says whether another socket has the port. Windows says "access denied" where the other one wants it for itself,
// or where the system has reserved a range of ports.
func taken(err error) bool {
	return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, windows.WSAEACCES)
}
