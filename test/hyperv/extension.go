//go:build linux

package hyperv

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"
)

// Config is what the node has.
type Config struct {
	// Adapter is the network device that is the switch's external port.
	Adapter string
	Faults  Faults
	Log     *slog.Logger
	// Record gets, a line each, the names of what packets meet and flows match, once each: see Executed. Nil: nobody does.
	Record io.Writer
}

// Extension is the emulated driver: the device that ovs-vswitchd opens, and the one datapath. Its methods are for tests
// and for HNS' emulator.
type Extension struct {
	device   *controlDevice
	datapath *datapath
}

// New returns the driver with its extension enabled on a switch. It is to be closed.
func New(config Config) *Extension { return newExtension(config, linuxHost{}) }

func newExtension(config Config, machine host) *Extension {
	open := &sockets{byPort: map[uint32]*socket{}}
	d := newDatapath(config, machine, open)
	e := &Extension{newControlDevice(config.Log, open, d), d}
	e.device.enabled.Store(true)
	e.SetVMMS(true)
	return e
}

// Serve has ovs-vswitchd's sockets until ctx ends. listener is of type unixpacket.
func (e *Extension) Serve(ctx context.Context, listener *net.UnixListener) error {
	return e.device.serve(ctx, listener)
}

// Enabled says whether the extension is enabled on a switch. Without it each request fails: Datapath.c,
// OvsDeviceControl.
func (e *Extension) Enabled() bool { return e.device.enabled.Load() }

// SetEnabled enables or disables the extension. Disabled it forgets all: the switch's context goes
// (Switch.c, OvsExtDetach), and ovs-vswitchd aborts with its next word to it.
func (e *Extension) SetEnabled(on bool) {
	if e.device.enabled.Swap(on) == on || on {
		return
	}
	e.Close()
}

// SetVMMS starts or stops Hyper-V's management service, without which no port of type internal comes.
func (e *Extension) SetVMMS(on bool) { e.datapath.vports.vmms.Store(on) }

// SetDelay makes each command take at least that long.
func (e *Extension) SetDelay(d time.Duration) { e.device.delay.Store(int64(d)) }

// SetLoseUpcalls has packets for ovs-vswitchd lost.
func (e *Extension) SetLoseUpcalls(on bool) { e.datapath.upcalls.loseAll.Store(on) }

// SetConnected connects and disconnects the vNIC of a port.
func (e *Extension) SetConnected(port string, on bool) error {
	e.datapath.mu.Lock()
	defer e.datapath.mu.Unlock()
	return e.datapath.vports.setConnected(port, on)
}

// Advance has the driver's clock go ahead. What is due by then is done with the next packet.
func (e *Extension) Advance(d time.Duration) {
	e.datapath.mu.Lock()
	defer e.datapath.mu.Unlock()
	e.datapath.clock.advance(d)
}

// SetFaults switches the driver's faults.
func (e *Extension) SetFaults(f Faults) {
	e.datapath.mu.Lock()
	defer e.datapath.mu.Unlock()
	e.datapath.setFaults(f)
}

// Faults are those that are on.
func (e *Extension) Faults() Faults {
	e.datapath.mu.Lock()
	defer e.datapath.mu.Unlock()
	return maps.Clone(e.datapath.faults)
}

// Executed counts the actions, the sets of fields and the helpers that packets met, the keys of flows that the driver
// passes over, and what flows match, by their names.
func (e *Extension) Executed() map[string]uint64 {
	e.datapath.mu.Lock()
	defer e.datapath.mu.Unlock()
	return maps.Clone(e.datapath.record.counts)
}

// Recorded is an error unless all that packets have met is written down, where it is to be.
func (e *Extension) Recorded() error {
	e.datapath.mu.Lock()
	defer e.datapath.mu.Unlock()
	return e.datapath.record.written()
}

// Collisions are the last of them, the oldest one first.
func (e *Extension) Collisions() []Collision {
	e.datapath.mu.Lock()
	defer e.datapath.mu.Unlock()
	return slices.Clone(e.datapath.conntrack.nat.collisions)
}

// Status tells how the extension is.
func (e *Extension) Status() Status {
	d := e.datapath
	d.mu.Lock()
	defer d.mu.Unlock()
	return Status{Enabled: e.Enabled(), VMMS: d.vports.vmms.Load(), Ports: d.vports.names(),
		Flows: d.flows.table.count, Connections: d.conntrack.connections.count,
		Hits: d.statistics.hits, Misses: d.statistics.misses, Lost: d.statistics.lost,
		PutOff: d.deferred.most, Compared: d.compared(), Losses: maps.Clone(d.statistics.losses)}
}

// Close takes the extension off its devices.
func (e *Extension) Close() {
	e.datapath.mu.Lock()
	defer e.datapath.mu.Unlock()
	e.datapath.reset()
}
