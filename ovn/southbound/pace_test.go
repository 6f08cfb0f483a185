package southbound

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/test/cases"
)

// heard are the requests that a server gets of a connection.
func heard(t *testing.T, server net.Conn) chan string {
	requests := make(chan string, 100)
	go func() {
		m := &messages{from: server}
		for {
			text, err := m.next()
			if err != nil {
				return
			}
			requests <- string(text)
		}
	}()
	return requests
}

// TestAServerWorksOnOneRequestOfANode, and keeps one answer for it, by however many connections and whatever else it is
// told meanwhile.
func TestAServerWorksOnOneRequestOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{metrics: newMetrics()}
		var clients, servers []net.Conn
		var requests []chan string
		for range clientsEach {
			client, server, _ := pipes(t, g)
			clients, servers, requests = append(clients, client), append(servers, server), append(requests, heard(t, server))
			go io.Copy(io.Discard, client)
			go fmt.Fprint(client, `{"id":7,"method":"get_schema","params":["OVN_Southbound"]}`)
		}
		arrived := func() (at []int) {
			synctest.Wait()
			for i, r := range requests {
				if len(r) > 0 {
					<-r
					at = append(at, i)
				}
			}
			return at
		}
		for range clients {
			at := arrived()
			if len(at) != 1 {
				t.Fatalf("the server works on %d requests of a node", len(at))
			}
			server := servers[at[0]]
			for _, other := range []string{`{"id":null,"method":"update3","params":["result",{"result":{"result":1}}]}`,
				`{"id":"echo","method":"echo","params":[]}`,
				`{"id":7,"error":null,"result":{"method":["`} {
				fmt.Fprint(server, other)
				if at := arrived(); len(at) > 0 {
					t.Fatalf("%s ends the server's work", other)
				}
			}
			fmt.Fprint(server, `"]}}`)
		}
	})
}

// TestReadingsArePaced: a node reads what there is a few times at once, and then once in paceTime. Its other requests
// do not wait.
func TestReadingsArePaced(t *testing.T) {
	for _, method := range reading {
		synctest.Test(t, func(t *testing.T) {
			g := &Guard{metrics: newMetrics()}
			rows := strings.Repeat("x", 2*paceLeast)
			g.pace.charge("another", int64(len(rows)), 0)
			client, server, _ := pipes(t, g)
			requests := heard(t, server)
			go io.Copy(io.Discard, client)
			go func() {
				fmt.Fprint(client, `{"id":1,"method":"monitor","params":["OVN_Southbound",1,{}]}`)
				for range 2 * paceBurst {
					fmt.Fprintf(client, `{"id":1,"method":%q,"params":[1,1,{}]}`, method)
				}
			}()
			<-requests
			fmt.Fprint(server, `{"id":1,"result":{},"error":null}`)
			began := time.Now()
			for i := range 2 * paceBurst {
				<-requests
				if took, least := time.Since(began), time.Duration(i+1-paceBurst)*paceTime*9/10; took < least {
					t.Fatalf("%s: reading %d comes after %s", method, i, took)
				}
				fmt.Fprint(server, `{"id":null,"method":"update3","params":["`, rows, `"]}{"id":1,"result":{},"error":null}`)
			}
			if took := time.Since(began); took > paceBurst*paceTime*11/10 {
				t.Errorf("%s: they take %s", method, took)
			}
			other, otherServer, _ := pipes(t, g)
			go fmt.Fprint(other, `{"id":1,"method":"echo","params":[]}`)
			began = time.Now()
			<-heard(t, otherServer)
			if took := time.Since(began); took > 0 {
				t.Errorf("an echo waits %s", took)
			}
		})
	}
}

// TestTheServersTimeIsPaced: who has the server work and say nothing waits; who waits with many others for the server
// does not pay for them.
func TestTheServersTimeIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		work := func(nodes int, took time.Duration) {
			var began []time.Duration
			for range nodes {
				began = append(began, p.begin())
			}
			time.Sleep(took)
			for i := range nodes {
				p.charge(fmt.Sprint("node", i), 0, p.end(began[i]))
			}
		}
		work(100, 100*paceWork)
		if wait := p.wait("node0"); wait > 0 {
			t.Errorf("one of 100 nodes waits %s for the others", wait)
		}
		work(1, 10*paceWork)
		if wait := p.wait("node0"); wait < 6*paceTime || wait > 8*paceTime {
			t.Errorf("who has the server work for %s waits %s", 10*paceWork, wait)
		}
		if wait := p.wait("node1"); wait > 0 {
			t.Errorf("another one waits %s", wait)
		}
	})
}

// TestASlowLineIsNotTheServersTime: what a client takes to read is not what the server works.
func TestASlowLineIsNotTheServersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{metrics: newMetrics()}
		client, server, _ := pipes(t, g)
		requests := heard(t, server)
		go fmt.Fprint(client, `{"id":1,"method":"monitor","params":["OVN_Southbound",1,{}]}`)
		<-requests
		time.Sleep(paceWork / 10)
		go fmt.Fprint(server, `{"id":1,"result":{},"error":null}`)
		time.Sleep(stall / 2)
		if _, err := client.Read(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if owes := g.pace.debts["l1"].readings; owes < 0.05 || owes > 0.2 {
			t.Errorf("a reading of %s costs %v", paceWork/10, owes)
		}
	})
}

// TestAClientThatReadsSlowly lets the server keep what it does not read, and is left.
func TestAClientThatReadsSlowly(t *testing.T) {
	for _, c := range []struct {
		what  string
		every time.Duration
		kept  bool
	}{{"a part now and then", stall * 9 / 10, false}, {"all within a moment", 10 * time.Millisecond, true}} {
		synctest.Test(t, func(t *testing.T) {
			client, server, ended := pipes(t, &Guard{metrics: newMetrics()})
			go func() {
				for range 50 {
					if _, err := fmt.Fprint(server, `{"id":null,"method":"update3","params":["`, strings.Repeat("x", 64<<10),
						`"]}`); err != nil {
						return
					}
				}
				server.Close()
			}()
			read := make(chan struct{})
			go func() {
				defer close(read)
				for buffer := make([]byte, 64<<10); ; time.Sleep(c.every) {
					if _, err := client.Read(buffer); err != nil {
						return
					}
				}
			}()
			if err := <-ended; (err == nil) != c.kept {
				t.Errorf("%s: %v", c.what, err)
			}
			client.Close()
			<-read
		})
	}
}

// TestReadingsOfAllConnectionsArePaced: who asks by many connections at once is told no more than by one.
func TestReadingsOfAllConnectionsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{metrics: newMetrics()}
		rows := strings.Repeat("x", 2*paceLeast)
		g.pace.charge("another", int64(len(rows)), 0)
		var told atomic.Int64
		var clients []net.Conn
		for range clientsEach {
			client, server, _ := pipes(t, g)
			clients = append(clients, client)
			go io.Copy(io.Discard, client)
			go func() {
				for m := (&messages{from: server}); ; {
					if _, err := m.next(); err != nil {
						return
					}
					told.Add(1)
					fmt.Fprint(server, `{"id":1,"result":["`, rows, `"],"error":null}`)
				}
			}()
		}
		for _, client := range clients {
			go fmt.Fprint(client, `{"id":1,"method":"get_schema","params":["OVN_Southbound"]}`)
		}
		time.Sleep(paceTime / 2)
		synctest.Wait()
		if n := told.Load(); n < paceBurst || n > paceBurst+1 {
			t.Errorf("a node is told all %d times at once", n)
		}
	})
}

// TestTheGuardsTimeIsPaced: what a node asks for costs the guard, too, and the more so if it is refused.
func TestTheGuardsTimeIsPaced(t *testing.T) {
	t.Run("small requests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { requestsArePaced(t, `{"id":1,"method":"steal","params":[]}`) })
	})
	t.Run("large requests", func(t *testing.T) {
		cases.Long(t)
		synctest.Test(t, func(t *testing.T) {
			requestsArePaced(t, `{"id":1,"method":"monitor","params":["OVN_Southbound",1,{"Chassis":[{"where":["`+
				strings.Repeat("x", longestRequest/2)+`"]}]}]}`)
		})
	})
}

func requestsArePaced(t *testing.T, request string) {
	g := &Guard{metrics: newMetrics(), log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	var answers atomic.Int64
	for range 2 {
		client, _, _ := pipes(t, g)
		go func() {
			for {
				if _, err := io.WriteString(client, request); err != nil {
					return
				}
			}
		}()
		go func() {
			for m := (&messages{from: client}); ; {
				text, err := m.next()
				if err != nil {
					return
				}
				if string(text) != lifeRequest {
					answers.Add(1)
				}
			}
		}()
	}
	time.Sleep(time.Minute)
	most := (requestBurst+60*requestRate)/(requestCost+len(request)) + 1
	if n := int(answers.Load()); n < most*9/10 || n > most {
		t.Errorf("%d are answered in a minute, want %d", n, most)
	}
	other, _, _ := pipesOf(t, g, "another")
	go io.WriteString(other, request)
	began := time.Now()
	if _, err := (&messages{from: other}).next(); err != nil || time.Since(began) > 0 {
		t.Errorf("another node waits %s: %v", time.Since(began), err)
	}
}

// TestRequestsWithoutAnEndArePaced: what a node sends counts also if it never becomes a request, by however many
// connections.
func TestRequestsWithoutAnEndArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guard{metrics: newMetrics()}
		garbage := strings.Repeat(" ", longestRequest+(1<<20))
		const most = (requestBurst+60*requestRate)/longestRequest + 2
		began, n := time.Now(), 0
		for ; time.Since(began) < time.Minute && n <= most; n++ {
			client, _, ended := pipes(t, g)
			go io.WriteString(client, garbage)
			if err := <-ended; !errors.Is(err, errTooLong) {
				t.Fatal(err)
			}
			client.Close()
		}
		if n > most {
			t.Errorf("%d of %d bytes are read in a minute, beyond %d", n, longestRequest, most)
		}
	})
}

// TestNodesThatNeverComeBackAreForgotten: what the guard keeps of nodes does not grow with all that there have ever
// been, each with a name of its own.
func TestNodesThatNeverComeBackAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		for i := range 4 * clientsAll {
			if i%clientsAll == 0 {
				time.Sleep(2 * paceTime)
			}
			p.charge(fmt.Sprint("n", i), paceLeast, 0)
		}
		if n := len(p.debts); n > clientsAll {
			t.Errorf("%d nodes are remembered", n)
		}
	})
}
