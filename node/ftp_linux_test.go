package node

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/hyperv"
)

// An FTP server listens on 21, by whichever port a Service serves it.
const ftpService, ftpService6, otherService = "10.96.0.21", "fd00:10:96::21", "10.96.0.22"

// What a driver's helpers would read never gets to them, by policies, Services, the gateway, and in fragments: it goes
// nowhere. All else passes, and FTP between the host and outside. With conntrack-ftp it does get there. Where the
// driver has no such helpers it passes.
func TestFTPNeverReachesTheDriver(t *testing.T) {
	t.Run("kept from it", func(t *testing.T) {
		f := newFTPCluster(t, false)
		f.sendAll()
		f.othersPass()
		if helped := f.helped(); len(helped) > 0 {
			t.Errorf("packets have reached %v", helped)
		}
		f.g.visits("", outsideHost, 21, gatewayHost)
		f.g.visits(f.g.outside, gatewayHost6, 21, outsideHost6)
		for _, to := range f.servers() {
			if conn, err := open(f.client.sandbox, to.Addr(), to.Port()); err == nil {
				conn.Close()
				t.Errorf("%v answers", to)
			}
		}
		if helped := f.helped(); len(helped) > 0 {
			t.Errorf("packets have reached %v", helped)
		}
		f.guarded()
		f.g.stop()
	})
	t.Run("conntrack-ftp", func(t *testing.T) {
		f := newFTPCluster(t, true)
		f.sendAll()
		f.othersPass()
		if helped, want := f.helped(), []string{"helper ftp", "helper tftp"}; !slices.Equal(helped, want) {
			t.Errorf("packets have reached %v", helped)
		}
		sound := hyperv.KnownFaults()
		delete(sound, hyperv.FTPHelper)
		f.extension.SetFaults(sound)
		for _, to := range f.servers() {
			f.g.answers(f.client.sandbox, to.Addr(), to.Port())
		}
		f.g.stop()
	})
}

// ftpCluster has a server of FTP and a client in pods with policies, and Services of the server.
type ftpCluster struct {
	t              *testing.T
	g              *gatewayCluster
	extension      *hyperv.Extension
	server, client *pod
}

func newFTPCluster(t *testing.T, passes bool) *ftpCluster {
	t.Helper()
	extension := newExtension(t, hyperv.KnownFaults())
	g := newGatewayClusterOver(t, extension)
	g.config.ConntrackFTP = passes
	g.hostedWithLookups()
	g.echo("", 21)
	g.echo("", 22)
	g.echo(g.outside, 80)
	g.echo(g.outside, 21)
	g.nodePort()
	g.decide()
	g.startAgent()
	g.awaitReady()
	g.withoutZeroSNAT()
	var facts contract.NodeFacts
	g.eventually(func() (err error) { facts, err = g.facts(); return err })
	f := &ftpCluster{t, g, extension, g.newPod("server", 3), g.newPod("client", 4)}
	for _, p := range []*pod{f.server, f.client} {
		g.allocate(p)
		g.mustAdd(p)
		g.shell("nsenter --net=" + p.sandbox + " ethtool -K eth0 tx off")
		g.echo(p.sandbox, 80)
		g.echo(p.sandbox, 21)
	}
	g.gateway(facts, f.server)
	ports := []string{contract.PodPort(f.server.Namespace, f.server.Name), contract.PodPort(f.client.Namespace,
		f.client.Name)}
	at := func(addr netip.Addr, port uint16) string { return netip.AddrPortFrom(addr, port).String() }
	g.ovn.NB("pg-add", "guarded", ports[0], ports[1],
		"--", "--type=port-group", "acl-add", "guarded", "from-lport", "1000", "inport == @guarded && ip", "allow-related",
		"--", "--type=port-group", "acl-add", "guarded", "to-lport", "1000", "outport == @guarded && ip", "allow-related",
		"--", "lb-add", "ftp", ftpService+":2121", at(f.server.address, 21),
		"--", "lb-add", "ftp", "["+ftpService6+"]:2121", at(f.server.address6, 21),
		"--", "lb-add", "ftp", ftpService+":21", at(f.server.address, 21),
		"--", "lb-add", "ftp", otherService+":80", at(f.server.address, 80),
		"--", "lb-add", "tftp", ftpService+":6969", at(f.server.address, 69), "udp",
		"--", "lb-add", "tftp", ftpService+":6970", at(f.server.address, 70), "udp",
		"--", "lb-add", "ftp", at(gatewayHost, 30021), at(f.server.address, 21),
		"--", "ls-lb-add", testNode, "ftp", "--", "ls-lb-add", testNode, "tftp", "--", "lr-lb-add", "gw-"+testNode, "ftp")
	f.othersPass()
	return f
}

// servers are the ways to the server of FTP.
func (f *ftpCluster) servers() []netip.AddrPort {
	return []netip.AddrPort{
		netip.AddrPortFrom(f.server.address, 21), netip.AddrPortFrom(f.server.address6, 21),
		netip.MustParseAddrPort(ftpService + ":2121"), netip.MustParseAddrPort("[" + ftpService6 + "]:2121"),
		netip.MustParseAddrPort(ftpService + ":21"), netip.AddrPortFrom(outsideHost, 21),
	}
}

// othersPass: each of these is behind what was sent before on the same ways.
func (f *ftpCluster) othersPass() {
	f.t.Helper()
	f.g.visits(f.client.sandbox, f.server.address, 80, f.client.address)
	f.g.visits(f.server.sandbox, f.client.address6, 80, f.server.address6)
	f.g.visits(f.client.sandbox, netip.MustParseAddr(otherService), 80, f.client.address)
	f.g.visits(f.client.sandbox, outsideHost, 80, gatewayHost)
	f.g.visits(f.client.sandbox, gatewayHost, 22, contract.HostClients[0])
	f.g.visits(f.g.outside, gatewayHost, 30080, netip.MustParseAddr("100.64.0.2"))
	f.g.visits(f.g.outside, gatewayHost6, 22, outsideHost6)
	f.g.visits("", f.client.address, 80, contract.ManagementAddress(testSubnet))
	// In fragments. Those of an answer are not to be longer than a pod may get them.
	f.g.shell(f.g.there("ip route replace 172.31.0.0/24 dev eth0 mtu lock 1400"))
	for _, to := range []netip.Addr{f.server.address, f.server.address6, outsideHost} {
		f.g.eventually(func() error {
			command := []string{"--net=" + f.client.sandbox, "ping", "-n", "-c1", "-W1", "-s4000", to.String()}
			output, err := exec.CommandContext(f.t.Context(), "nsenter", command...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			return nil
		})
	}
}

// sendAll sends what the helpers would read, from everywhere and to everything.
func (f *ftpCluster) sendAll() {
	f.t.Helper()
	const eprt, port = "EPRT |1|10.244.1.4", "PORT 10,244,1,4,0,22\r\n"
	long := eprt + strings.Repeat("x", 4000)
	client, client6 := netip.AddrPortFrom(f.client.address, 4000), netip.AddrPortFrom(f.client.address6, 4000)
	for _, to := range f.servers() {
		from := client
		if to.Addr().Is6() {
			from = client6
		}
		for _, text := range []string{eprt, port, long} {
			f.segment(f.client.sandbox, from, to, text)
		}
		f.datagram(f.client.sandbox, from, netip.AddrPortFrom(to.Addr(), 69), long)
		// The driver would take what comes back by the other protocol for an answer, and give it the port.
		f.datagram(f.client.sandbox, netip.AddrPortFrom(from.Addr(), 21), netip.AddrPortFrom(to.Addr(), 80), long)
		f.segment(f.client.sandbox, netip.AddrPortFrom(from.Addr(), 69), netip.AddrPortFrom(to.Addr(), 80), eprt)
	}
	for _, s := range []struct {
		ns       string
		from, to netip.AddrPort
	}{
		{f.client.sandbox, netip.AddrPortFrom(f.client.address, 21), netip.AddrPortFrom(f.server.address, 80)},
		{f.client.sandbox, netip.AddrPortFrom(f.client.address, 21), netip.MustParseAddrPort(otherService + ":80")},
		{f.client.sandbox, client, netip.AddrPortFrom(gatewayHost, 21)},
		{f.g.outside, netip.AddrPortFrom(outsideHost, 4000), netip.AddrPortFrom(gatewayHost, 30021)},
		{f.g.outside, netip.AddrPortFrom(outsideHost, 21), netip.AddrPortFrom(gatewayHost, 30080)},
		{f.g.outside, netip.AddrPortFrom(outsideHost, 21), netip.AddrPortFrom(gatewayHost, 40021)},
	} {
		for _, text := range []string{port, long} {
			f.segment(s.ns, s.from, s.to, text)
		}
	}
	f.datagram(f.client.sandbox, client, netip.MustParseAddrPort(ftpService+":6969"), "x")
	f.datagram(f.client.sandbox, netip.AddrPortFrom(f.client.address, 69), netip.AddrPortFrom(f.server.address, 53), "x")
	f.datagram(f.g.outside, netip.AddrPortFrom(outsideHost, 4000), netip.AddrPortFrom(gatewayHost, 69), long)
}

// segment sends one in the midst of a connection that there is not, in fragments where it is too long. The driver takes
// it for a connection's first packet.
func (f *ftpCluster) segment(ns string, from, to netip.AddrPort, text string) {
	f.t.Helper()
	const psh, ack = 0x08, 0x10
	s := binary.BigEndian.AppendUint16(nil, from.Port())
	s = binary.BigEndian.AppendUint16(s, to.Port())
	s = append(s, 0, 0, 0, 1, 0, 0, 0, 1, 5<<4, psh|ack, 0xff, 0xff, 0, 0, 0, 0)
	f.raw(ns, unix.IPPROTO_TCP, 16, from.Addr(), to.Addr(), append(s, text...))
}

func (f *ftpCluster) datagram(ns string, from, to netip.AddrPort, text string) {
	f.t.Helper()
	d := binary.BigEndian.AppendUint16(nil, from.Port())
	d = binary.BigEndian.AppendUint16(d, to.Port())
	d = binary.BigEndian.AppendUint16(d, uint16(8+len(text)))
	f.raw(ns, unix.IPPROTO_UDP, 6, from.Addr(), to.Addr(), append(append(d, 0, 0), text...))
}

// raw sends what an IP packet carries, with its checksum.
func (f *ftpCluster) raw(ns string, protocol, checksum int, from, to netip.Addr, payload []byte) {
	f.t.Helper()
	sum := uint32(protocol + len(payload))
	for _, part := range [][]byte{from.AsSlice(), to.AsSlice(), payload} {
		for i, octet := range part {
			sum += uint32(octet) << (8 * (1 - i%2))
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(payload[checksum:], ^uint16(sum))
	network := "ip4:"
	if to.Is6() {
		network = "ip6:"
	}
	conn, err := inside(ns, func() (net.Conn, error) {
		return net.Dial(network+fmt.Sprint(protocol), to.String())
	})
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	if to.Is4() {
		f.mayBeFragmented(conn)
	}
	if _, err := conn.Write(payload); err != nil {
		f.t.Fatalf("%v to %v: %v", from, to, err)
	}
}

func (f *ftpCluster) mayBeFragmented(conn net.Conn) {
	f.t.Helper()
	socket, err := conn.(*net.IPConn).SyscallConn()
	if err != nil {
		f.t.Fatal(err)
	}
	var failed error
	if err := socket.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	}); err != nil || failed != nil {
		f.t.Fatal(err, failed)
	}
}

// helped are the helpers that packets have reached.
func (f *ftpCluster) helped() []string {
	names := slices.Sorted(maps.Keys(f.extension.Executed()))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "helper ") })
}

// guarded: the flows that keep packets from the helpers have dropped some, at once and behind a lookup.
func (f *ftpCluster) guarded() {
	f.t.Helper()
	bridge := "unix:" + filepath.Join(filepath.Dir(strings.TrimPrefix(f.g.ovn.OVSDatabase(), "unix:")), "br-int.mgmt")
	f.g.eventually(func() error {
		flows, first, later := 0, false, false
		for line := range strings.Lines(f.g.ovn.Run("ovs-ofctl", "-OOpenFlow15", "dump-flows", bridge)) {
			if !strings.Contains(line, "priority=65535") || !strings.Contains(line, "actions=drop") {
				continue
			}
			if !strings.Contains(line, "=21 ") && !strings.Contains(line, "=69 ") && !strings.Contains(line, "_frag=") {
				continue
			}
			flows++
			if !strings.Contains(line, "n_packets=0,") {
				at0 := strings.Contains(line, "table=0,")
				first, later = first || at0, later || !at0
			}
		}
		if !first || !later {
			return fmt.Errorf("of %d flows none has dropped at once (%t), or behind a lookup (%t)", flows, first, later)
		}
		f.t.Logf("%d flows keep packets from the driver's helpers on br-int", flows)
		return nil
	})
}
