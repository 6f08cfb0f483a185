package listeners

import "errors"

// ErrDaemon is why the agent does not listen where a program does, or did.
var ErrDaemon = errors.New("another program has the port, or had it")

// clientPorts begin where systems have the ports of connections that ask for none: a socket at one of these may be a
// client's.
const clientPorts = 1 << 15

// IsTaken says whether a socket was not opened because another one has the port, or because a daemon had it: err is
// that of bind(2), or [ErrDaemon].
func IsTaken(err error) bool { return errors.Is(err, ErrDaemon) || taken(err) }

// IsTakenByDaemon says the same of a daemon alone: at a client's port the other socket may be a connection.
func IsTakenByDaemon(at Socket, err error) bool {
	return errors.Is(err, ErrDaemon) || at.At.Port() < clientPorts && taken(err)
}
