package trace

import (
	"fmt"
	"net/netip"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// back follows the answer to a request that has arrived. Its addresses are those that the request had at its end, the
// other way round.
func (t *tracing) back(request *way) error {
	if request.out != nil && request.out.name == t.from.port.name {
		t.status.Notes = append(t.status.Notes, t.from.text+" is its own endpoint: the answer does not leave it")
		return nil
	}
	if t.q.from.Kind == api.AddressEnd {
		return t.backOutside(request)
	}
	packet := ovntrace.Packet{Src: request.dst.Addr(), Dst: t.backTo(request), Protocol: request.packet.Protocol,
		SrcPort: request.dst.Port(), DstPort: request.packet.SrcPort, Reply: true}
	from := end{text: request.dst.Addr().String(), node: request.node}
	var err error
	if request.out != nil {
		err = t.answerOf(request.out, &packet, &from)
	} else {
		err = t.answerFromOutside(request, &packet)
	}
	if err != nil {
		return err
	}
	trace, err := t.run(packet)
	if err != nil {
		return err
	}
	reply := t.wayOf(packet, from)
	if request.src != request.packet.Src && request.out == nil {
		reply.outside = request.src
	}
	if err := reply.tell(trace, from); err != nil {
		return err
	}
	t.undo(request, reply)
	t.answered(reply, reply.out != nil && reply.out.name == t.from.port.name)
	return nil
}

// answered tells of an answer, and whether it has come back to whoever asked.
func (t *tracing) answered(reply *way, back bool) {
	t.status.Reply = reply.steps
	switch {
	case reply.result != api.Arrives:
		t.status.Result, t.status.Reason, t.status.Remedy = reply.result, "the answer is lost: "+reply.reason, reply.remedy
	case !back:
		t.status.Result, t.status.Reason = api.Lost, fmt.Sprintf("the answer does not come back to %s", t.from.text)
		t.status.Remedy = seeOVN
	}
}

// backTo is the address to which the answer goes once conntrack has given it back what the request had.
func (t *tracing) backTo(request *way) netip.Addr {
	if request.out == nil {
		return request.packet.Src
	}
	return request.src
}

// answerOf completes an answer that a pod or a host gives.
func (t *tracing) answerOf(p *port, packet *ovntrace.Packet, from *end) (err error) {
	packet.Inport, packet.EthSrc = p.name, p.mac
	from.text = "the host of node " + from.node
	if namespace, name, ok := podOf(p.owner); ok {
		from.text, from.object = "pod "+namespace+"/"+name, "Pod "+namespace+"/"+name
	}
	packet.EthDst, err = t.firstHop(p.datapath, packet.Dst)
	return err
}

// answerFromOutside completes an answer that has come through the gateway router by which the request left.
func (t *tracing) answerFromOutside(request *way, packet *ovntrace.Packet) error {
	router := routerPort(request.entered)
	ports, err := t.south.ports(t.ctx, router, clusterJoin)
	if err != nil {
		return err
	}
	packet.Inport, packet.EthSrc, packet.EthDst = request.entered, ports[router].mac, ports[clusterJoin].mac
	return nil
}

// clusterJoin is the port of the cluster's router to the join switch.
const clusterJoin = "rtoj-cluster"

// undo tells that conntrack gives the answer the Service's address back.
func (t *tracing) undo(request, reply *way) {
	asked := netip.AddrPortFrom(request.packet.Dst, request.packet.DstPort)
	if asked == request.dst || reply.result != api.Arrives {
		return
	}
	last := len(reply.steps) - 1
	step := api.TraceStep{Kind: api.StepTranslation, Node: reply.node, Text: fmt.Sprintf(
		"conntrack gives it its source %s back, in place of %s", asked, request.dst)}
	reply.steps = append(reply.steps[:last:last], step, reply.steps[last])
}
