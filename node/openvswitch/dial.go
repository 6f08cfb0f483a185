package openvswitch

import (
	"context"
	"fmt"
	"net"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/ovsdb"
)

// DialLocal connects to a daemon on the node itself.
func DialLocal(ctx context.Context, endpoint ovsdb.Endpoint) (net.Conn, error) {
	switch endpoint.Scheme {
	case "unix":
		return DialSocket(ctx, endpoint.Address)
	case "tcp":
		return (&net.Dialer{}).DialContext(ctx, "tcp", endpoint.Address)
	}
	return nil, fmt.Errorf("%s is not on the node itself", endpoint)
}

// DialSwitch connects to br-int itself.
func DialSwitch(ctx context.Context, c nodeconfig.Config) (net.Conn, error) {
	endpoint, err := c.OpenFlow()
	if err != nil {
		return nil, fmt.Errorf("ovs-openflow: %w", err)
	}
	return DialLocal(ctx, endpoint)
}
