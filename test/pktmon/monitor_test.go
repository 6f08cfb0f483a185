package pktmon

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

var (
	here  = net.HardwareAddr{10, 88, 0, 0, 0, 1}
	there = net.HardwareAddr{10, 88, 0, 0, 0, 2}
)

// packet is one of TCP or UDP over IPv4.
func packet(t testing.TB, from, to net.HardwareAddr, protocol layers.IPProtocol, port uint16) Frame {
	t.Helper()
	transport := map[layers.IPProtocol]gopacket.SerializableLayer{
		layers.IPProtocolTCP: &layers.TCP{SrcPort: 50000, DstPort: layers.TCPPort(port)},
		layers.IPProtocolUDP: &layers.UDP{SrcPort: 50000, DstPort: layers.UDPPort(port)},
	}[protocol]
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: from, DstMAC: to, EthernetType: layers.EthernetTypeIPv4},
		&layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, SrcIP: net.IPv4(10, 0, 0, 1), DstIP: net.IPv4(10, 0, 0, 2)},
		transport, gopacket.Payload(make([]byte, 200))); err != nil {
		t.Fatal(err)
	}
	return Frame{At: time.Unix(1700000000, 0), Data: buffer.Bytes()}
}

// machine has two adapters, which both see three packets.
func machine(t testing.TB) *Monitor {
	return NewMonitor(&Planted{List: []Component{{ID: 7, Name: "Ethernet", MAC: here}, {ID: 9, Name: "other", MAC: there}},
		Frames: []Frame{packet(t, here, there, layers.IPProtocolTCP, 443), packet(t, there, here, layers.IPProtocolUDP, 53),
			packet(t, there, there, layers.IPProtocolTCP, 443)}})
}

// do runs commands, which must succeed, and gives the answer to the last.
func do(t testing.TB, m *Monitor, log []byte, commands ...string) (said answer) {
	t.Helper()
	for _, c := range commands {
		if said = m.run(request{strings.Fields(c), log}); said.Code != 0 {
			t.Fatalf("pktmon %s: %s", c, said.Text)
		}
	}
	return said
}

// TestWhatIsRefused: what the reference does not know, and what the stand-in does not do.
func TestWhatIsRefused(t *testing.T) {
	const begun = "start --capture --file-name a.etl"
	for _, c := range []struct {
		before []string
		refuse string
		says   string
	}{
		{nil, "", "Unknown command"},
		{nil, "comp list", "Unknown command"}, // of Windows before 2004
		{nil, "pcapng a.etl", "Unknown command"},
		{nil, "filter", "Unknown command"},
		{nil, "filter add weft", "needs a condition"},
		{nil, "filter add weft two --port 1", "unexpected 'two'"},
		{nil, "filter add weft --port web", "invalid port"},
		{nil, "filter add weft --port 0", "invalid port"},
		{nil, "filter add weft --port 1 2 3", "invalid use"},
		{nil, "filter add weft --port 1 --port 2", "invalid use"},
		{nil, "filter add weft --mac-address 10", "invalid MAC"},
		{nil, "filter add weft --ip-address web", "invalid IP"},
		{nil, "filter add weft --data-link IPX", "invalid data link"},
		{nil, "filter add weft --transport-protocol SCTP", "invalid transport"},
		{nil, "filter add weft --source 10.0.0.1", "unknown parameter"},
		{slices.Repeat([]string{"filter add -p 1"}, 32), "filter add -p 2", "32 filters"},
		{nil, "list", "list --json"},
		{nil, "start", "start --capture"},
		{nil, begun + " --etw", "unknown parameter"},
		{nil, begun + " --comp 8", "no component 8"},
		{nil, begun + " --pkt-size all", "invalid value"},
		{nil, begun + " --log-mode real-time", "no log mode"},
		{[]string{begun}, begun, "already started"},
		{nil, "stop", "not running"},
		{[]string{begun, "stop"}, "stop", "not running"},
		{nil, "etl2pcap", "needs one file"},
		{nil, "etl2pcap a.etl --out b --component-id nics", "invalid component"},
		{nil, "etl2pcap a.etl --out b", "no log"},
	} {
		m := machine(t)
		if len(c.before) > 0 {
			do(t, m, nil, c.before...)
		}
		if said := m.run(request{Args: strings.Fields(c.refuse)}); said.Code != 1 || !strings.Contains(said.Text, c.says) {
			t.Errorf("after %q, %q: %d, %q; want a refusal of %q", c.before, c.refuse, said.Code, said.Text, c.says)
		}
	}
}

// TestPackets are seen at each component that is chosen, if a filter lets them pass, and cut.
func TestPackets(t *testing.T) {
	for _, c := range []struct {
		filters        []string
		start, convert string
		want, length   int
	}{
		{nil, "", "", 6, 128},
		{nil, "--pkt-size 0", "--component-id 7", 3, 254},
		{nil, "--comp 9 --pkt-size 60", "", 3, 60},
		{nil, "", "--drop-only", 0, 0},
		{[]string{"-m 0A-58-00-00-00-01"}, "", "-c 7", 2, 128},
		{[]string{"-t TCP -p 443"}, "", "-c 7", 2, 128},
		{[]string{"-m 0A-58-00-00-00-01 -t TCP"}, "", "-c 7", 1, 128},
		{[]string{"-t 17", "-i 10.0.0.2 -p 443"}, "", "-c 7", 3, 128},
		{[]string{"-d ARP", "-i 10.0.0.3", "-p 80", "-t ICMP"}, "", "", 0, 0},
	} {
		m := machine(t)
		for _, f := range c.filters {
			do(t, m, nil, "filter add weft "+f)
		}
		log := do(t, m, nil, "start --capture --file-name a.etl "+c.start, "stop")
		file := do(t, m, log.File, "etl2pcap a.etl "+c.convert)
		if file.Path != "a.pcapng" {
			t.Errorf("the file is %q", file.Path)
		}
		r, err := pcapgo.NewNgReader(bytes.NewReader(file.File), pcapgo.DefaultNgReaderOptions)
		if err != nil {
			t.Fatal(err)
		}
		packets := 0
		for data, info, err := r.ReadPacketData(); err == nil; data, info, err = r.ReadPacketData() {
			packets++
			if want := min(c.length, info.Length); len(data) != want || info.Length < 242 {
				t.Errorf("%+v: %d bytes of %d, want %d", c, len(data), info.Length, want)
			}
		}
		if packets != c.want {
			t.Errorf("%+v: %d packets", c, packets)
		}
	}
}

// TestFullLogs forget the oldest packets.
func TestFullLogs(t *testing.T) {
	s := session{size: 1}
	for i := range 20 {
		s.see(1, Frame{Data: bytes.Repeat([]byte{byte(i)}, 100<<10)})
	}
	if len(s.log) != 10 || s.log[0].Data[0] != 10 {
		t.Errorf("%d packets, the first of which is number %d", len(s.log), s.log[0].Data[0])
	}
}

// TestStatus tells of the session and of its filters, as tables.
func TestStatus(t *testing.T) {
	m := machine(t)
	if said := do(t, m, nil, "status").Text; said != "Packet Monitor is not running.\n" {
		t.Errorf("at first: %q", said)
	}
	said := do(t, m, nil, "filter add -p 53", "filter add weft -m 0A-58-00-00-00-01", `start -c -f C:\a.etl -s 8`, "status").Text
	for _, want := range []string{`Log file:           C:\a.etl`, "8 MB", "1 <empty>", "2 weft    0A-58-00-00-00-01"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %s", want, said)
		}
	}
	if said := do(t, m, nil, "stop", "filter remove", "filter list").Text; !strings.Contains(said, "None") {
		t.Errorf("at last: %q", said)
	}
}
