package node

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/hyperv"
)

// mostPlaces is how many places of the driver's table a connection of a pod's takes at most, over all zones.
const mostPlaces = 4

// A pod at the bound that the controller has written to its port begins no connection more, and hinders nobody: its
// own connections go on, and other pods and the host begin new ones. The bound is in force for a pod that an
// ovn-controller finds when it starts, too.
func TestAPodAtItsBound(t *testing.T) {
	const bound = 20
	extension := newExtension(t, hyperv.KnownFaults())
	g := newGatewayClusterOver(t, extension)
	g.hostedWithLookups()
	g.echo("", 22)
	g.echo(g.outside, 80)
	g.nodePort()
	g.decide()
	g.startAgent()
	g.awaitReady()
	g.withoutZeroSNAT()
	var facts contract.NodeFacts
	g.eventually(func() (err error) { facts, err = g.facts(); return err })
	greedy, other := g.newPod("greedy", 3), g.newPod("other", 4)
	limit := func(p *pod) {
		g.allocate(p)
		g.ovn.NB("set", "logical_switch_port", contract.PodPort(p.Namespace, p.Name),
			fmt.Sprintf("options:ct-zone-limit=%d", bound))
	}
	g.ovn.NB("lb-add", "web", "10.96.0.10:80", netip.AddrPortFrom(other.address, 80).String(),
		"--", "ls-lb-add", testNode, "web")
	limit(greedy)
	g.mustAdd(greedy)
	g.ovn.Kill(nodetest.OVNController)
	limit(other)
	added := make(chan error, 1)
	go func() { _, err := g.add(other); added <- err }()
	g.ovn.VS("wait-until", "interface", other.device(), "ofport>0")
	g.ovn.Start(nodetest.OVNController)
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	for _, p := range []*pod{greedy, other} {
		g.shell("nsenter --net=" + p.sandbox + " ethtool -K eth0 tx off")
		g.echo(p.sandbox, 80)
	}
	g.gateway(facts, other)
	for _, p := range []*pod{greedy, other} {
		g.hasZone(contract.PodPort(p.Namespace, p.Name), fmt.Sprintf("limit=%d,", bound))
	}
	g.hasZone(contract.ManagementPort(testNode), "limit=2097152,")

	var kept net.Conn
	g.eventually(func() (err error) { kept, err = open(greedy.sandbox, outsideHost, 80); return err })
	defer kept.Close()
	for name, to := range map[string]netip.AddrPort{
		"outside": netip.AddrPortFrom(outsideHost, 80), "a pod": netip.AddrPortFrom(other.address, 80),
		"a pod by a ClusterIP": netip.MustParseAddrPort("10.96.0.10:80"),
		"a pod by a NodePort":  netip.AddrPortFrom(gatewayHost, 30080), "the host": netip.AddrPortFrom(gatewayHost, 22),
	} {
		var places int
		g.eventually(func() error { // one that has no answer has places, too
			before := extension.Status().Connections
			conn, err := open(greedy.sandbox, to.Addr(), to.Port())
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = ask(conn, 2*time.Second)
			places = extension.Status().Connections - before
			return err
		})
		t.Logf("a connection to %s has %d places of the driver's table", name, places)
		if places < 2 || places > mostPlaces {
			t.Errorf("a connection to %s has %d places of the driver's table", name, places)
		}
	}
	before := extension.Status().Connections
	for range 3 * bound {
		g.datagram(greedy.sandbox, netip.AddrPortFrom(outsideHost, 9))
	}
	g.hasZone(contract.PodPort(greedy.Namespace, greedy.Name), fmt.Sprintf("count=%d", bound))
	if taken := extension.Status().Connections - before; taken > bound*mostPlaces {
		t.Errorf("the pod has taken %d places more, with a bound of %d", taken, bound)
	}
	if conn, err := open(greedy.sandbox, outsideHost, 80); err == nil {
		conn.Close()
		t.Error("a pod at its bound begins another connection")
	}
	if seen, err := ask(kept, 2*time.Second); err != nil || seen != gatewayHost.String() {
		t.Errorf("its connection ends: %q, %v", seen, err)
	}
	g.visits(other.sandbox, outsideHost, 80, gatewayHost)
	g.visits("", other.address, 80, contract.ManagementAddress(testSubnet))
	g.stop()
}

// hasZone waits until the datapath says that of the zone of a logical port.
func (g *gatewayCluster) hasZone(port, want string) {
	g.tb.Helper()
	g.eventually(func() error {
		zone := strings.Trim(g.ovn.VS("--if-exists", "get", "bridge", nodeconfig.IntegrationBridge, "external_ids:ct-zone-"+
			port), `"`)
		if zone == "" {
			return fmt.Errorf("%s has no zone", port)
		}
		got := g.ovn.Run("ovs-appctl", "--target="+g.ovn.Control(nodetest.Vswitchd), "dpctl/ct-get-limits", "zone="+zone)
		if !strings.Contains(got, want) {
			return fmt.Errorf("the zone of %s has %s, not %s", port, got, want)
		}
		return nil
	})
}

// datagram sends one from a port of its own.
func (g *gatewayCluster) datagram(ns string, to netip.AddrPort) {
	g.tb.Helper()
	conn, err := inside(ns, func() (net.Conn, error) { return net.Dial("udp", to.String()) })
	if err != nil {
		g.tb.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil {
		g.tb.Fatal(err)
	}
}
