package southbound

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/test/transcript"
)

// pipes are connections of one node, with the ends that are the server's.
func pipes(t *testing.T, g *Guard) (client, server net.Conn, ended chan error) {
	return pipesOf(t, g, "l1")
}

func pipesOf(t *testing.T, g *Guard, node string) (client, server net.Conn, ended chan error) {
	client, outer := net.Pipe()
	inner, server := net.Pipe()
	g.dial = func(context.Context) (net.Conn, error) { return inner, nil }
	ended = make(chan error, 1)
	go func() { ended <- g.carry(t.Context(), outer, node) }()
	synctest.Wait()
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server, ended
}

// TestClientsThatAreSlow: who neither shows a certificate, nor reads, nor ends what it has begun, is left.
func TestClientsThatAreSlow(t *testing.T) {
	for _, c := range []struct {
		what, want string
		after      time.Duration
		do         func(client, server net.Conn)
	}{
		{"does not read", "does not read what it is told", stall, func(_, server net.Conn) {
			fmt.Fprint(server, `{"id":null,"method":"update","params":["`, strings.Repeat("x", 1<<20), `"]}`)
		}},
		{"does not end its request", "does not come to its end", stall, func(client, _ net.Conn) {
			fmt.Fprint(client, `{"id":0,"method":"echo","params":["`, strings.Repeat("x", 1<<20))
		}},
		{"asks for too much", errTooLong.Error(), 0, func(client, _ net.Conn) {
			fmt.Fprint(client, `{"id":0,"method":"echo","params":["`)
			for range longestRequest/(1<<20) + 1 {
				client.Write(bytes.Repeat([]byte("x"), 1<<20))
			}
		}},
		{"says no JSON", "read a request", 0, func(client, _ net.Conn) { fmt.Fprint(client, `{"id" "method"}`) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server, ended := pipes(t, &Guard{metrics: newMetrics()})
				began := time.Now()
				go c.do(client, server)
				if err := <-ended; err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if took := time.Since(began); took != c.after {
					t.Errorf("after %s, want %s", took, c.after)
				}
			})
		})
	}
}

// once is a listener with one client.
type once struct {
	conn chan net.Conn
	done chan struct{}
}

func (l *once) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conn:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *once) Close() error   { close(l.done); return nil }
func (l *once) Addr() net.Addr { return &net.TCPAddr{} }

// TestAHandshakeEnds also where the client says nothing.
func TestAHandshakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log transcript.Transcript
		g := &Guard{metrics: newMetrics(), log: slog.New(slog.NewTextHandler(&log, nil)), recheck: recheck}
		ctx, cancel := context.WithCancel(t.Context())
		listener := &once{make(chan net.Conn), make(chan struct{})}
		served := make(chan error)
		go func() { served <- g.serve(ctx, listener) }()
		client, outer := net.Pipe()
		listener.conn <- outer
		began := time.Now()
		if _, err := io.ReadAll(client); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != handshake {
			t.Errorf("it ends after %s", took)
		}
		synctest.Wait()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "a connection is refused") || !strings.Contains(log.String(),
			"deadline exceeded") {
			t.Errorf("the log: %s", log.String())
		}
	})
}

// TestLargeRequestsOfANodeComeOneByOne, by however many connections.
func TestLargeRequestsOfANodeComeOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{metrics: newMetrics()}
		head, body := `{"id":0,"method":"echo","params":["`, strings.Repeat("x", 1<<20)
		first, firstServer, _ := pipes(t, g)
		second, secondServer, _ := pipes(t, g)
		answer := make(chan struct{})
		go func() {
			if _, err := (&messages{from: firstServer}).next(); err != nil {
				t.Error(err)
			}
			<-answer
			fmt.Fprint(firstServer, `{"id":0,"result":[],"error":null}`)
		}()
		go io.Copy(io.Discard, first)
		go io.Copy(io.Discard, secondServer)
		fmt.Fprint(first, head, body)
		written := false
		go func() {
			fmt.Fprint(second, head, body)
			written = true
		}()
		synctest.Wait()
		if written {
			t.Error("two large requests of a node are kept at once")
		}
		fmt.Fprint(first, `"]}`)
		synctest.Wait()
		if written {
			t.Error("a large request is taken while the server works on another one")
		}
		close(answer)
		synctest.Wait()
		if !written {
			t.Error("a large request is not taken after another one's end")
		}
	})
}

func TestMonitorsAreBounded(t *testing.T) {
	node := &peer{}
	var first, second watched
	ask := func(w *watched, method, params string) error {
		var list []json.RawMessage
		for p := range strings.SplitSeq(params, " ") {
			list = append(list, json.RawMessage(p))
		}
		return w.ask(node, method, list)
	}
	for i := range maxMonitors {
		if err := ask(&first, "monitor_cond", fmt.Sprint(`"OVN_Southbound" `, i, ` {}`)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what, method, params string
		w                    *watched
		fine                 bool
	}{
		{"a name that the server says itself is taken", "monitor_cond_since", `"OVN_Southbound" 3 {} "0"`, &first, true},
		{"one more", "monitor", `"OVN_Southbound" "more" {}`, &first, false},
		{"one more on another connection", "monitor", `"OVN_Southbound" "more" {}`, &second, false},
		{"another name for one", "monitor_cond_change", `4 "four" {}`, &first, false},
		{"a change", "monitor_cond_change", `4 4 {"FDB":[{"where":[["dp_key","==",1]]}]}`, &first, true},
		{"an end", "monitor_cancel", "5", &first, true},
		{"one more after an end", "monitor", `"OVN_Southbound" "more" {}`, &second, true},
		{"the end of none", "monitor_cancel", "5", &first, true},
		{"one more after no end", "monitor", `"OVN_Southbound" "yet more" {}`, &first, false},
		{"a change of none", "monitor_cond_change", `5 5 {}`, &first, false},
		{"any name", "monitor", `"OVN_Southbound" "` + strings.Repeat("x", maxMonitorName) + `" {}`, &second, false},
		{"a table of a name that none has", "monitor", `"OVN_Southbound" 1 {"` + strings.Repeat("x", maxTable+1) + `":[{}]}`,
			&second, false},
		{"more tables than there are", "monitor", `"OVN_Southbound" 1 {` + strings.Join(madeUp(0, maxTables+1), ",") + `}`,
			&second, false},
		{"many tables", "monitor_cond_since", `"OVN_Southbound" 3 {` + strings.Join(madeUp(0, maxTables), ",") + `} "0"`,
			&first, true},
		{"others under the same name", "monitor_cond_since", `"OVN_Southbound" 3 {` + strings.Join(madeUp(maxTables, 2),
			",") + `} "0"`, &first, false},
		{"no tables", "monitor", `"OVN_Southbound" 1 5`, &second, false},
	} {
		if err := ask(c.w, c.method, c.params); (err == nil) != c.fine {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	first.leave(node)
	second.leave(node)
	if left := node.monitors.Load(); left != 0 {
		t.Errorf("%d monitors count after the connections' end", left)
	}
	if len(node.clauses) > 0 {
		t.Errorf("clauses count after the connections' end: %v", node.clauses)
	}
}

// madeUp asks for so many tables that there are not.
func madeUp(from, count int) (tables []string) {
	for i := range count {
		tables = append(tables, fmt.Sprintf(`"T%d":[{"where":[true]}]`, from+i))
	}
	return tables
}
