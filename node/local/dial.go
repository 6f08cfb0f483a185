// Package local connects to the daemons of Open vSwitch and OVN on the node itself, as each system has their sockets.
package local

import (
	"context"
	"fmt"
	"net"

	"github.com/weftnet/weft/ovsdb"
)

// Dial connects to a daemon by its endpoint, a unix socket or TCP.
func Dial(ctx context.Context, endpoint ovsdb.Endpoint) (net.Conn, error) {
	switch endpoint.Scheme {
	case "unix":
		return DialSocket(ctx, endpoint.Address)
	case "tcp":
		return (&net.Dialer{}).DialContext(ctx, "tcp", endpoint.Address)
	}
	return nil, fmt.Errorf("%s is not on the node itself", endpoint)
}
