package tunnel

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnanswered ends a connection whose bytes find no answer for that long; the system's own limit
// is a quarter of an hour. See tcp(7), TCP_USER_TIMEOUT.
func limitUnanswered(conn *net.TCPConn, limit time.Duration) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	}); err != nil {
		return err
	}
	return failed
}
