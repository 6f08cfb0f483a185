package ovn

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/ovntest"
)

// TestRoutersForgetNeighbours: whom a router does not hear of any more it forgets, and a connection by a neighbour goes
// on, whether OVN knows that it is in use or asks for it anew.
func TestRoutersForgetNeighbours(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.pods("a")
	const silent = "203.0.113.101"
	d.outside([]string{"203.0.113.100/24", silent + "/24", "2001:db8::100/64 nodad"})
	d.serve("outside")
	for _, router := range strings.Fields(d.ovn.NB("--bare", "--columns=_uuid", "list", "Logical_Router")) {
		if age := strings.Trim(strings.TrimSpace(d.ovn.NB("get", "Logical_Router", router,
			"options:mac_binding_age_threshold")), `"`); age != northbound.NeighbourAge {
			t.Errorf("router %s forgets after %q seconds", router, age)
		}
		d.ovn.NB("set", "Logical_Router", router, "options:mac_binding_age_threshold=2") // so that it can be waited for
	}
	d.ovn.NB("--timeout=100", "--wait=hv", "sync")
	for _, to := range []string{"203.0.113.100:8080", "[2001:db8::100]:8080", silent + ":8080"} {
		if got := d.ask("a", "", "tcp", to); got.err != nil {
			t.Fatalf("%s: %v", to, got.err)
		}
	}
	binding := func(address string) string {
		return strings.TrimSpace(d.ovn.Run("ovn-sbctl", "--db="+d.ovn.Southbound(), "--bare", "--columns=_uuid,timestamp",
			"find", "MAC_Binding", "logical_port=rtoe-n1", `ip="`+address+`"`))
	}
	if binding(silent) == "" {
		t.Fatal("it is not remembered")
	}
	nodetest.Eventually(t, 10*time.Second, func() error {
		if binding(silent) == "" {
			return nil
		}
		return fmt.Errorf("%s is remembered", silent)
	})
	d.echo("outside", 9090)
	for _, to := range []string{"203.0.113.100:9090", "[2001:db8::100]:9090"} {
		now := func() string { return binding(netip.MustParseAddrPort(to).Addr().String()) }
		d.livesOn("a", to, "router hears of its neighbour", now)
		d.livesOn("a", to, "router asks for its neighbour anew", func() string { // as before OVN 23.09
			is, _, _ := strings.Cut(now(), "\n")
			if is != "" {
				d.ovn.Run("ovn-sbctl", "--db="+d.ovn.Southbound(), "--all", "destroy", "MAC_Binding")
			}
			return is
		})
	}
}

// echo serves connections that get back what they send.
func (d *datapath) echo(namespace string, port int) {
	d.t.Helper()
	var listener net.Listener
	var err error
	d.within(namespace, func() { listener, err = net.Listen("tcp", fmt.Sprint(":", port)) })
	if err != nil {
		d.t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	d.t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
}

// livesOn has a connection in use until what a router knows of the other end has changed a few times.
func (d *datapath) livesOn(namespace, to, what string, known func() string) {
	d.t.Helper()
	var conn net.Conn
	var err error
	d.within(namespace, func() { conn, err = net.DialTimeout("tcp", to, d.patience) })
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	var longest time.Duration
	last, changes := known(), 0
	for deadline := time.Now().Add(nodetest.Patience); changes < 6; {
		if time.Now().After(deadline) {
			d.t.Fatalf("%s: no %s: %s", to, what, last)
		}
		conn.SetDeadline(time.Now().Add(d.patience))
		began := time.Now()
		if _, err := conn.Write([]byte{0}); err != nil {
			d.t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			d.t.Fatalf("%s: the %s, and its connection waits for %s: %v", to, what, time.Since(began), err)
		}
		longest = max(longest, time.Since(began))
		if now := known(); now != last {
			last, changes = now, changes+1
		}
	}
	d.t.Logf("%s: the %s: no answer took longer than %s", to, what, longest)
}
