package southbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/cases"
)

// TestNodesThatStartTogetherAreServed: hundreds of nodes start at once, a quarter of them behind one address as those
// of a chassis host. A node that is refused comes again, as ovn-controller does. In the end each one has read all, and
// keeps its connection.
func TestNodesThatStartTogetherAreServed(t *testing.T) {
	g := newGate(t)
	g.guard.log, g.guard.recheck = slog.New(slog.NewTextHandler(io.Discard, nil)), recheck
	g.fill(0, 2000)
	nodes := cases.Of(600) // more than may have a handshake pending
	g.introduce(nodes)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var starting []starter
	for i := range nodes {
		from := net.IPv4(127, 2, 0, 1)
		if i >= nodes/4 {
			from = net.IPv4(127, 1, byte(i/250), byte(1+i%250))
		}
		name := fmt.Sprint("start-", i)
		starting = append(starting, starter{name, &net.TCPAddr{IP: from}, g.nodes.sign(name), i%20 == 0})
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	attempts, most := 0, 0
	began := time.Now()
	for _, node := range starting {
		all.Go(func() {
			conn, tries, err := node.start(ctx, g.address)
			mu.Lock()
			defer mu.Unlock()
			if attempts, most = attempts+tries, max(most, tries); err != nil {
				failed = append(failed, fmt.Errorf("%s, after %d attempts: %w", node.name, tries, err))
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() { _, _ = io.Copy(io.Discard, conn) }() // it hears what others write
		})
	}
	all.Wait()
	t.Logf("%d nodes are served within %s, by %d attempts, at most %d of a node", nodes,
		time.Since(began).Round(time.Millisecond), attempts, most)
	if len(failed) > 0 {
		t.Fatalf("%d of %d nodes are not served: %v", len(failed), nodes, failed[0])
	}
	if n := g.guard.door.connected(); n != nodes {
		t.Errorf("%d nodes are connected, of %d", n, nodes)
	}
	if n := count(t, g.guard.metrics.refused) + count(t, g.guard.metrics.deferred); n > 0 {
		t.Errorf("%v requests of nodes are refused or deferred", n)
	}
}

// introduce gives nodes the ports by which the controller makes them known.
func (s *southbound) introduce(nodes int) {
	var ports []string
	for i := range nodes {
		ports = append(ports, fmt.Sprintf(`{"op":"insert","table":"Port_Binding","row":{"logical_port":"%s",`+
			`"datapath":["uuid","{datapath of mgmt-l1}"],"tunnel_key":%d}}`, contract.ManagementPort(fmt.Sprint("start-", i)),
			1000+i))
	}
	answer, err := ask(s.dialled(s.server.Endpoint), "transact",
		s.names.Replace(`["OVN_Southbound",`+strings.Join(ports, ",")+`]`))
	if err != nil || strings.Contains(answer, `"error":"`) {
		s.Fatal(answer, err)
	}
}

// starter is a node that starts.
type starter struct {
	name   string
	from   *net.TCPAddr
	pair   tls.Certificate
	writes bool // its chassis; if all wrote, each of them would hear of all the others
}

// start tries until the node is served, with pauses as ovn-controller makes them, but shorter.
func (s starter) start(ctx context.Context, address string) (conn net.Conn, tries int, err error) {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		tries++
		if conn, err = s.once(ctx, address); err == nil || ctx.Err() != nil {
			return conn, tries, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, tries, err
		}
	}
}

// once has a node read all that there is, and write what it writes first.
func (s starter) once(ctx context.Context, address string) (net.Conn, error) {
	d := &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: s.from},
		Config: &tls.Config{Certificates: []tls.Certificate{s.pair}, InsecureSkipVerify: true}} // the guard is what is tested
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	end := context.AfterFunc(ctx, func() { conn.Close() })
	defer end()
	if err := s.speak(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (s starter) speak(conn net.Conn) error {
	if _, err := ask(conn, "get_schema", `["OVN_Southbound"]`); err != nil {
		return err
	}
	if err := readAll(conn); err != nil || !s.writes {
		return err
	}
	row := fmt.Sprintf(`["OVN_Southbound",{"op":"insert","table":"Chassis_Private","row":{"name":%q}}]`, s.name)
	if _, err := io.WriteString(conn, call("transact", row)); err != nil {
		return err
	}
	for m := (&messages{from: conn}); ; {
		text, err := m.next()
		switch {
		case err != nil:
			return err
		case strings.Contains(string(text), `"error":"`):
			return errors.New(string(text))
		case strings.Contains(string(text), `"id":0`):
			return nil
		}
	}
}
