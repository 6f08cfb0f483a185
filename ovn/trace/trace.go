package trace

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/sb"
	"github.com/weftnet/weft/ovn/ovntrace"
	"github.com/weftnet/weft/ovsdb"
)

// Tracer answers questions.
type Tracer struct {
	// Program follows packets through the Southbound.
	Program *ovntrace.Program
	// Northbound and Southbound are the servers that are read.
	Northbound, Southbound ovsdb.Config
	// Kubernetes is any client of the API server: paths are given whole.
	Kubernetes rest.Interface
	// Nodes are all Nodes, with their annotations and addresses.
	Nodes func() []*corev1.Node
}

// clientPort is one that a client has got from its system; no policy asks for it.
const clientPort = 40000

// Trace answers a question. The error is a [*QuestionError] or a [*ForbiddenError] where whoever asks can do something
// about it.
func (t *Tracer) Trace(ctx context.Context, spec api.TraceSpec, may May) (status *api.TraceStatus, err error) {
	q, err := readQuestion(spec)
	if err != nil {
		return nil, err
	}
	may = may.remembered()
	if err := q.allowed(ctx, may); err != nil {
		return nil, err
	}
	north, south := t.Northbound, t.Southbound
	if north.Model, err = nb.FullDatabaseModel(); err != nil {
		return nil, err
	}
	if south.Model, err = sb.FullDatabaseModel(); err != nil {
		return nil, err
	}
	err = ovsdb.Ask(ctx, north, func(n *ovsdb.Client) error {
		return ovsdb.Ask(ctx, south, func(s *ovsdb.Client) error {
			run := &tracing{Tracer: t, ctx: ctx, q: q, may: may, north: northboundServer{n}, south: southboundServer{s},
				nodes: t.allNodes(), status: &api.TraceStatus{}}
			status = run.status
			return run.answer()
		})
	})
	if err != nil {
		return nil, err
	}
	return status, nil
}

// allowed says whether whoever asks may ask about both ends.
func (q *question) allowed(ctx context.Context, may May) error {
	for _, e := range []api.TraceEnd{q.from, q.to} {
		namespace, why := e.Namespace, "the question names "+e.Kind+" "+e.Namespace+"/"+e.Name
		if e.Kind == api.NodeEnd || e.Kind == api.AddressEnd {
			namespace, why = "", "the question names "+e.Kind+" "+e.Name
		}
		if err := may.need(ctx, namespace, why); err != nil {
			return err
		}
	}
	if !q.ovn {
		return nil
	}
	return may.need(ctx, "", "the output of ovn-trace names objects of all namespaces")
}

// tracing is one question that is being answered.
type tracing struct {
	*Tracer
	ctx    context.Context
	q      question
	may    May
	north  northboundServer
	south  southboundServer
	nodes  map[string]node
	status *api.TraceStatus

	from, to end
	hosts    map[string]chassis
	acls     map[string]*rule // nil until they are read
}

// answer fills the status.
func (t *tracing) answer() (err error) {
	if t.from, err = t.source(); err != nil {
		return err
	}
	if t.to, err = t.destination(); err != nil {
		return err
	}
	packet, err := t.first()
	if err != nil {
		return err
	}
	if t.q.live {
		if t.status.Probe, err = t.plan(packet); err != nil {
			return err
		}
	}
	if t.from.port.has(packet.Dst) {
		t.toItself(packet)
		return nil
	}
	if t.hosts, err = t.south.allChassis(t.ctx); err != nil {
		return err
	}
	request, err := t.follow(packet, t.from)
	if err != nil {
		return err
	}
	t.status.Request, t.status.Endpoints = request.steps, texts(request.endpoints)
	t.status.Result, t.status.Reason, t.status.Remedy = request.result, request.reason, request.remedy
	if request.result != api.Arrives {
		return nil
	}
	return t.back(request)
}

// toItself ends a packet to an address that its sender has, which no logical switch sees.
func (t *tracing) toItself(packet ovntrace.Packet) {
	w := t.wayOf(packet, t.from)
	w.end(api.Arrives, fmt.Sprintf("%s reaches its own address %s by itself: the packet does not enter OVN, and no "+
		"policy sees it", t.from.text, packet.Dst), "")
	t.status.Request, t.status.Result, t.status.Reason = w.steps, w.result, w.reason
}

// first is the first packet of the connection.
func (t *tracing) first() (p ovntrace.Packet, err error) {
	p = ovntrace.Packet{Inport: t.from.port.name, EthSrc: t.from.port.mac}
	if p.Src, p.Dst, err = t.addresses(); err != nil {
		return p, err
	}
	if t.q.from.Kind != api.AddressEnd && t.from.port.owner == t.hostOwner() {
		if n := t.nodes[t.from.node]; !n.inside(p.Dst) {
			return p, questionErrorf("spec.destination", "the host of node %s reaches %s by its own routes, and not by OVN; "+
				"ask about a pod or a Service", n.name, p.Dst)
		}
	}
	if s := t.to.service; s != nil {
		p.Protocol, p.DstPort = protocolOf(s.port), uint16(s.port.Port)
	} else {
		p.Protocol, p.DstPort = t.q.transport()
	}
	if p.Protocol != ovntrace.ICMP {
		p.SrcPort = clientPort
	}
	if err := t.noNodePort(p); err != nil {
		return p, err
	}
	if t.q.from.Kind == api.AddressEnd {
		p.EthDst, err = t.macOf(outerPrefix + t.from.node)
	} else {
		p.EthDst, err = t.firstHop(t.from.port.datapath, p.Dst)
	}
	return p, err
}

// noNodePort refuses NodePorts. OVN knows them by variables of nodes (Chassis_Template_Var), of which ovn-trace expands
// none: it would show the way to the host itself.
func (t *tracing) noNodePort(p ovntrace.Packet) error {
	if p.Protocol == ovntrace.ICMP {
		return nil
	}
	for _, n := range t.nodes {
		if !n.has(p.Dst) {
			continue
		}
		owner, err := t.north.nodePort(t.ctx, string(p.Protocol), p.DstPort)
		if key, ok := strings.CutPrefix(owner, "Service/"); ok && err == nil {
			err = questionErrorf("spec.port", "%d is a NodePort of Service %s, and ovn-trace does not know the variables of "+
				"nodes by which OVN has it; trace the Service", p.DstPort, key)
		}
		return err
	}
	return nil
}

// addresses are those of the two ends, of one family.
func (t *tracing) addresses() (src, dst netip.Addr, err error) {
	for _, family := range []string{ipv4, ipv6} {
		src, has := t.from.of(family)
		dst, too := t.to.of(family)
		if has && too && (t.q.family == "" || t.q.family == family) {
			return src, dst, nil
		}
	}
	what := "of one family"
	if t.q.family != "" {
		what = "of the family " + t.q.family
	}
	return src, dst, questionErrorf("spec.family", "%s and %s have no addresses %s; ask about addresses that they have",
		t.from.text, t.to.text, what)
}

func texts(list []netip.AddrPort) (texts []string) {
	for _, one := range list {
		texts = append(texts, one.String())
	}
	return texts
}

// follow has a packet followed from an end on.
func (t *tracing) follow(packet ovntrace.Packet, from end) (*way, error) {
	w := t.wayOf(packet, from)
	if packet.EthDst == nil {
		w.start(from)
		w.end(api.Lost, fmt.Sprintf("nobody on node %s has the address %s", w.node, packet.Dst), gone)
		return w, nil
	}
	trace, err := t.run(packet)
	switch {
	case err != nil:
		return nil, err
	case t.q.from.Kind == api.AddressEnd:
		return w, w.comeIn(trace, from)
	}
	return w, w.tell(trace, from)
}

// wayOf is that of a packet that nobody has followed yet.
func (t *tracing) wayOf(packet ovntrace.Packet, from end) *way {
	return &way{tracing: t, packet: packet, src: packet.Src, dst: netip.AddrPortFrom(packet.Dst, packet.DstPort),
		node: from.node}
}

// run follows a packet.
func (t *tracing) run(packet ovntrace.Packet) (*ovntrace.Trace, error) {
	text, err := t.Program.Run(t.ctx, packet)
	if err != nil {
		return nil, err
	}
	if t.q.ovn {
		expression, _ := packet.Expression() // as Run has made it
		t.status.OVN = append(t.status.OVN, api.TraceOutput{Packet: expression, Text: text})
	}
	return ovntrace.Parse(text)
}

// hostOwner is the owner of the row of the source's management port.
func (t *tracing) hostOwner() string { return "Node/" + t.from.node }

// nodeName is the name of the Node that has a chassis; "" is none.
func (t *tracing) nodeName(chassis string) string {
	name := t.hosts[chassis].name
	for _, n := range t.nodes {
		if name != "" && n.facts.Chassis == name {
			return n.name
		}
	}
	return ""
}

// podOf is the namespace and the name of a pod, by its port's owner.
func podOf(owner string) (namespace, name string, ok bool) {
	key, ok := strings.CutPrefix(owner, "Pod/")
	if !ok {
		return "", "", false
	}
	return strings.Cut(key, "/")
}
