package ipsec

import (
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
)

// pace is how often each node sends a packet to each other one.
const pace = 5 * time.Millisecond

// TestTransition: a cluster goes to encryption and back, one node after the other, and loses no packet.
func TestTransition(t *testing.T) {
	for name, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, ipv6)
			for _, n := range w.nodes {
				n.startCharon()
			}
			streams := w.startStreams(pace)
			step := func(mode Mode, encrypted bool) {
				t.Helper()
				for _, n := range w.nodes {
					n.keep(mode, n.peers()...)
					nodetest.Eventually(t, 5*time.Second, func() error { n.mu.Lock(); defer n.mu.Unlock(); return n.err })
				}
				if encrypted {
					w.awaitEncrypted()
				}
			}
			step(Begin, true)
			w.onlyESP()
			step(Enforce, true)
			w.onlyESP()
			step(Begin, true)
			step(Off, false)
			missing, sent := lost(t, streams)
			if missing > 0 || sent == 0 {
				t.Errorf("%d of %d packets lost", missing, sent)
			}
			t.Logf("%d packets sent", sent)
			for _, n := range w.nodes {
				if left := w.run("ip", "-n", n.space, "xfrm", "state"); left != "" {
					t.Errorf("node %d still has SAs: %s", n.number, left)
				}
			}
		})
	}
}

// onlyESP is true from some moment on.
func (w *world) onlyESP() {
	w.tb.Helper()
	nodetest.Eventually(w.tb, 5*time.Second, func() error { w.frames.reset(); return w.watchESP(200) })
}
