package capture

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/net/bpf"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

const snapLength = 96

// frameOf is an Ethernet frame of these layers.
func frameOf(t testing.TB, ether layers.EthernetType, list ...gopacket.SerializableLayer) []byte {
	t.Helper()
	header := &layers.Ethernet{SrcMAC: net.HardwareAddr{10, 88, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{10, 88, 0, 0, 0, 2},
		EthernetType: ether}
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true},
		append([]gopacket.SerializableLayer{header}, list...)...); err != nil {
		t.Fatal(err)
	}
	return append(buffer.Bytes(), make([]byte, 60)...)
}

// packetOf is a packet from one address to another, with a transport's header.
func packetOf(t testing.TB, protocol layers.IPProtocol, from, to string, transport gopacket.SerializableLayer) []byte {
	t.Helper()
	source, destination := netip.MustParseAddr(from), netip.MustParseAddr(to)
	if source.Is4() {
		return frameOf(t, layers.EthernetTypeIPv4, &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol,
			SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}, transport)
	}
	return frameOf(t, layers.EthernetTypeIPv6, &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol,
		SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}, transport)
}

// inTunnel is a frame in GENEVE, as OVN has it, or without options.
func inTunnel(t testing.TB, from, to string, options int, frame []byte) []byte {
	t.Helper()
	header := make([]byte, geneveHeader+options)
	header[0] = byte(options / 4)
	binary.BigEndian.PutUint16(header[2:], 0x6558)
	return packetOf(t, layers.IPProtocolUDP, from, to, behind(&layers.UDP{SrcPort: 50123, DstPort: contract.TunnelPort},
		append(header, frame...)))
}

// withPayload is a layer, and bytes behind it.
type withPayload struct {
	gopacket.SerializableLayer
	payload []byte
}

func behind(layer gopacket.SerializableLayer, payload []byte) gopacket.SerializableLayer {
	return withPayload{layer, payload}
}

func (w withPayload) SerializeTo(b gopacket.SerializeBuffer, options gopacket.SerializeOptions) error {
	if err := gopacket.Payload(w.payload).SerializeTo(b, options); err != nil {
		return err
	}
	return w.SerializableLayer.SerializeTo(b, options)
}

func kept(t testing.TB, program instructions, frame []byte) bool {
	t.Helper()
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	n, err := vm.Run(frame)
	if err != nil || n != 0 && n != min(snapLength, len(frame)) {
		t.Fatalf("%d bytes of %d are kept, %v", n, len(frame), err)
	}
	return n != 0
}

// TestFilters: each packet as it is, and inside of tunnels.
func TestFilters(t *testing.T) {
	tcp := func(from, to layers.TCPPort) gopacket.SerializableLayer {
		return &layers.TCP{SrcPort: from, DstPort: to}
	}
	udp := func(from, to layers.UDPPort) gopacket.SerializableLayer {
		return &layers.UDP{SrcPort: from, DstPort: to}
	}
	sctp := &layers.SCTP{SrcPort: 80, DstPort: 5000}
	options := frameOf(t, layers.EthernetTypeIPv4, &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP,
		SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}, Options: []layers.IPv4Option{{OptionType: 7, OptionLength: 8,
			OptionData: make([]byte, 6)}}}, tcp(5000, 80))
	later := packetOf(t, layers.IPProtocolUDP, "10.0.0.1", "10.0.0.2", udp(5000, 80))
	binary.BigEndian.PutUint16(later[20:], 185)
	packets := map[string][]byte{
		"request":  packetOf(t, layers.IPProtocolTCP, "10.0.0.1", "10.0.0.2", tcp(5000, 80)),
		"answer":   packetOf(t, layers.IPProtocolTCP, "10.0.0.2", "10.0.0.1", tcp(80, 5000)),
		"options":  options,
		"request6": packetOf(t, layers.IPProtocolTCP, "fd00::1", "fd00::2", tcp(5000, 80)),
		"answer6":  packetOf(t, layers.IPProtocolTCP, "fd00::2", "fd00::1", tcp(80, 5000)),
		"near6":    packetOf(t, layers.IPProtocolTCP, "fd00::1:0:0:1", "fd00:0:0:1::2", tcp(80, 5000)),
		"dns":      packetOf(t, layers.IPProtocolUDP, "10.0.0.1", "10.0.0.53", udp(5000, 53)),
		"fragment": later,
		"sctp":     packetOf(t, layers.IPProtocolSCTP, "10.0.0.9", "10.0.0.8", sctp),
		"ping":     packetOf(t, layers.IPProtocolICMPv4, "10.0.0.1", "10.0.0.2", &layers.ICMPv4{TypeCode: 8 << 8}),
		"ping6":    packetOf(t, layers.IPProtocolICMPv6, "fd00::1", "fd00::2", &layers.ICMPv6{TypeCode: 128 << 8}),
		"who-has": frameOf(t, layers.EthernetTypeARP, &layers.ARP{AddrType: layers.LinkTypeEthernet,
			Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPRequest,
			SourceHwAddress: make([]byte, 6), SourceProtAddress: []byte{10, 0, 0, 1}, DstHwAddress: make([]byte, 6),
			DstProtAddress: []byte{10, 0, 0, 2}}),
	}
	all := []string{"request", "answer", "options", "request6", "answer6", "near6", "dns", "fragment", "sctp", "ping",
		"ping6", "who-has"}
	for _, c := range []struct {
		filter api.CaptureFilter
		want   []string
	}{
		{api.CaptureFilter{}, all},
		{api.CaptureFilter{Protocol: "tcp"}, []string{"request", "answer", "options", "request6", "answer6", "near6"}},
		{api.CaptureFilter{Protocol: "udp"}, []string{"dns", "fragment"}},
		{api.CaptureFilter{Protocol: "udp", Port: 80}, nil}, // nobody knows a later fragment's port
		{api.CaptureFilter{Protocol: "udp", Port: 53}, []string{"dns"}},
		{api.CaptureFilter{Protocol: "icmp"}, []string{"ping", "ping6"}},
		{api.CaptureFilter{Protocol: "icmp", Address: "fd00::2"}, []string{"ping6"}},
		{api.CaptureFilter{Protocol: "arp"}, []string{"who-has"}},
		{api.CaptureFilter{Protocol: "arp", Address: "10.0.0.2"}, []string{"who-has"}},
		{api.CaptureFilter{Protocol: "arp", Address: "10.0.0.3"}, nil},
		{api.CaptureFilter{Port: 80}, []string{"request", "answer", "options", "request6", "answer6", "near6", "sctp"}},
		{api.CaptureFilter{Port: 5000, Protocol: "sctp"}, []string{"sctp"}},
		{api.CaptureFilter{Address: "10.0.0.2"}, []string{"request", "answer", "options", "fragment", "ping", "who-has"}},
		{api.CaptureFilter{Address: "fd00::1"}, []string{"request6", "answer6", "ping6"}},
		{api.CaptureFilter{Address: "fd00::1", Port: 80}, []string{"request6", "answer6"}},
		{api.CaptureFilter{Address: "fd00::3"}, nil},
		{api.CaptureFilter{Address: "10.0.0.2", Port: 80, Protocol: "tcp"}, []string{"request", "answer", "options"}},
		{api.CaptureFilter{Address: "10.0.0.3", Port: 80, Protocol: "tcp"}, nil},
		{api.CaptureFilter{Address: "10.0.0.2", Port: 81}, nil},
	} {
		spec := api.CaptureSpec{Filter: c.filter, SnapLength: snapLength}
		bare, inside := filter(spec, false), filter(spec, true)
		want := map[string]bool{}
		for _, name := range c.want {
			want[name] = true
		}
		for name, frame := range packets {
			if kept(t, bare, frame) != want[name] {
				t.Errorf("%+v: %s is kept: %t", c.filter, name, !want[name])
			}
			if kept(t, inside, frame) {
				t.Errorf("%+v: %s, which is in no tunnel, is kept", c.filter, name)
			}
			for about, tunnelled := range map[string][]byte{
				"IPv4 and no options": inTunnel(t, "192.0.2.1", "192.0.2.2", 0, frame),
				"IPv4 and options":    inTunnel(t, "192.0.2.1", "192.0.2.2", 8, frame),
				"IPv6 and options":    inTunnel(t, "2001:db8::1", "2001:db8::2", 12, frame),
			} {
				if kept(t, inside, tunnelled) != want[name] {
					t.Errorf("%+v: %s in a tunnel of %s is kept: %t", c.filter, name, about, !want[name])
				}
			}
		}
	}
}

// TestTunnelsAreGENEVE alone: other packets of a node's uplink are none of a capture's.
func TestTunnelsAreGENEVE(t *testing.T) {
	program := filter(api.CaptureSpec{SnapLength: snapLength}, true)
	fragment := inTunnel(t, "192.0.2.1", "192.0.2.2", 8, make([]byte, 60))
	binary.BigEndian.PutUint16(fragment[20:], 100)
	for name, frame := range map[string][]byte{
		"another port": packetOf(t, layers.IPProtocolUDP, "192.0.2.1", "192.0.2.2", &layers.UDP{SrcPort: contract.TunnelPort,
			DstPort: 53}),
		"another protocol": packetOf(t, layers.IPProtocolTCP, "192.0.2.1", "192.0.2.2",
			&layers.TCP{DstPort: contract.TunnelPort}),
		"another protocol of IPv6": packetOf(t, layers.IPProtocolTCP, "2001:db8::1", "2001:db8::2",
			&layers.TCP{DstPort: contract.TunnelPort}),
		"a later fragment": fragment, "too short": fragment[:20], "nothing": {},
	} {
		if kept(t, program, frame) {
			t.Errorf("%s is kept", name)
		}
	}
}

// FuzzFilter: whatever a filter that is let through says, the kernel gets a program that it takes, and a frame does not
// stop it.
func FuzzFilter(f *testing.F) {
	f.Add("tcp", "10.0.0.1", uint16(80), true, []byte("frame"))
	f.Add("", "fd00::1", uint16(0), false, make([]byte, 100))
	f.Fuzz(func(t *testing.T, protocol, address string, port uint16, tunnels bool, frame []byte) {
		spec := contract.CaptureDefaults(api.CaptureSpec{Filter: api.CaptureFilter{Protocol: protocol, Address: address,
			Port: port}})
		if contract.CheckCapture(spec) != nil {
			return
		}
		program := filter(spec, tunnels)
		if _, err := bpf.Assemble(program); err != nil {
			t.Fatal(err)
		}
		vm, err := bpf.NewVM(program)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := vm.Run(frame); err != nil || n > len(frame) {
			t.Error(fmt.Errorf("%d of %d bytes, %w", n, len(frame), err))
		}
	})
}
