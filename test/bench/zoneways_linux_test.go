package bench

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/interconnect"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/ovntrace"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/bench/load"
)

// ways are those of packets between zones, with the rows of the whole cluster without zones.
type ways struct {
	*largeCluster
	changes map[ovsdb.Owner]ovsdb.Change
}

// checkWays fails unless packets between zones take the way of docs/zones.md: by the flows of the first node's Open
// vSwitch, and by ovn-trace. What a policy does not allow must go nowhere.
func (c *largeCluster) checkWays(b *testing.B) {
	b.Helper()
	w := &ways{largeCluster: c, changes: map[ovsdb.Owner]ovsdb.Change{}}
	for _, change := range c.translated.Rows() {
		w.changes[change.Owner] = change
	}
	w.checkRequests(b)
	w.checkAnswers(b)
	w.checkArrivals(b)
}

// placed is a pod with its place in the network.
type placed struct {
	*corev1.Pod
	app     int
	address netip.Addr
}

// pod is one that suits.
func (w *ways) pod(b *testing.B, which string, suits func(p *placed) bool) *placed {
	b.Helper()
	for i := range w.load.Pods {
		p := &placed{Pod: w.load.Pod(i)}
		var err error
		if p.app, err = strconv.Atoi(strings.TrimPrefix(p.Labels["app"], "a")); err != nil {
			b.Fatal(err)
		}
		if !suits(p) {
			continue
		}
		for _, row := range w.changes[northbound.PodOwner(p.Namespace+"/"+p.Name)].Rows {
			if port, ok := row.Model.(*nb.LogicalSwitchPort); ok {
				_, address, _ := strings.Cut(port.Addresses[0], " ")
				p.address = netip.MustParseAddr(address)
			}
		}
		return p
	}
	b.Fatalf("no pod %s among %d; with a larger %s there is one", which, w.load.Pods, podsVariable)
	return nil
}

// here says whether a pod is on the first node.
func (w *ways) here(p *placed) bool { return p.Spec.NodeName == load.NodeName(0) }

// abroad is a pod of another zone, with an app by its number.
func (w *ways) abroad(b *testing.B, app int, suits func(p *placed) bool) *placed {
	b.Helper()
	app %= w.load.Apps
	return w.pod(b, fmt.Sprintf("of app %d in another zone", app), func(p *placed) bool {
		return p.app == app && w.zone.Foreign(p.Spec.NodeName) && suits(p)
	})
}

func (w *ways) node(name string) interconnect.Node {
	return interconnect.NodeOf(w.changes[northbound.NodeOwner(name)])
}

// sent is a packet of a pod on the first node.
func (w *ways) sent(p *placed) ovntrace.Packet {
	return ovntrace.Packet{Inport: contract.PodPort(p.Namespace, p.Name), EthSrc: contract.MAC(p.address),
		EthDst: contract.MAC(contract.GatewayAddress(w.node(p.Spec.NodeName).Subnets[0])), Src: p.address,
		Protocol: ovntrace.TCP}
}

// checkRequests are from a pod to two of another zone. Every fifth policy of a namespace is of one app's pods, which
// may go to those of the app seven further, in all namespaces.
func (w *ways) checkRequests(b *testing.B) {
	b.Helper()
	from := w.pod(b, "that may go out", func(p *placed) bool {
		return w.here(p) && p.app > 0 && p.app%5 == 0 && p.app < w.load.Policies
	})
	for further, allowed := range map[int]bool{7: true, 8: false} {
		to := w.abroad(b, from.app+further, func(*placed) bool { return true })
		p := w.sent(from)
		p.Dst, p.SrcPort, p.DstPort = to.address, 40000, uint16(to.Spec.Containers[0].Ports[0].ContainerPort)
		w.checkLeaving(b, from, p, to.Spec.NodeName, allowed)
	}
}

// checkAnswers are those of a pod to what NodePorts of other zones' nodes have sent it: the source was such a node's
// gateway router. That of another own node is known by a row of Static_MAC_Binding, and leaves by the join switch.
func (w *ways) checkAnswers(b *testing.B) {
	b.Helper()
	from := w.pod(b, "of the first node", w.here)
	answer := func(to string) ovntrace.Packet {
		p := w.sent(from)
		p.Dst, p.SrcPort, p.DstPort, p.Reply = w.node(to).Joins[0].Addr(), 8080, 40000, true
		return p
	}
	for _, i := range []int{0, w.zone.all - w.zone.own - 1} {
		to := load.NodeName(w.zone.foreignNode(i))
		w.checkLeaving(b, from, answer(to), to, true)
	}
	for i := 1; i < w.zone.all; i++ {
		if to := load.NodeName(i); w.zone.has(i) {
			text, port := w.traceFlows(b, "in_port="+from.Name, answer(to))
			if want := w.tunnel(b, w.node(to), "ofport"); port != want {
				b.Fatalf("an answer to %s left by port %q, want %q:\n%s", to, port, want, text)
			}
			break
		}
	}
}

// checkLeaving is about a packet to another zone's node: it leaves by the tunnel to this node, as the port of the
// transit switch by which the other zone takes it.
func (w *ways) checkLeaving(b *testing.B, from *placed, p ovntrace.Packet, node string, allowed bool) {
	b.Helper()
	text, port := w.traceFlows(b, "in_port="+from.Name, p)
	to, want := w.node(node), ""
	if allowed {
		want = w.tunnel(b, to, "ofport")
	}
	if port != want {
		b.Fatalf("a packet to %s left by port %q, want %q:\n%s", node, port, want, text)
	}
	if allowed {
		keys := map[*regexp.Regexp]int{tunnelID: interconnect.TransitKey, outputKey: w.zone.numbers[node],
			inputKey: w.zone.Zone.Number}
		for what, number := range keys {
			if got, err := strconv.ParseInt(last(what, text), 0, 64); err != nil || got != int64(number) {
				b.Fatalf("the packet's %s: %d (%v), want %d:\n%s", what, got, err, number, text)
			}
		}
		want = contract.TransitPort(node)
	}
	w.checkLogical(b, p, ovntrace.Output{Port: want, Type: "remote"})
}

// checkArrivals are requests from two pods of another zone, as they come out of the tunnel. Policies allow pods of
// every fifth app what comes from the app seven further, in their namespace.
func (w *ways) checkArrivals(b *testing.B) {
	b.Helper()
	to := w.pod(b, "that may be reached", func(p *placed) bool {
		return w.here(p) && p.app%5 == 1 && p.app < w.load.Policies
	})
	node, other := w.zone.numbers[to.Spec.NodeName], w.zone.Settings.Zones[1]
	for further, allowed := range map[int]bool{7: true, 8: false} {
		from := w.abroad(b, to.app+further, func(p *placed) bool { return p.Namespace == to.Namespace })
		p := ovntrace.Packet{Inport: interconnect.SendingPort(other.Name), EthSrc: contract.MAC(w.zone.Address(other.Number)),
			EthDst: contract.MAC(w.zone.Address(node)), Src: from.address, Dst: to.address, Protocol: ovntrace.TCP,
			SrcPort: 40000, DstPort: 8080}
		text, port := w.traceFlows(b, fmt.Sprintf("in_port=%s,tun_id=%#x,tun_metadata0=%#x", w.tunnel(b, w.node(
			from.Spec.NodeName), "name"), interconnect.TransitKey, other.Number<<16|node), p)
		want := ""
		if allowed {
			want = w.nodes[0].vsctl(b, "get", "Interface", to.Name, "ofport")
		}
		if port != want {
			b.Fatalf("a packet from %s came out of port %q, want %q:\n%s", from.Spec.NodeName, port, want, text)
		}
		if allowed {
			want = contract.PodPort(to.Namespace, to.Name)
		}
		w.checkLogical(b, p, ovntrace.Output{Port: want})
	}
}

// checkLogical compares the port by which a packet leaves OVN, by its logical flows, with another one, whose name is ""
// for none.
func (w *ways) checkLogical(b *testing.B, p ovntrace.Packet, want ovntrace.Output) {
	b.Helper()
	text, err := ovntrace.New(ovnProgram(b, "ovn-trace"), w.sb.remote, 1).Run(b.Context(), p, nil)
	if err != nil {
		b.Fatal(err)
	}
	trace, err := ovntrace.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	var got ovntrace.Output
	for _, visit := range trace.Visits {
		for _, output := range visit.Outputs {
			if output.Type != "patch" { // on the way
				got = output
			}
		}
	}
	if got.Port != want.Port || got.Port != "" && got.Type != want.Type {
		b.Fatalf("ovn-trace: a packet came to %+v, want %+v:\n%s", got, want, text)
	}
}

// traceFlows is what the flows of the first node make of a packet, and the port by which it leaves Open vSwitch.
func (w *ways) traceFlows(b *testing.B, in string, p ovntrace.Packet) (text, port string) {
	b.Helper()
	args := []string{"-t", filepath.Join(w.nodes[0].dir, "ovs-vswitchd.ctl"), "ofproto/trace", "br-int",
		fmt.Sprintf("%s,tcp,dl_src=%s,dl_dst=%s,nw_src=%s,nw_dst=%s,nw_ttl=64,tcp_src=%d,tcp_dst=%d", in, p.EthSrc, p.EthDst,
			p.Src, p.Dst, p.SrcPort, p.DstPort)}
	for range 8 { // it is looked up so often at most
		args = append(args, "--ct-next", map[bool]string{true: "trk,est,rpl", false: "trk,new"}[p.Reply])
	}
	text = run(b, ovnProgram(b, "ovs-appctl"), args...)
	return text, last(outputTo, text)
}

// What a trace of flows says of a packet's output, and of what ovn-controller puts into a GENEVE packet.
var (
	outputTo  = regexp.MustCompile(`(?m)^\s*output:([0-9]+)$`)
	tunnelID  = regexp.MustCompile(`set_field:(0x[0-9a-f]+)(?:/0x[0-9a-f]+)?->tun_id`)
	outputKey = regexp.MustCompile(`set_field:(0x[0-9a-f]+)(?:/0x[0-9a-f]+)?->tun_metadata0`)
	inputKey  = regexp.MustCompile(`NXM_NX_TUN_METADATA0\[16\.\.30\] is now (0x[0-9a-f]+)`)
)

// last is what the last match has in parentheses.
func last(what *regexp.Regexp, text string) string {
	all := what.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// tunnel is a column of the first node's tunnel to another node.
func (w *ways) tunnel(b *testing.B, to interconnect.Node, column string) string {
	b.Helper()
	for i := range w.zone.all {
		if load.Chassis(i) == to.Chassis {
			found := w.nodes[0].vsctl(b, "--bare", "--columns="+column, "find", "Interface",
				fmt.Sprintf("options:remote_ip=%q", load.NodeAddress(i)))
			return cmp.Or(found, "none: there is no tunnel to "+to.Chassis)
		}
	}
	b.Fatalf("there is no chassis %s", to.Chassis)
	return ""
}
