package southbound

import (
	"sync"
	"time"
)

// A node that starts, or loses its connection, reads what the Southbound has: once, or a few times in a row. The server, which does
// one thing at a time, is busy with it for as long as that takes, and everybody waits. So each node has it say as much as the largest
// reading was paceBurst times at once, and then once in paceTime.
const (
	paceBurst = 4
	paceTime  = 30 * time.Second
	// paceLeast is what no node has to wait for.
	paceLeast = 1 << 20
)

// pace is what nodes have had the server say lately. It outlives their connections.
type pace struct {
	mu      sync.Mutex
	largest int64 // reading of any node
	debts   map[string]debt
}

// debt is of a node: bytes, as of a time.
type debt struct {
	bytes float64
	at    time.Time
}

// unit is the largest reading. p.mu is held.
func (p *pace) unit() float64 { return float64(max(p.largest, paceLeast)) }

// owes is a node's debt now. p.mu is held.
func (p *pace) owes(node string) float64 {
	d := p.debts[node]
	return max(0, d.bytes-p.unit()*float64(time.Since(d.at))/float64(paceTime))
}

// wait is how long a node's next reading has to wait, 0 if it has not.
func (p *pace) wait(node string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	over := p.owes(node)/p.unit() - (paceBurst - 1)
	if over <= 0 {
		return 0
	}
	return max(time.Duration(over*float64(paceTime)), time.Millisecond)
}

// charge notes that a node has had the server say so many bytes.
func (p *pace) charge(node string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	owed := p.owes(node)
	p.largest = max(p.largest, bytes)
	if p.debts == nil {
		p.debts = map[string]debt{}
	}
	p.debts[node] = debt{owed + float64(bytes), time.Now()}
}
