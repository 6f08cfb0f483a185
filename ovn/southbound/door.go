package southbound

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// How many connections there may be. An ovn-controller has one, and for a moment two when its chassis host changes.
// Each takes two files and some 150 kB.
const (
	pendingEach = 64 // from one address, that have not shown a certificate yet
	// Beyond that, a new handshake gets the room of the one that has waited longest. A node needs it for milliseconds,
	// others for as long as they may.
	pendingAll  = 512
	clientsEach = 16 // of one node
	clientsAll  = 8192
	// Each handshake takes the guard's processor for half a millisecond: so many a second of one address, after so many at
	// once.
	handshakeRate  = 50
	handshakeBurst = 1000
)

// door counts who comes in.
type door struct {
	mu         sync.Mutex
	pending    []pendingHandshake // the oldest first
	nodes      map[string]*peer
	clients    int
	handshakes rates
}

// pendingHandshake is a connection whose client has not shown a certificate yet.
type pendingHandshake struct {
	conn net.Conn
	who  string // its address
}

// peer is a node that is connected.
type peer struct {
	connections int // door's
	// busy is full while one of its requests is worked on, by the guard or by the server until the node has read the
	// answer, or a large one comes in, and others wait: what a node can have of the memory and processors of both does not
	// grow with its connections.
	busy chan struct{}
	// monitors are those of all its connections, and clauses their conditions' by table.
	monitors atomic.Int64
	mu       sync.Mutex
	clauses  map[string]int
}

// errFull is a bound that is reached.
var errFull = errors.New("there is no room for its connection")

// beginHandshake makes room for a handshake, which is pending until leave is called. Leave says whether the handshake
// had its room until then.
func (d *door) beginHandshake(conn net.Conn) (leave func() bool, err error) {
	who := origin(conn.RemoteAddr())
	if !d.handshakes.takes(who, handshakeRate, handshakeBurst) {
		return nil, fmt.Errorf("%w: more than %d a second come from its address", errFull, handshakeRate)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	each := 0
	for _, s := range d.pending {
		if s.who == who {
			each++
		}
	}
	if each >= pendingEach {
		return nil, fmt.Errorf("%w: %d from its address have not shown a certificate yet", errFull, pendingEach)
	}
	if len(d.pending) >= pendingAll {
		d.pending[0].conn.Close()
		d.pending = slices.Delete(d.pending, 0, 1)
	}
	d.pending = append(d.pending, pendingHandshake{conn, who})
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		i := slices.IndexFunc(d.pending, func(s pendingHandshake) bool { return s.conn == conn })
		if i >= 0 {
			d.pending = slices.Delete(d.pending, i, i+1)
		}
		return i >= 0
	}, nil
}

// enter lets a node's connection in, until left.
func (d *door) enter(node string) (p *peer, leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p = d.nodes[node]
	switch {
	case d.clients >= clientsAll:
		return nil, nil, fmt.Errorf("%w: all nodes have %d together", errFull, clientsAll)
	case p != nil && p.connections >= clientsEach:
		return nil, nil, fmt.Errorf("%w: the node has %d", errFull, clientsEach)
	case d.nodes == nil:
		d.nodes = map[string]*peer{}
	}
	if p == nil {
		p = &peer{busy: make(chan struct{}, 1)}
		d.nodes[node] = p
	}
	p.connections++
	d.clients++
	return p, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.clients--
		if p.connections--; p.connections == 0 {
			delete(d.nodes, node)
		}
	}, nil
}

// connected is how many connections nodes have.
func (d *door) connected() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients
}

// origin is an address, and of IPv6 the network that one host has for itself.
func origin(from net.Addr) string {
	tcp, ok := from.(*net.TCPAddr)
	if !ok {
		return from.String()
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if addr.Is6() {
		return netip.PrefixFrom(addr, 64).Masked().String()
	}
	return addr.String()
}
