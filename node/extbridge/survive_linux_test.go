package extbridge

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

// A talk is a connection on which somebody says something again and again.
type talk struct {
	conn    net.Conn
	stop    chan struct{}
	ended   chan error
	longest time.Duration
}

// begin starts a talk; one whose answers do not come in the end has failed.
func begin(tb testing.TB, ns namespace, remote string) *talk {
	tb.Helper()
	conn, err := dial(ns, "tcp", "", remote, nodetest.Patience)
	if err != nil {
		tb.Fatal(err)
	}
	t := &talk{conn: conn, stop: make(chan struct{}), ended: make(chan error, 1)}
	tick := time.NewTicker(5 * time.Millisecond)
	go func() {
		defer conn.Close()
		defer tick.Stop()
		for n := 0; ; n++ {
			start := time.Now()
			if _, err := say(conn, fmt.Sprint(n), nodetest.Patience); err != nil {
				t.ended <- err
				return
			}
			t.longest = max(t.longest, time.Since(start))
			select {
			case <-tick.C:
			case <-t.stop:
				t.ended <- nil
				return
			}
		}
	}()
	return t
}

// end returns the longest time that an answer took.
func (t *talk) end(tb testing.TB) time.Duration {
	tb.Helper()
	close(t.stop)
	if err := <-t.ended; err != nil {
		tb.Errorf("the connection %v - %v broke: %v", t.conn.LocalAddr(), t.conn.RemoteAddr(), err)
	}
	return t.longest
}

// The host's connections, both ways, from before the flows to after them: set-up, a gateway that comes, changes,
// replacement, loss and repair, removal.
func TestHostSurvives(t *testing.T) {
	w := newWorld(t, false)
	w.serve("", ":22", "host")
	w.serve(w.outside, ":80", "outside")
	for _, addr := range []string{host4.String(), host6.String()} {
		w.ask(w.outside, "tcp", net.JoinHostPort(addr, "22"))
	}
	talks := []*talk{
		begin(t, w.outside, on(host4, 22)), begin(t, w.outside, on(host6, 22)),
		begin(t, "", on(outside4, 80)), begin(t, "", on(outside6, 80)),
	}
	check := func(step string) {
		t.Helper()
		for _, talk := range talks {
			select {
			case err := <-talk.ended:
				t.Fatalf("%s: the connection %v - %v broke: %v", step, talk.conn.LocalAddr(), talk.conn.RemoteAddr(), err)
			default:
			}
		}
		w.ask(w.outside, "tcp", on(host4, 22))
		w.ask("", "tcp", on(outside6, 80))
	}
	w.install()
	check("flows")
	w.plugGateway()
	check("gateway")
	w.install()
	check("gateway's flows")
	// The router speaks in the host's name to all the network.
	w.run(w.gateway, "ping", "-n", "-c1", "-W1", outside4.String())
	check("gateway speaks")
	w.entries = append(w.entries, Entry{Protocol: "tcp", Port: 30090})
	w.bridge.Host = append(w.bridge.Host, second4, second6)
	w.install()
	check("change")
	w.ovn.VS("del-port", "br-ex", "patch-ex")
	check("gateway is away")
	w.plugGateway()
	w.install()
	check("gateway is back, with another number")
	w.ovn.Run("ovs-ofctl", "del-flows", w.target, fmt.Sprintf("cookie=%#x/%#x", uint64(CookieMark), uint64(CookieMask)))
	// While there are no flows, a router that speaks makes the bridge take its port for the host's.
	w.run(w.gateway, "sh", "-c", "ping -n -c1 -W0.1 "+outside4.String()+" || true")
	w.installer.Forget()
	w.install()
	check("repair")
	w.apply(nil)
	check("removal")
	if dump := w.ovn.Run("ovs-ofctl", "dump-flows", w.target); strings.Contains(dump, "cookie=0x7765") {
		t.Errorf("flows are left:\n%s", dump)
	}
	for _, talk := range talks {
		t.Logf("longest answer %v", talk.end(t))
	}
}

// Host and pod go to one destination from one port, whoever is first.
func TestPortClash(t *testing.T) {
	w := ready(t, false)
	w.serve(w.outside, ":80", "outside")
	for i, f := range []struct{ host, pod, outside string }{
		{host4.String(), pod4.String(), on(outside4, 80)}, {host6.String(), pod6.String(), on(outside6, 80)},
	} {
		w.ask(w.pod, "tcp", f.outside)
		for j, order := range [][]namespace{{"", w.pod}, {w.pod, ""}} {
			port := fmt.Sprint(20001 + 10*i + j)
			var conns []net.Conn
			seen := map[string]bool{}
			for _, ns := range order {
				local := net.JoinHostPort(f.host, port)
				if ns != "" {
					local = net.JoinHostPort(f.pod, port)
				}
				conn, err := dial(ns, "tcp", local, f.outside, nodetest.Patience)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conns = append(conns, conn)
			}
			for range 3 {
				for _, conn := range conns {
					got, err := say(conn, "hello", nodetest.Patience)
					if err != nil {
						t.Fatal(err)
					}
					if got.client.Addr().String() != f.host {
						t.Errorf("the outside sees %v, not %v", got.client, f.host)
					}
					seen[got.client.String()] = true
				}
			}
			if len(seen) != 2 {
				t.Errorf("the outside sees %v for two connections", seen)
			}
		}
	}
}

// A virtual address, whoever answers for it at the host's MAC; node ports on a second address of the host's, and that
// from pods.
func TestFurtherAddresses(t *testing.T) {
	w := ready(t, false)
	w.serve("", ":22", "host")
	w.serve(w.gateway, ":80", "gateway")
	w.serve(w.gateway, ":30080", "gateway")
	for _, virtual := range []string{virtual4.String(), virtual6.String()} {
		w.run(w.outside, "ip", "neigh", "replace", virtual, "lladdr", hostMAC.String(), "dev", "eth0")
		if got := w.ask(w.outside, "tcp", net.JoinHostPort(virtual, "80")); got.server != "gateway" {
			t.Errorf("%s: got %+v", virtual, got)
		}
	}
	w.run("", "ip", "addr", "add", second4.String()+"/24", "dev", "br-ex")
	w.run("", "ip", "addr", "add", second6.String()+"/64", "dev", "br-ex", "nodad")
	// As OVN's load balancers take it.
	w.run(w.gateway, "ip", "addr", "add", second4.String()+"/32", "dev", "lo")
	w.run(w.gateway, "ip", "addr", "add", second6.String()+"/128", "dev", "lo")
	w.bridge.Host = append(w.bridge.Host, second4, second6)
	w.install()
	for _, second := range []string{second4.String(), second6.String()} {
		if got := w.ask(w.outside, "tcp", net.JoinHostPort(second, "30080")); got.server != "gateway" {
			t.Errorf("%s: got %+v", second, got)
		}
		if got := w.ask(w.outside, "tcp", net.JoinHostPort(second, "22")); got.server != "host" {
			t.Errorf("%s: got %+v", second, got)
		}
	}
	w.run(w.gateway, "ip", "addr", "del", second4.String()+"/32", "dev", "lo")
	w.run(w.gateway, "ip", "addr", "del", second6.String()+"/128", "dev", "lo")
	for i, second := range []string{second4.String(), second6.String()} {
		if got := w.ask(w.pod, "tcp", net.JoinHostPort(second, "22")); got.server != "host" ||
			got.client.Addr() != contract.HostClients[i] {
			t.Errorf("pod to %s: got %+v", second, got)
		}
	}
}

// Pods keep their addresses where the outside knows the way to them.
func TestRouted(t *testing.T) {
	w := newWorld(t, false)
	w.bridge.Routed = true
	w.install()
	w.plugGateway()
	w.install()
	w.serve(w.outside, ":80", "outside")
	w.serve(w.pod, ":80", "pod")
	w.serve("", ":22", "host")
	w.run(w.outside, "ip", "route", "add", "10.244.1.0/24", "via", host4.String())
	w.run(w.outside, "ip", "route", "add", "fd00:10:244:1::/64", "via", host6.String())
	for _, test := range []struct {
		from           namespace
		to, server     string
		clientOrNobody string
	}{
		{w.pod, on(outside4, 80), "outside", pod4.String()}, {w.pod, on(outside6, 80), "outside", pod6.String()},
		{w.outside, on(pod4, 80), "pod", outside4.String()}, {w.outside, on(pod6, 80), "pod", outside6.String()},
		{w.outside, on(host4, 22), "host", outside4.String()}, {w.outside, on(host6, 22), "host", outside6.String()},
	} {
		if got := w.ask(test.from, "tcp", test.to); got.server != test.server ||
			got.client.Addr().String() != test.clientOrNobody {
			t.Errorf("to %s: got %+v", test.to, got)
		}
	}
	w.ping(w.outside, pod4)
	w.ping(w.outside, pod6)
}

// A gateway router with a MAC and addresses of its own: node ports at the host's address.
func TestOwnAddresses(t *testing.T) {
	w := ready(t, true)
	w.serve("", ":22", "host")
	w.serve(w.outside, ":80", "outside")
	w.serve(w.gateway, ":30080", "gateway")
	w.serveUDP(w.gateway, on(host4, nodePort), "gateway") // an answer from any address would have another
	w.serveUDP(w.gateway, on(host6, nodePort), "gateway")
	for _, ping := range []struct {
		from namespace
		to   netip.Addr
	}{{w.outside, host4}, {"", outside4}, {w.outside, host6}, {"", outside6}} {
		w.ping(ping.from, ping.to, "-s", "4000") // in fragments, which are of no Service
	}
	w.carries(w.outside, "", host4)
	w.carries(w.outside, "", host6)
	for _, f := range []struct{ host, outside string }{{host4.String(), outside4.String()},
		{host6.String(), outside6.String()}} {
		for _, test := range []struct {
			from            namespace
			network, to     string
			server, visitor string
		}{
			{w.outside, "tcp", net.JoinHostPort(f.host, "22"), "host", f.outside},
			{"", "tcp", net.JoinHostPort(f.outside, "80"), "outside", f.host},
			{w.outside, "tcp", net.JoinHostPort(f.host, "30080"), "gateway", f.outside},
			{w.outside, "udp", net.JoinHostPort(f.host, "30080"), "gateway", f.outside},
		} {
			if got := w.ask(test.from, test.network, test.to); got.server != test.server ||
				got.client.Addr().String() != test.visitor {
				t.Errorf("%s to %s: got %+v, want %s to see %s", test.network, test.to, got, test.server, test.visitor)
			}
		}
		// The host may use such a port itself, where its system may have given it to it.
		conn, err := dial("", "tcp", net.JoinHostPort(f.host, fmt.Sprint(highPort)), net.JoinHostPort(f.outside, "80"),
			nodetest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range 3 {
			if _, err := say(conn, "hello", nodetest.Patience); err != nil {
				t.Error(err)
			}
		}
	}
	neighbours, err := exec.Command("nsenter", "--net="+string(w.outside), "ip", "neigh").CombinedOutput()
	if err != nil || !strings.Contains(string(neighbours), host4.String()+" dev eth0 lladdr "+hostMAC.String()) {
		t.Errorf("the outside's neighbours: %s %v", neighbours, err)
	}
}

// The host examines whether its address is free: the gateway router, which has it too, must not answer.
func TestDuplicateAddressDetection(t *testing.T) {
	w := ready(t, false)
	w.run("", "ip", "addr", "del", host6.String()+"/64", "dev", "br-ex")
	w.run("", "sysctl", "-qw", "net.ipv6.conf.br-ex.accept_dad=1")
	w.run("", "ip", "addr", "add", host6.String()+"/64", "dev", "br-ex")
	nodetest.Eventually(t, 5*time.Second, func() error {
		output, err := exec.Command("ip", "-6", "addr", "show", "dev", "br-ex").CombinedOutput()
		if err != nil {
			return err
		}
		if strings.Contains(string(output), "dadfailed") {
			t.Fatalf("the gateway router answered:\n%s", output)
		}
		if !strings.Contains(string(output), host6.String()) || strings.Contains(string(output), "tentative") {
			return fmt.Errorf("not yet: %s", output)
		}
		return nil
	})
	w.serve("", ":22", "host")
	w.ask(w.outside, "tcp", on(host6, 22))
}

// An operator's flows stay, and only what differs is written.
func TestInstaller(t *testing.T) {
	w := newWorld(t, false)
	w.ovn.Run("ovs-ofctl", "add-flow", w.target, "priority=5000,tcp,tp_dst=4711,actions=drop")
	w.bridge.Patch = 7
	all, fewer, more := Flows(w.bridge, w.entries), Flows(w.bridge, nil),
		Flows(w.bridge, append(slices.Clone(w.entries), Entry{Protocol: "tcp", Port: 31000}))
	if differ(all, more) != 8 { // there and back, and the same for fragments
		t.Errorf("a node port costs %d flows with two addresses", differ(all, more))
	}
	for _, step := range []struct {
		name  string
		do    func()
		flows []*ovs.Flow
		want  int
	}{
		{"first", func() {}, all, len(all)},
		{"again", func() {}, all, 0},
		{"another agent", func() { w.installer = &Installer{Program: w.installer.Program} }, all, 0},
		{"an entry more", func() {}, more, differ(all, more)},
		{"not known yet", func() { w.installer.Keep = true }, fewer, 0},
		{"known", func() { w.installer.Keep = false }, fewer, differ(more, fewer)},
		{"lost", func() {
			w.ovn.Run("ovs-ofctl", "del-flows", w.target, "table=10")
			w.installer.Forget()
		}, fewer, count(fewer, tableOutside)},
		{"none", func() {}, nil, len(fewer)},
	} {
		step.do()
		changed, err := w.installer.Apply(t.Context(), w.target, step.flows)
		if err != nil || changed != step.want {
			t.Errorf("%s: changed %d flows, want %d, %v", step.name, changed, step.want, err)
		}
	}
	if dump := w.ovn.Run("ovs-ofctl", "dump-flows", w.target); !strings.Contains(dump, "tp_dst=4711") ||
		strings.Contains(dump, "cookie=0x7765") {
		t.Errorf("got:\n%s", dump)
	}
	w.installer.Program = "/no/ovs-ofctl"
	if _, err := w.installer.Apply(t.Context(), w.target, Flows(w.bridge, nil)); err == nil ||
		!strings.Contains(err.Error(), "set ovs-ofctl to its path") {
		t.Errorf("got %v", err)
	}
}

// count is how many of the flows are in a table.
func count(flows []*ovs.Flow, table int) int {
	n := 0
	for _, flow := range flows {
		if flow.Table == table {
			n++
		}
	}
	return n
}

// differ is how many flows one list has that the other has not.
func differ(a, b []*ovs.Flow) int {
	once := map[uint64]int{}
	for _, list := range [][]*ovs.Flow{a, b} {
		for _, flow := range list {
			once[flow.Cookie]++
		}
	}
	n := 0
	for _, times := range once {
		if times == 1 {
			n++
		}
	}
	return n
}
