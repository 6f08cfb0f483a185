package southbound

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// brake is a way to a server on which nothing moves while it is held.
type brake struct {
	testing.TB
	held     sync.RWMutex
	endpoint string
}

// newBrake makes a way to a server.
func newBrake(t testing.TB, server string) *brake {
	b := &brake{TB: t, endpoint: filepath.Join(t.TempDir(), "brake.sock")}
	listener, err := net.Listen("unix", b.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", strings.TrimPrefix(server, "unix:"))
			if err != nil {
				client.Close()
				continue
			}
			go b.pass(client, server)
			go b.pass(server, client)
		}
	}()
	b.endpoint = "unix:" + b.endpoint
	return b
}

// pass copies one direction.
func (b *brake) pass(from, to net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		b.held.RLock()
		_, err = to.Write(buffer[:n])
		b.held.RUnlock()
		if err != nil {
			return
		}
	}
}

// TestARelayThatLags keeps nodes, which hear from the guard meanwhile. A node that has lost a port without knowing it
// may still write to it, and not for longer than the relay lags: then the port is the other node's.
func TestARelayThatLags(t *testing.T) {
	var b *brake
	s := newSouthboundBy(t, func(server string) (endpoint string) {
		b = newBrake(t, server)
		return ovsdbtest.Relay(t, "OVN_Southbound", b.endpoint).Endpoint
	})
	claim := func(node string) string {
		return s.names.Replace(`["OVN_Southbound",{"op":"update","table":"Port_Binding","where":[["_uuid","==",` +
			`["uuid","{pod1}"]]],"row":{"chassis":["uuid","{` + node + `}"]}}]`)
	}
	first, second := s.connectAs("l1"), s.connectAs("l2")
	claims := func(conn net.Conn, node string, may bool) {
		t.Helper()
		answer, err := ask(conn, "transact", claim(node))
		if err != nil || strings.Contains(answer, "permission error") == may {
			t.Errorf("%s claims the port: %s, %v", node, answer, err)
		}
	}
	claims(first, "l1", true)
	claims(second, "l2", false)

	b.held.Lock()
	ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "set", "Port_Binding", "pod1", "options:requested-chassis=l2",
		"chassis=[]")
	if _, err := io.WriteString(first, call("transact", claim("l1"))); err != nil {
		t.Fatal(err)
	}
	m := &messages{from: first}
	next := func() string {
		t.Helper()
		if err := first.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		text, err := m.next()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for range 3 {
		if text := next(); text != lifeRequest {
			t.Errorf("while the relay lags, a node hears %s", text)
		}
		fmt.Fprintf(first, `{"id":%q,"result":[],"error":null}`, lifeID)
	}
	b.held.Unlock()
	for {
		text := next()
		if text == lifeRequest {
			continue
		}
		if strings.Contains(text, `"error":"`) {
			t.Errorf("the node's claim from before: %s", text)
		}
		break
	}
	s.until("the guard does not know that the port is another node's", func() bool {
		port := s.guard.replica.ports().named["pod1"]
		return port != nil && port.Options["requested-chassis"] == "l2"
	})
	claims(second, "l2", true)
	claims(first, "l1", false)
	if bound := strings.TrimSpace(ovsdbtest.Run(t, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=chassis",
		"find", "Port_Binding", "logical_port=pod1")); bound != s.names.Replace("{l2}") {
		t.Errorf("the port is bound to %s", bound)
	}
}
