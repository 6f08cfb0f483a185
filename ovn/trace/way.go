package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// way is what becomes of a packet.
type way struct {
	*tracing
	leg        // the one that it is on
	done []leg // those before
	// endpoints are those among which a load balancer has chosen, and chosen is that one, if it is known.
	endpoints []netip.AddrPort
	chosen    netip.AddrPort
	steps     []api.TraceStep
	// denied is the rule that has refused the packet, at the port at.
	denied *rule
	at     string
	// last is the pipeline that the packet passed last; nil is none. ports are those of the pipelines with it, by name.
	last  *ovntrace.Visit
	ports map[string]port
	// left is the port to the outside by which it has left OVN, if it has. Onward: another leg follows there.
	left   string
	onward bool
	// outside is the address to which an answer from outside comes; conntrack gives it the one of the packet.
	outside                netip.Addr
	result, reason, remedy string
}

func (w *way) step(kind, object, format string, args ...any) {
	w.steps = append(w.steps, api.TraceStep{Kind: kind, Node: w.node, Object: object, Text: fmt.Sprintf(format, args...)})
}

// end is the last step, and says how the trace ends.
func (w *way) end(result, reason, remedy string) {
	w.result, w.reason, w.remedy = result, reason, remedy
	w.step(api.StepEnd, "", "%s", reason)
}

// tell makes steps of the rest of a leg.
func (w *way) tell(trace *ovntrace.Trace) error {
	if at := w.turn(trace); at >= 0 {
		trace.Visits = trace.Visits[:at]
		return w.turnBack(trace)
	}
	if err := w.pass(trace); err != nil {
		return err
	}
	return w.finish()
}

// pass makes steps of the pipelines that a packet passes, of which there may have been others before. A refusal in its
// place ends it.
func (w *way) pass(trace *ovntrace.Trace) error {
	ports, err := w.passed(trace)
	if err != nil {
		return err
	}
	rules, err := w.rulesOf(trace)
	if err != nil {
		return err
	}
	if list := trace.Endpoints(); len(list) > 0 {
		w.endpoints = list
		w.chosen = w.choose(trace, ports)
	}
	w.ports = ports
	for i := range trace.Visits {
		v := &trace.Visits[i]
		if v.Aside {
			continue
		}
		if v.Instead != "" {
			return w.refused(w.last)
		}
		if w.at = v.Outport; v.Pipeline == "ingress" {
			w.at = v.Inport
			w.enter(v, w.last, ports)
		}
		for j := range v.Flows {
			if err := w.flow(&v.Flows[j], rules); err != nil {
				return err
			}
		}
		w.last = v
	}
	return nil
}

// start tells where the packet comes from.
func (w *way) start(from end) {
	to := w.dst
	if w.outside.IsValid() {
		to = netip.AddrPortFrom(w.outside, w.dst.Port())
	}
	w.step(api.StepStart, from.object, "%s sends %s from %s to %s", from.text, w.what(),
		w.target(netip.AddrPortFrom(w.packet.Src, w.packet.SrcPort)), w.target(to))
	w.restored()
}

// restored tells what conntrack does to an answer that comes back from outside.
func (w *way) restored() {
	if w.outside.IsValid() {
		w.step(api.StepTranslation, "", "conntrack gives it its destination %s back, in place of %s", w.dst.Addr(), w.outside)
	}
}

// what is the packet, in words.
func (w *way) what() string {
	switch {
	case w.packet.Protocol == ovntrace.ICMP && w.packet.Reply:
		return "an echo reply"
	case w.packet.Protocol == ovntrace.ICMP:
		return "an echo request"
	case w.packet.Reply:
		return "the answer"
	}
	return "the first packet of a connection by " + strings.ToUpper(string(w.packet.Protocol))
}

// target is an address, with its port if it has one.
func (w *way) target(at netip.AddrPort) string {
	if at.Port() == 0 {
		return at.Addr().String()
	}
	return at.String()
}

// passed are the ports that the packet has passed, by name. That of a pod needs the right of its namespace: a Service's
// endpoints may be any addresses.
func (w *way) passed(trace *ovntrace.Trace) (map[string]port, error) {
	var names []string
	for i := range trace.Visits {
		if v := &trace.Visits[i]; !v.Aside && v.Outport != "" {
			names = append(names, v.Outport, redirect(v.Outport))
		}
	}
	ports, err := w.south.ports(w.ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		if namespace, _, ok := podOf(p.owner); ok {
			if allowed, err := w.may(w.ctx, namespace); err != nil {
				return nil, err
			} else if !allowed {
				return nil, &ForbiddenError{"", "the packet goes to an endpoint outside of the namespaces whose right you have"}
			}
		}
	}
	return ports, nil
}

// redirect is the port that binds a router's port to a chassis.
func redirect(port string) string { return "cr-" + port }

// enter tells that the packet has come to another node, and to a gateway.
func (w *way) enter(v, before *ovntrace.Visit, ports map[string]port) {
	_, isSwitch := w.nodes[v.Datapath]
	switch {
	case isSwitch:
		w.move(v.Datapath)
	case strings.HasPrefix(v.Datapath, gatewayPrefix):
		node := strings.TrimPrefix(v.Datapath, gatewayPrefix)
		w.move(node)
		w.gateway(before, "Node "+node, "the gateway router of node "+node)
	case v.Datapath == sharedGateway:
		w.gateway(before, "", "the gateway router that nodes share")
	case strings.HasPrefix(v.Datapath, egressPrefix):
		name := "EgressIP " + strings.TrimPrefix(v.Datapath, egressPrefix)
		if !w.wide() {
			name = "an EgressIP"
		}
		w.gateway(before, name, "the gateway router of "+name)
	case strings.HasPrefix(v.Datapath, outsidePrefix) && before != nil:
		if p, bound := ports[redirect(before.Outport)]; bound {
			w.move(w.nodeName(p.chassis))
		}
	}
}

// Names of logical routers and switches, as package topology gives them.
const (
	gatewayPrefix = "gw-"
	sharedGateway = "gw@shared"
	egressPrefix  = "egress@"
	outsidePrefix = "ext"
)

func (w *way) gateway(before *ovntrace.Visit, object, text string) {
	if before != nil {
		w.entered = before.Outport
	}
	w.step(api.StepGateway, object, "it enters %s", text)
}

// move tells that the packet goes from node to node.
func (w *way) move(to string) {
	if to == "" || to == w.node {
		return
	}
	ends := ""
	if a, b := w.tunnel(w.node), w.tunnel(to); w.wide() && a != "" && b != "" {
		ends = fmt.Sprintf(", from %s to %s", a, b)
	}
	w.step(api.StepTunnel, "", "it goes from node %s to node %s by GENEVE%s", w.node, to, ends)
	w.node = to
}

// tunnel is the address at which the tunnels of a node end; "" where the Southbound has none.
func (t *tracing) tunnel(node string) string {
	for _, c := range t.hosts {
		if c.name == t.chassisOf(node) {
			return c.tunnel
		}
	}
	return ""
}

// chassisOf is the name of a node's chassis; "" is none.
func (t *tracing) chassisOf(node string) string {
	if n, there := t.nodes[node]; there {
		return n.facts.Chassis
	}
	return ""
}

// wide says whether whoever asks may see what is of no namespace.
func (t *tracing) wide() bool {
	allowed, err := t.may(t.ctx, "")
	return allowed && err == nil
}

// flow tells what a flow does, if that is worth a step.
func (w *way) flow(f *ovntrace.Flow, rules map[string]*rule) error {
	if r := rules[f.UUID]; r != nil {
		return w.decided(r)
	}
	if f.LearnsClient() && !w.hosted() {
		w.note("of a Service with session affinity the first packet of a client is lost, as OVN learns its endpoint: this " +
			"is the way of the packet that the client sends again")
	}
	if len(f.Endpoints()) > 0 && w.dst != w.chosen {
		return w.balanced(f)
	} else if addr, source, ok := f.Translation(); ok && source && addr != w.src {
		w.step(api.StepTranslation, "", "its source %s becomes %s", w.src, addr)
		w.src = addr
	}
	return nil
}

// note adds a remark that nobody has made yet.
func (t *tracing) note(text string) {
	if !slices.Contains(t.status.Notes, text) {
		t.status.Notes = append(t.status.Notes, text)
	}
}

// balanced tells which endpoint of which Service the packet has got.
func (w *way) balanced(f *ovntrace.Flow) error {
	object, err := w.serviceOf(f)
	if err != nil {
		return err
	}
	switch {
	case !w.chosen.IsValid():
		w.step(api.StepService, object, "%s: the destination %s becomes one of its %d endpoints", object, w.target(w.dst),
			len(w.endpoints))
		return nil
	case len(w.endpoints) == 1:
		w.step(api.StepService, object, "%s: the destination %s becomes %s, the only endpoint", object, w.target(w.dst),
			w.target(w.chosen))
	default:
		w.step(api.StepService, object, "%s: the destination %s becomes %s, one of %d endpoints", object, w.target(w.dst),
			w.target(w.chosen), len(w.endpoints))
	}
	w.dst = w.chosen
	return nil
}

// choose finds the endpoint that a packet has got. ovn-trace does not say it; the port to which the packet goes has the
// address of one of them.
func (w *way) choose(trace *ovntrace.Trace, ports map[string]port) netip.AddrPort {
	if len(w.endpoints) == 1 {
		return w.endpoints[0]
	}
	for i := range trace.Visits {
		p, there := ports[trace.Visits[i].Outport]
		if trace.Visits[i].Aside || !there || p.kind != "" {
			continue
		}
		for _, at := range w.endpoints {
			if p.has(at.Addr()) || w.hostHas(p.name, at.Addr()) {
				return at
			}
		}
	}
	return w.chosen
}

// hostHas says whether a management port leads to the host that has an address.
func (w *way) hostHas(managementPort string, addr netip.Addr) bool {
	node, ok := strings.CutPrefix(managementPort, contract.ManagementPort(""))
	n, there := w.nodes[node]
	return ok && there && n.owns(addr)
}

// askedService is the Service that the question names, as long as the packet has met no other one.
func (w *way) askedService() *service {
	if len(w.done) > 0 {
		return nil
	}
	return w.to.service
}

// serviceOf is the Service whose load balancer a flow is of. Another one than that of the question is named to those
// who may see it.
func (w *way) serviceOf(f *ovntrace.Flow) (string, error) {
	if s := w.askedService(); s != nil {
		return "Service " + s.key, nil
	}
	hints, err := w.south.hints(w.ctx, []flow{w.flowOf(f)})
	if err != nil {
		return "", err
	}
	owners, err := w.north.owners(w.ctx, nb.LoadBalancerTable)
	if err != nil {
		return "", err
	}
	if key, ok := strings.CutPrefix(owners[hints[f.UUID]], "Service/"); ok {
		namespace, _, _ := strings.Cut(key, "/")
		if allowed, err := w.may(w.ctx, namespace); err != nil || allowed {
			return "Service " + key, err
		}
	}
	return "a load balancer", nil
}

// refused ends a packet in whose place OVN sends a refusal to its sender.
func (w *way) refused(last *ovntrace.Visit) error {
	if w.denied != nil {
		return w.deny()
	}
	if f := lastFlow(last); strings.HasSuffix(f.Stage, "_in_lb") || strings.HasSuffix(f.Stage, "_in_dnat") {
		what, err := w.serviceOf(&f)
		if err != nil {
			return err
		}
		if s := w.askedService(); s != nil && s.local {
			w.end(api.Refused, fmt.Sprintf("%s has internalTrafficPolicy Local, and no ready endpoint at %s on node %s: the "+
				"client is refused", what, w.target(w.dst), w.node), fmt.Sprintf("run a pod of the Service on node %s, or set "+
				"spec.internalTrafficPolicy of the Service to Cluster", w.node))
			return nil
		}
		w.end(api.Refused, fmt.Sprintf("%s has no ready endpoint at %s for clients on node %s: the client is refused", what,
			w.target(w.dst), w.node), "see `kubectl get endpointslices` of the Service: whether its selector finds pods, "+
			"whether they are ready, and whether a policy of the Service (Local) leaves out those of other nodes")
		return nil
	}
	return w.drop(last)
}

// finish tells where the packet has come to, unless it was refused on the way.
func (w *way) finish() error {
	last := w.last
	if w.result != "" {
		return nil
	}
	if last == nil || len(last.Outputs) == 0 {
		if w.denied != nil && strings.Contains(lastFlow(last).Stage, "_acl") {
			return w.deny()
		}
		return w.drop(last)
	}
	out := last.Outputs[len(last.Outputs)-1]
	p, there := w.ports[out.Port]
	switch {
	case out.Type == "localnet" && w.notBalanced():
		if n := w.nodes[w.entry]; n.shares(w.asked().Addr()) {
			w.dst = w.asked()
			w.step(api.StepHost, "Node "+n.name, "flows on the node's external bridge give it to the host: its gateway router "+
				"has no load balancer at %s by %s", w.target(w.dst), strings.ToUpper(string(w.packet.Protocol)))
			return w.reachHost(n)
		}
		w.end(api.Lost, fmt.Sprintf("no Service is known at %s by %s outside, so it leaves the cluster again",
			w.target(w.dst), strings.ToUpper(string(w.packet.Protocol))), seeServices)
		return nil
	case out.Type == "localnet":
		w.left = out.Port
		return w.leave(last, out)
	case !there || out.Type != "":
		w.end(api.Lost, fmt.Sprintf("it is given to the logical port %s, and goes no further", out.Port), seeOVN)
		return nil
	}
	w.out = &p
	return w.arrive(&p)
}

// notBalanced says whether a packet that has come in by a gateway leaves again and is for no other node.
func (w *way) notBalanced() bool {
	n, found := w.nodeAt(w.asked().Addr())
	return w.sender == nil && !w.packet.Reply && !w.chosen.IsValid() && (!found || n.name == w.entry)
}

// gone is the remedy where nobody has an address.
const gone = "see whether the pod that had the address is gone, and what has told its clients the address"

// seeServices is the remedy where no Service has an address.
const seeServices = "see `kubectl get services -A`: the address, the port and the protocol"

// comeByAnother is the remedy where a node has no endpoint, and needs one.
const comeByAnother = "have clients come by a node that has one, or let the Service's policy be Cluster"

// seeOVN is the remedy of what Weft has no words for.
const seeOVN = "weft trace --ovn shows the flows of it"

// arrive ends the packet at a pod's or a host's port, if a chassis has that.
func (w *way) arrive(p *port) error {
	who := p.owner
	if namespace, name, ok := podOf(p.owner); ok {
		who = "pod " + namespace + "/" + name
	} else if node, ok := strings.CutPrefix(p.name, contract.ManagementPort("")); ok {
		who = "the host of node " + node
		if met, err := w.metAgent(node); met || err != nil {
			return err
		}
	}
	if p.chassis == "" {
		w.end(api.Lost, fmt.Sprintf("no chassis has the port of %s: it has no interface in the network", who),
			"see whether the pod's sandbox is there, and whether the node's ovn-controller runs: weft status")
		return nil
	}
	if !w.onward {
		w.end(api.Arrives, who+" receives it", "")
	}
	return nil
}

// leave ends the packet outside of the cluster.
func (w *way) leave(last *ovntrace.Visit, out ovntrace.Output) error {
	from, there := w.nodes[strings.TrimPrefix(last.Datapath, outsidePrefix+"-")]
	if there && from.sharesAddresses() && !w.packet.Reply {
		if from.owns(w.dst.Addr()) || w.dst.Addr() == contract.OfFamily(contract.HostAliases, w.dst.Addr()) {
			return w.toHost(from)
		}
		if own := from.sourceOutside(w.src); own != w.src {
			w.step(api.StepTranslation, "Node "+from.name, "flows on the node's external bridge give it the source %s in place "+
				"of %s", own, w.src)
			w.src = own
		}
	}
	w.step(api.StepOutside, "", "it leaves OVN by the port %s, with the source %s", out.Port, w.src)
	if w.onward {
		return nil
	}
	n, found := w.nodeAt(w.dst.Addr())
	switch {
	case found && w.packet.Reply:
		w.untraced(n)
		return nil
	case found:
		return w.come(n)
	}
	w.end(api.Arrives, fmt.Sprintf("it leaves the cluster from %s to %s; the way beyond is not traced", w.src,
		w.target(w.dst)), "")
	return nil
}

// hosted says whether the packet is on a node whose ovn-controller a chassis host runs. Agents of such nodes let the
// packet pass with which OVN learns a client.
func (w *way) hosted() bool {
	n := w.nodes[w.node]
	return n != nil && n.facts.Hosted != nil
}

// nodeAt is the Node that has an address outside of OVN, by its host or its gateway router.
func (t *tracing) nodeAt(addr netip.Addr) (n *node, found bool) {
	for _, n := range t.nodes {
		if n.owns(addr) || n.routes(addr) {
			return n, true
		}
	}
	return nil, false
}

// drop ends a packet that is given to nobody.
func (w *way) drop(last *ovntrace.Visit) error {
	f := lastFlow(last)
	switch {
	case last == nil:
		w.end(api.Lost, "OVN knows no flow for it", seeOVN)
	case strings.HasPrefix(f.Stage, "lr_in_policy") && w.isUnknownService():
		w.end(api.Refused, fmt.Sprintf("no Service has %s by %s, and addresses of Services do not leave the cluster",
			w.target(w.dst), strings.ToUpper(string(w.packet.Protocol))), seeServices)
	case strings.HasPrefix(f.Stage, "lr_in_ip_routing"):
		w.end(api.Lost, fmt.Sprintf("node %s has no route to %s: it has no gateway, or that has none", w.node, w.dst.Addr()),
			"give the node a gateway (docs/gateways.md)")
	case f.Stage == "lr_in_dnat" || strings.HasSuffix(f.Stage, "_in_lb"):
		what, err := w.serviceOf(&f)
		if err != nil {
			return err
		}
		w.end(api.Refused, fmt.Sprintf("%s has no ready endpoint on node %s, and serves clients at %s by those of their "+
			"node alone (Local)", what, w.node, w.target(w.dst)), comeByAnother)
	case f.Stage == "ls_in_l2_unknown":
		w.end(api.Lost, fmt.Sprintf("nobody on node %s has the address %s", w.node, w.dst.Addr()), gone)
	case strings.Contains(f.Stage, "port_sec"):
		w.end(api.Lost, "port security drops it: its addresses are not those of the port", seeOVN)
	default:
		w.end(api.Lost, fmt.Sprintf("the logical flows of %s drop it (%s)", last.Datapath, f.Stage), seeOVN)
	}
	return nil
}

// isUnknownService says whether the destination is in a range of Services' addresses: Weft has the cluster's router
// drop what no load balancer has taken.
func (w *way) isUnknownService() bool {
	for _, n := range w.nodes {
		for _, p := range n.network.ServiceCIDRs {
			if p.Contains(w.dst.Addr()) {
				return true
			}
		}
	}
	return false
}

func lastFlow(v *ovntrace.Visit) ovntrace.Flow {
	if v == nil || len(v.Flows) == 0 {
		return ovntrace.Flow{}
	}
	return v.Flows[len(v.Flows)-1]
}

// routerPort is the name of a gateway router's port to the join switch, by that of the switch's own.
func routerPort(joined string) string { return "rtoj" + strings.TrimPrefix(joined, "jtor") }
