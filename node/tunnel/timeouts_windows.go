package tunnel

import (
	"log/slog"
	"net"
	"time"

	"golang.org/x/sys/windows"
)

// limitUnanswered ends a connection whose bytes find no answer for that long, in whole seconds; see
// "IPPROTO_TCP socket options" of Winsock, TCP_MAXRT. Without the option the system gives up by
// itself after some 20 seconds, so a refusal of it is no reason to refuse the connection.
func limitUnanswered(conn *net.TCPConn, limit time.Duration) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		err := windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_TCP, windows.TCP_MAXRT, int(limit.Seconds()))
		if err != nil {
			slog.Debug("the tunnel's connection keeps the system's limit of retransmissions", "error", err)
		}
	})
}
