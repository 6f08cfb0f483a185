package southbound

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// meter counts what the server is asked for, and what it says, by the connections that are made while it is on.
type meter struct {
	mu            sync.Mutex
	on            bool
	working, most int   // requests that the server has not answered: now, and the most that there were
	writes        int   // transactions
	said          int64 // bytes
}

// start has the meter count from nothing.
func (m *meter) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.most, m.writes, m.said = true, m.working, 0, 0
}

func (m *meter) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = false
}

// metered is a connection to the server.
type metered struct {
	net.Conn
	*meter
	frames frames
	open   int // of working
}

// meters has the guard's connections to the server counted.
func (s *southbound) meters() *meter {
	m, dial := &meter{}, s.guard.dial
	s.guard.dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		if err != nil || !m.on {
			return conn, err
		}
		return &metered{Conn: conn, meter: m}, nil
	}
	return m
}

func (c *metered) Write(text []byte) (int, error) {
	var request object
	if json.Unmarshal(text, &request) == nil {
		c.mu.Lock()
		if method, asks, _ := request.kind(); asks {
			c.open++
			c.working++
			c.most = max(c.most, c.working)
			if method == "transact" {
				c.writes++
			}
		}
		c.mu.Unlock()
	}
	return c.Conn.Write(text)
}

func (c *metered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said += int64(n)
	for data := p[:n]; len(data) > 0; {
		n, ends := c.frames.next(data)
		if data = data[n:]; ends && c.frames.answer && c.open > 0 {
			c.open--
			c.working--
		}
	}
	return n, err
}

func (c *metered) Close() error {
	c.mu.Lock()
	c.working -= c.open
	c.open = 0
	c.mu.Unlock()
	return c.Conn.Close()
}

// TestStolenNodesAreBounded: whatever stolen nodes do, the server has of each one request at a time, tells it so
// much and writes so much for it, and keeps so much memory. An honest node's writes are answered meanwhile.
func TestStolenNodesAreBounded(t *testing.T) {
	g := newGate(t)
	g.guard.log, g.guard.recheck = slog.New(slog.NewTextHandler(io.Discard, nil)), recheck
	m := g.meters()
	g.fill(2<<20, 2000)
	honest := g.of("l1")
	reading := g.readingBytes()
	memory := g.serverMiB()
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			g.forgive()
			m.start()
			began := time.Now()
			address, end := g.serve()
			rounds, stop := g.steal(a.name, address)
			g.until("the stolen nodes do not come", g.guard.door.handshakes.any)
			g.waits(honest, time.Second/2)
			if strings.Contains(a.name, "words of which") || strings.Contains(a.name, "beside many words") {
				g.heardEnough(honest)
			}
			stop()
			end()
			m.stop()
			m.mu.Lock()
			defer m.mu.Unlock()
			t.Logf("%d rounds; %d requests at once, %d transactions, %d bytes said of %d that there are; %.0f MiB, before %.0f",
				rounds.Load(), m.most, m.writes, m.said, reading, g.serverMiB(), memory)
			for _, wrong := range a.beyond(m, reading, time.Since(began)) {
				t.Error(wrong)
			}
			if now, most := g.serverMiB(), memory+float64(max(a.nodes, 1)*paceBurst*reading)/(1<<20); now > most {
				t.Errorf("the server has had %.0f MiB, beyond %.0f", now, most)
			}
		})
	}
}

// heardEnough has stolen nodes go on until they would have to wait with the bound, and then for a second in which they
// go on without it. Where a busy machine has them come to that late, less is shown.
func (g *gate) heardEnough(honest net.Conn) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		g.waits(honest, time.Second/10)
		if g.guard.audience.bytes.take(stolenNodes[0], 0, heardRate, heardBurst) > 0 {
			break
		}
	}
	g.waits(honest, time.Second)
}

// beyond says what of an attack is more than the guard lets pass.
func (a *attack) beyond(m *meter, reading int, took time.Duration) (wrong []string) {
	nodes, seconds := max(a.nodes, 1), int(took.Seconds())+1
	writes := nodes * (heardBurst/heardCost + 1 + seconds*heardRate/heardCost)
	said := nodes * ((paceBurst+1)*reading + (1 << 20))
	switch {
	case strings.Contains(a.name, "chassis") || a.beside != nil || strings.Contains(a.name, "northd"):
		writes = nodes * (chassisBurst + 2)
	case strings.Contains(a.name, "words of which"): // as they are, and as they become
		writes = nodes * ((heardBurst+seconds*heardRate)/(2*50<<10) + 2)
	case strings.Contains(a.name, "beside many words"):
		writes = nodes * ((heardBurst+seconds*heardRate)/(50<<10) + 2)
	}
	if m.writes > 0 { // of which a node hears by its own monitors
		said += nodes * maxMonitors * 2 * heardBurst
	}
	if m.most > nodes {
		wrong = append(wrong, fmt.Sprintf("the server works on %d requests of %d nodes at once", m.most, nodes))
	}
	if m.writes > writes {
		wrong = append(wrong, fmt.Sprintf("the server gets %d transactions, beyond %d", m.writes, writes))
	}
	if m.said > int64(said) {
		wrong = append(wrong, fmt.Sprintf("the server says %d bytes, beyond %d", m.said, said))
	}
	return wrong
}

// readingBytes is how much a node is told that reads all.
func (g *gate) readingBytes() int {
	conn := g.of("reader")
	counted := &counter{Conn: conn}
	if err := readAll(counted); err != nil {
		g.Fatal(err)
	}
	conn.Close()
	g.until("a connection does not end", func() bool { return g.guard.door.connected() == 1 })
	return counted.bytes
}

type counter struct {
	net.Conn
	bytes int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes += n
	return n, err
}

// any says whether anybody has taken anything.
func (r *rates) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of) > 0
}

// forgive has nobody owe anything.
func (s *southbound) forgive() {
	s.guard.pace.mu.Lock()
	s.guard.pace.debts = nil
	s.guard.pace.mu.Unlock()
	s.guard.ledger.mu.Lock()
	s.guard.ledger.bytes = nil
	s.guard.ledger.mu.Unlock()
	g := s.guard
	for _, r := range []*rates{&g.requests, &g.audience.bytes, &g.audience.chassis, &g.door.handshakes} {
		r.mu.Lock()
		r.of = nil
		r.mu.Unlock()
	}
}
