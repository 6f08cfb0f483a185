package ipsec

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strongswan/govici/vici"

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
					w.awaitLook(n)
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
			w.leftWithoutLoss(t, streams)
		})
	}
}

// bare is nil when the kernel has neither SAs nor policies. What a node has asked of charon, SPI 0, goes by itself.
func (n *node) bare() error {
	left := ""
	for _, line := range strings.Split(n.run("ip", "-n", n.space, "xfrm", "policy"), "\n") {
		if strings.Contains(line, "dport 6081") {
			left += line + "\n"
		}
	}
	for _, line := range strings.Split(n.run("ip", "-n", n.space, "xfrm", "state"), "\n") {
		if strings.Contains(line, "spi") && !strings.Contains(line, "spi 0x00000000") {
			left += line + "\n"
		}
	}
	if left != "" {
		return fmt.Errorf("node %d still has %s", n.number, left)
	}
	return nil
}

// onlyESP is true from some moment on.
func (w *world) onlyESP() {
	w.tb.Helper()
	nodetest.Eventually(w.tb, 5*time.Second, func() error { w.frames.reset(); return w.watchESP(200) })
}

// TestRekey: SAs are rekeyed by charon, renewed because of their age, and renewed with certificates of another
// authority, and no packet is lost. At the end the first authority counts no more.
func TestRekey(t *testing.T) {
	w := newWorld(t, 3, false)
	for _, n := range w.nodes {
		n.startCharon()
		n.config.Renewal = 10 * time.Second
		n.keep(Enforce, n.peers()...)
	}
	w.awaitEncrypted()
	w.frames.reset()
	streams := w.startStreams(pace)
	// What a node is about to close is not to be rekeyed: it does so an hour later, not now.
	for _, n := range w.nodes {
		nodetest.Eventually(t, 10*time.Second, func() error { return n.opened(2) })
	}
	first := w.spis() // whose children charon replaces, before their IKE_SAs are old
	for _, n := range w.nodes {
		n.command("rekey", map[string]string{"child": childOut})
	}
	nodetest.Eventually(t, 10*time.Second, func() error { return w.otherThan(first) })
	aged := w.spis()
	nodetest.Eventually(t, 20*time.Second, func() error { return w.otherThan(aged) })
	next := newAuthority(t)
	for _, step := range []struct {
		signer  *authority
		trusted []*authority
	}{{w.authority, []*authority{w.authority, next}}, {next, []*authority{w.authority, next}},
		{next, []*authority{next}}} {
		before := w.spis()
		for _, n := range w.nodes {
			n.place(step.signer, step.trusted...)
		}
		nodetest.Eventually(t, 10*time.Second, func() error { return w.otherThan(before) })
		w.awaitEncrypted()
	}
	missing, sent := lost(t, streams)
	if missing > 0 || sent == 0 {
		t.Errorf("%d of %d packets lost", missing, sent)
	}
	t.Logf("%d packets sent", sent)
	if err := w.watchESP(1); err != nil {
		t.Error(err)
	}
}

// opened is nil when the node has so many IKE_SAs of its own.
func (n *node) opened(want int) error {
	session, err := vici.NewSession(vici.WithAddr("unix", n.vici()))
	if err != nil {
		return err
	}
	defer session.Close()
	found, err := associations(n.tb.Context(), session)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(a association) bool { return !a.carries() })
	if len(found) != want {
		return fmt.Errorf("node %d has %d IKE_SAs, want %d", n.number, len(found), want)
	}
	return nil
}

// command asks charon.
func (n *node) command(name string, argument map[string]string) {
	n.tb.Helper()
	session, err := vici.NewSession(vici.WithAddr("unix", n.vici()))
	if err != nil {
		n.tb.Fatal(err)
	}
	defer session.Close()
	if err := call(n.tb.Context(), session, name, argument); err != nil {
		n.tb.Fatalf("%s: %v", name, err)
	}
}

// spis are those of all SAs of the nodes.
func (w *world) spis() map[string]bool {
	found := map[string]bool{}
	for _, n := range w.nodes {
		for _, word := range strings.Fields(n.run("ip", "-n", n.space, "xfrm", "state")) {
			if strings.HasPrefix(word, "0x") && len(word) == 10 && word != "0x00000000" {
				found[word] = true
			}
		}
	}
	return found
}

// otherThan is nil when none of the SAs is left.
func (w *world) otherThan(before map[string]bool) error {
	for spi := range w.spis() {
		if before[spi] {
			return fmt.Errorf("SA %s is still there", spi)
		}
	}
	return nil
}

// TestStrangers: in enforce nothing gets through from a node without a certificate of the authority, nor from one that
// shows another node's, nor to them.
func TestStrangers(t *testing.T) {
	w := newWorld(t, 3, false)
	honest, other, stranger := w.nodes[0], w.nodes[1], w.nodes[2]
	for _, n := range w.nodes {
		n.startCharon()
	}
	honest.keep(Enforce, other, stranger) // as the Southbound would have it, should somebody write there
	other.keep(Enforce, honest)
	streams := w.startStreams(pace)
	nodetest.Eventually(t, 10*time.Second, func() error { return honest.encrypted(1) })
	between := func(a, b *node) (received int64) {
		for _, s := range streams {
			if s.from == a && s.to == b || s.from == b && s.to == a {
				received += s.received.Load()
			}
		}
		return received
	}
	refused := func(name string) {
		t.Helper()
		before := between(honest, other)
		nodetest.Eventually(t, 10*time.Second, func() error {
			if between(honest, other) < before+400 {
				return fmt.Errorf("the honest nodes do not reach each other")
			}
			return nil
		})
		if got := between(honest, stranger); got > 0 {
			t.Errorf("%s: %d packets got through", name, got)
		}
	}
	refused("in the clear")
	another := newAuthority(t)
	for _, attack := range []struct {
		name   string
		signer *authority
		who    netip.Addr
	}{
		{"another authority", another, stranger.address},
		{"a stolen certificate at another address", w.authority, other.address},
	} {
		if err := stranger.attack(honest, attack.signer, attack.who); err == nil {
			t.Errorf("%s: the honest node takes it", attack.name)
		}
		refused(attack.name)
	}
	// That the attack is one, its success says.
	nodetest.Eventually(t, 10*time.Second, func() error { return stranger.attack(honest, w.authority, stranger.address) })
}

// attack has charon ask a node with a certificate of a name, whatever this node's own is.
func (n *node) attack(victim *node, signer *authority, name netip.Addr) error {
	n.tb.Helper()
	n.placeFor(name, signer, signer, n.authority)
	shown, err := n.files.read(name, time.Now())
	if err != nil {
		n.tb.Fatal(err)
	}
	session, err := vici.NewSession(vici.WithAddr("unix", n.vici()))
	if err != nil {
		n.tb.Fatal(err)
	}
	defer session.Close()
	if _, err := loadKey(n.tb.Context(), session, shown.privateKey); err != nil {
		n.tb.Fatal(err)
	}
	own := newConnection(n.address, victim.address, shown)
	own.Local.ID = "CN=" + subject(name)
	if err := call(n.tb.Context(), session, "load-conn", map[string]connection{"attack": own}); err != nil {
		n.tb.Fatal(err)
	}
	return call(n.tb.Context(), session, "initiate", map[string]string{"ike": "attack", "child": childOut,
		"timeout": "10000"})
}

// TestCharonDies: without charon what has SAs goes on by ESP, what has none is not sent, and all comes back with
// charon.
func TestCharonDies(t *testing.T) {
	w := newWorld(t, 2, false)
	for _, n := range w.nodes {
		n.startCharon()
		n.keep(Enforce, n.peers()...)
	}
	w.awaitEncrypted()
	w.frames.reset()
	streams := w.startStreams(pace)
	arrives := func() error {
		from := streams[0].received.Load()
		deadline := time.After(500 * time.Millisecond)
		for streams[0].received.Load() < from+10 {
			select {
			case <-time.After(pace):
			case <-deadline:
				return fmt.Errorf("nothing arrives")
			}
		}
		return nil
	}
	nodetest.Eventually(t, 5*time.Second, arrives)
	w.nodes[0].killCharon()
	nodetest.Eventually(t, 5*time.Second, arrives)
	w.run("ip", "-n", w.nodes[0].space, "xfrm", "state", "flush") // as they age
	nodetest.Eventually(t, 5*time.Second, func() error {
		if arrives() == nil {
			return fmt.Errorf("packets arrive without SAs")
		}
		return nil
	})
	w.nodes[0].startCharon()
	nodetest.Eventually(t, 15*time.Second, arrives)
	w.awaitEncrypted()
	if clear := w.frames.clear.Load() + w.frames.planted.Load(); clear > 0 {
		t.Errorf("%d frames in the clear", clear)
	}
	for _, s := range streams {
		s.end()
	}
}

// TestOpenVSwitch: Open vSwitch's tunnels in the kernel take to ESP while flows are in use, and back, and what has the
// MTU of the time before goes through in fragments, or its sender is told. No packet is lost.
func TestOpenVSwitch(t *testing.T) {
	w := newUnderlay(t, 2, false)
	for _, n := range w.nodes {
		n.startCharon()
		peer := n.peers()[0]
		inside(t, n.space, func() error {
			ovs := nodetest.StartOVS(t)
			ovs.VS("add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=system",
				"--", "add-port", "br-int", "tunnel", "--", "set", "interface", "tunnel", "type=geneve",
				"options:remote_ip="+peer.address.String(), "options:key=7", "options:df_default=false",
				"--", "set", "interface", "br-int", "mtu_request=1442")
			return nil
		})
		w.run("ip", "-n", n.space, "addr", "del", n.inner.String()+"/32", "dev", "lo")
		w.run("ip", "-n", n.space, "addr", "add", n.inner.String()+"/24", "dev", "br-int")
		w.run("ip", "-n", n.space, "link", "set", "br-int", "up")
	}
	nodetest.Eventually(t, 10*time.Second, func() error {
		_, err := exec.Command("ip", "netns", "exec", w.nodes[0].space, "ping", "-c", "1", "-W", "1",
			w.nodes[1].inner.String()).CombinedOutput()
		return err
	})
	ping := func(fragments string) (string, error) {
		out, err := exec.Command("ip", "netns", "exec", w.nodes[0].space, "ping", "-c", "3", "-i", "0.05", "-W", "5", "-M",
			fragments, "-s", "1414", w.nodes[1].inner.String()).CombinedOutput()
		return string(out), err
	}
	if out, err := ping("do"); err != nil {
		t.Fatal(out)
	}
	streams := w.startStreams(pace)
	for _, mode := range []Mode{Begin, Enforce, Begin} {
		for _, n := range w.nodes {
			n.keep(mode, n.peers()...)
			w.awaitLook(n)
		}
		w.awaitEncrypted()
		w.onlyESP()
		if out, err := ping("dont"); err != nil {
			t.Errorf("%s: a large packet that may be fragmented is lost: %s", mode, out)
		}
		if out, _ := ping("do"); !strings.Contains(out, "mtu=1416") { // without OVN's option, 8 bytes more than pods get
			t.Errorf("%s: nobody tells the sender of a packet that is too large: %s", mode, out)
		}
	}
	for _, n := range w.nodes {
		n.keep(Off, n.peers()...)
		w.awaitLook(n)
	}
	w.leftWithoutLoss(t, streams)
}

// awaitLook until the node's keeper has looked without an error.
func (w *world) awaitLook(n *node) {
	w.tb.Helper()
	nodetest.Eventually(w.tb, 5*time.Second, func() error { n.mu.Lock(); defer n.mu.Unlock(); return n.err })
}

// BenchmarkThroughput is of one TCP connection through a tunnel, in the clear and by ESP.
func BenchmarkThroughput(b *testing.B) {
	for _, mode := range []Mode{Off, Enforce} {
		b.Run(string(mode), func(b *testing.B) {
			w := newWorld(b, 2, false)
			from, to := w.nodes[0], w.nodes[1]
			for _, n := range w.nodes {
				n.startCharon()
				n.keep(mode, n.peers()...)
			}
			if mode == Enforce {
				w.awaitEncrypted()
			}
			var listener net.Listener
			inside(b, to.space, func() (err error) {
				listener, err = net.Listen("tcp", to.inner.String()+":7001")
				return err
			})
			defer listener.Close()
			var conn net.Conn
			inside(b, from.space, func() (err error) {
				conn, err = net.Dial("tcp", listener.Addr().String())
				return err
			})
			defer conn.Close()
			receiver, err := listener.Accept()
			if err != nil {
				b.Fatal(err)
			}
			defer receiver.Close()
			const size = 16 << 20
			b.SetBytes(size)
			for b.Loop() {
				go func() { _, _ = conn.Write(make([]byte, size)) }()
				if _, err := io.CopyN(io.Discard, receiver, size); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// leftWithoutLoss ends the streams, of which no packet was lost, and waits until no node has anything of encryption.
func (w *world) leftWithoutLoss(t *testing.T, streams []*stream) {
	t.Helper()
	missing, sent := lost(t, streams)
	if missing > 0 || sent == 0 {
		t.Errorf("%d of %d packets lost", missing, sent)
	}
	t.Logf("%d packets sent", sent)
	for _, n := range w.nodes {
		nodetest.Eventually(t, 5*time.Second, n.bare)
	}
}
