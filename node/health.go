package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// condition is something that must hold before a pod can be attached.
type condition string

const (
	conditionDatabase   condition = "ovs-database"   // connected
	conditionBridges    condition = "bridges"        // Open vSwitch is set up
	conditionNetwork    condition = "node-network"   // the controller has given the node its subnet
	conditionFacts      condition = "node-facts"     // the controller can know the node's
	conditionManagement condition = "management"     // the host reaches its pods
	conditionController condition = "ovn-controller" // runs and is connected
	conditionFlows      condition = "external-flows" // the bridge to the outside divides its traffic, where it has to
	conditionUplink     condition = "uplink"         // host and pods share the adapter, where they have to
	conditionEncryption condition = "encryption"     // tunnels can be encrypted, where they have to be
)

// Notes are of what has nothing to do with most pods: each is told, and nothing waits for it.
const (
	noteNextHops condition = "next-hops"         // the gateway router reaches what is beyond its neighbours
	noteFlows    condition = "refused-flows"     // the bridge to the outside takes all flows that are meant for it
	noteLookup   condition = "conntrack-lookup"  // flows have the lookup that the datapath needs
	noteMappings condition = "external-networks" // further external networks have their bridges
	noteClear    condition = "clear-tunnels"     // tunnels can be encrypted, where they may be
	notePeers    condition = "encrypted-peers"   // what goes to other nodes is encrypted, where it is to be
)

// problems maps conditions that do not hold to the reason.
type problems map[condition]error

func (p problems) all() error {
	var errs []error
	for _, c := range slices.Sorted(maps.Keys(p)) {
		errs = append(errs, fmt.Errorf("%s: %w", c, p[c]))
	}
	return errors.Join(errs...)
}

// blockingConditions are those whose problems an ADD cannot outwait. It comes with its own deadline,
// so a database or an ovn-controller that is just being restarted does not refuse it.
var blockingConditions = []condition{conditionBridges, conditionNetwork}

func (p problems) blocking() error {
	for _, c := range blockingConditions {
		if p[c] != nil {
			return fmt.Errorf("%s: %w", c, p[c])
		}
	}
	return nil
}

// health is what the agent knows about its node's conditions.
type health struct {
	mu      sync.Mutex
	now     problems
	notes   problems
	since   map[condition]time.Time // of problems with a condition that has held before
	changed func(condition, error)
	warn    func(reason, message string) // tells users on the Node
	// patience is how long an interruption may take before STATUS tells it.
	patience time.Duration
}

// interruption is well within an ADD's own wait, and covers the restart of a daemon. A runtime makes
// the whole node NotReady on a failing STATUS, and Kubernetes takes its pods out of all Services.
const interruption = 15 * time.Second

// newHealth is of a node of which nothing is known yet; more are conditions that not every node has.
func newHealth(changed func(condition, error), warn func(reason, message string), more ...condition) *health {
	h := &health{
		now: problems{}, notes: problems{}, since: map[condition]time.Time{},
		changed: changed, warn: warn, patience: interruption,
	}
	for _, c := range append(more, conditionDatabase, conditionBridges, conditionNetwork, conditionFacts, conditionManagement, conditionController) {
		h.now[c] = errors.New("not looked at yet")
	}
	return h
}

// set records whether a condition holds, and tells each change once.
func (h *health) set(c condition, err error) {
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

// note tells what is amiss with something that pods do not wait for, each time that it is news; nil if nothing is.
func (h *health) note(c condition, reason string, err error) {
	switch {
	case !h.news(c, err):
	case err == nil:
		slog.Info("what was noted is amiss no more", "note", c)
	default:
		h.warn(reason, err.Error())
	}
}

// news records a note, and says whether it is another one than before.
func (h *health) news(c condition, err error) bool {
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

// noted are the notes as they are now.
func (h *health) noted() problems {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.notes)
}

func (h *health) problems() problems {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.now)
}

// lasting leaves out problems that an ADD which comes now will probably outwait.
func (h *health) lasting() problems {
	h.mu.Lock()
	defer h.mu.Unlock()
	lasting := problems{}
	for c, err := range h.now {
		if time.Since(h.since[c]) >= h.patience || slices.Contains(blockingConditions, c) {
			lasting[c] = err
		}
	}
	return lasting
}
