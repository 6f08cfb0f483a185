package southbound

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// TestAServerWorksOnOneRequestOfANode, and keeps one answer for it, by however many connections and whatever else it is told meanwhile.
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
			for _, other := range []string{`{"id":null,"method":"update3","params":["result",{"result":{"result":1}}]}`, `{"id":"echo","method":"echo","params":[]}`,
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

// TestReadingsArePaced: a node reads what there is a few times at once, and then once in paceTime. Its other requests do not wait.
func TestReadingsArePaced(t *testing.T) {
	for _, method := range reading {
		synctest.Test(t, func(t *testing.T) {
			g := &Guard{metrics: newMetrics()}
			rows := strings.Repeat("x", 2*paceLeast)
			g.pace.charge("another", int64(len(rows)))
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
					if _, err := fmt.Fprint(server, `{"id":null,"method":"update3","params":["`, strings.Repeat("x", 64<<10), `"]}`); err != nil {
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
