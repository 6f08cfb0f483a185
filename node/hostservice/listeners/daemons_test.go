package listeners

import (
	"errors"
	"maps"
	"net/netip"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/node/hostservice/hosttest"
	"github.com/weftnet/weft/node/nodetest"
)

func nobody(Socket) bool { return false }

// fakeHost is one whose listeners a test decides.
type fakeHost struct {
	now Set
	err error
}

func (h *fakeHost) daemons(path string) *Daemons {
	d := NewDaemons(path, Period)
	d.listening = func() (Set, error) { return h.now, h.err }
	d.Load()
	return d
}

func TestDaemonsAreRememberedAndForgotten(t *testing.T) {
	file := filepath.Join(nodetest.Folder(t), "data", "daemons.json")
	h := &fakeHost{now: listenersOf("tcp 0.0.0.0:8080")}
	dns := listenersOf("tcp 0.0.0.0:8080", "udp 127.0.0.1:53")
	inTheWay := func(d *Daemons, want Set) {
		t.Helper()
		if got := d.InTheWay(); !maps.Equal(got, want) {
			t.Errorf("in the way are %v, want %v", got, want)
		}
	}
	d := h.daemons(file)
	d.Scan(nobody)
	inTheWay(d, h.now)               // at once
	inTheWay(h.daemons(file), Set{}) // but one look is none to remember
	h.now = dns
	d.Scan(nobody)
	inTheWay(h.daemons(file), listenersOf("tcp 0.0.0.0:8080"))
	d.Scan(nobody)
	inTheWay(h.daemons(file), dns)

	h.now = listenersOf("tcp 0.0.0.0:8080", "tcp 0.0.0.0:9999")
	d.Scan(nobody)
	h.now = listenersOf("tcp 0.0.0.0:8080") // 9999 was there for a moment
	if !d.Scan(nobody) {
		t.Error("a listener that has gone makes no difference")
	}
	inTheWay(d, dns)

	// Each run counts anew, and a look that fails counts for nothing.
	for run := range 3 {
		d = h.daemons(file)
		if !d.Awaits(UDP, 53) || d.Awaits(TCP, 53) || d.Awaits(UDP, 54) {
			t.Errorf("run %d: the daemon is not awaited", run)
		}
		for range mostMissed - 1 {
			d.Scan(nobody)
		}
		h.err = errors.New("no sock_diag")
		for range 2 * mostMissed {
			if d.Scan(nobody) {
				t.Error("a look that fails makes a difference")
			}
		}
		h.err = nil
		inTheWay(d, dns)
	}
	if !d.Scan(nobody) {
		t.Error("a daemon that is forgotten makes no difference")
	}
	inTheWay(d, h.now)
	inTheWay(h.daemons(file), h.now)
	if d.Awaits(TCP, 8080) {
		t.Error("a daemon that is there is awaited")
	}
}

// TestHostsThatChangeAllTheTimeAreLookedAt: a port that the agent waits for, or changes of the cluster, end a wait
// before the time of the next look, again and again.
func TestHostsThatChangeAllTheTimeAreLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		d := (&fakeHost{now: listenersOf("tcp 0.0.0.0:8080")}).daemons("")
		listening := d.listening
		d.listening = func() (Set, error) { looks++; return listening() }
		changes := make(chan struct{}, 1)
		began := time.Now()
		for i := 0; time.Since(began) < 10*Period; i++ {
			if i%2 == 0 {
				changes <- struct{}{}
				time.Sleep(Period / 4)
			}
			d.Await(t.Context(), nobody, changes, time.After(Period/2))
		}
		if looks < 9 || looks > 11 {
			t.Errorf("in %s the host was looked at %d times, want once in %s", time.Since(began), looks, Period)
		}
	})
}

// What the agent itself has open is no daemon's.
func TestTheAgentIsNoDaemon(t *testing.T) {
	h := &fakeHost{now: listenersOf("tcp 127.0.0.1:80", "tcp 127.0.0.1:81")}
	d := h.daemons("")
	own := Socket{TCP, netip.MustParseAddrPort("127.0.0.1:80")}
	d.Scan(func(at Socket) bool { return at == own })
	if got := d.InTheWay(); !maps.Equal(got, listenersOf("tcp 127.0.0.1:81")) {
		t.Errorf("in the way are %v", got)
	}
}

func TestSoManyDaemonsOnly(t *testing.T) {
	h := &fakeHost{now: listenersOf("tcp 127.0.0.1:22")}
	d := h.daemons(filepath.Join(nodetest.Folder(t), "daemons.json"))
	d.Scan(nobody)
	for i := range 2 * mostRemembered {
		h.now.Add(Socket{TCP, netip.AddrPortFrom(hosttest.Loopback, uint16(1000+i))})
	}
	d.Scan(nobody)
	first := Socket{TCP, netip.AddrPortFrom(hosttest.Loopback, 22)}
	if got := d.InTheWay(); len(got) != mostRemembered || !got.Has(first) || d.problems["bound"] == "" {
		t.Errorf("%d are remembered, problem %q", len(got), d.problems["bound"])
	}
	if got := h.daemons(d.file).InTheWay(); len(got) != 1 {
		t.Errorf("the file has %d", len(got))
	}
	d.Scan(nobody)
	if got := h.daemons(d.file).InTheWay(); len(got) != mostRemembered {
		t.Errorf("the file has %d", len(got))
	}
}
