package trace

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// Names of a node's gateway, as package topology gives them.
const (
	localnetPrefix = "localnet-" // the port of its external switch to the outside
	outerPrefix    = "rtoe-"     // the port of its gateway router to that switch
	innerPrefix    = "rtoj-gw-"  // and that to the join switch
	joinPrefix     = "jtor-gw-"  // the port of the join switch to it
	joinSwitch     = "join"
)

// routerOutside is the MAC address of whoever hands packets on to a gateway outside. No logical flow asks for it.
var routerOutside = net.HardwareAddr{2, 0, 0, 0, 0, 1}

// clientEnd is a host outside of the cluster. Its packets come into OVN by the gateway of a node, unless they are for
// an address that a node's host has beside its gateway.
func (t *tracing) clientEnd() (end, error) {
	client := end{text: fmt.Sprintf("%s, outside,", t.q.client), addresses: []netip.Addr{t.q.client}}
	to, _ := t.to.of(familyOf(t.q.client)) // if there is none, that is told of the two ends
	if n, found := t.nodeAt(to); found && t.q.entry == "" && !n.routes(to) {
		client.node = n.name
		return client, nil
	}
	entry, err := t.gatewayTo(to)
	if err != nil {
		return end{}, err
	}
	name := localnetPrefix + entry
	ports, err := t.south.ports(t.ctx, name)
	if err != nil {
		return end{}, err
	}
	port, there := ports[name]
	if !there {
		return end{}, questionErrorf("spec.node", "the gateway of node %s is not in the Southbound yet; `weft status` says "+
			"what it lacks", entry)
	}
	port.mac = routerOutside
	client.port, client.node = &port, entry
	return client, nil
}

// gatewayTo is the node by whose gateway a client outside enters.
func (t *tracing) gatewayTo(to netip.Addr) (string, error) {
	if name := t.q.entry; name != "" {
		if n, there := t.nodes[name]; !there || n.facts.Gateway == nil {
			return "", questionErrorf("spec.node", "there is no node %s that has a gateway", name)
		}
		return name, nil
	}
	if n, found := t.nodeAt(to); found {
		return n.name, nil
	}
	var first string
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		if t.nodes[name].facts.Gateway != nil {
			first = name
			break
		}
	}
	if first == "" {
		return "", questionErrorf("spec.source", "no node has a gateway by which %s could enter; see docs/gateways.md",
			t.q.client)
	}
	serving, err := t.north.gatewaysOf(t.ctx, to)
	if err != nil {
		return "", err
	}
	if len(serving) > 0 {
		first = serving[0]
	}
	if len(serving) == 1 {
		return first, nil
	}
	t.status.Notes = append(t.status.Notes, fmt.Sprintf("it is taken to enter by the gateway of node %s; name another "+
		"one where the network outside leads elsewhere", first))
	return first, nil
}

// comeIn tells of a packet that enters by a gateway. It is followed in two runs: to the gateway router, and from the
// join switch on. The router asks for its neighbour there when the first packet comes, and ovn-trace waits for no
// answer.
func (w *way) comeIn(trace *ovntrace.Trace) (err error) {
	at := joined(trace)
	leaves := outerPrefix
	if at >= 0 {
		leaves, trace.Visits = innerPrefix, trace.Visits[:at]
		if list := trace.Endpoints(); len(list) > 0 {
			w.chosen = list[0]
		}
	}
	if err := w.pass(trace); err != nil || w.result != "" {
		return err
	}
	if err := w.forceSource(trace, leaves+w.entry); err != nil {
		return err
	}
	if at < 0 {
		return w.finish()
	}
	if trace, err = w.fromJoin(w.entry); err != nil {
		return err
	}
	return w.tell(trace)
}

// turn is where a packet from within comes to a load balancer of its own node's gateway router, as that of a host to a
// Service whose endpoint is a NodePort of the host. Less than 0 is nowhere.
func (w *way) turn(trace *ovntrace.Trace) int {
	if w.sender == nil || w.packet.Reply {
		return -1
	}
	return slices.IndexFunc(trace.Visits, func(v ovntrace.Visit) bool {
		return !v.Aside && v.Inport == innerPrefix+w.entry && slices.ContainsFunc(v.Flows, func(f ovntrace.Flow) bool {
			return f.Stage == "lr_in_dnat" && len(f.Endpoints()) > 0
		})
	})
}

// turnBack follows a packet to its own node's gateway router, and, as another leg, from there.
func (w *way) turnBack(trace *ovntrace.Trace) error {
	if err := w.pass(trace); err != nil || w.result != "" {
		return err
	}
	inner := innerPrefix + w.entry
	ports, err := w.south.ports(w.ctx, inner, clusterJoin)
	if err != nil {
		return err
	}
	w.next(w.entry, w.src, w.dst)
	w.packet.Inport, w.packet.EthSrc, w.packet.EthDst = inner, ports[clusterJoin].mac, ports[inner].mac
	if trace, err = w.run(w.packet, w.entry); err != nil {
		return err
	}
	return w.comeIn(trace)
}

// fromJoin follows what a gateway router has given to the join switch.
func (w *way) fromJoin(node string) (*ovntrace.Trace, error) {
	router := innerPrefix + node
	ports, err := w.south.ports(w.ctx, router, clusterJoin)
	if err != nil {
		return nil, err
	}
	return w.run(ovntrace.Packet{Inport: joinPrefix + node, EthSrc: ports[router].mac, EthDst: ports[clusterJoin].mac,
		Src: w.src, Dst: w.dst.Addr(), Protocol: w.packet.Protocol, SrcPort: w.packet.SrcPort, DstPort: w.dst.Port(),
		Reply: w.packet.Reply}, node)
}

// joined is where a packet comes to the join switch; less than 0 is nowhere.
func joined(trace *ovntrace.Trace) int {
	return slices.IndexFunc(trace.Visits, func(v ovntrace.Visit) bool { return !v.Aside && v.Datapath == joinSwitch })
}

// forceSource tells that a gateway router gives a packet its own address, of the port by which it leaves, if no rule of
// NAT has done so.
func (w *way) forceSource(trace *ovntrace.Trace, router string) error {
	forced := slices.ContainsFunc(trace.Visits, func(v ovntrace.Visit) bool {
		return !v.Aside && slices.ContainsFunc(v.Flows, func(f ovntrace.Flow) bool { return f.ForcesSource() })
	})
	if !forced || w.src != w.packet.Src {
		return nil
	}
	ports, err := w.south.ports(w.ctx, router)
	port := ports[router]
	for _, own := range bare(port.addresses) {
		if own.Is4() == w.src.Is4() && own != w.src {
			w.step(api.StepTranslation, "", "its source %s becomes %s", w.src, own)
			w.src = own
			break
		}
	}
	return err
}

// alongGateway follows the answer to a client outside. It has to come to the gateway by which the request came. From
// there it goes straight to a pod whose address nobody has translated.
func (w *way) alongGateway(l *leg) (back bool, err error) {
	from := end{node: l.node}
	if err := w.answerOf(l.out, w.answer(l, l.src), &from); err != nil {
		return false, err
	}
	if len(w.steps) == 0 {
		w.start(from)
	}
	trace, err := w.run(w.packet, from.node)
	if err != nil {
		return false, err
	}
	passed, err := w.passGateway(trace, l)
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		return false, err
	}
	if passed && w.onward && w.out != nil && w.from.port != nil && w.out.name == w.from.port.name {
		w.end(api.Arrives, w.from.text+" receives it", "")
	}
	return passed && (w.left == localnetPrefix+l.entry || w.result == api.Arrives), nil
}

// passGateway tells of an answer that comes to the gateway router. Conntrack knows there whose answer it is, and
// ovn-trace does not, so it goes on in a second run, to the client. It has the endpoint's address until it leaves: with
// its own the router would drop it.
func (w *way) passGateway(trace *ovntrace.Trace, request *leg) (passed bool, err error) {
	inner := innerPrefix + request.entry
	at := slices.IndexFunc(trace.Visits, func(v ovntrace.Visit) bool { return !v.Aside && v.Inport == inner })
	if at < 0 {
		return false, w.pass(trace)
	}
	trace.Visits = trace.Visits[:at+1]
	if err := w.pass(trace); err != nil {
		return true, err
	}
	client, asked := request.packet.Src, request.asked()
	switch {
	case request.src != client && request.dst == asked:
		w.step(api.StepTranslation, "", "conntrack gives it its destination %s back, in place of %s", client, request.src)
	case request.src != client:
		w.step(api.StepTranslation, "", "conntrack gives it its source %s and its destination %s back, in place of %s and %s",
			w.target(asked), client, w.target(request.dst), request.src)
	case request.dst != asked:
		w.step(api.StepTranslation, "", "conntrack gives it its source %s back, in place of %s", w.target(asked),
			w.target(request.dst))
	}
	w.src, w.dst = asked.Addr(), netip.AddrPortFrom(client, request.packet.SrcPort)
	ports, err := w.south.ports(w.ctx, inner, clusterJoin)
	if err != nil {
		return true, err
	}
	further, err := w.run(ovntrace.Packet{Inport: inner, EthSrc: ports[clusterJoin].mac, EthDst: ports[inner].mac,
		Src: request.dst.Addr(), Dst: client, Protocol: w.packet.Protocol, SrcPort: request.dst.Port(),
		DstPort: request.packet.SrcPort, Reply: true}, request.entry)
	if err != nil {
		return true, err
	}
	if len(further.Visits) > 1 {
		further.Visits = further.Visits[1:] // that it enters the router was told
	}
	if at := joined(further); at >= 0 {
		further.Visits = further.Visits[:at]
		if err := w.pass(further); err != nil {
			return true, err
		}
		if further, err = w.fromJoin(request.entry); err != nil {
			return true, err
		}
	}
	return true, w.pass(further)
}
