package hostservice

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/hostservice/hosttest"
)

// nodePorts stands for OVN: whoever asks a HostVIP is told at which address and by whom.
func nodePorts(t testing.TB, port uint16) {
	t.Helper()
	for i, vip := range contract.HostVIPs {
		hosttest.Address(t, netip.PrefixFrom(vip, vip.BitLen()).String())
		at := netip.AddrPortFrom(vip, port).String()
		listener, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, []string{"4", "6"}[i])
				conn.Close()
			}
		}()
		packets, err := net.ListenPacket("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { packets.Close() })
		go func() {
			buffer := make([]byte, 100)
			for {
				_, from, err := packets.ReadFrom(buffer)
				if err != nil {
					return
				}
				_, _ = packets.WriteTo([]byte([]string{"4", "6"}[i]), from)
			}
		}()
	}
}

// said is the first byte that a server says.
func said(protocol string, at netip.AddrPort) string { return saidTo(netip.Addr{}, protocol, at) }

// saidTo is what it says to a client's address; the zero one is any of the host's.
func saidTo(client netip.Addr, protocol string, at netip.AddrPort) string {
	dialer := net.Dialer{Timeout: time.Second}
	switch from := netip.AddrPortFrom(client, 0); {
	case !client.IsValid():
	case protocol == udp:
		dialer.LocalAddr = net.UDPAddrFromAddrPort(from)
	default:
		dialer.LocalAddr = net.TCPAddrFromAddrPort(from)
	}
	conn, err := dialer.Dial(protocol, at.String())
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if protocol == udp {
		if _, err := conn.Write([]byte("?")); err != nil {
			return err.Error()
		}
	}
	buffer := make([]byte, 1)
	if _, err := io.ReadFull(conn, buffer); err != nil {
		return err.Error()
	}
	return string(buffer)
}

const testPort = 30080

func everyFamily(families ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIPs: families, Ports: []corev1.ServicePort{
			{Name: "web", Port: 80, NodePort: testPort}, {Name: "dns", Port: 53, NodePort: testPort,
				Protocol: corev1.ProtocolUDP},
		}},
	}
}

// A host reaches a NodePort at each of its addresses, by each family that the Service has.
func TestNodePortsOfTheHostItself(t *testing.T) {
	nodePorts(t, testPort)
	hosttest.Address(t, "172.31.0.1/32")
	takeSecond := hosttest.Address(t, "172.29.0.1/32")
	hosttest.Address(t, "2001:db8::1/128")
	host := dual()
	host.Addresses = addrs("172.29.0.1", "172.31.0.1", "2001:db8::1")
	w := watch(t, host)
	w.apply(everyFamily("10.96.0.20", "fd96::20"))
	all := addrs("127.0.0.1", "172.29.0.1", "172.31.0.1", "::1", "2001:db8::1")
	answers := func(at ...netip.Addr) func() bool {
		return func() bool {
			return !slices.ContainsFunc(all, func(addr netip.Addr) bool {
				want := slices.Contains(at, addr)
				family := "6"
				if addr.Is4() {
					family = "4"
				}
				return slices.ContainsFunc([]string{tcp, udp}, func(protocol string) bool {
					return (said(protocol, netip.AddrPortFrom(addr, testPort)) == family) != want
				})
			})
		}
	}
	hosttest.Eventually(t, "every address answers", answers(all...))
	w.apply(everyFamily("10.96.0.20"))
	hosttest.Eventually(t, "no IPv6 for a Service without", answers(all[:3]...))
	takeSecond()
	host.Addresses = addrs("172.31.0.1", "2001:db8::1")
	w.SetHost(host)
	hosttest.Eventually(t, "an address that is gone", answers(all[0], all[2]))
	w.apply(everyFamily("10.96.0.20", "fd96::20"))
	hosttest.Eventually(t, "both families again", answers(all[0], all[2], all[3], all[4]))
	if list := w.events.all(); len(list) > 0 {
		t.Errorf("events %q", list)
	}
}

// An address that the host does not have yet is no problem of the Service's.
func TestAnAddressMayComeLate(t *testing.T) {
	nodePorts(t, testPort)
	host := dual()
	host.Addresses = addrs("172.31.0.77")
	w := watch(t, host)
	w.apply(everyFamily("10.96.0.20"))
	at := netip.AddrPortFrom(host.Addresses[0], testPort)
	hosttest.Eventually(t, "the loopback answers", func() bool {
		return said(tcp, netip.AddrPortFrom(hosttest.Loopback, testPort)) == "4"
	})
	if got := said(tcp, at); got == "4" {
		t.Fatal("an address that is not there answers")
	}
	hosttest.Address(t, "172.31.0.77/32")
	w.enqueue()
	hosttest.Eventually(t, "the address answers", func() bool { return said(tcp, at) == "4" })
	if list := w.events.all(); len(list) > 0 {
		t.Errorf("events %q", list)
	}
}

// One program on a wildcard is in the way of all addresses, and one Event.
func TestOneEventForAllAddresses(t *testing.T) {
	nodePorts(t, testPort)
	hosttest.Address(t, "172.31.0.1/32")
	other, err := net.Listen("tcp", "172.31.0.1:"+fmt.Sprint(testPort))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	lo, err := net.Listen("tcp", "127.0.0.1:"+fmt.Sprint(testPort))
	if err != nil {
		t.Fatal(err)
	}
	defer lo.Close()
	host := dual()
	host.Addresses = addrs("172.31.0.1")
	w := watch(t, host)
	w.apply(everyFamily("10.96.0.20", "fd96::20"))
	hosttest.Eventually(t, "the rest answers", func() bool {
		return said(tcp, netip.AddrPortFrom(netip.IPv6Loopback(), testPort)) == "6" &&
			said(udp, netip.AddrPortFrom(hosttest.Loopback, testPort)) == "4"
	})
	hosttest.Eventually(t, "one Event", func() bool { return len(w.events.all()) == 1 })
	if event := w.events.all()[0]; !strings.Contains(event, "spec.ports[port=80].nodePort") || !strings.Contains(event,
		"[127.0.0.1 172.31.0.1]") || !strings.Contains(event, "clients that OVN serves and other ports are not concerned") {
		t.Errorf("event %q", event)
	}
}
