package health

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weftnet/weft/models/reasons"
)

// Condition is something without which new pods cannot be attached, or lack something. [Problems.Blocking] says which
// problems refuse an ADD.
type Condition string

const (
	Database   Condition = "ovs-database"   // connected
	Bridges    Condition = "bridges"        // Open vSwitch is set up
	Network    Condition = "node-network"   // the controller has given the node its subnet
	Facts      Condition = "node-facts"     // the controller can know the node's
	Management Condition = "management"     // the host reaches its pods
	Controller Condition = "ovn-controller" // runs and is connected
	Flows      Condition = "external-flows" // the bridge to the outside divides its traffic, where it has to
	Uplink     Condition = "uplink"         // host and pods share the adapter, where they have to
	Encryption Condition = "encryption"     // tunnels can be encrypted, where they have to be
)

// Notes are of what has nothing to do with most pods: each is told, and nothing waits for it.
const (
	NextHops        Condition = "next-hops"         // the gateway router reaches what is beyond its neighbours
	RefusedFlows    Condition = "refused-flows"     // the bridge to the outside takes all flows that are meant for it
	ConntrackLookup Condition = "conntrack-lookup"  // flows have the lookup that the datapath needs
	Connections     Condition = "connections"       // those of the bridge to the outside are bounded, where they are to be
	Mappings        Condition = "external-networks" // further external networks have their bridges
	ClearTunnels    Condition = "clear-tunnels"     // tunnels can be encrypted, where they may be
	EncryptedPeers  Condition = "encrypted-peers"   // what goes to other nodes is encrypted, where it is to be
	HNS             Condition = "hns"               // HNS answers all calls, on Windows
	UplinkMTU       Condition = "mtu"               // the uplink carries what uplink-mtu says
	Upcalls         Condition = "upcalls"           // packets that the datapath has no flow for reach ovs-vswitchd
)

// notes are all of them. contract.Notes has what to do about each.
var notes = []Condition{NextHops, RefusedFlows, ConntrackLookup, Connections, Mappings, ClearTunnels, EncryptedPeers,
	HNS, UplinkMTU, Upcalls}

// Problems maps conditions that do not hold to the reason.
type Problems map[Condition]error

func (p Problems) All() error {
	var errs []error
	for _, c := range slices.Sorted(maps.Keys(p)) {
		errs = append(errs, fmt.Errorf("%s: %w", c, p[c]))
	}
	return errors.Join(errs...)
}

// blockingConditions are those whose problems an ADD cannot outwait. It comes with its own deadline,
// so a database or an ovn-controller that is just being restarted does not refuse it.
var blockingConditions = []Condition{Bridges, Network}

func (p Problems) Blocking() error {
	for _, c := range blockingConditions {
		if p[c] != nil {
			return fmt.Errorf("%s: %w", c, p[c])
		}
	}
	return nil
}

// Tracker is what the agent knows about its node's conditions.
type Tracker struct {
	mu      sync.Mutex
	now     Problems
	notes   Problems
	since   map[Condition]time.Time // of problems with a condition that has held before
	changed func(Condition, error)
	warn    func(reason *reasons.Event, message string) // tells users on the Node
	// Patience is how long an interruption may take before STATUS tells it.
	Patience time.Duration
}

// interruption is well within an ADD's own wait, and covers the restart of a daemon. A runtime makes
// the whole node NotReady on a failing STATUS, and Kubernetes takes its pods out of all Services.
const interruption = 15 * time.Second

// New is of a node of which nothing is known yet; more are conditions that not every node has.
func New(changed func(Condition, error), warn func(reason *reasons.Event, message string), more ...Condition) *Tracker {
	h := &Tracker{
		now: Problems{}, notes: Problems{}, since: map[Condition]time.Time{},
		changed: changed, warn: warn, Patience: interruption,
	}
	for _, c := range append(more, Database, Bridges, Network, Facts, Management, Controller) {
		h.now[c] = errors.New("not looked at yet")
	}
	return h
}

// Set records whether a condition holds, and tells each change once.
func (h *Tracker) Set(c Condition, err error) {
	h.mu.Lock()
	before := h.now[c]
	if err == nil {
		delete(h.now, c)
	} else {
		h.now[c] = err
	}
	if before == nil && err != nil {
		h.since[c] = time.Now()
	}
	h.mu.Unlock()
	if (before == nil) != (err == nil) || err != nil && before.Error() != err.Error() {
		h.changed(c, err)
	}
}

// Note tells what is amiss with something that pods do not wait for, each time that it is news; nil if nothing is.
func (h *Tracker) Note(c Condition, reason *reasons.Event, err error) {
	switch {
	case !h.news(c, err):
	case err == nil:
		slog.Info("what was noted is amiss no more", "note", c)
	default:
		h.warn(reason, err.Error())
	}
}

// news records a note, and says whether it is another one than before.
func (h *Tracker) news(c Condition, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.notes[c]
	if err == nil {
		delete(h.notes, c)
		return before != nil
	}
	h.notes[c] = err
	return before == nil || before.Error() != err.Error()
}

// Noted are the notes as they are now.
func (h *Tracker) Noted() Problems {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.notes)
}

func (h *Tracker) Problems() Problems {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.now)
}

// Lasting leaves out problems that an ADD which comes now will probably outwait.
func (h *Tracker) Lasting() Problems {
	h.mu.Lock()
	defer h.mu.Unlock()
	lasting := Problems{}
	for c, err := range h.now {
		if time.Since(h.since[c]) >= h.Patience || slices.Contains(blockingConditions, c) {
			lasting[c] = err
		}
	}
	return lasting
}
