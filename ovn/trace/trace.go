package trace

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
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
				nodes: t.allNodes(), status: &api.TraceStatus{}, variables: map[string]ovntrace.Variables{}}
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
	nodes  map[string]*node
	status *api.TraceStatus

	from, to end
	hosts    map[string]chassis
	acls     map[string]*rule // nil until they are read
	// variables are those of nodes' chassis, by the names of the nodes that packets have met.
	variables map[string]ovntrace.Variables
}

// answer fills the status.
func (t *tracing) answer() (err error) {
	if t.to, err = t.destination(); err != nil {
		return err
	}
	if t.from, err = t.source(); err != nil {
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
	if t.from.port != nil && t.from.port.has(packet.Dst) {
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
	if p.Src, p.Dst, err = t.addresses(); err != nil {
		return p, err
	}
	if s := t.to.service; s != nil {
		p.Protocol, p.DstPort = protocolOf(s.port), uint16(s.port.Port)
	} else {
		p.Protocol, p.DstPort = t.q.transport()
	}
	if p.Protocol != ovntrace.ICMP {
		p.SrcPort = clientPort
	}
	switch {
	case t.from.port == nil:
		return p, nil
	case t.byRoutes(p.Dst):
		return t.byHost(p)
	}
	p.Inport, p.EthSrc = t.from.port.name, t.from.port.mac
	if t.q.from.Kind == api.AddressEnd {
		p.EthDst, err = t.macOf(outerPrefix + t.from.node)
	} else {
		p.EthDst, err = t.firstHop(t.from.port.datapath, p.Dst)
	}
	return p, err
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
	w.start(from)
	switch {
	case t.from.port == nil:
		w.beyond = true
		return w, w.come(t.nodes[from.node])
	case t.q.from.Kind != api.AddressEnd && t.byRoutes(packet.Dst):
		return w, w.leaveHost()
	case packet.EthDst == nil:
		w.end(api.Lost, fmt.Sprintf("nobody on node %s has the address %s", w.node, packet.Dst), gone)
		return w, nil
	}
	trace, err := t.run(packet, from.node)
	switch {
	case err != nil:
		return nil, err
	case t.q.from.Kind == api.AddressEnd:
		return w, w.comeIn(trace)
	}
	return w, w.tell(trace)
}

// wayOf is that of a packet that nobody has followed yet.
func (t *tracing) wayOf(packet ovntrace.Packet, from end) *way {
	w := &way{tracing: t, leg: legOf(packet, from.node)}
	if t.q.from.Kind != api.AddressEnd {
		w.sender = from.port
	}
	return w
}

// run follows a packet from a node on, with the variables of the node's chassis. Their values are addresses of the
// node, so what is for another node's meets none of that one's NodePorts on the way there.
func (t *tracing) run(packet ovntrace.Packet, node string) (*ovntrace.Trace, error) {
	variables, err := t.variablesOf(node)
	if err != nil {
		return nil, err
	}
	text, err := t.Program.Run(t.ctx, packet, variables)
	if err != nil {
		return nil, err
	}
	if t.q.ovn {
		expression, _ := packet.Expression() // as Run has made it
		t.status.OVN = append(t.status.OVN, api.TraceOutput{Packet: expression, Text: text})
	}
	return ovntrace.Parse(text)
}

// variablesOf are those of a node's chassis.
func (t *tracing) variablesOf(node string) (ovntrace.Variables, error) {
	variables, known := t.variables[node]
	if known {
		return variables, nil
	}
	variables, err := t.south.variables(t.ctx, t.chassisOf(node))
	t.variables[node] = variables
	return variables, err
}

// flowOf is a flow as the Southbound may have it.
func (t *tracing) flowOf(f *ovntrace.Flow) flow {
	found := flow{[]string{f.Match}, f.Priority, f.UUID}
	for _, node := range slices.Sorted(maps.Keys(t.variables)) {
		if match := t.variables[node].Unexpanded(f.Match); !slices.Contains(found.matches, match) {
			found.matches = append(found.matches, match)
		}
	}
	return found
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
