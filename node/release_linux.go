package node

import (
	"context"
	"fmt"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/node/linux"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
)

// releaseBridgesTime bounds each step of clearing the bridges that stay.
const releaseBridgesTime = 10 * time.Second

// Release gives the host its uplink back while the agent does not run, and says what it has done. The
// configuration is the agent's; what was shared is found out.
func Release(ctx context.Context, config nodeconfig.Config) (string, error) {
	return release(ctx, config, releaseConnectTime)
}

func release(ctx context.Context, config nodeconfig.Config, patience time.Duration) (string, error) {
	if agentRuns(ctx, config) {
		return "", fmt.Errorf("the agent runs (it listens on %s) and would take the uplink again: stop it first",
			config.CNISocket)
	}
	connecting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ovs, connection := openvswitch.Connect(connecting, config.OVSDatabase)
	var bridge platform.UplinkBridge = absentBridge{connection}
	if connection == nil {
		defer ovs.Close()
		bridge = openvswitch.NewUplinkBridge(ovs, config, openvswitch.TakeUpTime)
	}
	system, err := linux.New(linux.Config{
		Userspace: config.DatapathType == nodeconfig.DatapathNetdev, StateFile: config.UplinkFile(),
	})
	if err != nil {
		return "", err
	}
	defer system.Close()
	device, err := system.ReleaseDevice(ctx, bridge)
	if err != nil {
		return "", err
	}
	if device == "" && ovs == nil {
		return "", fmt.Errorf("it is not known whether anything is shared: nothing is written down in %s, and Open "+
			"vSwitch's database does not answer (ovs-database): start it: %w", config.UplinkFile(), connection)
	}
	if ovs != nil {
		if err := ovs.ReleaseBridges(ctx, config, releaseBridgesTime); err != nil {
			return "", err
		}
	}
	if device == "" {
		return "nothing is shared: the host has its devices for itself", nil
	}
	addresses, err := system.GlobalAddresses(device)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the host has device %s for itself again, with the addresses %v", device, addresses), nil
}

// agentRuns is whether the node's agent listens for ADDs and DELs.
func agentRuns(ctx context.Context, config nodeconfig.Config) bool {
	conn, err := cni.Dial(ctx, config.CNISocket)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// absentBridge is an Open vSwitch that does not answer: what the host has can be moved all the same.
type absentBridge struct{ err error }

func (b absentBridge) Ensure(context.Context, platform.Uplink) error { return b.err }
func (b absentBridge) Join(context.Context, platform.Uplink) error   { return b.err }
func (b absentBridge) Holder(string) string                          { return "" }
func (b absentBridge) Made() (platform.Uplink, bool)                 { return platform.Uplink{}, false }

func (b absentBridge) Leave(_ context.Context, u platform.Uplink) error {
	return fmt.Errorf("device %s has the host's addresses again, but is still a port of bridge %s: start Open "+
		"vSwitch's database and repeat this: %w", u.Adapter, u.Host, b.err)
}
