//go:build linux

package hyperv

import (
	"io"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
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

// Extension is the emulated driver with the one datapath that it has.
type Extension struct {
	config Config
	log    *slog.Logger
	host   host

	enabled   atomic.Bool
	vmms      atomic.Bool // Hyper-V's management service runs
	slowness  atomic.Int64
	loseUps   atomic.Bool
	socketsMu sync.Mutex
	sockets   map[uint32]*socket // by netlink port id
	lastPort  uint32

	mu       sync.Mutex // of all that follows: packets go one after the other
	faults   Faults
	vports   map[uint32]*vport
	flows    *table[key, *flow]
	stats    datapathStats
	deferred []deferredAction
	head     int // of the queue's places, how many were given out since it was empty
	level    int
	ct       conntrack
	meters   map[uint32]*meter
	peers    map[peerKey]*peer
	frags    map[fragmentKey]*fragments
	executed map[string]uint64 // by name, see Executed
	// unwritten are the lines that Record has not got yet, the first one perhaps in part, and recordErr is why.
	unwritten []byte
	recordErr error
	// probing: the actions at hand are those by which ovs-vswitchd finds out what there is.
	probing bool
	now     func() time.Time
}

type datapathStats struct {
	hits, misses, lost uint64
	putOff             int // the most of any packet: see Status
	// losses counts packets by why they have gone no further.
	losses map[string]uint64
}

// datapathNumber and datapathName: Datapath.c, there is one.
const (
	datapathNumber = 0
	datapathName   = "ovs-system"
)

// New returns the driver with its extension enabled on a switch. It is to be closed.
func New(config Config) *Extension { return newExtension(config, linuxHost{}) }

func newExtension(config Config, h host) *Extension {
	e := &Extension{config: config, log: config.Log, host: h, sockets: map[uint32]*socket{}, vports: map[uint32]*vport{},
		meters: map[uint32]*meter{}, peers: map[peerKey]*peer{}, frags: map[fragmentKey]*fragments{},
		executed: map[string]uint64{}, stats: datapathStats{losses: map[string]uint64{}}, faults: maps.Clone(config.Faults),
		now: time.Now}
	if e.faults == nil {
		e.faults = Faults{}
	}
	e.flows = newTable[key, *flow](flowLists, e.faults)
	e.ct.init(e.faults)
	e.enabled.Store(true)
	e.vmms.Store(true)
	return e
}

// Enabled says whether the extension is enabled on a switch. Without it each request fails: Datapath.c,
// OvsDeviceControl.
func (e *Extension) Enabled() bool { return e.enabled.Load() }

// SetEnabled enables or disables the extension. Disabled it forgets all: the switch's context goes
// (Switch.c, OvsExtDetach), and ovs-vswitchd aborts with its next word to it.
func (e *Extension) SetEnabled(on bool) {
	if e.enabled.Swap(on) == on || on {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reset()
}

func (e *Extension) reset() {
	for _, v := range e.vports {
		v.close()
	}
	clear(e.vports)
	e.flows.clear()
	clear(e.meters)
	clear(e.peers)
	clear(e.frags)
	e.deferred, e.head, e.level = nil, 0, 0
	e.ct.init(e.faults)
}

// SetVMMS starts or stops Hyper-V's management service, without which no port of type internal comes.
func (e *Extension) SetVMMS(on bool) { e.vmms.Store(on) }

// SetDelay makes each command take at least that long.
func (e *Extension) SetDelay(d time.Duration) { e.slowness.Store(int64(d)) }

// SetLoseUpcalls has packets for ovs-vswitchd lost.
func (e *Extension) SetLoseUpcalls(on bool) { e.loseUps.Store(on) }

// Advance has the driver's clock go ahead. What is due by then is done with the next packet.
func (e *Extension) Advance(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.now
	e.now = func() time.Time { return before().Add(d) }
}

// SetFaults switches the driver's faults.
func (e *Extension) SetFaults(f Faults) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = maps.Clone(f)
	e.ct.setFaults(e.faults)
	e.rekey()
}

// Faults are those that are on.
func (e *Extension) Faults() Faults {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.faults)
}

// Executed counts the actions, the sets of fields and the helpers that packets met, the keys of flows that the driver
// passes over, and what flows match, by their names.
func (e *Extension) Executed() map[string]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.executed)
}

func (e *Extension) delay() {
	if d := time.Duration(e.slowness.Load()); d > 0 {
		time.Sleep(d)
	}
}

// Close takes the extension off its devices.
func (e *Extension) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reset()
}
