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
	// answers are what the API server has said of those that are overdue.
	answers map[netip.Addr]answer
	failed  time.Time // when the last question without an answer was asked
}

// answer says whether a peer is a Windows node. If it seems to be none, its Node may not have the address of its
// tunnels yet: this is asked again after pause.
type answer struct {
	windows bool
	asked   time.Time
	pause   time.Duration
}

// maxPause bounds the pause, which doubles with each answer: a Linux node may stay without encryption for days.
const maxPause = time.Hour

func newPeers(nodes WindowsNodes) *peers {
	return &peers{nodes: nodes, since: map[netip.Addr]time.Time{}, answers: map[netip.Addr]answer{}}
}

// observe takes in which peers are not encrypted now.
func (p *peers) observe(missing []netip.Addr) {
	for peer := range p.since {
		if !slices.Contains(missing, peer) {
			delete(p.since, peer)
			delete(p.answers, peer)
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
// is asked only if a peer is newly overdue or its answer has aged, and again a minute after it has not answered. Until
// then that peer is of the others.
func (p *peers) split(ctx context.Context, missing []netip.Addr) (others []netip.Addr, windows int) {
	if due := slices.DeleteFunc(p.overdue(missing), p.settled); len(due) > 0 && time.Since(p.failed) >= peerPatience {
		p.ask(ctx, due)
	}
	for _, peer := range missing {
		if p.answers[peer].windows {
			windows++
		} else {
			others = append(others, peer)
		}
	}
	return others, windows
}

// settled says whether the answer about a peer still counts.
func (p *peers) settled(peer netip.Addr) bool {
	a, known := p.answers[peer]
	return known && (a.windows || time.Since(a.asked) < a.pause)
}

func (p *peers) ask(ctx context.Context, due []netip.Addr) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	nodes, err := p.nodes(ctx)
	if err != nil {
		p.failed = time.Now()
		slog.WarnContext(ctx, "it is not known which peers are Windows nodes; it is tried again", "error", err)
		return
	}
	for _, peer := range due {
		_, windows := nodes[peer]
		pause := min(max(2*p.answers[peer].pause, peerPatience), maxPause)
		p.answers[peer] = answer{windows: windows, asked: time.Now(), pause: pause}
	}
}
