package listeners

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

// What the cluster is told changes by steady listeners alone, and not often: each change is a write to the Node.
func TestWhatTheClusterIsToldOfDaemons(t *testing.T) {
	file := filepath.Join(nodetest.Folder(t), "daemons.json")
	h := &fakeHost{now: listenersOf("tcp 0.0.0.0:9100")}
	addresses := nodetest.Addrs("192.0.2.1", "2001:db8::1")
	d := h.daemons(file)
	told := func() string {
		list, known := d.Facts(contract.NodeNetwork{}.OwnPorts(), addresses)
		if !known {
			return "unknown"
		}
		return fmt.Sprint(list)
	}
	looks := func(name string, number int, want string) {
		t.Helper()
		for range number {
			d.Scan(nobody)
		}
		if got := told(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	looks("the first look", 1, "unknown")
	looks("the second look", 1, "[tcp/0.0.0.0:9100]")
	h.now = listenersOf("tcp 0.0.0.0:9100", "tcp 0.0.0.0:9101")
	looks("one look is none to tell", 1, "[tcp/0.0.0.0:9100]")
	looks("one that has begun after the agent", 1, "[tcp/0.0.0.0:9100 tcp/0.0.0.0:9101]")
	h.now = listenersOf("tcp 0.0.0.0:9100", "tcp 0.0.0.0:9101", "tcp 0.0.0.0:9102")
	looks("not before a minute has passed", tellLooks-1, "[tcp/0.0.0.0:9100 tcp/0.0.0.0:9101]")
	looks("after a minute", 1, "[tcp/0.0.0.0:9100 tcp/0.0.0.0:9101 tcp/0.0.0.0:9102]")
	if d.Scan(nobody) {
		t.Error("a look that finds nothing new makes a difference")
	}

	// A program that has another port each time makes one change a minute.
	changes := 0
	for i := range 10 * tellLooks {
		before := told()
		h.now = listenersOf("tcp 0.0.0.0:9100", fmt.Sprint("tcp 0.0.0.0:", 20000+i/steadyLooks))
		d.Scan(nobody)
		if told() != before {
			changes++
		}
	}
	if changes == 0 || changes > 10 {
		t.Errorf("%d changes in ten minutes", changes)
	}

	// A daemon that is away is told of on, and so it is by the next agent, until it is forgotten.
	h.now = listenersOf("tcp 0.0.0.0:9100")
	d = h.daemons(filepath.Join(nodetest.Folder(t), "again"))
	looks("it is there", steadyLooks, "[tcp/0.0.0.0:9100]")
	h.now = listenersOf()
	looks("it is away", mostMissed-1, "[tcp/0.0.0.0:9100]")
	d = h.daemons(d.file)
	looks("by the next agent", steadyLooks, "[tcp/0.0.0.0:9100]")
	looks("it is forgotten", mostMissed, "[]")
}

// The cluster is told of listeners at the host's addresses, in few words.
func TestListenersThatTheClusterIsToldOf(t *testing.T) {
	h := &fakeHost{now: listenersOf(
		"tcp 0.0.0.0:9100", "tcp [::]:9100", "tcp 192.0.2.1:9100", // of all addresses
		"tcp 0.0.0.0:80", "tcp [2001:db8::1]:80", // of one family, and one address more
		"udp 192.0.2.1:53",
		"udp 127.0.0.53:53", "tcp 127.0.0.1:8125", "tcp 10.244.1.2:8126", "tcp [fe80::1]:546", // not at the host's addresses
		"tcp 0.0.0.0:22", "tcp [::]:10250", // the hosts' own anyway
	)}
	addresses := nodetest.Addrs("192.0.2.1", "2001:db8::1")
	var network contract.NodeNetwork
	d := h.daemons("")
	d.Scan(nobody)
	d.Scan(nobody)
	told := func() contract.Listeners {
		list, _ := d.Facts(network.OwnPorts(), addresses)
		return list
	}
	want := "[udp/192.0.2.1:53 tcp/0.0.0.0:80 tcp/[2001:db8::1]:80 tcp/9100]"
	if got := fmt.Sprint(told()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	network.HostPorts = []string{"tcp/80"}
	want = "[tcp/0.0.0.0:22 udp/192.0.2.1:53 tcp/9100 tcp/[::]:10250]"
	if got := fmt.Sprint(told()); got != want {
		t.Errorf("with other host-ports: got %s, want %s", got, want)
	}
	for i := range 2 * contract.MostOfFacts {
		h.now.Add(Socket{TCP, netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(20000+i))})
	}
	for range tellLooks {
		d.Scan(nobody)
	}
	list := told()
	if len(list) != contract.MostOfFacts || list[0].Port != 22 || d.problems["told"] == "" {
		t.Errorf("%d are told, problem %q", len(list), d.problems["told"])
	}
	// What is told is what the agent keeps away from.
	for at := range Reported(list) {
		if !d.InTheWay().Has(at) {
			t.Errorf("%s is told, and not in the way", at)
		}
	}
}
