package southbound

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A node that starts, or loses its connection, reads what the Southbound has: once, or a few times in a row. The
// server, which does one thing at a time, is busy with it for as long as that takes, and everybody waits. So each node
// has it say as much as the largest reading was paceBurst times at once, and then once in paceTime. What the server
// works beside counts by its time.
const (
	paceBurst = 4
	paceTime  = time.Minute
	// paceLeast is what no node has to wait for.
	paceLeast = 1 << 20
	// paceWork is the work of the server, beside that for what it says, that counts as much as a reading.
	paceWork = 250 * time.Millisecond
	// paceSpeed is how many bytes a second the server says at least, and paceSlack how many times as long it may take when
	// others have the processors.
	paceSpeed = 16 << 20
	paceSlack = 4
)

// pace is what nodes have had the server do lately. It outlives their connections.
type pace struct {
	mu      sync.Mutex
	largest int64   // reading of any node
	speed   float64 // the highest at which the server has said about as much, in bytes a second: nobody makes it less
	debts   map[string]debt
	asked   int           // requests that the server has not answered
	clock   time.Duration // goes as fast as the server works for each of them
	at      time.Time     // of clock
	turns   turns
}

// debt is of a node: readings, as of a time.
type debt struct {
	readings float64
	at       time.Time
}

// owes is a node's debt now. p.mu is held.
func (p *pace) owes(node string) float64 {
	d := p.debts[node]
	return max(0, d.readings-float64(time.Since(d.at))/float64(paceTime))
}

// wait is how long a node's next reading has to wait, 0 if it has not.
func (p *pace) wait(node string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	over := p.owes(node) - (paceBurst - 1)
	if over <= 0 {
		return 0
	}
	return max(time.Duration(over*float64(paceTime)), time.Millisecond)
}

// tick brings the clock to now. p.mu is held.
func (p *pace) tick() {
	now := time.Now()
	if p.asked > 0 {
		p.clock += now.Sub(p.at) / time.Duration(p.asked)
	}
	p.at = now
}

// begin is the server's clock when it gets a request.
func (p *pace) begin() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tick()
	p.asked++
	return p.clock
}

// end is how long the server has worked for a request, if it has done the same for all that it had: many nodes that
// start at once wait for each other, and none of them for what the others have cost.
func (p *pace) end(began time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tick()
	p.asked--
	return p.clock - began
}

// overstay notes that a node's reading has kept others waiting as long as one may: that counts as much as a reading.
func (p *pace) overstay(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owe(node, 1)
}

// owe adds to a node's debt. Nodes that owe nothing are forgotten when there are many. p.mu is held.
func (p *pace) owe(node string, readings float64) {
	if p.debts == nil {
		p.debts = map[string]debt{}
	}
	if _, known := p.debts[node]; !known && len(p.debts) >= clientsAll {
		maps.DeleteFunc(p.debts, func(other string, _ debt) bool { return p.owes(other) == 0 })
	}
	p.debts[node] = debt{p.owes(node) + readings, time.Now()}
}

// charge notes that a node has had the server say so many bytes, and work so long.
func (p *pace) charge(node string, bytes int64, work time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes > p.largest*9/10 && work > 0 {
		p.speed = max(p.speed, float64(bytes)/work.Seconds())
	}
	p.largest = max(p.largest, bytes)
	unit, speed := float64(max(p.largest, paceLeast)), max(p.speed, paceSpeed)
	more := work.Seconds() - paceSlack*float64(bytes)/speed
	p.owe(node, float64(bytes)/unit+max(0, more)/paceWork.Seconds())
}

// What a node has the guard itself work for goes by the length of its requests, be they passed on or refused: in bytes
// a second, and at once.
const (
	requestRate  = 512 << 10
	requestBurst = 16 << 20
	// requestCost is what the smallest costs.
	requestCost = 4 << 10
)

// rates are how fast somebody may go on, by name.
type rates struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

// limiter is somebody's. Those of whom nothing is known any more are forgotten when there are many.
func (r *rates) limiter(who string, each rate.Limit, burst int) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := r.of[who]; limit != nil {
		return limit
	}
	if r.of == nil {
		r.of = map[string]*rate.Limiter{}
	}
	for name, limit := range r.of {
		if len(r.of) < clientsAll {
			break
		}
		if limit.Tokens() >= float64(burst) {
			delete(r.of, name)
		}
	}
	r.of[who] = rate.NewLimiter(each, burst)
	return r.of[who]
}

// take is how long somebody waits who takes so much, at most burst.
func (r *rates) take(who string, much int, each rate.Limit, burst int) time.Duration {
	return r.limiter(who, each, burst).ReserveN(time.Now(), min(much, burst)).Delay()
}

// takes says whether somebody may take one now.
func (r *rates) takes(who string, each rate.Limit, burst int) bool {
	return r.limiter(who, each, burst).Allow()
}
