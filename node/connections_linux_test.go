package node

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/ctlookup"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/test/hyperv"
)

// Bounds of the zones of a boundedNode.
const (
	podBound  = 40
	nodeBound = 100 // of each of its gateway router's
	hostBound = contract.HostShare * nodeBound
)

// mostPlaces is how many places of the driver's table a connection of a pod's takes at most, over all zones. One by
// IPv6 has two in the zone where a load balancer translates it.
const mostPlaces = 5

// ended is when the driver has forgotten what has ended: at its next look at all connections.
const ended = 3 * time.Minute

// boundedNode is a node on the emulated extension whose zones have bounds, as the controller and the agent set them.
type boundedNode struct {
	*gatewayCluster
	greedy, other *pod
	numbers       map[zone]string // those that Open vSwitch has for the zones; learnZones learns them
}

// port is the name of a pod's port, and of its zone.
func (p *pod) port() string { return contract.PodPort(p.Namespace, p.Name) }

// Of both address families, IPv4 first.
var (
	outsideHosts = [2]netip.Addr{outsideHost, outsideHost6}
	gatewayHosts = [2]netip.Addr{gatewayHost, gatewayHost6}
	clusterIPs   = [2]netip.AddrPort{
		netip.MustParseAddrPort("10.96.0.10:80"), netip.MustParseAddrPort("[fd00:10:96::10]:80")}
	// Behind them greedy is alone.
	ownClusterIPs = [2]netip.AddrPort{
		netip.MustParseAddrPort("10.96.0.11:80"), netip.MustParseAddrPort("[fd00:10:96::11]:80")}
)

// The bounds are in force for a pod that ovn-controller finds when it starts, too.
func newBoundedNode(t *testing.T) *boundedNode {
	t.Helper()
	g := newGatewayClusterOver(t, newExtension(t, hyperv.KnownFaults()))
	g.network.Connections = nodeBound
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
	b := &boundedNode{gatewayCluster: g, greedy: g.newPod("greedy", 3), other: g.newPod("other", 4)}
	bound := func(port string, most int) {
		g.ovn.NB("set", "logical_switch_port", port, fmt.Sprintf("options:ct-zone-limit=%d", most))
	}
	g.ovn.NB("set", "logical_switch", testNode, fmt.Sprintf("other_config:ct-zone-limit=%d", nodeBound))
	bound(contract.ManagementPort(testNode), hostBound)
	g.allocate(b.greedy)
	bound(b.greedy.port(), podBound)
	g.mustAdd(b.greedy)
	g.ovn.Kill(nodetest.OVNController)
	g.allocate(b.other)
	bound(b.other.port(), podBound)
	added := make(chan error, 1)
	go func() { _, err := g.add(b.other); added <- err }()
	g.ovn.VS("wait-until", "interface", b.other.device(), "ofport>0")
	g.ovn.Start(nodetest.OVNController)
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	for _, p := range []*pod{b.greedy, b.other} {
		g.shell("nsenter --net=" + p.sandbox + " ethtool -K eth0 tx off")
		g.echo(p.sandbox, 80)
	}
	g.gateway(facts, b.other)
	g.ovn.NB("set", "logical_router", "gw-"+testNode, fmt.Sprintf("options:ct-zone-limit=%d", nodeBound))
	for i := range clusterIPs {
		g.ovn.NB("lb-add", "web", clusterIPs[i].String(), netip.AddrPortFrom(b.other.addresses()[i], 80).String(),
			"--", "lb-add", "own-web", ownClusterIPs[i].String(), netip.AddrPortFrom(b.greedy.addresses()[i], 80).String())
	}
	g.ovn.NB("set", "load_balancer", "own-web", "options:hairpin_snat_ip=\"169.254.169.5 fd69::5\"",
		"--", "ls-lb-add", testNode, "web", "--", "ls-lb-add", testNode, "own-web")
	return b
}

func (p *pod) addresses() [2]netip.Addr { return [2]netip.Addr{p.address, p.address6} }

// zones are all in which connections are remembered, with their bounds. TCP has another one by each of these names.
func (b *boundedNode) zones() map[zone]int {
	all := map[zone]int{}
	for name, bound := range map[string]int{
		b.greedy.port(): podBound, b.other.port(): podBound,
		contract.ManagementPort(testNode): hostBound,
		testNode + "_snat":                nodeBound, // of pods that ask themselves by a Service
		gatewayZone:                       nodeBound,
		"gw-" + testNode + "_snat":        nodeBound,
		"64000":                           contract.BridgeShare * nodeBound,
		"64001":                           nodeBound,
	} {
		all[zone{name, true}], all[zone{name, false}] = bound, bound
	}
	return all
}

// zone is TCP's or that of all other protocols, of those who share a name.
type zone struct {
	name string
	tcp  bool
}

// gatewayZone is where the gateway router remembers what pods begin with the outside.
const gatewayZone = "gw-" + testNode + "_dnat"

// use is how many connections a zone may have, and how many it has.
type use struct{ limit, count int }

// learnZones learns the numbers of zones, which stay the same.
func (b *boundedNode) learnZones() error {
	b.tb.Helper()
	ids := b.ovn.VS("get", "bridge", nodeconfig.IntegrationBridge, "external_ids")
	learned := map[zone]string{}
	for z := range b.zones() {
		number, err := strconv.Atoi(z.name)
		ofTCP := number + 2 // of the external bridge's
		if err != nil {
			found := regexp.MustCompile(`\bct-zone-` + z.name + `"?="?(\d+)`).FindStringSubmatch(ids)
			if found == nil {
				return fmt.Errorf("%s has no zone: %s", z.name, ids)
			}
			number, _ = strconv.Atoi(found[1]) // a row of digits
			ofTCP = number | ctlookup.OfTCP
		}
		if z.tcp {
			number = ofTCP
		}
		learned[z] = strconv.Itoa(number)
	}
	b.numbers = learned
	return nil
}

// uses are those of zones.
func (b *boundedNode) uses(zones ...zone) map[zone]use {
	b.tb.Helper()
	named := map[string]zone{}
	for _, z := range zones {
		named[b.numbers[z]] = z
	}
	uses := map[zone]use{}
	said := b.datapath("ct-get-limits", "zone="+strings.Join(slices.Collect(maps.Keys(named)), ","))
	for _, line := range zoneLine.FindAllStringSubmatch(said, -1) {
		limit, _ := strconv.Atoi(line[2]) // a row of digits
		count, _ := strconv.Atoi(line[3])
		uses[named[line[1]]] = use{limit, count}
	}
	return uses
}

var (
	zoneLine = regexp.MustCompile(`(?m)^zone=(\d+),limit=(\d+),count=(\d+)$`)
	zoneOf   = regexp.MustCompile(`,zone=(\d+)`)
)

// datapath asks ovs-vswitchd about its datapath.
func (b *boundedNode) datapath(verb string, args ...string) string {
	b.tb.Helper()
	return b.ovn.Run("ovs-appctl", append([]string{"--target=" + b.ovn.Control(nodetest.Vswitchd), "dpctl/" + verb},
		args...)...)
}

// bounded wants each zone to have its bound, and no more connections, and no connection to be in another zone.
func (b *boundedNode) bounded() {
	b.tb.Helper()
	b.eventually(func() error {
		if err := b.learnZones(); err != nil {
			return err
		}
		bounds := b.zones()
		uses := b.uses(slices.Collect(maps.Keys(bounds))...)
		for z, bound := range bounds {
			if u := uses[z]; u.limit != bound || u.count > bound {
				return fmt.Errorf("the zone of %v has %d connections, and the bound %d instead of %d", z, u.count, u.limit, bound)
			}
		}
		return nil
	})
	known := slices.Collect(maps.Values(b.numbers))
	for _, line := range zoneOf.FindAllStringSubmatch(b.datapath("dump-conntrack"), -1) {
		if !slices.Contains(known, line[1]) {
			b.tb.Errorf("connections are remembered in zone %s, which has no bound", line[1])
		}
	}
}

// count is how many connections of TCP there are in the zone of a name, and others how many of other protocols.
func (b *boundedNode) count(name string) int  { b.tb.Helper(); return b.countIn(zone{name, true}) }
func (b *boundedNode) others(name string) int { b.tb.Helper(); return b.countIn(zone{name, false}) }

func (b *boundedNode) countIn(z zone) int {
	b.tb.Helper()
	return b.uses(z)[z].count
}

// forget has the driver forget connections that have ended.
func (b *boundedNode) forget() {
	b.tb.Helper()
	b.extension.Advance(ended)
	b.visits(b.other.sandbox, b.greedy.address, 80, b.other.address)
}

// client asks from a network namespace.
type client struct {
	ns string
	to netip.AddrPort
}

// refused wants none of these connections to come about.
func (b *boundedNode) refused(why string, clients ...client) {
	b.tb.Helper()
	var asking sync.WaitGroup
	for _, c := range clients {
		asking.Go(func() {
			if conn, err := open(c.ns, c.to.Addr(), c.to.Port()); err == nil {
				conn.Close()
				b.tb.Errorf("%s: a connection to %v comes about", why, c.to)
			}
		})
	}
	asking.Wait()
}

// A pod at the bound that the controller has written to its port begins no connection more, nor does anybody with it,
// the host included, and it hinders nobody else: its own connections go on, and other pods and the host begin new ones.
// Nor does a pod fill the node's table that has its own zone forget its connections: the zones that all pods share have
// bounds, too. Both address families count.
func TestAPodAtItsBound(t *testing.T) {
	b := newBoundedNode(t)
	b.bounded()
	var kept []net.Conn
	for _, outside := range outsideHosts {
		b.eventually(func() error {
			conn, err := open(b.greedy.sandbox, outside, 80)
			if err == nil {
				kept = append(kept, conn)
				t.Cleanup(func() { conn.Close() })
			}
			return err
		})
	}
	goOn := func() {
		t.Helper()
		b.bounded()
		for _, conn := range kept {
			if _, err := ask(conn, nodetest.Patience); err != nil {
				t.Errorf("a connection that is there ends: %v", err)
			}
		}
	}
	b.countPlaces()
	goOn()
	b.forget()
	b.fill()
	goOn()
	b.forget()
	b.fillFromOutside()
	goOn()
	b.forget()
	b.evade()
	goOn()
	b.ovn.Kill(nodetest.OVNController)
	b.ovn.Start(nodetest.OVNController)
	b.ovn.NB("--wait=hv", "sync")
	goOn()
	b.stop()
}

// countPlaces counts the places of the driver's table that connections take, and those of the pod's bound.
func (b *boundedNode) countPlaces() {
	b.tb.Helper()
	greedy, other := b.greedy.sandbox, b.other
	for i, family := range []string{"IPv4", "IPv6"} {
		outside, node := outsideHosts[i], gatewayHosts[i]
		for name, way := range map[string]struct {
			from string
			to   netip.AddrPort
			of   *pod
		}{
			"to the outside":             {greedy, netip.AddrPortFrom(outside, 80), b.greedy},
			"to a pod":                   {greedy, netip.AddrPortFrom(other.addresses()[i], 80), b.greedy},
			"to a pod by a ClusterIP":    {greedy, clusterIPs[i], b.greedy},
			"to itself by a ClusterIP":   {greedy, ownClusterIPs[i], b.greedy},
			"to a pod by a NodePort":     {greedy, netip.AddrPortFrom(node, 30080), b.greedy},
			"to the host":                {greedy, netip.AddrPortFrom(node, 22), b.greedy},
			"from outside by a NodePort": {b.outside, netip.AddrPortFrom(node, 30080), other},
			"from the host":              {"", netip.AddrPortFrom(other.addresses()[i], 80), other},
		} {
			var places, own int
			b.eventually(func() error { // one that has no answer has places, too
				before, ownBefore := b.extension.Status().Connections, b.count(way.of.port())
				conn, err := open(way.from, way.to.Addr(), way.to.Port())
				if err != nil {
					return err
				}
				defer conn.Close()
				_, err = ask(conn, 2*time.Second)
				places, own = b.extension.Status().Connections-before, b.count(way.of.port())-ownBefore
				return err
			})
			b.tb.Logf("%s: a connection %s has %d places of the driver's table, %d of the pod's", family, name, places, own)
			if places < 2 || places > mostPlaces || own < 1 {
				b.tb.Errorf("%s: a connection %s has %d places of the driver's table, %d of the pod's", family, name, places, own)
			}
		}
	}
}

// fill has a pod begin more connections than it may: first of UDP, which leaves it those of TCP.
func (b *boundedNode) fill() {
	b.tb.Helper()
	before := b.extension.Status().Connections
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			conn.Close()
		}
	}()
	for range 2 * podBound {
		b.datagram(b.greedy.sandbox, netip.AddrPortFrom(outsideHost, 9))
		b.datagram(b.greedy.sandbox, netip.AddrPortFrom(outsideHost6, 9))
	}
	b.eventually(func() error {
		if count := b.others(b.greedy.port()); count != podBound {
			return fmt.Errorf("the pod has %d connections of UDP", count)
		}
		return nil
	})
	for i := 0; b.count(b.greedy.port()) < podBound; i++ {
		if i > podBound {
			b.tb.Fatalf("%d connections do not count", i)
		}
		b.eventually(func() error {
			conn, err := open(b.greedy.sandbox, outsideHosts[i%2], 80)
			if err == nil {
				held = append(held, conn)
			}
			return err
		})
	}
	if taken := b.extension.Status().Connections - before; taken > 2*podBound*mostPlaces {
		b.tb.Errorf("the pod has taken %d places more, with a bound of %d", taken, podBound)
	}
	var clients []client
	for i, own := range b.greedy.addresses() {
		pod := netip.AddrPortFrom(own, 80)
		clients = append(clients, client{b.greedy.sandbox, netip.AddrPortFrom(outsideHosts[i], 80)},
			client{b.greedy.sandbox, ownClusterIPs[i]}, client{b.other.sandbox, pod}, client{"", pod}) // as kubelet asks
	}
	b.refused("a pod at its bound", clients...)
	b.visits(b.other.sandbox, outsideHost, 80, gatewayHost)
	b.visits(b.other.sandbox, outsideHost6, 80, gatewayHost6)
	b.visits("", b.other.address, 80, contract.ManagementAddress(testSubnet))
}

// fillFromOutside has a client outside hold as many connections with a pod as that one may have.
func (b *boundedNode) fillFromOutside() {
	b.tb.Helper()
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			conn.Close()
		}
	}()
	for i := 0; b.count(b.other.port()) < podBound; i++ {
		if i > podBound {
			b.tb.Fatalf("%d connections from outside do not count", i)
		}
		node := gatewayHosts[i%2]
		b.eventually(func() error {
			conn, err := open(b.outside, node, 30080)
			if err == nil {
				held = append(held, conn)
			}
			return err
		})
	}
	b.refused("a pod whose clients have its bound", client{b.outside, netip.AddrPortFrom(gatewayHost, 30080)},
		client{b.other.sandbox, netip.AddrPortFrom(outsideHost, 80)})
	for _, conn := range held {
		if _, err := ask(conn, nodetest.Patience); err != nil {
			b.tb.Errorf("a client's connection ends: %v", err)
		}
	}
	b.visits(b.greedy.sandbox, outsideHost, 80, gatewayHost)
}

// evade has a pod end connections so that its own zone alone hears of it. The gateway's zones keep them for a day. When
// the gateway's are at their bound no pod begins a connection with the outside, and all else goes on.
func (b *boundedNode) evade() {
	b.tb.Helper()
	full := func() bool { return b.count(gatewayZone) == nodeBound }
	begun := 0
	for round := 0; !full(); round++ {
		if round > nodeBound {
			b.tb.Fatalf("%d connections do not fill the gateway's zones", begun)
		}
		for i := 0; i < podBound/2 && !full(); i++ {
			b.eventually(func() error {
				err := vanish(b.greedy.sandbox, netip.AddrPortFrom(outsideHosts[i%2], 80))
				if err != nil && !full() {
					return err
				}
				begun++
				return nil
			})
		}
		b.forget()
	}
	b.tb.Logf("the gateway's zones are full after %d connections; the pod's own has %d", begun, b.count(b.greedy.port()))
	if begun <= podBound {
		b.tb.Errorf("the pod has begun %d connections, no more than it may have", begun)
	}
	var clients []client
	for _, p := range []*pod{b.greedy, b.other} {
		for _, outside := range outsideHosts {
			clients = append(clients, client{p.sandbox, netip.AddrPortFrom(outside, 80)})
		}
	}
	b.refused("the gateway's zones are full", clients...)
	b.visits(b.other.sandbox, b.greedy.address, 80, b.other.address)
	b.visits(b.other.sandbox, b.greedy.address6, 80, b.other.address6)
	b.visits("", b.other.address, 80, contract.ManagementAddress(testSubnet))
	b.visits("", b.greedy.address, 80, contract.ManagementAddress(testSubnet))
	b.visits("", outsideHost, 80, gatewayHost)
	b.visits("", outsideHost6, 80, gatewayHost6)
}

// vanish asks a server, and ends the connection by a reset that no router passes on.
func vanish(ns string, to netip.AddrPort) error {
	conn, err := open(ns, to.Addr(), to.Port())
	if err != nil {
		return err
	}
	_, asked := ask(conn, 2*time.Second)
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return errors.Join(asked, err, conn.Close())
	}
	level, option := syscall.IPPROTO_IP, syscall.IP_TTL
	if to.Addr().Is6() {
		level, option = syscall.IPPROTO_IPV6, syscall.IPV6_UNICAST_HOPS
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(asked, err, set, conn.(*net.TCPConn).SetLinger(0), conn.Close())
}

// datagram sends one from a port of its own.
func (g *gatewayCluster) datagram(ns string, to netip.AddrPort) {
	g.tb.Helper()
	conn, err := inside(ns, func() (net.Conn, error) { return net.Dial("udp", to.String()) })
	if err != nil {
		g.tb.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("x")); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		g.tb.Fatal(err)
	}
}
