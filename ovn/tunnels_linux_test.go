package ovn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
)

// The tunnels' port, and one beside it that packets go to by the same ways.
const (
	tunnelPort = contract.TunnelPort
	besidePort = contract.TunnelPort + 1
)

// ears are sockets of namespaces at both ports, and what they have heard.
type ears struct {
	mu    sync.Mutex
	heard map[uint16]map[string]netip.Addr // by port: whose datagrams
}

// listen hears what comes to a namespace.
func (d *datapath) listen(e *ears, namespace string) {
	d.t.Helper()
	for _, port := range []uint16{tunnelPort, besidePort} {
		var socket net.PacketConn
		var err error
		d.within(namespace, func() { socket, err = net.ListenPacket("udp", fmt.Sprint(":", port)) })
		if err != nil {
			d.t.Fatal(err)
		}
		d.t.Cleanup(func() { socket.Close() })
		go func() {
			buffer := make([]byte, 65536)
			for {
				n, from, err := socket.ReadFrom(buffer)
				if err != nil {
					return
				}
				name, _, _ := strings.Cut(string(buffer[:n]), "\n")
				e.mu.Lock()
				e.heard[port][name] = from.(*net.UDPAddr).AddrPort().Addr().Unmap()
				e.mu.Unlock()
			}
		}()
	}
}

// has says whose datagram of a name came, the zero address if none did.
func (e *ears) has(port uint16, name string) netip.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[port][name]
}

// tell sends a datagram with a name, of some length.
func (d *datapath) tell(namespace string, to netip.AddrPort, name string, length int) error {
	var err error
	d.within(namespace, func() {
		var conn net.Conn
		if conn, err = net.Dial("udp", to.String()); err != nil {
			return
		}
		defer conn.Close()
		text := name + "\n"
		_, err = conn.Write([]byte(text + strings.Repeat("x", max(0, length-len(text)))))
	})
	return err
}

// errand is a way by which datagrams might come to a host: to leads to its tunnels, beside to the port beside.
type errand struct {
	name, from string
	to, beside netip.AddrPort
}

// lengths are that of a datagram in one packet, and that of one in fragments.
var lengths = []int{0, 4000}

// strayed are the errands by which tunnels were reached: by a datagram, or by one in fragments. The userspace
// datapath hides the ports of these from all flows, so that they pass; but with no address that tunnels believe: where
// it would be a host's own, the external bridge drops them (TestNothingReachesTunnels in extbridge).
func (d *datapath) strayed(e *ears, errands []errand) (found []string) {
	d.t.Helper()
	for _, one := range errands {
		d.passes(e, one, "before") // neighbours are found
		for _, length := range lengths {
			if err := d.tell(one.from, one.to, fmt.Sprint(one.name, " ", length), length); err != nil && !unheard(err) {
				d.t.Fatalf("%s: %v", one.name, err)
			}
		}
		d.passes(e, one, "after")
	}
	for _, one := range errands {
		for _, length := range lengths {
			name := fmt.Sprint(one.name, " ", length)
			if from := e.has(tunnelPort, name); from.IsValid() &&
				(length == 0 || slices.Contains(d.c.nodes.At("n1").Facts.Addresses, from)) {
				found = append(found, name)
			}
		}
	}
	return found
}

// passes waits until a datagram has come to the port beside.
func (d *datapath) passes(e *ears, one errand, when string) {
	d.t.Helper()
	name := one.name + " " + when
	nodetest.Eventually(d.t, 10*time.Second, func() error {
		if err := d.tell(one.from, one.beside, name, 0); err != nil && !unheard(err) {
			return err
		}
		if !e.has(besidePort, name).IsValid() {
			return fmt.Errorf("%s: nothing comes to the port beside the tunnels', either", name)
		}
		return nil
	})
}

// unheard is what a socket hears of a datagram that it sent before.
func unheard(err error) bool { return strings.Contains(err.Error(), "refused") }

// straight are errands to a host itself.
func straight(name, from string, to ...string) (list []errand) {
	for _, text := range to {
		addr := netip.MustParseAddr(text)
		list = append(list, errand{fmt.Sprintf("%s to %s", name, addr), from, netip.AddrPortFrom(addr, tunnelPort),
			netip.AddrPortFrom(addr, besidePort)})
	}
	return list
}

// balanced are errands to a load balancer's address, which is not weft's own: what leads to hosts' tunnels are
// no rows of weft's, so that it has to hold for whatever rows there are. Its ports 7001 and 7002 lead to a host's two.
func (d *datapath) balanced(name, from string, to map[string]string, rows ...string) (list []errand) {
	d.t.Helper()
	for vip, host := range to {
		at, behind := netip.MustParseAddr(vip), netip.MustParseAddr(host)
		balancer := fmt.Sprintf("by-hand-%s-%s", strings.ReplaceAll(name, " ", "-"), vip)
		d.ovn.NB("lb-add", balancer, netip.AddrPortFrom(at, 7001).String(), netip.AddrPortFrom(behind, tunnelPort).String(),
			"udp")
		d.ovn.NB("lb-add", balancer, netip.AddrPortFrom(at, 7002).String(), netip.AddrPortFrom(behind, besidePort).String(),
			"udp")
		for _, row := range rows {
			kind, on, _ := strings.Cut(row, " ")
			d.ovn.NB(kind+"-lb-add", on, balancer)
		}
		list = append(list, errand{fmt.Sprintf("%s by %s to %s", name, vip, host), from, netip.AddrPortFrom(at, 7001),
			netip.AddrPortFrom(at, 7002)})
	}
	return list
}

// TestNothingReachesTunnels: whatever pods, hosts and clients outside send, by themselves or by a load balancer,
// comes to no host's tunnels; by each kind of gateway. All comes to the port beside.
func TestNothingReachesTunnels(t *testing.T) {
	const (
		other, other6 = "203.0.113.253", "2001:db8::fffe" // another node's, outside
		vip, vip6     = "10.96.0.66", "fd00:10:96::66"
		external      = "198.51.100.66"
	)
	for _, kind := range []struct {
		name string
		edit func(*contract.NodeFacts)
		// lead has the pods leave by a router of this kind, and says its address on the join switch.
		lead func(d *datapath)
	}{
		{"own address", func(f *contract.NodeFacts) {}, nil},
		{"routed", func(f *contract.NodeFacts) { f.Gateway.Routed = true }, nil},
		{"the host's address", func(f *contract.NodeFacts) {
			f.Gateway.HostAddresses = true
			f.Addresses = contract.Addrs(f.Gateway.Addresses)
		}, nil},
		{"shared", func(f *contract.NodeFacts) {}, func(d *datapath) {
			for i, word := range []string{"ip4", "ip6"} {
				hop := d.c.settings.JoinAddresses(d.c.settings.SharedNumber())[i].Addr().String()
				d.ovn.NB("lr-policy-add", "cluster", "500", fmt.Sprintf("%[1]s.src == %[2]v && %[1]s.dst != %[2]v", word,
					d.c.settings.Pods[i]), "reroute", hop)
			}
		}},
		{"EgressIP", func(f *contract.NodeFacts) {}, func(d *datapath) {
			d.do(d.egressIP("all", "team=a", "203.0.113.20", "2001:db8::20"))
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			d := newDatapath(t, ovntest.Settings(t, func(c *settings.Config) { ovntest.Dual(c); withShared(c) }))
			n1 := *d.objects[objects.Key{Kind: objects.NodeKind, Name: "n1"}].(*objects.Node)
			n1.Facts, n1.Gateway, n1.Ready = ovntest.EditFacts(1, true, kind.edit), "true", true
			n1.Labels = objects.NewLabelSet(map[string]string{"weft.net/egress": ""})
			d.do(&n1, d.namespace("default", "team=a"))
			d.pods("a", "b")
			hears := &ears{heard: map[uint16]map[string]netip.Addr{tunnelPort: {}, besidePort: {}}}
			d.host(testHost+"/32", testHost6+"/128 nodad")
			d.outside([]string{other + "/24", other6 + "/64 nodad"}, "198.51.100.0/24 via "+testGateway, "10.244.0.0/16 via "+
				testGateway, "fd00:10:244::/48 via "+testGateway6)
			for _, ns := range []string{"a", "host", "outside"} { // what fits tunnels
				if output, err := exec.Command("ip", "-n", ns, "link", "set", "eth0", "mtu", "1400").CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, output)
				}
			}
			if kind.lead != nil {
				kind.lead(d)
			}
			for _, ns := range []string{"outside", "host"} {
				d.listen(hears, ns)
			}

			errands := straight("a pod to another node", "a", other, other6)
			errands = append(errands, d.balanced("a pod by a Service", "a", map[string]string{vip: other, vip6: other6},
				"ls n1")...)
			errands = append(errands, d.balanced("its node's host by a Service", "host", map[string]string{"10.96.0.67": other,
				"fd00:10:96::67": other6}, "ls n1")...)
			errands = append(errands, d.balanced("a client by a NodePort", "outside", map[string]string{testGateway: other,
				testGateway6: other6}, "lr gw-n1")...)
			errands = append(errands, d.balanced("a client by an external address", "outside",
				map[string]string{external: other}, "lr gw-n1")...)
			own := map[string]string{"10.96.0.68": "10.244.0.2", "fd00:10:96::68": "fd00:10:244::2"} // the host among its pods
			errands = append(errands, straight("a pod to its own node", "a", "10.244.0.2", "fd00:10:244::2")...)
			errands = append(errands, d.balanced("a pod to its own node by a Service", "a", own, "ls n1")...)
			switch g := d.c.nodes.At("n1").Facts.Gateway; {
			case g.Routed: // by its management port; otherwise by its gateway, see hostToItself
				errands = append(errands, straight("a pod to its own node", "a", testHost, testHost6)...)
			case g.HostAddresses:
				d.alias()
				d.listen(hears, "alias")
				errands = append(errands, straight("a pod to its own node", "a", testGateway, testGateway6)...)
				errands = append(errands, d.balanced("a client to the node by a Service", "outside",
					map[string]string{"198.51.100.67": contract.HostAliases[0].String()}, "lr gw-n1")...)
			}
			d.ovn.NB("--timeout=100", "--wait=hv", "sync")
			d.revalidate()
			for _, name := range d.strayed(hears, errands) {
				t.Errorf("%s reaches the tunnels", name)
			}

			// Pods may have the port to themselves.
			d.listen(hears, "b")
			for i, addr := range contract.Addrs(d.c.pods.At("default/b").Addresses()) {
				name := fmt.Sprint("a pod to another ", i)
				nodetest.Eventually(t, 10*time.Second, func() error {
					if err := d.tell("a", netip.AddrPortFrom(addr, tunnelPort), name, 0); err != nil {
						return err
					}
					if !hears.has(tunnelPort, name).IsValid() {
						return errors.New("a pod does not reach another pod at the tunnels' port")
					}
					return nil
				})
			}
		})
	}
}
