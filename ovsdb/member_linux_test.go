package ovsdb_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// network is between a client and the servers, by names that the test gives them.
type network struct {
	mu      sync.Mutex
	servers map[string]*ovsdbtest.Process
	// lags are the servers that say they have seen no more than the first change of their cluster's log.
	lags  map[string]bool
	dials map[string]int
	conns []net.Conn
}

func (n *network) dial(ctx context.Context, e ovsdb.Endpoint) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[e.Address]++
	server := n.servers[e.Address]
	if server == nil {
		return nil, errors.New("there is no such server now")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(server.Endpoint, "unix:"))
	if err == nil && n.lags[e.Address] {
		conn = lagging{conn}
	}
	n.conns = append(n.conns, conn)
	return conn, err
}

// set changes the network, and cuts all connections.
func (n *network) set(edit func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	edit()
	for _, conn := range n.conns {
		conn.Close()
	}
	n.conns = nil
}

func (n *network) dialled(server string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[server]
}

// lagging makes a server one that lags, by what its _Server says.
type lagging struct{ net.Conn }

var index = regexp.MustCompile(`"index":[0-9]+`)

func (l lagging) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	return copy(b, index.ReplaceAllFunc(b[:n], func(found []byte) []byte {
		return append([]byte(`"index":1`), bytes.Repeat([]byte(" "), len(found)-len(`"index":1`))...)
	})), err
}

// TestAServerThatLagsIsLeft for another one, and taken when it has caught up. Another cluster begins anew.
func TestAServerThatLagsIsLeft(t *testing.T) {
	for name, any := range map[string]bool{"any member": true, "the leader alone": false} {
		t.Run(name, func(t *testing.T) {
			s, members := clusterStage(t)
			leader := ovsdbtest.Leader(s, s.db, members)
			n := &network{dials: map[string]int{}, lags: map[string]bool{}, servers: map[string]*ovsdbtest.Process{"/a": leader,
				"/b": leader}}
			if any {
				for _, m := range members {
					if m != leader {
						n.servers["/b"] = m
					}
				}
			}
			s.config.Dial, s.config.AnyMember = n.dial, any
			s.endpoint = "unix:/a,unix:/b"
			s.restart()
			client := s.engine.Client()
			if client.Endpoint() != "unix:/a" {
				t.Fatalf("it is connected to %s", client.Endpoint())
			}
			for _, name := range []string{"x", "y", "z"} {
				s.apply(addressSet(name))
			}
			want := ovsdb.Dump(client)
			s.eventually("the cluster's log is followed", func() bool { return client.Seen() > 3 })
			seen := client.Seen()

			n.set(func() { n.servers["/a"], n.lags["/b"] = nil, true })
			before := n.dialled("/b")
			s.eventually("the one that lags was asked again and again", func() bool { return n.dialled("/b") > before+3 })
			if client.Connected() || client.Seen() < seen {
				t.Error("a server that lags is taken")
			}
			n.set(func() { n.lags["/b"] = false })
			s.eventually("it has caught up", client.Connected)
			s.dump(want)

			// One that lags is passed over at once where there is a better one.
			n.set(func() { n.servers["/a"], n.lags["/b"] = leader, true })
			s.eventually("the other one is taken", func() bool { return client.Endpoint() == "unix:/a" })

			other := ovsdbtest.Cluster(t, s.db, 1)
			n.set(func() { n.servers["/a"], n.servers["/b"] = other[0], other[0]; n.lags["/b"] = true })
			s.eventually("another cluster's member is taken, which has a log of its own", func() bool {
				return client.Connected() && ovsdb.Dump(client) == ""
			})
		})
	}
}
