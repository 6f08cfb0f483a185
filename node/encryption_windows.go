package node

import "github.com/weftnet/weft/node/nodeconfig"

// newTunnelKeeper returns none: no key asks for it on Windows.
func newTunnelKeeper(nodeconfig.Config) (tunnelKeeper, error) { return nil, nil }
