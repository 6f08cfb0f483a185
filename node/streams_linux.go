package node

import (
	"context"
	"net"
)

// dialSocket connects to a daemon's unix socket.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}
