package sctp

import (
	"net"
	"net/netip"
	"sync"
)

// wire joins sockets in memory. lost says which packets do not arrive.
type wire struct {
	mu      sync.Mutex
	sockets map[netip.Addr][]*plug
	lost    func(p packet) bool
}

type plug struct {
	wire *wire
	in   chan sent
	once sync.Once
	done chan struct{}
}

type sent struct {
	b        []byte
	from, to netip.Addr
}

func newWire() *wire {
	return &wire{sockets: map[netip.Addr][]*plug{}, lost: func(packet) bool { return false }}
}

// plug makes a host's socket.
func (w *wire) plug(host netip.Addr) *plug {
	p := &plug{wire: w, in: make(chan sent, 1000), done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sockets[host] = append(w.sockets[host], p)
	return p
}

func (p *plug) receive(b []byte) (int, netip.Addr, netip.Addr, error) {
	select {
	case s := <-p.in:
		return copy(b, s.b), s.from, s.to, nil
	case <-p.done:
		return 0, netip.Addr{}, netip.Addr{}, net.ErrClosed
	}
}

func (p *plug) send(b []byte, from, to netip.Addr) error {
	text, err := unmarshal(b)
	if err != nil {
		return err
	}
	p.wire.mu.Lock()
	defer p.wire.mu.Unlock()
	if p.wire.lost(text) {
		return nil
	}
	for _, other := range p.wire.sockets[to] {
		other.in <- sent{b, from, to}
	}
	return nil
}

func (p *plug) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}
