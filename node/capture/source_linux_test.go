package capture

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	standin "github.com/weftnet/weft/test/pktmon"
)

// The tests have a network of their own.
func TestMain(m *testing.M) {
	standin.MainOfTests()
	nodetest.Main(m)
}

const (
	device = "weft0"
	host   = "10.9.1.1"
)

// plugPod gives a sandbox an interface whose host's end is the device.
func plugPod(t *testing.T) (sandbox string) {
	t.Helper()
	sandbox = nodetest.Sandbox(t, "pod")
	there, err := netns.GetFromPath(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	inside, err := netlink.NewHandleAt(there)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	up := func(h *netlink.Handle, name, address string) error {
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		prefix := netip.MustParsePrefix(address)
		return errors.Join(h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(),
			Mask: net.CIDRMask(prefix.Bits(), 32)}}), h.LinkSetUp(link))
	}
	if err := errors.Join(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: device}, PeerName: "eth0",
		PeerNamespace: netlink.NsFd(there)}), up(&netlink.Handle{}, device, host+"/24"),
		up(inside, "eth0", "10.9.1.2/24")); err != nil {
		t.Fatal(err)
	}
	// Until the kernel has noted that the pair is connected, which a busy machine may take long for, it drops packets.
	for name, h := range map[string]*netlink.Handle{device: {}, "eth0": inside} {
		nodetest.Eventually(t, 10*time.Second, func() error {
			link, err := h.LinkByName(name)
			if err == nil && link.Attrs().OperState != netlink.OperUp {
				err = fmt.Errorf("%s is %v", name, link.Attrs().OperState)
			}
			return err
		})
	}
	return sandbox
}

// serverOfDevice captures the device.
func serverOfDevice() *Server {
	return NewServer(func(contract.CaptureRequest) (Device, error) { return Device{Name: device, Comment: "pod"}, nil },
		PacketSockets())
}

// listen takes the datagrams that come to a port of the host, so that nobody answers.
func listen(t *testing.T, port int) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// send has a pod send datagrams to a port of the host.
func send(t *testing.T, sandbox string, port, size, times int) {
	t.Helper()
	if err := nodetest.Inside(sandbox, func() error {
		conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(host), Port: port})
		if err != nil {
			return err
		}
		defer conn.Close()
		for range times {
			if _, err := conn.Write(make([]byte, size)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestPacketsOfAVethPair: those of the filter, both ways, cut to the length, with the time at which they passed.
func TestPacketsOfAVethPair(t *testing.T) {
	sandbox := plugPod(t)
	_, said, r := ask(t, serverOfDevice(), requestOf(func(s *api.CaptureSpec) {
		s.Packets, s.SnapLength, s.Filter = 2, 64, api.CaptureFilter{Address: "10.9.1.2", Protocol: "udp", Port: 7001}
	}))
	if said.Error != "" {
		t.Fatal(said.Error)
	}
	begin := time.Now()
	conn := listen(t, 7001)
	send(t, sandbox, 7002, 500, 1)
	send(t, sandbox, 7001, 500, 1)
	if _, err := conn.WriteTo(make([]byte, 10), &net.UDPAddr{IP: net.IP{10, 9, 1, 2}, Port: 9000}); err != nil {
		t.Fatal(err)
	}
	reader, err := pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		port      layers.UDPPort
		length    int
		direction pcapgo.NgEpbFlag
	}{
		{7001, 14 + 20 + 8 + 500, pcapgo.NgEpbFlagDirectionInbound},
		{9000, 14 + 20 + 8 + 10, pcapgo.NgEpbFlagDirectionOutbound},
	} {
		data, info, options, err := reader.ReadPacketDataWithOptions()
		if err != nil {
			t.Fatal(err)
		}
		decoded := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
		udp, ok := decoded.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || udp.DstPort != want.port || info.Length != want.length || len(data) != min(64, want.length) {
			t.Errorf("got %d bytes of %d: %v, want %+v", len(data), info.Length, udp, want)
		}
		if options.Flags == nil || options.Flags.Direction != want.direction {
			t.Errorf("the flags of %v are %+v", want.port, options.Flags)
		}
		if info.Timestamp.Before(begin) || time.Now().Before(info.Timestamp) {
			t.Errorf("it passed at %v, and the test began at %v", info.Timestamp, begin)
		}
	}
	if _, _, err := reader.ReadPacketData(); !errors.Is(err, io.EOF) {
		t.Errorf("there is more: %v", err)
	}
	link, err := reader.Interface(0)
	if err != nil || link.Filter != "udp and host 10.9.1.2 and port 7001" || link.Statistics.PacketsReceived != 2 ||
		link.Statistics.PacketsDropped != 0 {
		t.Errorf("the interface is %+v, %v", link, err)
	}
}

// TestPacketsThatAreLost are counted: a caller that reads nothing costs the socket's buffer and no more.
func TestPacketsThatAreLost(t *testing.T) {
	sandbox := plugPod(t)
	listen(t, 7001)
	const sent = 20000
	_, said, r := ask(t, serverOfDevice(), requestOf(func(s *api.CaptureSpec) {
		s.Filter, s.Duration.Duration = api.CaptureFilter{Port: 7001}, 5*time.Second
	}))
	if said.Error != "" {
		t.Fatal(said.Error)
	}
	send(t, sandbox, 7001, 1000, sent)
	packets, reader := readBack(t, r)
	link, err := reader.Interface(0)
	if err != nil {
		t.Fatal(err)
	}
	counted := link.Statistics
	if counted.PacketsDropped == 0 || counted.PacketsReceived != sent ||
		uint64(packets)+counted.PacketsDropped != counted.PacketsReceived {
		t.Errorf("of %d packets %d are read, and the interface has counted %+v", sent, packets, counted)
	}
}

// TestADeviceThatGoes ends the file, and another one of its name is not captured.
func TestADeviceThatGoes(t *testing.T) {
	plugPod(t)
	_, said, r := ask(t, serverOfDevice(), requestOf(nil))
	if said.Error != "" {
		t.Fatal(said.Error)
	}
	if err := netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: device}}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, reader := readBack(t, r); reader.NInterfaces() != 1 || time.Since(begin) > 20*time.Second {
		t.Errorf("%d interfaces, after %v", reader.NInterfaces(), time.Since(begin))
	}
}

func TestADeviceThatIsNone(t *testing.T) {
	if _, said, _ := ask(t, serverOfDevice(), requestOf(nil)); said.Error == "" {
		t.Error("packets are promised of a device that is not there")
	}
}
