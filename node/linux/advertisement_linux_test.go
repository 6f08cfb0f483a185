package linux_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/net/ipv6"

	"github.com/weftnet/weft/cni"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/platform"
)

// advertisement is what a pod sends that would be everybody's router: of high preference, with a prefix to make
// addresses of and a more specific route (RFC 4861, 4191). The kernel adds the checksum.
func advertisement() []byte {
	message := []byte{134, 0, 0, 0, 64, 0x08, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0}
	prefix := []byte{3, 4, 64, 0xc0}
	for range 2 {
		prefix = binary.BigEndian.AppendUint32(prefix, 7200)
	}
	prefix = append(append(prefix, 0, 0, 0, 0), net.ParseIP("2001:db8:bad::")...)
	route := binary.BigEndian.AppendUint32([]byte{24, 3, 96, 0x08}, 7200)
	route = append(route, net.ParseIP("fd00:10:96::")...)
	return append(append(message, prefix...), route...)
}

// liar is the address that advertisements come from.
const liar = "fe80::66"

// advertise sends one from a device, in a network namespace or, where that is "", in the test's own.
func advertise(t *testing.T, namespace, device string) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if namespace != "" {
		home, err := netns.Get()
		if err != nil {
			t.Fatal(err)
		}
		defer home.Close()
		there, err := netns.GetFromPath(namespace)
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		if err := netns.Set(there); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := netns.Set(home); err != nil {
				panic(err) // the thread is lost to the tests
			}
		}()
	}
	iface, err := net.InterfaceByName(device)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenPacket("ip6:ipv6-icmp", liar+"%"+device)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	packets := ipv6.NewPacketConn(socket)
	to := &ipv6.ControlMessage{HopLimit: 255, IfIndex: iface.Index}
	if _, err := packets.WriteTo(advertisement(), to, &net.IPAddr{IP: net.ParseIP("ff02::1"), Zone: device}); err != nil {
		t.Fatal(err)
	}
}

// A pod says to all others that it is their router. OVN lets it through; neither pods nor the host may believe it.
func TestPodsAreNoRouters(t *testing.T) {
	linux := newLinux(t, onKernel)
	pod, other, neighbour := nodetest.Sandbox(t, "pod"), nodetest.Sandbox(t, "other"), nodetest.Sandbox(t, "neighbour")
	e := endpoint("c1", pod)
	attach(t, linux, e)
	run(t, "ip", "link", "add", "mp-test", "type", "veth", "peer", "name", "eth0", "netns", "neighbour")
	inside(t, neighbour, "ip", "link", "set", "eth0", "up")
	m := platform.Management{Device: "mp-test", MTU: 1400,
		Addresses: []netip.Prefix{netip.MustParsePrefix("fd00:10:244:1::2/64")}}
	m.MAC = contract.MAC(contract.Addrs(m.Addresses)...)
	if err := linux.EnsureManagement(m); err != nil {
		t.Fatal(err)
	}
	// This one is as the kernel makes it: it shows that what is sent would be believed.
	run(t, "ip", "link", "add", "v-other", "type", "veth", "peer", "name", "eth0", "netns", "other")
	run(t, "ip", "link", "set", "v-other", "up")
	inside(t, other, "ip", "link", "set", "eth0", "up")

	device := cni.HostInterface(e.Attachment)
	run(t, "ip", "addr", "add", liar+"/64", "dev", device, "nodad")
	run(t, "ip", "addr", "add", liar+"/64", "dev", "v-other", "nodad")
	inside(t, neighbour, "ip", "addr", "add", liar+"/64", "dev", "eth0", "nodad")
	all := func(device string) string {
		return fmt.Sprintf("ip -o -6 addr show dev %[1]s; ip -6 route show dev %[1]s", device)
	}
	states := map[string]func() string{
		"the pod":  func() string { return inside(t, pod, "sh", "-c", all("eth0")) },
		"the host": func() string { return run(t, "sh", "-c", all(m.Device)) },
		"other":    func() string { return inside(t, other, "sh", "-c", all("eth0")) },
	}
	// until a device's own address is no more tentative it may hear nothing
	nodetest.Eventually(t, 20*time.Second, func() error {
		for where, state := range states {
			if now := state(); !strings.Contains(now, "inet6 fe80::") || strings.Contains(now, "tentative") {
				return fmt.Errorf("%s is not ready:\n%s", where, now)
			}
		}
		return nil
	})
	nodetest.Eventually(t, 20*time.Second, func() error {
		advertise(t, "", device)
		advertise(t, neighbour, "eth0")
		advertise(t, "", "v-other")
		if state := states["other"](); !strings.Contains(state, "via "+liar) || !strings.Contains(state, "2001:db8:bad:") {
			return fmt.Errorf("a device of the kernel's defaults does not believe it:\n%s", state)
		}
		return nil
	})
	for _, where := range []string{"the pod", "the host"} {
		if state := states[where](); strings.Contains(state, "via "+liar) || strings.Contains(state, "2001:db8:bad:") {
			t.Errorf("%s believes it:\n%s", where, state)
		}
	}
}
