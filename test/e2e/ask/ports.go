//go:build linux

package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
)

// ports are those that clients without one of their own take in turn. Linux gives one port to connections to several
// addresses, of which a load balancer may make one, to TCP and UDP, and to the clients of several machines, which a
// gateway gives one address: Windows' driver loses the second (nat-port and dnat-port of docs/hyperv.md), and a test
// asks in a minute what a client asks in an hour.
type ports struct {
	first, count uint32 // without a count the system chooses
	taken        atomic.Uint32
}

// Set reads FIRST:COUNT.
func (p *ports) Set(text string) error {
	if _, err := fmt.Sscanf(text, "%d:%d", &p.first, &p.count); err != nil {
		return fmt.Errorf("FIRST:COUNT is wanted: %w", err)
	}
	if p.first == 0 || p.count == 0 || p.first+p.count > 1<<16 {
		return fmt.Errorf("ports are from 1 to %d", 1<<16-1)
	}
	return nil
}

func (p *ports) String() string { return fmt.Sprintf("%d:%d", p.first, p.count) }

// with connects from the next port that nobody has, or where all are in use from one of the system's choice.
func (p *ports) with(connect func(port int) error) error {
	for range p.count {
		port := p.first + (p.taken.Add(1)-1)%p.count
		if err := connect(int(port)); !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return connect(0)
}
