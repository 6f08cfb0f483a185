package node

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
)

// Release gives the host its adapter back while the agent does not run, and says what it has done.
func Release(ctx context.Context, config nodeconfig.Config) (string, error) {
	if conn, err := cni.Dial(ctx, config.CNISocket); err == nil {
		conn.Close()
		return "", fmt.Errorf("the agent runs (it listens on %s) and would take the adapter again: stop it first (weft "+
			"service stop)", config.CNISocket)
	}
	system, err := newPlatform(config, func() []netip.Prefix { return nil }, prometheus.NewRegistry())
	if err != nil {
		return "", err
	}
	defer system.Close()
	connecting, cancel := context.WithTimeout(ctx, releaseConnectTime)
	defer cancel()
	ovs, unreachable := openvswitch.Connect(connecting, config.OVSDatabase)
	if unreachable != nil {
		ovs = nil
	} else {
		defer ovs.Close()
	}
	return releaseWindows(ctx, config, system.(windowsPlatform).Platform, ovs, unreachable)
}
