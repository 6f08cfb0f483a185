//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftnet/weft/test/companion"
	weftlab "github.com/weftnet/weft/test/lab"
)

// outsideURLs ask the host outside, over TCP and UDP, at an address of its own or at another that it has.
func outsideURLs(addr netip.Addr, word string) []string {
	return []string{httpURL(addr, weftlab.OutsideHTTPPort, word), udpURL(addr, weftlab.OutsideUDPPort, word)}
}

// outsideAddresses are those of the host outside, IPv4 first.
func outsideAddresses(t testing.TB) []netip.Addr {
	t.Helper()
	return []netip.Addr{
		outsideAddress(t, outsideHost, netip.IPv4Unspecified()),
		outsideAddress(t, outsideHost, netip.IPv6Unspecified()),
	}
}

// leavesAs is nil when the host outside sees these addresses, IPv4 first, as the source of what comes from
// a place.
func leavesAs(t testing.TB, from place, sources []netip.Addr) error {
	t.Helper()
	for i, addr := range outsideAddresses(t) {
		if err := from.ask(append([]string{"-timeout", "2s"}, outsideURLs(addr, "clientip")...)...).sees(
			sources[i]); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	return nil
}

// TestPodsLeaveWithTheirNodesAddress over TCP, UDP and ICMP, and so does the host.
func TestPodsLeaveWithTheirNodesAddress(t *testing.T) {
	t.Parallel()
	for _, node := range nodes {
		own := nodeAddresses(t, node)
		for _, from := range []place{inWeb(t, node), host(node)} {
			eventually(t, inForce, from.String()+" leaves", func() error { return leavesAs(t, from, own) })
			for _, addr := range outsideAddresses(t) {
				if out, err := from.try("ping", "-c", "2", "-W", "3", addr.String()); err != nil {
					t.Errorf("%s: %s %v", from, out, err)
				}
			}
		}
	}
}

// TestHostAndPodUseTheSamePort: a connection of the host's and one of a pod's differ by nothing but the
// address that the pod's is about to get.
func TestHostAndPodUseTheSamePort(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"l1", "w1"} {
		for i, addr := range outsideAddresses(t) {
			// none that others get, and another one for each: who has ended a connection cannot have its port again at once
			port := fmt.Sprint(":", 20077+i)
			tcp, udp := outsideURLs(addr, "clientip")[0], outsideURLs(addr, "clientip")[1]
			pod := inWeb(t, node).keepAsking(t, "-every", "50ms", "-from", port, udp)
			hosts := host(node).ask("-n", "20", "-every", "50ms", "-from", port, udp)
			pods := heard{replies: companion.Stop[reply](t, pod)}
			for who, h := range map[string]heard{"host": hosts, "pod": pods} {
				if _, err := h.loyal(); err != nil {
					t.Errorf("%s on %s: %v", who, node, err)
				}
			}
			if fmt.Sprint(hosts.answers()) == fmt.Sprint(pods.answers()) {
				t.Errorf("%s: the server cannot tell the host from the pod: both are %v", node, hosts.answers())
			}
			for _, from := range []place{inWeb(t, node), host(node)} {
				if err := from.ask("-from", port, tcp).failed(); err != nil {
					t.Errorf("%s: %v", from, err)
				}
			}
		}
	}
}

// TestPodsLearnOfNarrowPaths: the central's way to an address has a smaller MTU than the pods', and it says
// so to the node's address, where nobody but the pod can make use of it. Windows' driver keeps it from pods there.
func TestPodsLearnOfNarrowPaths(t *testing.T) {
	t.Parallel()
	long(t)
	far := parseAddrs("198.51.100.65", "2001:db8:51:2::1")
	own(t, outsideHost, far...)
	for i, addr := range far {
		central.must(t, "ip", "route", "replace", addr.String(), "via", outsideAddresses(t)[i].String(), "mtu", "1300")
		t.Cleanup(func() { central.must(t, "ip", "route", "del", addr.String()) })
		for _, node := range nodes {
			if isWindows(node) && emulated() {
				continue
			}
			// Each request is many segments that fill the pod's MTU.
			h := inWeb(t, node).ask("-timeout", "5s", "-n", "2", "-pad", "20000", httpURL(addr, weftlab.OutsideHTTPPort,
				"echo?msg="))
			if err := h.are("20000 bytes"); err != nil {
				t.Errorf("%s: %v", node, err)
			}
		}
	}
}

// TestOutsideLearnsOfThePodsMTU: a datagram that fills the outside network does not fit the tunnel to the
// endpoint's node. Linux gateways say so; the host then sends it in fragments, which pass, as does what fits.
func TestOutsideLearnsOfThePodsMTU(t *testing.T) {
	t.Parallel()
	const mtu, udpHeader, word = uplinkMTU - 58, 8, len("echo ")
	cluster.Apply(t, service("wide", "type: NodePort")+slicesOf(t, "wide", "l2"))
	port := nodePorts(t, "wide")["udp"]
	for i, addr := range nodeAddresses(t, "l1") {
		echo := func(bytes int) heard {
			return outsideHost.ask("-timeout", "3s", "-pad", fmt.Sprint(bytes-word), udpURL(addr, port, "echo%20"))
		}
		fits := mtu - udpHeader - []int{20, 40}[i]
		eventually(t, inForce, "it is served", func() error {
			return outsideHost.ask(udpURL(addr, port, "hostname")).failed()
		})
		if err := echo(fits + 40).are(fmt.Sprintf("%d bytes", fits+40-word)); err != nil {
			t.Error(err)
		}
		if out := outsideHost.must(t, "ip", "route", "get", addr.String()); !strings.Contains(out, fmt.Sprint(" mtu ", mtu)) {
			t.Errorf("the host outside does not know of the MTU: %s", out)
		}
		if err := echo(fits).are(fmt.Sprintf("%d bytes", fits-word)); err != nil {
			t.Error(err)
		}
	}
}
