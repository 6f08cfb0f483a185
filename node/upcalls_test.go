package node

import (
	"encoding/json"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform/platformtest"
)

// vswitchd is a control socket of an ovs-vswitchd that answers each command with a text, and refuses without.
type vswitchd struct {
	net.Listener
	says  atomic.Value // a string
	asked atomic.Int32
}

func startVswitchd(t *testing.T) *vswitchd {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // there are no sockets of files under Wine
	if err != nil {
		t.Fatal(err)
	}
	v := &vswitchd{Listener: listener}
	v.says.Store("")
	served := make(chan struct{})
	go v.serve(served)
	t.Cleanup(func() {
		listener.Close()
		<-served
	})
	return v
}

func (v *vswitchd) serve(served chan<- struct{}) {
	defer close(served)
	for {
		conn, err := v.Accept()
		if err != nil {
			return // the test has ended
		}
		v.asked.Add(1)
		reply := map[string]any{"id": 0, "result": nil, "error": "no such command"}
		if text := v.says.Load(); text != "" {
			reply["result"], reply["error"] = text, nil
		}
		var request json.RawMessage
		if json.NewDecoder(conn).Decode(&request) == nil {
			_ = json.NewEncoder(conn).Encode(reply) // the agent may have had enough
		}
		conn.Close()
	}
}

// TestLostUpcallsAreNoted when they have been seen twice, until a packet has reached ovs-vswitchd.
func TestLostUpcallsAreNoted(t *testing.T) {
	v := startVswitchd(t)
	n := newBareNodeWith(t, func(c *nodeconfig.Config, _ *platformtest.Fake) { c.OVSControl = "tcp:" + v.Addr().String() })
	show := func(hit, missed, lost int) string {
		return fmt.Sprintf("system@ovs-system:\n  lookups: hit:%d missed:%d lost:%d\n  flows: 0\n", hit, missed, lost)
	}
	var u upcalls
	for _, c := range []struct {
		name, says string
		noted      bool
		next       time.Duration
	}{
		{"it refuses", "", false, upcallsAwait},
		{"no packet", show(0, 0, 0), false, upcallsAwait},
		{"what was lost before it listened", show(0, 2, 2), false, upcallsAwait},
		{"the first that is not", show(0, 3, 2), false, upcallsProbe},
		{"a datapath that begins anew", show(0, 7, 7), false, upcallsAwait},
		{"all are lost", show(0, 9, 9), true, upcallsAwait},
		{"no further packet", show(0, 9, 9), true, upcallsAwait},
		{"it is restarted", "", true, upcallsAwait},
		{"it hears of packets", show(0, 10, 9), false, upcallsProbe},
		{"there are flows", show(5, 12, 9), false, upcallsProbe},
		{"a second datapath", show(5, 12, 9) + show(0, 1, 1), false, upcallsAwait},
		{"which loses all", show(5, 12, 9) + show(0, 2, 2), true, upcallsAwait},
	} {
		v.says.Store(c.says)
		next := n.lookAtUpcalls(t.Context(), &u)
		if note := n.health.Noted()[health.Upcalls]; (note != nil) != c.noted || next != c.next {
			t.Errorf("%s: %v, next look after %v", c.name, note, next)
		}
	}
	if err := n.ovs.Apply(t.Context(), n.ovs.Removing(nodeconfig.IntegrationBridge)); err != nil {
		t.Fatal(err)
	}
	n.Until(func() bool { return n.ovs.Bridge(nodeconfig.IntegrationBridge) == nil })
	before := v.asked.Load()
	if next := n.lookAtUpcalls(t.Context(), &u); next != upcallsAwait || v.asked.Load() != before {
		t.Errorf("without a bridge: asked %d times, next look after %v", v.asked.Load()-before, next)
	}
}
