//go:build linux

package hyperv

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// peerKey is how the driver remembers the way to a tunnel's other end.
type peerKey struct{ src, dst netip.Addr }

// peer is that way.
type peer struct {
	route   route
	until   time.Time
	waiting []func() // for the first packet's sake, where that fault is off
	asking  bool
}

// IpHelper.h, OVS_IPNEIGH_TIMEOUT.
const peerTimeout = 10 * time.Second

const (
	resolvePause     = 20 * time.Millisecond
	resolveAttempts  = 100
	maxWaitingPacket = 16
)

// peers are the ways to the other ends of tunnels: IpHelper.c. A goroutine asks the host for one, and takes the
// datapath's lock once it has the answer.
type peers struct {
	log    *slog.Logger
	host   host
	clock  *clock
	lock   sync.Locker // the datapath's
	byEnds map[peerKey]*peer
}

func (ps *peers) reset() { clear(ps.byEnds) }

// way is how a packet of the tunnel gets to its other end; nil while that is not known. IpHelper.c,
// OvsLookupIPhFwdInfo and OvsFwdIPHelperRequest.
func (ps *peers) way(t tunnelKey) *route {
	at := peerKey{t.src, t.dst}
	p := ps.byEnds[at]
	if p == nil {
		p = &peer{}
		ps.byEnds[at] = p
	}
	if ps.clock.now().After(p.until) && !p.asking {
		p.asking = true
		go ps.resolve(at, p)
	}
	if len(p.route.dstMAC) == 0 {
		return nil
	}
	return &p.route
}

// wait does something once the way is known.
func (ps *peers) wait(t tunnelKey, then func()) {
	if p := ps.byEnds[peerKey{t.src, t.dst}]; p != nil && len(p.waiting) < maxWaitingPacket {
		p.waiting = append(p.waiting, then)
	}
}

// resolve finds the way to a peer, and asks for its MAC until it is known.
func (ps *peers) resolve(at peerKey, p *peer) {
	var found route
	err := fmt.Errorf("resolve %s: %w", at.dst, unix.EHOSTUNREACH)
	for range resolveAttempts {
		if found, err = ps.host.route(at.dst); err == nil && len(found.dstMAC) > 0 {
			break
		}
		time.Sleep(resolvePause)
	}
	if err != nil {
		ps.log.Warn("no way to a tunnel's peer", "peer", at.dst, "err", err)
	}
	ps.lock.Lock()
	defer ps.lock.Unlock()
	p.asking, p.route, p.until = false, found, ps.clock.now().Add(peerTimeout)
	if len(found.dstMAC) == 0 {
		p.until = time.Time{}
		return
	}
	for _, then := range p.waiting {
		then()
	}
	p.waiting = nil
}
