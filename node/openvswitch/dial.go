package openvswitch

import (
	"context"
	"fmt"
	"net"

	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/node/nodeconfig"
)

// DialSwitch connects to br-int itself.
func DialSwitch(ctx context.Context, c nodeconfig.Config) (net.Conn, error) {
	endpoint, err := c.OpenFlow()
	if err != nil {
		return nil, fmt.Errorf("ovs-openflow: %w", err)
	}
	return local.Dial(ctx, endpoint)
}
