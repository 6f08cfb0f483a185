package southbound

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhoHasReadLeastGoesFirst: a reading that others have asked for before does not keep a node that starts.
func TestWhoHasReadLeastGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		p.charge("stolen", paceLeast, 0)
		p.charge("busy", paceLeast, 0)
		p.charge("busy", paceLeast, 0)
		var came []string
		var queued []*turn
		for _, node := range []string{"first", "busy", "stolen", "starts", "starts too"} {
			waits := p.queue(node)
			queued = append(queued, waits)
			go func() {
				<-waits.come
				came = append(came, node)
			}()
		}
		gone := p.queue("gone")
		p.leave(gone)
		for i := range queued {
			synctest.Wait()
			if len(came) != i+1 {
				t.Fatalf("%d of them are read at once: %v", len(came)-i, came)
			}
			index := slices.Index([]string{"first", "busy", "stolen", "starts", "starts too"}, came[i])
			p.leave(queued[index])
		}
		if want := []string{"first", "starts", "starts too", "stolen", "busy"}; !slices.Equal(came, want) {
			t.Errorf("they come in the order %v, want %v", came, want)
		}
		if p.turns.left() {
			t.Error("a turn is somebody's that has left")
		}
	})
}

// left says whether somebody has a turn, or waits for one.
func (q *turns) left() bool { return q.working || q.telling > 0 || len(q.waiting) > 0 }

// TestFewAnswersAreUnderWay: the server keeps what nodes have not read yet, so it does not answer all of them at once.
// A node that reads slowly keeps others for a while only.
func TestFewAnswersAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{metrics: newMetrics()}
		const nodes = mostTelling + 3
		var servers []net.Conn
		asked := make(chan int, nodes)
		for i := range nodes {
			client, server, _ := pipesOf(t, g, fmt.Sprint("l", i))
			servers = append(servers, server)
			go io.Copy(io.Discard, client)
			requests := heard(t, server)
			go func() {
				<-requests
				asked <- i
			}()
			go fmt.Fprint(client, `{"id":1,"method":"get_schema","params":["OVN_Southbound"]}`)
		}
		var came []int
		next := func(want bool) {
			t.Helper()
			synctest.Wait()
			if (len(asked) > 0) != want {
				t.Fatalf("with %d answers under way, the server has another reading: %v", len(came), !want)
			}
			if want {
				at := <-asked
				came = append(came, at)
				fmt.Fprint(servers[at], `{"id":1,"error":null,"result":{`)
			}
		}
		for range mostTelling {
			next(true)
		}
		next(false)
		fmt.Fprint(servers[came[0]], `}}`)
		next(true)
		next(false)
		servers[came[1]].Close()
		next(true)
		next(false)
		time.Sleep(longestTurn)
		next(true)
		for _, at := range came[2:] {
			fmt.Fprint(servers[at], `}}`)
		}
		synctest.Wait()
		g.pace.mu.Lock()
		defer g.pace.mu.Unlock()
		if g.pace.turns.left() {
			t.Errorf("a turn is left: %+v", g.pace.turns)
		}
	})
}

// TestAReadingThatIsNotAnswered keeps others for a while only, and not at all when the server has begun to answer,
// or its node is gone.
func TestAReadingThatIsNotAnswered(t *testing.T) {
	for _, c := range []struct {
		what  string
		says  string
		gone  bool
		after time.Duration
	}{
		{what: "no answer", after: longestTurn},
		{what: "rows that change", says: `{"id":null,"method":"update3","params":[`, after: longestTurn},
		{what: "the beginning of an answer", says: `{"id":1,"error":null,"result":{`},
		{what: "the end of the connection", gone: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &Guard{metrics: newMetrics()}
			const request = `{"id":1,"method":"get_schema","params":["OVN_Southbound"]}`
			client, server, _ := pipes(t, g)
			go fmt.Fprint(client, request)
			<-heard(t, server)
			go func() { _, _ = client.Read(make([]byte, 1<<10)) }()
			go fmt.Fprint(server, c.says)
			if c.gone {
				server.Close()
			}
			synctest.Wait()
			other, otherServer, _ := pipesOf(t, g, "another")
			began := time.Now()
			go fmt.Fprint(other, request)
			<-heard(t, otherServer)
			if took := time.Since(began); took != c.after {
				t.Errorf("%s: another node's reading waits %s, want %s", c.what, took, c.after)
			}
			g.pace.mu.Lock()
			defer g.pace.mu.Unlock()
			if owes := g.pace.owes("l1"); (owes >= 1) != (c.after > 0) {
				t.Errorf("%s: the node owes %v readings for the time that others wait", c.what, owes)
			}
		})
	}
}

// TestWhoDoesNotReadHasNoTurn: a node that reads nothing of what it is being told keeps nobody waiting, and one that
// gives up waiting leaves no turn behind.
func TestWhoDoesNotReadHasNoTurn(t *testing.T) {
	g := &Guard{}
	s := &session{guard: g, node: "l1", over: make(chan struct{})}
	s.writing.Lock() // it is being told something
	came := make(chan error, 1)
	go func() { came <- s.takeTurn(t.Context()) }()
	select {
	case <-came:
		t.Error("it has a turn")
	case <-time.After(50 * time.Millisecond):
	}
	other := g.pace.queue("l2")
	select {
	case <-other.come:
	default:
		t.Error("others wait for it")
	}
	s.writing.Unlock()
	gone := &session{guard: g, node: "l3", over: make(chan struct{})}
	close(gone.over)
	if err := gone.takeTurn(t.Context()); err == nil {
		t.Error("a connection that has ended has a turn")
	}
	g.pace.leave(other)
	if err := <-came; err != nil {
		t.Error(err)
	}
	s.endTurn()
	gone.endTurn()
	if g.pace.turns.left() {
		t.Error("a turn is left")
	}
}
