package node

import (
	"context"
	"fmt"
	"time"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/ovsdb"
)

// Release gives the host its uplink back while the agent does not run, and says what it has done. The
// configuration is the agent's; what was shared is found out.
func Release(ctx context.Context, config Config) (string, error) {
	return release(ctx, config, releaseConnectTime)
}

func release(ctx context.Context, config Config, patience time.Duration) (string, error) {
	if conn, err := cni.Dial(ctx, config.CNISocket); err == nil {
		conn.Close()
		return "", fmt.Errorf("the agent runs (it listens on %s) and would take the uplink again: stop it first", config.CNISocket)
	}
	connecting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	shared := LinuxConfig{Datapath: config.DatapathType, StateFile: config.uplinkFile()}
	ovs, connection := connectOpenVSwitch(connecting, config.OVSDatabase)
	if connection == nil {
		defer ovs.Close()
		shared.OpenVSwitch = uplinkBridge{ovs, config, takeUpTime}
	} else {
		shared.OpenVSwitch = absentBridge{connection}
	}
	linux, err := NewLinux(shared)
	if err != nil {
		return "", err
	}
	defer linux.Close()
	linux.sharing.mu.Lock()
	defer linux.sharing.mu.Unlock()
	device, err := linux.releaseSaved(ctx)
	if err != nil {
		return "", err
	}
	if device == "" && ovs == nil {
		return "", fmt.Errorf("it is not known whether anything is shared: nothing is written down in %s, and Open vSwitch's database does not answer (ovs-database): start it: %w", config.uplinkFile(), connection)
	}
	if ovs != nil {
		if err := ovs.releaseFlows(ctx, config); err != nil {
			return "", err
		}
	}
	if device == "" {
		return "nothing is shared: the host has its devices for itself", nil
	}
	own, err := linux.readHostNamed(device)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the host has device %s for itself again, with the addresses %v", device, prefixesOf(globals(own.addresses))), nil
}

// releaseFlows clears the bridges that stay, as somebody else has made them: what nobody keeps any more would lead
// NodePorts nowhere. A gateway router that is still there would answer for the host without its flows.
func (o *openVSwitch) releaseFlows(ctx context.Context, config Config) error {
	for _, b := range ovsdb.List(o.Client, func(b *vswitch.Bridge) bool { return b.ExternalIDs[flowsKey] != "" }) {
		if o.holds(b, patchName(config.NodeName)) {
			return fmt.Errorf("bridge %s keeps its flows as long as it has the node's gateway router (port %s): delete the Node or stop ovn-controller, and repeat this", b.Name, patchName(config.NodeName))
		}
		installer := &extbridge.Installer{Program: config.OVSOfctl, Timeout: flowsTime}
		if err := o.clearFlows(ctx, config, installer, b); err != nil {
			return fmt.Errorf("the host has its devices, but bridge %s is not cleared: %w", b.Name, err)
		}
	}
	return nil
}

// absentBridge is an Open vSwitch that does not answer: what the host has can be moved all the same.
type absentBridge struct{ err error }

func (b absentBridge) Ensure(context.Context, Uplink) error { return b.err }
func (b absentBridge) Join(context.Context, Uplink) error   { return b.err }
func (b absentBridge) Holder(string) string                 { return "" }
func (b absentBridge) Made() (Uplink, bool)                 { return Uplink{}, false }

func (b absentBridge) Leave(_ context.Context, u Uplink) error {
	return fmt.Errorf("device %s has the host's addresses again, but is still a port of bridge %s: start Open vSwitch's database and repeat this: %w", u.Adapter, u.Host, b.err)
}
