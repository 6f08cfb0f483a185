package proxy

// refused says whether there is nobody at the other end of a socket of datagrams: nothing of the kind is
// reported, see passing.
func refused(error) bool { return false }

// mostConnections: Windows has no small limit of sockets.
func mostConnections() int64 { return 16384 }

// mostSessions of UDP on the host, each with a buffer of the largest datagram.
func mostSessions() int64 { return 1024 }
