package capture

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/pktmon"
	standin "github.com/weftnet/weft/test/pktmon"
)

// monitorOf is a Packet Monitor that sees these frames at two adapters, and a server that captures by it. The pod's
// adapter is the one that [frameOf] has frames come from.
func monitorOf(t *testing.T, device Device, frames ...[]byte) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	device.MAC = [6]byte{10, 88, 0, 0, 0, 1}
	stack := &standin.Planted{List: []standin.Component{{ID: 3, Name: "bridge", MAC: net.HardwareAddr{10, 88, 0, 0, 0, 9}},
		{ID: 7, Name: "pod", MAC: device.MAC[:]}}}
	for _, f := range frames {
		stack.Frames = append(stack.Frames, standin.Frame{At: time.Now(), Data: f})
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = standin.Serve(ctx, listener, standin.NewMonitor(stack)) }() // it ends with the test
	t.Setenv(standin.AddressVariable, listener.Addr().String())
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	backend := PacketMonitor(pktmon.New(program, filepath.Join(nodetest.Folder(t), "capture")))
	server := NewServer(func(contract.CaptureRequest) (Device, error) { return device, nil }, backend)
	server.beginTime = nodetest.Patience      // a busy machine takes seconds for each program
	t.Cleanup(func() { awaitEnd(t, server) }) // it runs programs until then
	return server
}

// awaitEnd waits until no capture is under way.
func awaitEnd(t *testing.T, server *Server) {
	t.Helper()
	nodetest.Eventually(t, time.Minute, func() error {
		if n := len(server.places); n > 0 {
			return fmt.Errorf("%d captures are under way", n)
		}
		return nil
	})
}

// TestPacketMonitor: the packets come late, and they are those that the filter asks for, each once and as long as is
// asked for.
func TestPacketMonitor(t *testing.T) {
	web := packetOf(t, layers.IPProtocolTCP, "10.0.0.1", "10.0.0.2", &layers.TCP{SrcPort: 50000, DstPort: 443})
	ssh := packetOf(t, layers.IPProtocolTCP, "10.0.0.1", "10.0.0.2", &layers.TCP{SrcPort: 50000, DstPort: 22})
	six := packetOf(t, layers.IPProtocolTCP, "fd00::1", "fd00::2", &layers.TCP{SrcPort: 50000, DstPort: 443})
	foreign := append([]byte{10, 88, 0, 0, 0, 8, 10, 88, 0, 0, 0, 9}, web[12:]...)
	tunnelled := inTunnel(t, "192.0.2.1", "192.0.2.2", 8, web)
	for name, c := range map[string]struct {
		device Device
		change func(*api.CaptureSpec)
		want   int
	}{
		"all of the pod": {Device{Name: "weft0"}, nil, 4},
		"a filter": {Device{Name: "weft0"}, func(s *api.CaptureSpec) {
			s.Filter = api.CaptureFilter{Protocol: "tcp", Port: 443, Address: "10.0.0.2"}
		}, 1},
		"the tunnels": {Device{Name: "Ethernet", Tunnels: true}, func(s *api.CaptureSpec) {
			s.Filter = api.CaptureFilter{Protocol: "tcp", Port: 443}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := monitorOf(t, c.device, web, ssh, six, foreign, tunnelled)
			_, said, r := ask(t, server, requestOf(func(s *api.CaptureSpec) {
				s.Duration.Duration, s.SnapLength = time.Second, snapLength
				if c.change != nil {
					c.change(s)
				}
			}))
			if said.Error != "" || !said.Late {
				t.Fatalf("%+v", said)
			}
			packets, reader := readBack(t, r)
			if link, err := reader.Interface(0); err != nil || packets != c.want || link.Statistics.PacketsDropped != 0 {
				t.Errorf("%d packets, want %d; %+v, %v", packets, c.want, link.Statistics, err)
			}
		})
	}
}

// TestPacketMonitorIsOneAtATime: a second capture is refused with the reason, and the first goes on. A caller that goes
// leaves nothing, and the place is free.
func TestPacketMonitorIsOneAtATime(t *testing.T) {
	server := monitorOf(t, Device{Name: "weft0"})
	request := requestOf(func(s *api.CaptureSpec) { s.Duration.Duration = contract.MaxCaptureDuration })
	first, said, r := ask(t, server, request)
	if said.Error != "" {
		t.Fatal(said.Error)
	}
	if _, said, _ := ask(t, server, request); !strings.Contains(said.Error, "Packet Monitor makes one at a time") {
		t.Errorf("a second one: %q", said.Error)
	}
	if _, err := r.ReadByte(); err != nil {
		t.Fatal(err)
	}
	first.Close()
	awaitEnd(t, server)
	if _, said, _ := ask(t, server, request); said.Error != "" {
		t.Errorf("afterwards: %q", said.Error)
	}
}

// TestFiltersOfPacketMonitor let pass at least what the kernel's filter does.
func TestFiltersOfPacketMonitor(t *testing.T) {
	for f, want := range map[api.CaptureFilter][]pktmon.Filter{
		{}:                           {{}},
		{Protocol: "tcp", Port: 443}: {{Protocol: "TCP", Port: 443}},
		{Protocol: "udp"}:            {{Protocol: "UDP"}},
		{Protocol: "sctp", Port: 9}:  {{Protocol: "132"}},
		{Protocol: "arp"}:            {{EtherType: "ARP"}},
		{Protocol: "icmp"}:           {{Protocol: "ICMP"}, {Protocol: "ICMPv6"}},
		{Port: 53}:                   {{}},
	} {
		if got := monitorFilters(f, false); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v", f, got)
		}
		if got := monitorFilters(f, true); !reflect.DeepEqual(got, []pktmon.Filter{{Protocol: "UDP", Port: 6081}}) {
			t.Errorf("%+v in tunnels: %+v", f, got)
		}
	}
	for want, length := range map[int]int{0: contract.MaxSnapLength, 512: 96, 600: 600} {
		if got := monitorLength(length); got != want {
			t.Errorf("%d bytes: %d, want %d", length, got, want)
		}
	}
}
