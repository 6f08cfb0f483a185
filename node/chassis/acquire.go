//go:build linux

package chassis

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/models/telemetry"
	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/node/tunnel"
)

// origin is what a node was before this host took it.
type origin string

const (
	fromNobody   origin = "new"      // it had no Lease
	fromReleased origin = "released" // another host had given it up
	fromDead     origin = "dead"     // its host has not renewed
	fromOwn      origin = "own"      // this host's, from before its term had ended or its process had begun
)

// errHeld: another host holds the node after all.
var errHeld = errors.New("another host holds it")

// acquire makes a node a member, if its Lease can be had. The work on the node that ended last may have made it one
// since [host.reconcile] looked.
func (h *host) acquire(term *tenure.Term, n node) {
	if h.member(n.name) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(term, h.terms.Limit())
	defer cancel()
	lease, from, former, err := h.acquireLease(ctx, n.name)
	if err == nil {
		h.sightings.note(lease)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || term.Over() {
		h.failures[n.name] = time.Now()
		if err != nil && !errors.Is(err, errHeld) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			h.log.Warn("cannot take a node; trying again", telemetry.Object("Node", "", n.name), "error", err)
		}
		return
	}
	delete(h.failures, n.name)
	log := h.log.With(telemetry.Object("Node", "", n.name))
	m := &member{
		node: n, term: term, lease: lease, config: h.config, credentials: h.credentials, runDir: h.runDir, spawner: h.spawner,
		metrics: h.metrics, log: log, report: func(reason *reasons.Event, message string) { h.report(n, reason, message) },
		guard: &guard{
			node: n.name, southbound: h.config.Southbound, onlyTLS: h.config.OVNCA != "",
			claimed: func(address netip.Addr) string { return claimed(h.nodes.List(), n.name, address) },
		},
	}
	h.members[n.name] = m
	h.metrics.takeovers.WithLabelValues(string(from)).Inc()
	log.Info("the node is taken", "from", from, "former", former, "address", n.address)
	if from == fromDead {
		h.report(n, chassisTakenOver, fmt.Sprintf("ovn-controller runs on chassis host %s now: host %s has not "+
			"renewed its Lease", h.config.Identity, former))
	}
	m.start()
}

// acquireLease compares and swaps.
func (h *host) acquireLease(ctx context.Context, name string) (lease *coordinationv1.Lease, from origin, former string,
	err error) {
	now, err := h.leases.Get(ctx, nodeLease(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = h.leases.Create(ctx, acquired(nil, h.config.LeaseNamespace, name, h.config.Identity,
			h.config.LeaseDuration, time.Now()), metav1.CreateOptions{})
		return lease, fromNobody, "", err
	}
	if err != nil {
		return nil, "", "", err
	}
	h.sightings.note(now)
	switch former = tenure.Holder(now); former {
	case "":
		from = fromReleased
	case h.config.Identity:
		from = fromOwn
	default:
		from = fromDead
		if err := h.provenSilent(ctx, former); err != nil {
			return nil, "", "", err
		}
	}
	lease, err = h.leases.Update(ctx, acquired(now, h.config.LeaseNamespace, name, h.config.Identity,
		h.config.LeaseDuration, time.Now()), metav1.UpdateOptions{})
	return lease, from, former, err
}

// provenSilent asks the API server whether a host that seems silent is: this one's watch may be late.
func (h *host) provenSilent(ctx context.Context, identity string) error {
	name := hostLease(identity)
	now, err := h.leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		h.sightings.note(now)
	case apierrors.IsNotFound(err):
		h.sightings.gone(name, nil)
	default:
		return err
	}
	if !h.sightings.silent(identity) {
		return errHeld
	}
	return nil
}

// giveUp ends a member gently and its Lease with it: removed when the node needs none any more, else
// left to the host that must have it.
func (h *host) giveUp(m *member, forGood bool) {
	m.leave()
	ctx, cancel := context.WithTimeout(m.term, h.terms.Limit())
	defer cancel()
	var err error
	after := m.lease
	if forGood {
		err = h.leases.Delete(ctx, m.lease.Name, exactly(m.lease))
	} else {
		after, err = h.leases.Update(ctx, released(m.lease), metav1.UpdateOptions{})
	}
	switch {
	case err == nil && forGood:
		h.sightings.gone(m.lease.Name, m.lease)
	case err == nil:
		h.sightings.note(after)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Somebody else has changed it, so it is not this host's to release.
	case err != nil:
		m.log.Warn("the node's Lease is not released; it is when this host's own expires", "lease", m.lease.Name, "error",
			err)
	}
}

func exactly(lease *coordinationv1.Lease) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID,
		ResourceVersion: &lease.ResourceVersion}}
}

// expiredFor is how long a Lease that nobody needs must have been useless before it is removed.
const expiredFor = 10 * time.Minute

// clean removes Leases of nodes that need none and of hosts that are gone. Which host does is of no
// matter. If this host had another zone before, Leases of that zone's nodes may still name it. It removes them too: the
// hosts of that zone see that this host lives, and would wait for ever.
func (h *host) clean(hosted, served map[string]node) {
	wanted, foreign := map[string]bool{}, map[string]bool{}
	for name, n := range hosted {
		wanted[nodeLease(name)] = true
		if _, ours := served[name]; !ours && n.zoned {
			foreign[nodeLease(name)] = true
		}
	}
	for _, lease := range h.sightings.leases(contract.LeaseOfNode) {
		by := tenure.Holder(lease)
		left := by == h.config.Identity && !h.atWork(lease.Annotations[contract.ChassisNodeAnnotation])
		needed := wanted[lease.Name] && !(left && foreign[lease.Name])
		if needed || !left && by != "" && !h.sightings.silent(by) {
			continue
		}
		h.remove(lease)
	}
	for _, lease := range h.sightings.leases(contract.LeaseOfHost) {
		if lease.Name != hostLease(h.config.Identity) && time.Since(h.sightings.of(lease.Name).since) >= expiredFor {
			h.remove(lease)
		}
	}
	h.sightings.prune(wanted, expiredFor)
}

// remove is for Leases without a member. It is done under a name that no node has.
func (h *host) remove(lease *coordinationv1.Lease) {
	h.begin("lease/"+lease.Name, func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.terms.Limit())
		defer cancel()
		err := h.leases.Delete(ctx, lease.Name, exactly(lease))
		switch {
		case err == nil:
			h.log.Info("a Lease that nobody needs is removed", "lease", lease.Name)
			h.sightings.gone(lease.Name, lease)
		case apierrors.IsNotFound(err):
			h.sightings.gone(lease.Name, lease)
		case !apierrors.IsConflict(err):
			h.log.Warn("remove a Lease that nobody needs", "lease", lease.Name, "error", err)
		}
	})
}

// tryAgain looks whether agents that could not be reached from here can be now.
func (h *host) tryAgain(ctx context.Context, nodes map[string]node) {
	for _, name := range h.unreachableNodes() {
		n, ok := nodes[name]
		h.mu.Lock()
		switch at := h.unreachable[name]; {
		case !ok:
			delete(h.unreachable, name)
		case time.Now().Before(at):
			ok = false
		default:
			h.unreachable[name] = time.Now().Add(reachAgain)
		}
		h.mu.Unlock()
		if ok {
			h.begin("try/"+name, func() { h.try(ctx, n) })
		}
	}
}

func (h *host) try(ctx context.Context, n node) {
	conn, err := tunnel.Dial(ctx, n.address, tunnel.OVSDB, h.credentials, tunnel.AgentName(n.name))
	if err == nil {
		conn.Close()
	}
	if refused := new(tunnel.Error); err != nil && !(errors.As(err, &refused) && refused.Reason == tunnel.TargetDown) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unreachable, n.name)
	h.log.Info("the node's agent is reached from here again", telemetry.Object("Node", "", n.name))
}
