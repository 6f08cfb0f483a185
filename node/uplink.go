package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/ovsdb"
)

const (
	// uplinkTime bounds one pass over the uplink: a new virtual switch takes the host's adapter away
	// for up to half a minute, and a host that takes its address by DHCP waits for that again.
	uplinkTime = 3 * time.Minute
	// uplinkRest is the least time between passes where one costs calls of HNS, hostRest where it costs
	// none: there the host may be waiting for an address that came to the wrong device.
	uplinkRest = 5 * time.Second
	hostRest   = 250 * time.Millisecond
	// releaseRest is the pause after the host was given its adapter back, twice as long each time: each new
	// attempt takes it from the network for a while.
	releaseRest = time.Minute
	// maxDoublings bounds that.
	maxDoublings = 5
)

// sharedUplink is the uplink where host and pods share it. It has a part of its own in the agent,
// since a look at the node shall not wait for a virtual switch.
type sharedUplink struct {
	wanted chan struct{} // full when it is to be looked at again
	rest   time.Duration // between passes

	mu       sync.Mutex
	now      platform.Uplink // zero while there is none
	released bool            // the host has its adapter for itself

	failures int // of keepUplink alone: how often in a row the host was given its adapter back
}

func newSharedUplink(c nodeconfig.Config) *sharedUplink {
	rest := hostRest
	if c.HNSNetwork != "" {
		rest = uplinkRest
	}
	return &sharedUplink{wanted: make(chan struct{}, 1), rest: rest}
}

func (u *sharedUplink) get() platform.Uplink {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now
}

func (u *sharedUplink) set(now platform.Uplink) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now = now
}

func (u *sharedUplink) look() {
	select {
	case u.wanted <- struct{}{}:
	default:
	}
}

// keepUplink makes and repairs the uplink, again and again.
func (a *agent) keepUplink(ctx context.Context) error {
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		var rest time.Duration
		a.rounds.do("uplink", func() { rest = a.keepUplinkOnce(ctx) })
		pause(ctx, rest)
		select {
		case <-a.uplink.wanted:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// keepUplinkOnce returns how long to leave the uplink alone.
func (a *agent) keepUplinkOnce(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, uplinkTime)
	defer cancel()
	if !a.ovs.Connected() { // nobody could tell the new switch where packets go
		if a.uplink.get() == (platform.Uplink{}) {
			a.health.set(conditionUplink, fmt.Errorf("the adapter is left alone until there is a connection to %s", a.config.OVSDatabase))
		}
		return 0
	}
	err := a.ensureUplink(ctx)
	if errors.Is(err, ovsdb.ErrDisconnected) {
		a.uplink.look()
		return time.Second
	}
	a.health.set(conditionUplink, err)
	a.look()
	if err == nil {
		a.examineDatapath(ctx)
	}
	a.flows.look()
	switch {
	case errors.Is(err, platform.ErrReleased):
		return a.uplink.backOff()
	case err != nil && len(a.podSubnets()) == 0:
		// A switch that is there has been looked for all the same: the host may need its bridge to reach
		// the API server. A new one has the pods' subnets, which call for another look.
		return 0
	case err != nil:
		a.uplink.look()
	default:
		a.uplink.failures = 0
	}
	return a.uplink.rest
}

// backOff returns how long the host keeps its adapter after one more attempt that failed.
func (u *sharedUplink) backOff() time.Duration {
	rest := releaseRest << min(u.failures, maxDoublings)
	u.failures++
	return rest
}

// ensureUplink brings the system's part and Open vSwitch's together. On the new switch packets go
// nowhere until a bridge has the host and the adapter, so the bridge follows at once, and the host gets its
// adapter back when the bridge does not work. ovs-vswitchd is asked first whether it lives, where it can answer.
func (a *agent) ensureUplink(ctx context.Context) error {
	if err := a.prepareUplink(ctx); err != nil {
		return fmt.Errorf("the adapter is left alone: %w", err)
	}
	before := a.ovs.UplinkBridge(a.config.Owner())
	uplink, err := a.platform.EnsureUplink(ctx)
	if err != nil {
		switch {
		case errors.Is(err, platform.ErrOutdatedUplink):
			err = errors.Join(err, a.releaseSwitch(ctx))
		case errors.Is(err, platform.ErrNoUplink):
			a.uplink.set(platform.Uplink{})
			err = errors.Join(err, a.clearBridges(ctx))
		}
		return err
	}
	if before != nil && (before.Name != uplink.Host || before.ExternalIDs[openvswitch.SwitchKey] != uplink.Switch) {
		slog.WarnContext(ctx, "the uplink's switch is a new one; bridge and ports are made again", "bridge", before.Name, "switch", uplink.Switch)
		a.uplink.set(platform.Uplink{}) // whoever keeps the bridges meanwhile would make it again for the old switch
		if err := a.clearUplink(ctx, uplink.Host); err != nil {
			return err
		}
		before = nil
	}
	a.uplink.set(uplink)
	if err := a.keepBridges(ctx); err != nil {
		return a.giveUpUnless(ctx, before != nil, err)
	}
	if err := a.ovs.AwaitPorts(ctx, a.takeUpTime, uplink.Adapter, uplink.Host); err != nil {
		return a.giveUpUnless(ctx, before != nil, err)
	}
	return nil
}

// giveUpUnless gives the adapter back to the host, unless the bridge has worked before: then the
// host depends on it, and what is wrong now may be a daemon that restarts.
func (a *agent) giveUpUnless(ctx context.Context, worked bool, err error) error {
	if worked || errors.Is(err, ovsdb.ErrDisconnected) {
		return err
	}
	slog.ErrorContext(ctx, "Open vSwitch does not take the uplink up; the host gets its adapter back", "error", err)
	return errors.Join(fmt.Errorf("%w: %w", platform.ErrReleased, err), a.releaseSwitch(ctx))
}

// releaseSwitch takes all bridges away and then the switch, also where the bridges cannot be taken away: the
// host comes first.
func (a *agent) releaseSwitch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), uplinkTime)
	defer cancel()
	a.uplink.set(platform.Uplink{})
	err := a.clearBridges(ctx)
	if err := a.ovs.RoundTrip(ctx, a.takeUpTime); err != nil { // it may be what does not work
		slog.WarnContext(ctx, "the switch goes before Open vSwitch has left it", "error", err)
	}
	return errors.Join(err, a.platform.ReleaseUplink(ctx))
}

// prepareUplink returns when a switch may be made, where there is none. The bridges of one that is gone go first:
// Open vSwitch on Windows deletes the interface that bears a bridge's name along with it, which may be the next
// switch's by then. ovs-vswitchd is asked over no bridge: without a switch that has the extension, it ends
// over each. So it is not asked at all where pods' bridge stays, or somebody else's.
func (a *agent) prepareUplink(ctx context.Context) error {
	exists, err := a.platform.SwitchExists(ctx)
	if err != nil {
		return err
	}
	if !exists {
		a.uplink.set(platform.Uplink{})
		if err := a.clearBridges(ctx); err != nil {
			return err
		}
		if len(ovsdb.List[vswitch.Bridge](a.ovs.Client, nil)) > 0 {
			return nil
		}
	}
	if a.ovs.UplinkBridge(a.config.Owner()) != nil || a.uplink.get() != (platform.Uplink{}) {
		return nil
	}
	if err := a.ovs.RoundTrip(ctx, a.takeUpTime); err != nil {
		return fmt.Errorf("ovs-vswitchd has to answer first; see whether its service runs: %w", err)
	}
	return nil
}

// releaseUplink gives the host its adapter back where an earlier configuration shared it.
func (a *agent) releaseUplink(ctx context.Context) error {
	a.uplink.mu.Lock()
	defer a.uplink.mu.Unlock()
	if a.uplink.released || a.config.SharesAdapter() {
		return nil
	}
	if err := a.platform.ReleaseUplink(ctx); err != nil {
		return fmt.Errorf("give the host its uplink back: %w", err)
	}
	a.uplink.released = true
	return nil
}

// clearUplink removes what Open vSwitch had on a switch that another has replaced: the bridge, the host's port
// on br-int, and the claim of pods' ports that their devices are there. On Windows a bridge of the host's vNIC's
// name stays, for the vNIC would go with it, and is the new switch's from now on.
func (a *agent) clearUplink(ctx context.Context, host string) error {
	late := a.platform.PortType() != ""
	bridge := a.ovs.UplinkBridge(a.config.Owner())
	operations := a.ovs.ClearingUplink(a.config.Owner(), late, late && bridge != nil && bridge.Name == host)
	if len(operations) == 0 {
		return nil
	}
	if err := a.ovs.Apply(ctx, operations); err != nil {
		return fmt.Errorf("remove the uplink's bridge: %w", err)
	}
	if err := a.ovs.RoundTrip(ctx, a.takeUpTime); err != nil { // one transaction later, and it would see no change
		return fmt.Errorf("remove the uplink's bridge: %w", err)
	}
	a.arrivals.look()
	return nil
}

// admitChassisHost: on Windows there has to be a switch, or the bridge of one that was there when the agent
// ran last.
func (a *agent) admitChassisHost() error {
	if a.config.HNSNetwork != "" && a.uplink.get() == (platform.Uplink{}) && a.ovs.UplinkBridge(a.config.Owner()) == nil {
		return openvswitch.ErrAwaitsUplink
	}
	return nil
}

// clearBridges is for a switch that is gone or goes: no bridge is left that would keep ovs-vswitchd from
// running without it. One with pods' ports stays, for the ports say whose the pods' devices are; the next
// switch has them again. It does not wait for ovs-vswitchd, which may not run by now.
func (a *agent) clearBridges(ctx context.Context) error {
	if a.tunnel != nil {
		defer a.tunnel.shut()()
	}
	operations := a.ovs.ClearingUplink(a.config.Owner(), a.platform.PortType() != "", false)
	going := a.platform.PortType() != "" && len(a.ovs.Attached()) == 0
	if going {
		operations = append(operations, a.ovs.Removing(nodeconfig.IntegrationBridge)...)
	}
	if len(operations) == 0 {
		return nil
	}
	if err := a.ovs.Apply(ctx, operations); err != nil {
		return fmt.Errorf("remove the bridges: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, a.takeUpTime)
	defer cancel()
	if err := a.ovs.WaitFor(ctx, func() bool {
		return a.ovs.UplinkBridge(a.config.Owner()) == nil && (!going || a.ovs.Bridge(nodeconfig.IntegrationBridge) == nil)
	}); err != nil {
		return fmt.Errorf("remove the bridges: %w", err)
	}
	a.arrivals.look()
	return nil
}
