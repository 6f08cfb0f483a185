package hostservice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
)

func listenersOf(texts ...string) listeners {
	l := listeners{}
	for _, text := range texts {
		protocol, at, _ := strings.Cut(text, " ")
		l[socket{protocol, netip.MustParseAddrPort(at)}] = struct{}{}
	}
	return l
}

func nobody(socket) bool { return false }

// fakeHost is one whose listeners a test decides.
type fakeHost struct {
	now listeners
	err error
}

func (h *fakeHost) daemons(path string) *daemons {
	d := newDaemons(path, func() (listeners, error) { return h.now, h.err })
	d.load()
	return d
}

func TestDaemonsAreRememberedAndForgotten(t *testing.T) {
	file := filepath.Join(nodetest.Folder(t), "data", "daemons.json")
	h := &fakeHost{now: listenersOf("tcp 0.0.0.0:8080")}
	dns := listenersOf("tcp 0.0.0.0:8080", "udp 127.0.0.1:53")
	inTheWay := func(d *daemons, want listeners) {
		t.Helper()
		if got := d.inTheWay(); !maps.Equal(got, want) {
			t.Errorf("in the way are %v, want %v", got, want)
		}
	}
	d := h.daemons(file)
	d.scan(nobody)
	inTheWay(d, h.now)                     // at once
	inTheWay(h.daemons(file), listeners{}) // but one look is none to remember
	h.now = dns
	d.scan(nobody)
	inTheWay(h.daemons(file), listenersOf("tcp 0.0.0.0:8080"))
	d.scan(nobody)
	inTheWay(h.daemons(file), dns)

	h.now = listenersOf("tcp 0.0.0.0:8080", "tcp 0.0.0.0:9999")
	d.scan(nobody)
	h.now = listenersOf("tcp 0.0.0.0:8080") // 9999 was there for a moment
	if !d.scan(nobody) {
		t.Error("a listener that has gone makes no difference")
	}
	inTheWay(d, dns)

	// Each run counts anew, and a look that fails counts for nothing.
	for run := range 3 {
		d = h.daemons(file)
		if !d.awaits(udp, 53) || d.awaits(tcp, 53) || d.awaits(udp, 54) {
			t.Errorf("run %d: the daemon is not awaited", run)
		}
		for range mostMissed - 1 {
			d.scan(nobody)
		}
		h.err = errors.New("no sock_diag")
		for range 2 * mostMissed {
			if d.scan(nobody) {
				t.Error("a look that fails makes a difference")
			}
		}
		h.err = nil
		inTheWay(d, dns)
	}
	if !d.scan(nobody) {
		t.Error("a daemon that is forgotten makes no difference")
	}
	inTheWay(d, h.now)
	inTheWay(h.daemons(file), h.now)
	if d.awaits(tcp, 8080) {
		t.Error("a daemon that is there is awaited")
	}
}

// What the cluster is told changes by steady listeners alone, and not often: each change is a write to the Node.
func TestWhatTheClusterIsToldOfDaemons(t *testing.T) {
	file := filepath.Join(nodetest.Folder(t), "daemons.json")
	h := &fakeHost{now: listenersOf("tcp 0.0.0.0:9100")}
	host := Host{Addresses: addrs("192.0.2.1", "2001:db8::1")}
	d := h.daemons(file)
	looks := func(name string, number int, want string) {
		t.Helper()
		for range number {
			d.scan(nobody)
		}
		if got := fmt.Sprint(d.facts(host)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	d.scan(nobody)
	if d.told != nil {
		t.Errorf("at the first look the cluster is told %v", d.told)
	}
	looks("the second look", 1, "[tcp/0.0.0.0:9100]")
	h.now = listenersOf("tcp 0.0.0.0:9100", "tcp 0.0.0.0:9101")
	looks("one look is none to tell", 1, "[tcp/0.0.0.0:9100]")
	looks("one that has begun after the agent", 1, "[tcp/0.0.0.0:9100 tcp/0.0.0.0:9101]")
	h.now = listenersOf("tcp 0.0.0.0:9100", "tcp 0.0.0.0:9101", "tcp 0.0.0.0:9102")
	looks("not before a minute has passed", tellLooks-1, "[tcp/0.0.0.0:9100 tcp/0.0.0.0:9101]")
	looks("after a minute", 1, "[tcp/0.0.0.0:9100 tcp/0.0.0.0:9101 tcp/0.0.0.0:9102]")
	if d.scan(nobody) {
		t.Error("a look that finds nothing new makes a difference")
	}

	// A program that has another port each time makes one change a minute.
	changes := 0
	for i := range 10 * tellLooks {
		before := fmt.Sprint(d.facts(host))
		h.now = listenersOf("tcp 0.0.0.0:9100", fmt.Sprint("tcp 0.0.0.0:", 20000+i/steadyLooks))
		d.scan(nobody)
		if fmt.Sprint(d.facts(host)) != before {
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
	d = h.daemons(d.path)
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
	host := Host{Addresses: addrs("192.0.2.1", "2001:db8::1")}
	d := h.daemons("")
	d.scan(nobody)
	d.scan(nobody)
	want := "[udp/192.0.2.1:53 tcp/0.0.0.0:80 tcp/[2001:db8::1]:80 tcp/9100]"
	if got := fmt.Sprint(d.facts(host)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	host.Network.HostPorts = []string{"tcp/80"}
	want = "[tcp/0.0.0.0:22 udp/192.0.2.1:53 tcp/9100 tcp/[::]:10250]"
	if got := fmt.Sprint(d.facts(host)); got != want {
		t.Errorf("with other host-ports: got %s, want %s", got, want)
	}
	for i := range 2 * contract.MostOfFacts {
		h.now[socket{tcp, netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(20000+i))}] = struct{}{}
	}
	for range tellLooks {
		d.scan(nobody)
	}
	list := d.facts(host)
	if len(list) != contract.MostOfFacts || list[0].Port != 22 || d.problems["told"] == "" {
		t.Errorf("%d are told, problem %q", len(list), d.problems["told"])
	}
	// What is told is what the agent keeps away from.
	for at := range found(list) {
		if !d.inTheWay().has(at) {
			t.Errorf("%s is told, and not in the way", at)
		}
	}
}

// What the agent itself has open is no daemon's.
func TestTheAgentIsNoDaemon(t *testing.T) {
	h := &fakeHost{now: listenersOf("tcp 127.0.0.1:80", "tcp 127.0.0.1:81")}
	d := h.daemons("")
	own := socket{tcp, netip.MustParseAddrPort("127.0.0.1:80")}
	d.scan(func(at socket) bool { return at == own })
	if got := d.inTheWay(); !maps.Equal(got, listenersOf("tcp 127.0.0.1:81")) {
		t.Errorf("in the way are %v", got)
	}
}

func TestWhoIsInTheWay(t *testing.T) {
	l := listenersOf("tcp 0.0.0.0:80", "tcp [::]:81", "udp 192.0.2.1:53")
	for at, want := range map[string]bool{
		"tcp 192.0.2.1:80": true, "tcp 127.0.0.1:80": true, "tcp [::1]:80": false, "udp 192.0.2.1:80": false,
		"tcp 192.0.2.1:82":     false,
		"tcp [2001:db8::1]:81": true, "tcp 192.0.2.1:81": false, "udp 192.0.2.1:53": true, "udp 192.0.2.2:53": false,
	} {
		for one := range listenersOf(at) {
			if l.has(one) != want {
				t.Errorf("%s: %t", at, !want)
			}
		}
	}
}

// What nobody can read is made anew.
func TestBadFileOfDaemons(t *testing.T) {
	for name, content := range map[string]string{
		"cut off": `{"listeners": ["tcp 0.0.0.0:80"`, "empty": "", "another kind": `[1]`,
		"protocol": `{"listeners": ["sctp 0.0.0.0:80"]}`,
		"address":  `{"listeners": ["tcp web:80"]}`, "port": `{"listeners": ["tcp 0.0.0.0:0"]}`,
		"zone":   `{"listeners": ["tcp [fe80::1%eth0]:80"]}`,
		"mapped": `{"listeners": ["tcp [::ffff:192.0.2.1]:80"]}`,
		"too many": fmt.Sprintf(`{"listeners": [%s]}`,
			strings.TrimSuffix(strings.Repeat(`"tcp 0.0.0.0:80",`, mostRemembered+1), ",")),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(nodetest.Folder(t), "daemons.json")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			h := &fakeHost{now: listenersOf("tcp 0.0.0.0:8080")}
			d := h.daemons(file)
			if len(d.inTheWay()) > 0 {
				t.Errorf("%v came of it", d.inTheWay())
			}
			d.scan(nobody)
			d.scan(nobody)
			if got := h.daemons(file).inTheWay(); !maps.Equal(got, h.now) {
				t.Errorf("the file has %v", got)
			}
		})
	}
}

// A file that cannot be written is tried again.
func TestFileOfDaemonsThatCannotBeWritten(t *testing.T) {
	data := filepath.Join(nodetest.Folder(t), "data")
	if err := os.WriteFile(data, nil, 0o600); err != nil { // a file in the folder's place
		t.Fatal(err)
	}
	h := &fakeHost{now: listenersOf("tcp 0.0.0.0:8080")}
	d := h.daemons(filepath.Join(data, "daemons.json"))
	d.scan(nobody)
	d.scan(nobody)
	if d.problems["save"] == "" {
		t.Error("nothing is told")
	}
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	d.scan(nobody)
	if got := h.daemons(d.path).inTheWay(); !maps.Equal(got, h.now) || d.problems["save"] != "" {
		t.Errorf("the file has %v, problem %q", got, d.problems["save"])
	}
}

func TestSoManyDaemonsOnly(t *testing.T) {
	h := &fakeHost{now: listenersOf("tcp 127.0.0.1:22")}
	d := h.daemons(filepath.Join(nodetest.Folder(t), "daemons.json"))
	d.scan(nobody)
	for i := range 2 * mostRemembered {
		h.now[socket{tcp, netip.AddrPortFrom(loopback, uint16(1000+i))}] = struct{}{}
	}
	d.scan(nobody)
	if got := d.inTheWay(); len(got) != mostRemembered || !got.has(socket{tcp, netip.AddrPortFrom(loopback, 22)}) ||
		d.problems["bound"] == "" {
		t.Errorf("%d are remembered, problem %q", len(got), d.problems["bound"])
	}
	if got := h.daemons(d.path).inTheWay(); len(got) != 1 {
		t.Errorf("the file has %d", len(got))
	}
	d.scan(nobody)
	if got := h.daemons(d.path).inTheWay(); len(got) != mostRemembered {
		t.Errorf("the file has %d", len(got))
	}
}

// row is one of a Windows table.
func (t table) makeRow(at netip.AddrPort, process uint32) []byte {
	row := make([]byte, t.row)
	copy(row[t.addr:], at.Addr().AsSlice())
	binary.BigEndian.PutUint16(row[t.port:], at.Port())
	binary.LittleEndian.PutUint32(row[t.process:], process)
	return row
}

func TestTablesOfWindows(t *testing.T) {
	for _, c := range []struct {
		table
		at string
	}{{tcp4Table, "192.0.2.1:445"}, {tcp6Table, "[2001:db8::1]:445"}, {udp4Table, "0.0.0.0:53"}, {udp6Table, "[::]:53"}} {
		at := netip.MustParseAddrPort(c.at)
		content := slices.Concat([]byte{2, 0, 0, 0}, c.makeRow(at, 4), c.makeRow(at, 77), make([]byte, 100))
		got, err := c.parse(content, 77)
		if err != nil || !slices.Equal(got, []socket{{c.protocol, at}}) {
			t.Errorf("%s: %v, %v", c.at, got, err)
		}
		if got, err := c.parse(content[:4+2*c.row-1], 77); err == nil {
			t.Errorf("%s: a table that is cut off has %v", c.at, got)
		}
	}
}

func FuzzTablesOfWindows(f *testing.F) {
	tables := []table{tcp4Table, tcp6Table, udp4Table, udp6Table}
	f.Add(uint8(0), slices.Concat([]byte{1, 0, 0, 0}, tcp4Table.makeRow(netip.MustParseAddrPort("192.0.2.1:1"), 1)))
	f.Add(uint8(3), []byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		one := tables[int(which)%len(tables)]
		list, err := one.parse(content, 4)
		if err == nil && len(list)*one.row > len(content) {
			t.Errorf("%d listeners in %d bytes", len(list), len(content))
		}
	})
}

func FuzzFileOfDaemons(f *testing.F) {
	f.Add([]byte(`{"listeners": ["tcp 0.0.0.0:80", "udp [::]:53"]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		list, err := parseRemembered(content)
		if err != nil {
			return
		}
		for _, at := range list {
			if again, err := parseRemembered([]byte(fmt.Sprintf(`{"listeners": [%q]}`, at))); err != nil ||
				!slices.Equal(again, []socket{at}) {
				t.Errorf("%v is %v, %v", at, again, err)
			}
		}
	})
}
