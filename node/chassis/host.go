//go:build linux

package chassis

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/node/tunnel"
)

// host is one `weft chassis`.
type host struct {
	config      Config
	leases      coordinationclient.LeaseInterface
	credentials tunnel.Credentials
	runDir      *runDir
	spawner     *spawner
	metrics     *metrics
	log         *slog.Logger
	recorder    record.EventRecorder

	nodes     cache.Store
	readings  map[string]reading // for the host's loop only
	misread   misread
	patience  atomic.Int64 // how long an agent is tried before another host may try, in nanoseconds
	sightings *sightings
	terms     *tenure.Terms
	wake      signal.Signal // there may be something to do
	hurry     signal.Signal // the other hosts must be told something at once
	leaving   atomic.Bool   // this host takes no node any more
	looked    atomic.Int64  // when it was last looked what there is to do, in nanoseconds

	mu      sync.Mutex
	members map[string]*member
	// busy are nodes that are being taken or given up; failures, when taking one failed.
	busy     map[string]bool
	failures map[string]time.Time
	// unreachable are the nodes whose agents this host cannot reach while another host may, and when to
	// try next.
	unreachable map[string]time.Time
	work        sync.WaitGroup
}

func newHost(config Config, client kubernetes.Interface, credentials tunnel.Credentials, dir *runDir) *host {
	h := &host{
		config: config, leases: client.CoordinationV1().Leases(config.LeaseNamespace), credentials: credentials, runDir: dir,
		spawner: newSpawner(), metrics: newMetrics(), log: slog.Default().With("host", config.Identity),
		sightings: newSightings(config.LeaseDuration), terms: tenure.NewTerms(tenure.Limit(config.LeaseDuration)),
		wake: signal.New(), hurry: signal.New(), members: map[string]*member{}, busy: map[string]bool{},
		failures: map[string]time.Time{}, unreachable: map[string]time.Time{},
	}
	h.patience.Store(int64(reachPatience))
	return h
}

// changed has the host look what there is to do.
func (h *host) changed() { h.wake.Set() }

// held are the members that are not being given up.
func (h *host) held() map[string]*member {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := map[string]*member{}
	for name, m := range h.members {
		if !h.busy[name] && !m.over() {
			held[name] = m
		}
	}
	return held
}

// hosted are the nodes that some host must hold, by name. What was kept of others is forgotten.
func (h *host) hosted() map[string]node {
	h.readings = readNodes(h.nodes.List(), h.readings)
	nodes := map[string]node{}
	for name, r := range h.readings {
		h.misread.say(r.from, r.err, h.report)
		if m := h.member(name); r.err != nil && m != nil { // it goes on as before
			r.node, r.ok = node{name: m.name, uid: m.uid, address: m.status.dialAddress()}, true
		}
		if r.ok {
			nodes[name] = r.node
		}
	}
	h.misread.forget(h.readings)
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.failures, func(name string, _ time.Time) bool {
		_, there := nodes[name]
		return !there
	})
	return nodes
}

// served are the hosted nodes that the hosts of this zone must hold.
func (h *host) served(hosted map[string]node) map[string]node {
	served := map[string]node{}
	for name, n := range hosted {
		if h.serves(n) {
			served[name] = n
		}
	}
	return served
}

// serves says whether a node is in this host's zone. While it is not known where a node is, only hosts without a zone
// take it, and a host that holds it goes on.
func (h *host) serves(n node) bool {
	if !n.zoned {
		return h.config.Zone == "" || h.member(n.name) != nil
	}
	return n.zone == h.config.Zone
}

// candidates are the hosts of this zone that are alive, this one included as long as its term lasts.
func (h *host) candidates() []candidate {
	var hosts []candidate
	for _, lease := range h.sightings.leases(contract.LeaseOfHost) {
		identity, ok := strings.CutPrefix(lease.Name, hostLeasePrefix)
		if !ok || identity == h.config.Identity || lease.Labels[contract.ZoneLabel] != h.config.Zone ||
			lease.Annotations[leavingAnnotation] != "" || h.sightings.silent(identity) {
			continue
		}
		hosts = append(hosts, candidate{identity, listed(lease)})
	}
	if h.terms.Current() != nil {
		unreachable := map[string]bool{}
		for _, node := range h.unreachableNodes() {
			unreachable[node] = true
		}
		hosts = append(hosts, candidate{h.config.Identity, unreachable})
	}
	return hosts
}

func listed(lease *coordinationv1.Lease) map[string]bool {
	nodes := map[string]bool{}
	for node := range strings.SplitSeq(lease.Annotations[contract.ChassisUnreachableAnnotation], ",") {
		nodes[node] = true
	}
	return nodes
}

func (h *host) unreachableNodes() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return sortedKeys(h.unreachable)
}

// run holds what this host must hold, until ctx is done, and then gives it back.
func (h *host) run(ctx context.Context) {
	ticker := time.NewTicker(h.config.LeaseDuration / 8)
	defer ticker.Stop()
	for ctx.Err() == nil {
		h.reconcile(ctx)
		select {
		case <-ctx.Done():
		case <-h.wake:
		case <-ticker.C:
		}
	}
	h.leaving.Store(true)
	h.hurry.Set()
	h.work.Wait()
	for name, m := range h.held() {
		h.begin(name, func() { h.giveUp(m, false) })
	}
	h.work.Wait()
	h.reap()
}

// reconcile starts whatever is to be done. It waits for nobody.
func (h *host) reconcile(ctx context.Context) {
	h.looked.Store(time.Now().UnixNano())
	h.reap()
	term := h.terms.Current()
	if term == nil {
		return // the members' term has ended, and they with it
	}
	hosted := h.hosted()
	nodes := h.served(hosted)
	hosts := h.candidates()
	assigned := assign(sortedKeys(nodes), hosts)
	for name, n := range nodes {
		if m := h.member(name); m != nil {
			if !m.over() { // else it is about to be reaped
				h.keep(m, n, assigned[name], hosts)
			}
		} else if h.due(name, assigned[name] == h.config.Identity) {
			h.begin(name, func() { h.acquire(term, n) })
		}
	}
	for name, m := range h.held() {
		if _, ok := nodes[name]; ok {
			continue
		}
		n, elsewhere := hosted[name]
		h.begin(name, func() {
			if elsewhere {
				m.log.Info("the node moves to another zone", "zone", n.zone)
			}
			h.giveUp(m, !elsewhere)
		})
	}
	h.clean(hosted, nodes)
	h.tryAgain(ctx, nodes)
}

// keep goes on with a member, or not.
func (h *host) keep(m *member, n node, assigned string, hosts []candidate) {
	if m.status.move(n.address) {
		m.log.Info("the node's agent has another address", "address", n.address)
	}
	if by, lost := h.lost(m); lost {
		h.begin(m.name, func() {
			m.log.Error("the node's Lease was taken or removed by somebody; its ovn-controller here is ended", "lease",
				m.lease.Name, "holder", by)
			m.abandon()
		})
		return
	}
	if m.status.outOfReach(time.Now()) >= time.Duration(h.patience.Load()) &&
		reachableElsewhere(m.name, h.config.Identity, hosts) && h.markUnreachable(m.name) {
		m.log.Warn("the node's agent is not reached from here; another host tries now")
		return // the next renewal says it to the other hosts
	}
	if assigned != h.config.Identity && h.sightings.live(assigned) {
		h.begin(m.name, func() {
			m.log.Info("the node moves to another host", "to", assigned)
			h.giveUp(m, false)
		})
	}
}

// markUnreachable notes that a node's agent is out of reach, and says whether that is news.
func (h *host) markUnreachable(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.unreachable[name]
	if !known {
		h.unreachable[name] = time.Now().Add(reachAgain)
		h.hurry.Set()
	}
	return !known
}

const (
	// reachPatience is how long a host tries to reach an agent before another host may try.
	reachPatience = 30 * time.Second
	reachAgain    = 30 * time.Second
)

// reachableElsewhere says whether another host may reach the node.
func reachableElsewhere(node, identity string, hosts []candidate) bool {
	for _, other := range hosts {
		if other.identity != identity && !other.unreachable[node] {
			return true
		}
	}
	return false
}

// lost says whether the node's Lease is no longer as this host has taken it.
func (h *host) lost(m *member) (by string, lost bool) {
	seen := h.sightings.of(m.lease.Name).lease
	if seen == nil {
		return "", true
	}
	return tenure.Holder(seen), seen.UID != m.lease.UID || transitions(seen) != transitions(m.lease) ||
		tenure.Holder(seen) != h.config.Identity
}

// due says whether this host must try to take a node that it does not hold. The host that is to have
// it goes first.
func (h *host) due(name string, mine bool) bool {
	h.mu.Lock()
	failed := h.failures[name]
	busy := h.busy[name]
	h.mu.Unlock()
	if busy || time.Since(failed) < h.config.LeaseDuration/8 {
		return false
	}
	seen := h.sightings.of(nodeLease(name))
	grace := time.Duration(0)
	if !mine {
		grace = h.config.LeaseDuration / 2
	}
	by := tenure.Holder(seen.lease)
	switch by {
	case "", h.config.Identity:
		return time.Since(seen.since) >= grace
	}
	silence := h.sightings.of(hostLease(by))
	return time.Since(silence.since) >= duration(silence.lease, h.config.LeaseDuration)+grace
}

func (h *host) member(name string) *member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members[name]
}

// atWork says whether this host holds a node, or is just taking it or giving it up.
func (h *host) atWork(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members[name] != nil || h.busy[name]
}

// begin does one thing about a node, unless something is being done about it.
func (h *host) begin(name string, work func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[name] {
		return
	}
	h.busy[name] = true
	h.work.Go(func() {
		defer h.changed()
		work()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.busy, name)
	})
}

// reap forgets members of which nothing is left.
func (h *host) reap() {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.members, func(name string, m *member) bool {
		select {
		case <-m.ended:
			return !h.busy[name]
		default:
			return false
		}
	})
}
