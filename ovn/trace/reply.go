package trace

import (
	"fmt"
	"net/netip"
	"slices"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// back follows the answer to a request that has arrived: along the request's legs, the last one first. On each its
// addresses are those that the request had at the leg's end, the other way round.
func (t *tracing) back(request *way) error {
	legs := append(slices.Clone(request.done), request.leg)
	if len(legs) == 1 && request.out != nil && request.sender != nil && request.out.name == request.sender.name {
		t.status.Notes = append(t.status.Notes, t.from.text+" is its own endpoint: the answer does not leave it")
		return nil
	}
	if slices.ContainsFunc(legs, func(l leg) bool { return !l.beyond && l.sender == nil && l.out == nil }) ||
		request.beyond && !request.served {
		t.status.Notes = append(t.status.Notes, "the answer begins outside of OVN, or passes a host, and is not traced")
		return nil
	}
	reply := &way{tracing: t}
	for i, l := range slices.Backward(legs) {
		reply.onward = i > 0
		back, err := reply.along(&l)
		if err != nil {
			return err
		}
		if t.answered(reply, &l, back); t.status.Result != api.Arrives || reply.result != "" {
			return nil
		}
	}
	return nil
}

// answered tells of an answer, and whether it has come back to where a leg began.
func (t *tracing) answered(reply *way, l *leg, back bool) {
	t.status.Reply = reply.steps
	switch {
	case reply.result != api.Arrives && !(reply.onward && reply.result == ""):
		t.status.Result, t.status.Reason, t.status.Remedy = reply.result, "the answer is lost: "+reply.reason, reply.remedy
	case !back && !l.beyond && l.sender == nil:
		t.status.Result, t.status.Reason = api.Lost, fmt.Sprintf("the answer does not come back to the gateway router of "+
			"node %s, and so the client would see it come from %s, which it has not asked", l.entry, l.dst)
		t.status.Remedy = "a client in the cluster asks the Service by its ClusterIP"
	case !back:
		t.status.Result, t.status.Reason = api.Lost, fmt.Sprintf("the answer does not come back to %s", t.from.text)
		t.status.Remedy = seeOVN
	}
}

// along follows the answer along a leg of the request, and says whether it has come back to where that began.
func (w *way) along(l *leg) (back bool, err error) {
	switch {
	case l.beyond:
		w.alongHost(l)
		return true, nil
	case l.sender == nil:
		return w.alongGateway(l)
	}
	return w.alongPort(l)
}

// answer begins a leg of the answer, to an address that the request had.
func (w *way) answer(l *leg, to netip.Addr) *ovntrace.Packet {
	w.leg = legOf(ovntrace.Packet{Src: l.dst.Addr(), Dst: to, Protocol: l.packet.Protocol, SrcPort: l.dst.Port(),
		DstPort: l.packet.SrcPort, Reply: true}, l.node)
	w.last, w.outside, w.left = nil, netip.Addr{}, ""
	return &w.packet
}

// alongPort follows the answer to the pod or the host that has sent the request.
func (w *way) alongPort(l *leg) (back bool, err error) {
	from := end{text: l.dst.Addr().String(), node: l.node}
	if l.out != nil {
		err = w.answerOf(l.out, w.answer(l, l.src), &from)
	} else {
		err = w.answerFromOutside(l, w.answer(l, l.packet.Src))
	}
	if err != nil {
		return false, err
	}
	if l.src != l.packet.Src && l.out == nil {
		w.outside = l.src
	}
	if len(w.steps) == 0 {
		w.start(from)
	} else {
		w.restored()
	}
	trace, err := w.run(w.packet, from.node)
	if err != nil {
		return false, err
	}
	if err := w.tell(trace); err != nil {
		return false, err
	}
	w.undo(l)
	return w.out != nil && w.out.name == l.sender.name, nil
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
func (t *tracing) answerFromOutside(request *leg, packet *ovntrace.Packet) error {
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
func (w *way) undo(request *leg) {
	asked, last := request.asked(), len(w.steps)
	switch {
	case asked == request.dst:
		return
	case w.result == api.Arrives:
		last--
	case w.result != "":
		return
	}
	w.steps = slices.Insert(w.steps, last, api.TraceStep{Kind: api.StepTranslation, Node: w.node, Text: fmt.Sprintf(
		"conntrack gives it its source %s back, in place of %s", asked, request.dst)})
}
