package ovsdb_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// applyToStopped applies more than the sockets hold while the server is stopped, and wants an
// answer shortly after the deadline.
func (s *stage) applyToStopped(deadline time.Duration, changes []ovsdb.Change) error {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- s.engine.Apply(ctx, changes) }()
	select {
	case err := <-answer:
		return err
	case <-time.After(deadline + patience):
		s.Fatalf("Apply has not returned long after its deadline; connected: %v", s.engine.Client().Connected())
	}
	return nil
}

// A server may stop reading without closing its connections: a hung disk, a debugger, a lost
// network.
func TestAServerThatStopsReading(t *testing.T) {
	for name, c := range map[string]struct{ probe, deadline time.Duration }{
		"the deadline comes first":     {time.Minute, 500 * time.Millisecond},
		"the silence is noticed first": {briefProbe, patience},
	} {
		t.Run(name, func(t *testing.T) {
			s := realStage(t)
			s.config.Probe = c.probe
			s.start()
			pods := manyPods(5000)
			s.replace(pods[:2]...)
			s.server.Pause()
			resumed := false
			defer func() {
				if !resumed {
					s.server.Resume()
				}
			}()
			err := s.applyToStopped(c.deadline, pods[2:])
			if c.deadline < c.probe {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Apply ends with %v instead of its deadline", err)
				}
				// Another call waits its turn no longer than it may.
				if err := s.applyToStopped(100*time.Millisecond, pods[2:3]); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Apply ends with %v instead of its deadline", err)
				}
			} else {
				if !errors.Is(err, ovsdb.ErrDisconnected) {
					t.Errorf("Apply ends with %v instead of a broken connection", err)
				}
				s.eventually("the silence is noticed", func() bool { return !s.engine.Client().Connected() })
			}
			s.server.Resume()
			resumed = true
			s.again(func() error { return s.engine.Apply(s.context(), pods[2:]) })
			s.holds(pods)
		})
	}
}

// briefProbe is of tests that wait until a server's silence is noticed, which takes twice as long. A busy server is
// silent for a while, too.
const briefProbe = 5 * time.Second

// holds compares the database with what an engine makes of changes in an empty one.
func (s *stage) holds(changes []ovsdb.Change) {
	s.Helper()
	fresh := &stage{T: s.T, kind: "real", db: s.db}
	fresh.start()
	fresh.replace(changes...)
	want := ovsdb.Dump(fresh.engine.Client())
	s.dump(want)
	reader := ovsdbtest.Connect(s, s.db, s.endpoint, tables...)
	defer reader.Close()
	// A leader that was stopped does not know at once that another one leads.
	s.eventually("the server holds what was applied", func() bool { return ovsdb.Dump(reader) == want })
}

// Of two members the stopped one is left for the other.
func TestAStoppedLeaderIsLeft(t *testing.T) {
	s := realStage(t)
	s.config.Probe = briefProbe
	members := ovsdbtest.Cluster(t, s.db, 3)
	s.server = members[0]
	s.endpoint = members[0].Endpoint + "," + members[1].Endpoint + "," + members[2].Endpoint
	s.restart()
	pods := manyPods(3000)
	s.again(func() error { return s.engine.Replace(s.context(), pods[:2]) })
	leader := ovsdbtest.Leader(s, s.db, members)
	leader.Pause()
	defer leader.Resume()
	s.again(func() error { return s.engine.Apply(s.context(), pods[2:]) })
	if at := s.engine.Client().Endpoint(); at == leader.Endpoint {
		t.Errorf("the client is still at %s, which is stopped", at)
	}
	leader.Resume()
	s.holds(pods)
}

// breakable is a connection that breaks at its next write.
type breakable struct {
	net.Conn
	broken atomic.Bool
}

func (b *breakable) Write(text []byte) (int, error) {
	if b.broken.Load() {
		b.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	return b.Conn.Write(text)
}

// dialing gives a stage connections that a test can break; next waits for one and until it serves.
func (s *stage) dialing() (next func() *breakable) {
	conns := make(chan *breakable, 100)
	s.config.Dial = func(ctx context.Context, e ovsdb.Endpoint) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", e.Address)
		if err != nil {
			return nil, err
		}
		b := &breakable{Conn: conn}
		conns <- b
		return b, nil
	}
	return func() *breakable {
		s.Helper()
		var conn *breakable
		s.eventually("there is a connection", func() bool {
			select {
			case conn = <-conns:
			default:
			}
			return conn != nil && s.engine.Client().Connected()
		})
		return conn
	}
}

// What an owner has lost by a call that failed, the same call made again takes away.
func TestALostRemovalIsMadeAgain(t *testing.T) {
	s := realStage(t)
	next := s.dialing()
	s.start()
	group := ovsdb.Change{Owner: "Service/web", Rows: []ovsdb.Row{{Model: &nb.LoadBalancerGroup{Name: "weft-web"}}}}
	s.replace(node("l1"), addressSet("ns"), inSet(pod("a", "l1", "10.244.1.3"), "ns", "10.0.0.1"), group)
	gone := []ovsdb.Change{pod("a", "l1", "10.244.1.3"), {Owner: group.Owner}}
	for range 2 {
		next().broken.Store(true)
		if err := s.engine.Apply(s.context(), gone); !errors.Is(err, ovsdb.ErrDisconnected) {
			t.Fatalf("Apply over a broken connection ends with %v", err)
		}
	}
	s.again(func() error { return s.engine.Apply(s.context(), gone) })
	s.holds([]ovsdb.Change{node("l1"), addressSet("ns"), gone[0]})
}

// A transaction whose caller has given up may still be carried out; the next call builds on what
// becomes of it.
func TestACallAfterOneThatGaveUp(t *testing.T) {
	s := realStage(t)
	s.config.Probe = time.Minute
	s.start()
	state := manyPods(3)
	s.replace(state...)
	s.server.Pause()
	err := s.applyToStopped(200*time.Millisecond, []ovsdb.Change{{Owner: podOwner("p1")}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Apply ends with %v", err)
	}
	answer := make(chan error, 1)
	go func() { answer <- s.engine.Apply(s.context(), state) }()
	s.server.Resume()
	if err := <-answer; err != nil {
		t.Error(err)
	}
	s.holds(state)
}

// A connection that never lasts is not made again without a pause.
func TestABriefConnection(t *testing.T) {
	s := realStage(t)
	next := s.dialing()
	s.start()
	began := time.Now()
	for range 4 {
		next().Close()
	}
	next()
	if took := time.Since(began); took < time.Second {
		t.Errorf("four connections were lost and made again within %v", took)
	}
}

// One owner's odd text is not the end of the connection.
func TestTextThatOVSDBHasNoPlaceFor(t *testing.T) {
	s := realStage(t)
	s.start()
	odd := pod("a", "l1", "10.244.1.3")
	odd.Rows[0].Model.(*nb.LogicalSwitchPort).Options = map[string]string{"zero": "a\x00b", "broken": "a\xffb",
		"tab": "\t\x7f\u2028"}
	s.apply(node("l1"), odd)
	port, _ := ovsdb.Get[nb.LogicalSwitchPort](s.engine.Client(), ovsdb.ID("Logical_Switch_Port", podOwner("a"), ""))
	want := map[string]string{"zero": "a\ufffdb", "broken": "a\ufffdb", "tab": "\t\x7f\u2028"}
	if !maps.Equal(port.Options, want) {
		t.Errorf("the options read %q", port.Options)
	}
}
