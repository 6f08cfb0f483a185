package domains

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

func TestAnswersOfAServer(t *testing.T) {
	s := newScene(t, "*.Example.com")
	server := newPod(t, "dns0", 1)
	s.serve("coredns", server.addr, server.device)
	s.serve("coredns", server.addr6, server.device)
	s.captures(2)
	answer := func(name, addr string) []byte { return reply(t, name, nil, name+" A "+addr+" 60") }
	server.do(t, func() error {
		return errors.Join(send(at(server.addr, 53), at(server.host, 4000), answer("a.example.com", "203.0.113.1")),
			send(at(server.addr, 53), at(server.host, 4000), answer("unwanted.example.org", "203.0.113.66")),
			send(at(server.addr, 5353), at(server.host, 4000), answer("b.example.com", "203.0.113.66")))
	})
	s.awaitReport("IPv4", "*.example.com 203.0.113.1")
	server.do(t, func() error {
		return send(at(server.addr6, 53), at(server.host6, 4000), answer("a.example.com", "203.0.113.2"))
	})
	s.awaitReport("IPv6", "*.example.com 203.0.113.1", "*.example.com 203.0.113.2")

	var records []string
	for i := range 150 { // more than fits into a packet
		records = append(records, fmt.Sprintf("f.example.com A 198.18.0.%d 60", i))
	}
	for _, to := range []netip.AddrPort{at(server.host, 4000), at(server.host6, 4000)} {
		from := server.addr
		if to.Addr().Is6() {
			from, records[0] = server.addr6, "f.example.com A 198.18.1.1 60"
		}
		server.do(t, func() error { return send(at(from, 53), to, reply(t, "f.example.com", nil, records...)) })
		first := strings.Fields(records[0])[2]
		s.eventually("the first fragment", func() error {
			got := s.reported()
			if !slices.Contains(got, "*.example.com "+first) || len(got) < 50 {
				return fmt.Errorf("reported are %q", got)
			}
			return nil
		})
	}
}

func TestAnswersOverTCP(t *testing.T) {
	s := newScene(t, "*.example.com")
	server := newPod(t, "dns0", 1)
	s.serve("coredns", server.addr, server.device)
	s.captures(1)
	var listener net.Listener
	server.do(t, func() (err error) {
		listener, err = net.Listen("tcp", at(server.addr, 53).String())
		return err
	})
	defer listener.Close()
	client, err := net.Dial("tcp", at(server.addr, 53).String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var stream []byte
	var records []string
	for i := range 200 { // of many segments
		records = append(records, fmt.Sprintf("big.example.com A 198.18.0.%d 60", i))
	}
	for _, message := range [][]byte{reply(t, "a.example.com", nil, "a.example.com A 203.0.113.1 60"),
		reply(t, "big.example.com", nil, records...)} {
		stream = append(binary.BigEndian.AppendUint16(stream, uint16(len(message))), message...)
	}
	go func() { _, _ = io.Copy(io.Discard, client) }()
	for _, part := range [][]byte{stream[:1], stream[1:100], stream[100:]} { // the kernel may join them
		if _, err := conn.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	s.eventually("both messages", func() error {
		if got := s.reported(); len(got) != 201 || !slices.Contains(got, "*.example.com 203.0.113.1") {
			return fmt.Errorf("reported are %q", got)
		}
		return nil
	})
}

// Whoever is no DNS server has no say, whatever addresses and ports he uses.
func TestForgedAnswers(t *testing.T) {
	s := newScene(t, "www.example.com")
	server, attacker := newPod(t, "dns0", 1), newPod(t, "pod0", 2)
	s.serve("coredns", server.addr, server.device)
	s.captures(1)
	forged := reply(t, "www.example.com", nil, "www.example.com A 203.0.113.66 60")
	attacker.do(t, func() error { // as himself, to the host
		return send(at(attacker.addr, 53), at(attacker.host, 4000), forged)
	})
	attacker.do(t, func() error { // with the server's address
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		address := &netlink.Addr{IPNet: &net.IPNet{IP: server.addr.AsSlice(), Mask: net.CIDRMask(32, 32)}}
		return errors.Join(netlink.AddrAdd(link, address), send(at(server.addr, 53), at(attacker.host, 4000), forged))
	})
	// To the server, from port 53 as an upstream server would, and from the server's own address.
	if err := send(at(server.host, 53), at(server.addr, 4000), forged); err != nil {
		t.Fatal(err)
	}
	inject(t, server.device, udpFrame(at(server.addr, 53).String(), at(server.addr, 4000).String(), forged, 0))
	server.do(t, func() error {
		return send(at(server.addr, 53), at(server.host, 4000), reply(t, "www.example.com", nil,
			"www.example.com A 203.0.113.1 60"))
	})
	s.awaitReport("the server's own answer", "www.example.com 203.0.113.1")
}

// inject has the host send a frame by a device.
func inject(t *testing.T, device string, frame []byte) {
	t.Helper()
	link, err := net.InterfaceByName(device)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Index}); err != nil {
		t.Fatal(err)
	}
}

// A server on the host's network answers from the host's address, by devices of the host's own.
func TestServerOnTheHostsNetwork(t *testing.T) {
	s := newScene(t, "www.example.com")
	client := newPod(t, "mgmt0", 1)
	s.serve("nodedns", client.host, "")
	s.captures(1)
	forged := reply(t, "www.example.com", nil, "www.example.com A 203.0.113.66 60")
	client.do(t, func() error {
		inject(t, "eth0", udpFrame(at(client.host, 53).String(), at(client.host, 4000).String(), forged, 0))
		return nil
	})
	device, err := netlink.LinkByName("mgmt0")
	if err != nil {
		t.Fatal(err)
	}
	other := netip.MustParseAddr("10.9.1.9") // a program's that is no DNS server
	address := &netlink.Addr{IPNet: &net.IPNet{IP: other.AsSlice(), Mask: net.CIDRMask(24, 32)}}
	if err := errors.Join(netlink.AddrAdd(device, address), send(at(other, 53), at(client.addr, 4000),
		forged)); err != nil {
		t.Fatal(err)
	}
	if err := send(at(client.host, 53), at(client.addr, 4000), reply(t, "www.example.com", nil,
		"www.example.com A 203.0.113.1 60")); err != nil {
		t.Fatal(err)
	}
	s.awaitReport("the host's answer", "www.example.com 203.0.113.1")
}

// Servers, their devices and policies come and go, and so do agents.
func TestWatcherFollows(t *testing.T) {
	s := newScene(t)
	server := newPod(t, "dns0", 1)
	s.serve("coredns", server.addr, server.device)
	say := func(name, addr string) {
		t.Helper()
		server.do(t, func() error {
			return send(at(server.addr, 53), at(server.host, 4000), reply(t, name, nil, name+" A "+addr+" 60"))
		})
	}
	s.policy("later", "www.example.com", "other.example.com")
	s.captures(1)
	say("www.example.com", "203.0.113.1")
	s.awaitReport("a policy came", "www.example.com 203.0.113.1")

	server.unplug()
	server.plug(t)
	s.captures(2)
	say("www.example.com", "203.0.113.2")
	s.awaitReport("the device is another one", "www.example.com 203.0.113.1", "www.example.com 203.0.113.2")

	s.stop()
	writes := len(s.own.Actions())
	s.start()
	s.captures(3)
	for _, action := range s.own.Actions()[writes:] {
		if verb := action.GetVerb(); verb == "patch" || verb == "create" {
			t.Errorf("an agent that starts writes what is there: %v", action)
		}
	}
	say("other.example.com", "203.0.113.3")
	s.awaitReport("the agent is another one", "other.example.com 203.0.113.3", "www.example.com 203.0.113.1",
		"www.example.com 203.0.113.2")

	if err := s.own.Resource(policyResources[0]).Delete(s.Context(), "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("captures end with the last name", func() error {
		if packetSockets(t) != 0 {
			return errors.New("there is a packet socket")
		}
		return nil
	})
}

// packetSockets is how many there are in the namespace.
func packetSockets(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/net/packet")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n") - 1
}

// An API server that is away for a while costs nothing.
func TestReportIsRepeated(t *testing.T) {
	s := newScene(t, "www.example.com")
	s.stop()
	var refused atomic.Int32
	s.own.PrependReactor("patch", "resolvednames", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		if refused.Add(1) > 2 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewServiceUnavailable("it is away")
	})
	s.start()
	server := newPod(t, "dns0", 1)
	s.serve("coredns", server.addr, server.device)
	s.captures(1)
	server.do(t, func() error {
		return send(at(server.addr, 53), at(server.host, 4000), reply(t, "www.example.com", nil,
			"www.example.com A 203.0.113.1 60"))
	})
	s.awaitReport("it is back", "www.example.com 203.0.113.1")
}
