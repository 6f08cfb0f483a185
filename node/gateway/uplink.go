package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/health"
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
// since a look at the node must not wait for a virtual switch.
type sharedUplink struct {
	wanted signal.Signal // it is to be looked at again
	rest   time.Duration // between passes

	mu       sync.Mutex
	now      platform.Uplink // zero while there is none
	released bool            // the host has its adapter for itself

	failures int // of ReconcileUplink alone: how often in a row the host was given its adapter back
}

func newSharedUplink(c nodeconfig.Config) *sharedUplink {
	rest := hostRest
	if c.HNSNetwork != "" {
		rest = uplinkRest
	}
	return &sharedUplink{wanted: signal.New(), rest: rest}
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

// ReconcileUplink makes and repairs the uplink, again and again.
func (g *Gateway) ReconcileUplink(ctx context.Context) error {
	tick := time.NewTicker(resync)
	defer tick.Stop()
	for {
		var rest time.Duration
		g.Rounds.Do("uplink", func() { rest = g.ReconcileUplinkOnce(ctx) })
		signal.Sleep(ctx, rest)
		select {
		case <-g.uplink.wanted:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ReconcileUplinkOnce returns how long to leave the uplink alone.
func (g *Gateway) ReconcileUplinkOnce(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, uplinkTime)
	defer cancel()
	if !g.Database.Connected() { // nobody could tell the new switch where packets go
		g.withoutDatabase(ctx)
		return 0
	}
	err := g.ensureUplink(ctx)
	if errors.Is(err, ovsdb.ErrDisconnected) {
		g.uplink.wanted.Set()
		return time.Second
	}
	g.Health.Set(health.Uplink, err)
	g.EnqueueNode()
	if err == nil {
		g.examineDatapath(ctx)
	}
	g.flows.wanted.Set()
	switch {
	case errors.Is(err, platform.ErrReleased):
		return g.uplink.backOff()
	case err != nil && len(g.PodSubnets()) == 0:
		// A switch that is there has been looked for all the same: the host may need its bridge to reach
		// the API server. A new one has the pods' subnets, which call for another look.
		return 0
	case err != nil:
		g.uplink.wanted.Set()
	default:
		g.uplink.failures = 0
	}
	return g.uplink.rest
}

// withoutDatabase waits a while for the connection. If it does not come, the host is made reachable without bridges.
func (g *Gateway) withoutDatabase(ctx context.Context) {
	problem := fmt.Errorf("the adapter is left alone until there is a connection to %s", g.Config.OVSDatabase)
	if g.uplink.get() == (platform.Uplink{}) {
		g.Health.Set(health.Uplink, problem)
	}
	patience, cancel := context.WithTimeout(ctx, g.Times.TakeUp)
	defer cancel()
	if g.Database.WaitFor(patience, g.Database.Connected) == nil || ctx.Err() != nil {
		return
	}
	if err := g.Platform.RestoreHost(ctx); err != nil {
		g.Health.Set(health.Uplink, errors.Join(problem, err))
	}
}

// backOff returns how long the host keeps its adapter after one more attempt that failed.
func (u *sharedUplink) backOff() time.Duration {
	rest := releaseRest << min(u.failures, maxDoublings)
	u.failures++
	return rest
}

// uplinkBridge is the bridge as the platform may work with it.
func (g *Gateway) uplinkBridge() openvswitch.UplinkBridge {
	return openvswitch.NewUplinkBridge(g.Database, g.Config, g.Times.TakeUp)
}

// ensureUplink brings the system's part and Open vSwitch's together. On the new switch packets go
// nowhere until a bridge has the host and the adapter, so the bridge follows at once, and the host gets its
// adapter back when the bridge does not work. ovs-vswitchd is asked first whether it lives, where it can answer; as
// long as it is silent the host gets what an earlier start has left it without.
func (g *Gateway) ensureUplink(ctx context.Context) error {
	if err := g.prepareUplink(ctx); err != nil {
		if ctx.Err() == nil && !errors.Is(err, ovsdb.ErrDisconnected) {
			err = errors.Join(err, g.Platform.RestoreHost(ctx))
		}
		return fmt.Errorf("the adapter is left alone: %w", err)
	}
	before := g.Database.UplinkBridge(g.Config.Owner())
	uplink, err := g.Platform.EnsureUplink(ctx, g.uplinkBridge())
	if err != nil {
		switch {
		case errors.Is(err, platform.ErrOutdatedUplink):
			err = errors.Join(err, g.releaseSwitch(ctx))
		case errors.Is(err, platform.ErrNoUplink):
			g.uplink.set(platform.Uplink{})
			err = errors.Join(err, g.clearBridges(ctx))
		}
		return err
	}
	if before != nil && (before.Name != uplink.Host || before.ExternalIDs[openvswitch.SwitchKey] != uplink.Switch) {
		slog.WarnContext(ctx, "the uplink's switch is a new one; bridge and ports are made again", "bridge", before.Name,
			"switch", uplink.Switch)
		g.uplink.set(platform.Uplink{}) // whoever keeps the bridges meanwhile would make it again for the old switch
		if err := g.clearUplink(ctx, uplink.Host); err != nil {
			return err
		}
		before = nil
	}
	confirmed, err := g.Platform.UplinkConfirmed(uplink)
	if err != nil {
		return err
	}
	g.uplink.set(uplink)
	return g.giveUpUnless(ctx, confirmed && before != nil, g.bridgeUplink(ctx, uplink))
}

// bridgeUplink returns when the uplink's bridge works, and that is written down. A database that falls silent
// meanwhile is not waited for until ctx ends.
func (g *Gateway) bridgeUplink(ctx context.Context, uplink platform.Uplink) error {
	writing, cancel := context.WithTimeout(ctx, g.Times.Write)
	defer cancel()
	if err := g.ReconcileBridges(writing); err != nil {
		return err
	}
	if err := g.Database.AwaitPorts(ctx, g.Times.TakeUp, uplink.Adapter, uplink.Host); err != nil {
		return err
	}
	return g.Platform.ConfirmUplink(uplink)
}

// giveUpUnless gives the adapter back to the host after an error, unless the bridge has worked before: then the
// host depends on it, and what is wrong now may be a daemon that restarts. That there is a bridge proves nothing: an
// agent may have ended before it saw that the bridge does not work.
func (g *Gateway) giveUpUnless(ctx context.Context, worked bool, err error) error {
	if err == nil || worked || errors.Is(err, ovsdb.ErrDisconnected) {
		return err
	}
	slog.ErrorContext(ctx, "Open vSwitch does not take the uplink up; the host gets its adapter back", "error", err)
	return errors.Join(fmt.Errorf("%w: %w", platform.ErrReleased, err), g.releaseSwitch(ctx))
}

// releaseSwitch takes all bridges away and then the switch, also where the bridges cannot be taken away: the
// host comes first.
func (g *Gateway) releaseSwitch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), uplinkTime)
	defer cancel()
	g.uplink.set(platform.Uplink{})
	err := g.clearBridges(ctx)
	if err := g.Database.RoundTrip(ctx, g.Times.TakeUp); err != nil { // it may be what does not work
		slog.WarnContext(ctx, "the switch goes before Open vSwitch has left it", "error", err)
	}
	return errors.Join(err, g.Platform.ReleaseUplink(ctx, g.uplinkBridge()))
}

// prepareUplink returns when a switch may be made, where there is none. The bridges of one that is gone go first:
// Open vSwitch on Windows deletes the interface that bears a bridge's name along with it, which may be the next
// switch's by then. ovs-vswitchd is asked over no bridge: without a switch that has the extension, it ends
// over each. So it is not asked at all where pods' bridge stays, or somebody else's. Nor is it asked where HNS has the
// adapter already: the host has no way out by it until a bridge works, or the switch goes.
func (g *Gateway) prepareUplink(ctx context.Context) error {
	exists, err := g.Platform.SwitchExists(ctx)
	if err != nil {
		return err
	}
	if exists && g.Config.HNSNetwork != "" {
		return nil
	}
	if !exists {
		g.uplink.set(platform.Uplink{})
		if err := g.clearBridges(ctx); err != nil {
			return err
		}
		if len(ovsdb.List[vswitch.Bridge](g.Database.Client, nil)) > 0 {
			return nil
		}
	}
	if g.Database.UplinkBridge(g.Config.Owner()) != nil || g.uplink.get() != (platform.Uplink{}) {
		return nil
	}
	if err := g.Database.RoundTrip(ctx, g.Times.TakeUp); err != nil {
		return fmt.Errorf("ovs-vswitchd has to answer first; see whether its service runs: %w", err)
	}
	return nil
}

// releaseUplink gives the host its adapter back where an earlier configuration shared it.
func (g *Gateway) releaseUplink(ctx context.Context) error {
	g.uplink.mu.Lock()
	defer g.uplink.mu.Unlock()
	if g.uplink.released || g.Config.SharesAdapter() {
		return nil
	}
	if err := g.Platform.ReleaseUplink(ctx, g.uplinkBridge()); err != nil {
		return fmt.Errorf("give the host its uplink back: %w", err)
	}
	g.uplink.released = true
	return nil
}

// clearUplink removes what Open vSwitch had on a switch that another has replaced: the bridge, the host's port
// on br-int, and the claim of pods' ports that their devices are there. On Windows a bridge of the host's vNIC's
// name stays, for the vNIC would go with it, and is the new switch's from now on.
func (g *Gateway) clearUplink(ctx context.Context, host string) error {
	ports := g.Platform.PortType() != ""
	bridge := g.Database.UplinkBridge(g.Config.Owner())
	operations := g.Database.ClearingUplink(g.Config.Owner(), ports, ports && bridge != nil && bridge.Name == host)
	if len(operations) == 0 {
		return nil
	}
	if err := g.Database.Apply(ctx, operations); err != nil {
		return fmt.Errorf("remove the uplink's bridge: %w", err)
	}
	if err := g.Database.RoundTrip(ctx, g.Times.TakeUp); err != nil { // one transaction later, and it would see no change
		return fmt.Errorf("remove the uplink's bridge: %w", err)
	}
	g.DevicesChanged()
	return nil
}

// UplinkReady fails as long as host and pods must share an adapter and do not: its addresses are on the way.
func (g *Gateway) UplinkReady() error {
	if g.Config.SharesAdapter() && g.uplink.get() == (platform.Uplink{}) {
		return openvswitch.ErrAwaitsUplink
	}
	return nil
}

// SwitchReady says why nobody may make a bridge yet. On Windows there has to be a switch, or the bridge of one that was
// there when the agent ran last.
func (g *Gateway) SwitchReady() error {
	if g.Config.HNSNetwork != "" && g.uplink.get() == (platform.Uplink{}) &&
		g.Database.UplinkBridge(g.Config.Owner()) == nil {
		return openvswitch.ErrAwaitsUplink
	}
	return nil
}

// clearBridges is for a switch that is gone or goes: no bridge is left that would keep ovs-vswitchd from
// running without it. One with pods' ports stays, for the ports say whose the pods' devices are; the next
// switch has them again. It does not wait for ovs-vswitchd, which may not run by now.
func (g *Gateway) clearBridges(ctx context.Context) error {
	defer g.ShutDatabase()()
	ctx, cancel := context.WithTimeout(ctx, g.Times.Write)
	defer cancel()
	operations := g.Database.ClearingUplink(g.Config.Owner(), g.Platform.PortType() != "", false)
	going := g.Platform.PortType() != "" && len(g.Database.Attached()) == 0
	if going {
		operations = append(operations, g.Database.Removing(nodeconfig.IntegrationBridge)...)
	}
	if len(operations) == 0 {
		return nil
	}
	if err := g.Database.Apply(ctx, operations); err != nil {
		return fmt.Errorf("remove the bridges: %w", err)
	}
	if err := g.Database.WaitFor(ctx, func() bool {
		return g.Database.UplinkBridge(g.Config.Owner()) == nil &&
			(!going || g.Database.Bridge(nodeconfig.IntegrationBridge) == nil)
	}); err != nil {
		return fmt.Errorf("remove the bridges: %w", err)
	}
	g.DevicesChanged()
	return nil
}
