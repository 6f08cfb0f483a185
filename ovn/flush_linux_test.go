package ovn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestSocketsLeaveWhoIsGone: a datagram socket that never rests is served by whoever is there.
func TestSocketsLeaveWhoIsGone(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("a", "b", "client")
	s := d.service("log", "10.96.0.10", "fd00:10:96::a")
	s.Ports = []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 514}}
	serve := func(name string) {
		var given []any
		for i, a := range d.c.pods.At("default/" + name).Addresses() {
			given = append(given, d.slice(fmt.Sprint("log-", i), "log",
				[]objects.ServicePort{{Name: "log", Protocol: "udp", Port: 8080}}, ready(a.Addr().String(), "n1")))
		}
		d.do(append(given, s)...)
	}
	serve("a")
	for _, to := range s.ClusterIPs {
		t.Run(to.String(), func(t *testing.T) {
			d.t = t
			serve("a")
			var conn net.Conn
			d.within("client", func() {
				socket, err := net.Dial("udp", netip.AddrPortFrom(to, 514).String())
				if err != nil {
					t.Fatal(err)
				}
				conn = socket
			})
			defer conn.Close()
			for _, name := range []string{"a", "b", "a"} {
				serve(name)
				start := time.Now()
				nodetest.Eventually(t, 5*time.Second, func() error {
					if text, _, err := exchange(conn, true, 0); err != nil || !strings.HasPrefix(text, name+" ") {
						return fmt.Errorf("%q answers: %v", text, err)
					}
					return nil
				})
				t.Logf("%s answers %v after it was there", name, time.Since(start).Round(time.Millisecond))
			}
		})
	}
}

// TestSocketsThatNeverRestLeaveWhoIsGone: one that sends at every moment sends, too, while Open vSwitch has cached
// flows to who is gone, after the first flush.
func TestSocketsThatNeverRestLeaveWhoIsGone(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("a", "b", "client")
	s := d.service("log", "10.96.0.10")
	s.Ports = []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 514}}
	serve := func(name string) {
		addr := d.c.pods.At("default/" + name).Addresses()[0].Addr()
		d.do(s, d.slice("log", "log", []objects.ServicePort{{Name: "log", Protocol: "udp", Port: 8080}},
			ready(addr.String(), "n1")))
	}
	serve("a")
	var conn net.Conn
	d.within("client", func() {
		socket, err := net.Dial("udp", "10.96.0.10:514")
		if err != nil {
			t.Fatal(err)
		}
		conn = socket
	})
	// Open vSwitch keeps what it has cached for longer than this after a change. A sender without a pause takes the
	// processors from everything that the test waits for.
	const pause = 500 * time.Microsecond
	var last atomic.Value // who has answered last
	last.Store("")
	var talk sync.WaitGroup
	defer talk.Wait()
	defer conn.Close()
	talk.Go(func() {
		for {
			if _, err := conn.Write([]byte("who")); errors.Is(err, net.ErrClosed) {
				return
			}
			<-time.After(pause)
		}
	})
	talk.Go(func() {
		buffer := make([]byte, 200)
		for {
			n, err := conn.Read(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if n > 0 {
				last.Store(string(buffer[:n]))
			}
		}
	})
	for i := range 10 {
		name := []string{"b", "a"}[i%2]
		serve(name)
		for keys := d.c.TakeExpected(); len(keys) > 0; keys = d.c.TakeExpected() {
			d.touch(keys)
		}
		last.Store("")
		nodetest.Eventually(t, 5*time.Second, func() error {
			if text := last.Load().(string); !strings.HasPrefix(text, name+" ") {
				return fmt.Errorf("%q answers", text)
			}
			return nil
		})
	}
}
