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

// clientEnd is a host outside of the cluster. Its packets come into OVN by the gateway of a node.
func (t *tracing) clientEnd() (end, error) {
	entry, err := t.entry()
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
	return end{text: fmt.Sprintf("%s, outside,", t.q.client), addresses: []netip.Addr{t.q.client}, port: &port,
		node: entry}, nil
}

// entry is the node by whose gateway a client outside enters.
func (t *tracing) entry() (string, error) {
	if name := t.q.entry; name != "" {
		if n, there := t.nodes[name]; !there || n.facts.Gateway == nil {
			return "", questionErrorf("spec.node", "there is no node %s that has a gateway", name)
		}
		return name, nil
	}
	var first string
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[name]
		if n.facts.Gateway == nil {
			continue
		}
		if n.has(t.q.address) {
			return name, nil
		}
		if first == "" {
			first = name
		}
	}
	if first == "" {
		return "", questionErrorf("spec.source", "no node has a gateway by which %s could enter; see docs/gateways.md",
			t.q.client)
	}
	serving, err := t.north.gatewaysOf(t.ctx, t.q.address)
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

// has says whether an address is one of the node's host, or of its gateway router.
func (n *node) has(addr netip.Addr) bool {
	return slices.Contains(n.addresses, addr) || slices.Contains(n.facts.Addresses, addr) ||
		n.facts.Gateway != nil && slices.ContainsFunc(n.facts.Gateway.Addresses, func(p netip.Prefix) bool {
			return p.Addr() == addr
		})
}

// comeIn tells of a packet from outside. It is followed in two runs: to the gateway router, and from the join switch
// on. The router asks for its neighbour there when the first packet comes, and ovn-trace waits for no answer.
func (w *way) comeIn(trace *ovntrace.Trace, from end) error {
	at := slices.IndexFunc(trace.Visits, func(v ovntrace.Visit) bool { return !v.Aside && v.Datapath == joinSwitch })
	if at < 0 {
		return w.tell(trace, from)
	}
	w.start(from)
	trace.Visits = trace.Visits[:at]
	if list := trace.Endpoints(); len(list) > 0 {
		w.chosen = list[0]
	}
	if err := w.pass(trace); err != nil || w.result != "" {
		return err
	}
	ports, err := w.south.ports(w.ctx, innerPrefix+from.node, clusterJoin)
	if err != nil {
		return err
	}
	further := ovntrace.Packet{Inport: joinPrefix + from.node, EthSrc: ports[innerPrefix+from.node].mac,
		EthDst: ports[clusterJoin].mac, Src: w.src, Dst: w.dst.Addr(), Protocol: w.packet.Protocol,
		SrcPort: w.packet.SrcPort, DstPort: w.dst.Port()}
	if trace, err = w.run(further); err != nil {
		return err
	}
	if err := w.pass(trace); err != nil {
		return err
	}
	return w.finish()
}

// backOutside follows the answer to a client outside. It has to leave by the gateway by which the request came.
func (t *tracing) backOutside(request *way) error {
	if request.out == nil {
		t.status.Notes = append(t.status.Notes, "the answer begins outside of OVN, and is not traced")
		return nil
	}
	packet := ovntrace.Packet{Src: request.dst.Addr(), Dst: request.src, Protocol: request.packet.Protocol,
		SrcPort: request.dst.Port(), DstPort: request.packet.SrcPort, Reply: true}
	from := end{node: request.node}
	if err := t.answerOf(request.out, &packet, &from); err != nil {
		return err
	}
	trace, err := t.run(packet)
	if err != nil {
		return err
	}
	reply := t.wayOf(packet, from)
	reply.start(from)
	if err := reply.passGateway(trace, request); err != nil {
		return err
	}
	if err := reply.finish(); err != nil {
		return err
	}
	t.answered(reply, reply.left == localnetPrefix+t.from.node)
	return nil
}

// passGateway tells of an answer that comes to the gateway router. Conntrack knows there whose answer it is, and
// ovn-trace does not, so it goes on in a second run, with the addresses that the client knows.
func (w *way) passGateway(trace *ovntrace.Trace, request *way) error {
	inner := innerPrefix + w.from.node
	at := slices.IndexFunc(trace.Visits, func(v ovntrace.Visit) bool { return !v.Aside && v.Inport == inner })
	if at < 0 {
		return w.pass(trace)
	}
	trace.Visits = trace.Visits[:at+1]
	if err := w.pass(trace); err != nil {
		return err
	}
	client, asked := request.packet.Src, netip.AddrPortFrom(request.packet.Dst, request.packet.DstPort)
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
		return err
	}
	further, err := w.run(ovntrace.Packet{Inport: inner, EthSrc: ports[clusterJoin].mac, EthDst: ports[inner].mac,
		Src: asked.Addr(), Dst: client, Protocol: w.packet.Protocol, SrcPort: asked.Port(), DstPort: request.packet.SrcPort,
		Reply: true})
	if err != nil {
		return err
	}
	if len(further.Visits) > 1 {
		further.Visits = further.Visits[1:] // that it enters the router was told
	}
	return w.pass(further)
}
