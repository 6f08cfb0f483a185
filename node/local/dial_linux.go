package local

import (
	"context"
	"net"
)

// DialSocket connects to a daemon's unix socket.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}
