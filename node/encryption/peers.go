package encryption

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// WindowsNodes are the addresses of all Windows nodes, which encrypt nothing.
type WindowsNodes func(context.Context) (map[netip.Addr]struct{}, error)

// peerPatience is how long a peer may go without encryption before it is told: it may just join or start anew.
const peerPatience = time.Minute

// askTime bounds a question for Windows nodes.
const askTime = 5 * time.Second

// peers remembers those to which nothing is encrypted.
type peers struct {
	nodes WindowsNodes
	since map[netip.Addr]time.Time // when one was first seen so
	// windows says of those that are overdue whether they are Windows nodes.
	windows map[netip.Addr]bool
	failed  time.Time // when the last question without an answer was asked
}

func newPeers(nodes WindowsNodes) *peers {
	return &peers{nodes: nodes, since: map[netip.Addr]time.Time{}, windows: map[netip.Addr]bool{}}
}

// observe takes in which peers are not encrypted now.
func (p *peers) observe(missing []netip.Addr) {
	for peer := range p.since {
		if !slices.Contains(missing, peer) {
			delete(p.since, peer)
			delete(p.windows, peer)
		}
	}
	for _, peer := range missing {
		if _, known := p.since[peer]; !known {
			p.since[peer] = time.Now()
		}
	}
}

// overdue are those that have gone without encryption for long.
func (p *peers) overdue(missing []netip.Addr) (late []netip.Addr) {
	for _, peer := range missing {
		if time.Since(p.since[peer]) > peerPatience {
			late = append(late, peer)
		}
	}
	return late
}

// split tells the Windows nodes from others that encrypt nothing. A node does not change its system, so the API server
// is asked only if a peer is newly overdue, and again a minute after it has not answered. Until then that peer is of
// the others.
func (p *peers) split(ctx context.Context, missing []netip.Addr) (others []netip.Addr, windows int) {
	late := p.overdue(missing)
	if slices.ContainsFunc(late, func(peer netip.Addr) bool { _, known := p.windows[peer]; return !known }) &&
		time.Since(p.failed) >= peerPatience {
		p.ask(ctx, late)
	}
	for _, peer := range missing {
		if p.windows[peer] {
			windows++
		} else {
			others = append(others, peer)
		}
	}
	return others, windows
}

func (p *peers) ask(ctx context.Context, late []netip.Addr) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	nodes, err := p.nodes(ctx)
	if err != nil {
		p.failed = time.Now()
		slog.WarnContext(ctx, "it is not known which peers are Windows nodes; it is tried again", "error", err)
		return
	}
	for _, peer := range late {
		_, p.windows[peer] = nodes[peer]
	}
}
