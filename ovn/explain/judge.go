package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/policy"
)

// Answer is what becomes of the connections that a question is about: one an address family that both ends
// have and, of a Service, one an endpoint.
type Answer struct {
	Question Question
	// Service says of which Service's an address is that was asked for.
	Service string
	Paths   []Path
	// Problems are those of policies that select one of the ends, or may.
	Problems []objects.Problem
	// Nobody tells, of such policies, which selectors select no pod, and what to do.
	Nobody []string
}

// Allowed says whether all connections are.
func (a *Answer) Allowed() bool {
	return !slices.ContainsFunc(a.Paths, func(p Path) bool { return !p.Allowed })
}

// Mixed says that some are allowed and some are not.
func (a *Answer) Mixed() bool {
	return !a.Allowed() && slices.ContainsFunc(a.Paths, func(p Path) bool { return p.Allowed })
}

// Path is one connection.
type Path struct {
	Src, Dst netip.Addr
	Port     uint16 // of the destination, behind a Service
	// MadeUp says that a pod has no address in earnest: only the family counts.
	MadeUp bool
	// Egress and Ingress are what the two ends' policies say of it.
	Egress, Ingress Side
	Allowed         bool
	// Notes are what else there is to know.
	Notes []string
}

// Ask judges the connections of a question, of one address family only if it is "ipv4" or "ipv6". An error
// means that there is none such.
func (c *Cluster) Ask(q Question, family string) (*Answer, error) {
	from, err := c.end(q.From)
	if err == nil && from.why != "" && c.unserved(q.From.Addr) != nil {
		err = fmt.Errorf("%s is a Service's address, and a Service opens no connections; name a pod, or another address",
			q.From)
	}
	if err != nil {
		return nil, err
	}
	f, err := c.front(q, from)
	if err != nil {
		return nil, err
	}
	if q.To.Service {
		q.Port, q.PortName, q.Protocol = uint16(f.port.Port), "", protocolOf(&f.port.Protocol)
	}
	targets, err := c.targets(q, f, from)
	if err != nil {
		return nil, err
	}
	a := &Answer{Question: q}
	if f != nil {
		a.Service = f.text()
	}
	for _, to := range targets {
		for _, src := range c.nodes.sources(from, to) {
			for _, dst := range to.addresses {
				if src.Is4() == dst.Is4() && (family == "" || src.Is4() == (family == "ipv4")) {
					a.Paths = append(a.Paths, c.judge(q, from, to, src, dst))
				}
			}
		}
	}
	if len(a.Paths) == 0 {
		what := "one address family"
		if family != "" {
			what = "the family " + family
		}
		return nil, fmt.Errorf("%s: the two have no addresses of %s", q, what)
	}
	ends := []*pod{from}
	for _, to := range targets {
		ends = append(ends, to.pod)
	}
	a.Problems, a.Nobody = c.problemsOf(ends), c.nobody(ends)
	return a, nil
}

// problemsOf are those of policies that select one of some pods, or may: nobody knows whom one selects whose subject
// cannot be read.
func (c *Cluster) problemsOf(pods []*pod) []objects.Problem {
	var list []objects.Problem
	for _, problem := range c.problems {
		i := slices.IndexFunc(c.order, func(o *policy.Policy) bool { return about(problem, o) })
		namespace := problem.Object.Namespace
		if problem.Kind == objects.NamespaceKind {
			namespace = problem.Object.Name
		}
		if slices.ContainsFunc(pods, func(p *pod) bool {
			if i >= 0 {
				return c.selects(c.order[i].Subject, p)
			}
			return p.why == "" && (namespace == "" || namespace == p.namespace)
		}) {
			list = append(list, problem)
		}
	}
	return list
}

// end finds a pod, or makes one up of an address that no pod has.
func (c *Cluster) end(e End) (*pod, error) {
	if !e.Addr.IsValid() {
		p := c.pods[e.Key()]
		if p == nil {
			return nil, fmt.Errorf("there is no pod %s", e.Key())
		}
		if len(p.addresses) == 0 {
			return nil, fmt.Errorf("pod %s %s; ask about its address, or about another pod", e.Key(), p.why)
		}
		return p, nil
	}
	if p := c.podAt(e.Addr); p != nil {
		return p, nil
	}
	outside := &pod{addresses: []netip.Addr{e.Addr}, why: "is no pod's address"}
	if node := c.nodes.named[e.Addr]; node != "" {
		outside.port, outside.node, outside.why = contract.ManagementPort(node), node, "is an address of Node "+node
	}
	return outside, nil
}

// podAt is the pod that has an address of its own, nil if none has this.
func (c *Cluster) podAt(addr netip.Addr) *pod {
	for _, name := range c.names {
		if p := c.pods[name]; p.why == "" && slices.Contains(p.addresses, addr) {
			return p
		}
	}
	return nil
}

// clientPort is one that a client has got from its system; no policy asks for it.
const clientPort = 40000

// judge follows one connection, by the rows that are there or else by those that must be.
func (c *Cluster) judge(q Question, from *pod, to target, src, dst netip.Addr) Path {
	connection := acl.Connection{Packet: firstPacket(q.Protocol, to.number, from, to.pod, src, dst), VIP: to.vip}
	itself := from.port != "" && from.port == to.port
	if itself && !to.vip.IsValid() {
		return toItself(from, to, src, dst)
	}
	if itself && to.gateway == nil {
		connection.Loopback, connection.Hairpin = true, ovn.HairpinAddress(src)
	}
	tables := c.desired
	if c.actual != nil {
		tables = c.actual
	}
	p := c.path(tables, connection, from, to)
	if c.actual != nil {
		p.Notes = append(c.missing(from, to.pod), p.Notes...)
		if wanted := c.path(c.desired, connection, from, to); wanted.Allowed != p.Allowed ||
			wanted.Egress.text() != p.Egress.text() || wanted.Ingress.text() != p.Ingress.text() {
			p.Notes = append(p.Notes, "the Northbound differs from the objects. By the objects, the connection would be "+
				word(wanted.Allowed)+":\n"+wanted.Egress.text()+wanted.Ingress.text()+
				"The controller has not written it yet, or cannot: see its log, "+
				"and the policies' status")
		}
	}
	return p
}

// firstPacket opens a connection, or is an echo request.
func firstPacket(protocol string, port uint16, from, to *pod, src, dst netip.Addr) acl.Packet {
	p := acl.Packet{Inport: from.port, Outport: to.port, Src: src, Dst: dst, Proto: protocols[protocol],
		SrcPort: clientPort, DstPort: port}
	switch {
	case protocol == icmp && src.Is4():
		p.Proto, p.SrcPort, p.ICMPType = acl.ICMP, 0, 8
	case protocol == icmp:
		p.Proto, p.SrcPort, p.ICMPType = acl.ICMPv6, 0, 128
	}
	return p
}

// toItself is a connection that does not leave its pod or host, and so meets no ACL.
func toItself(from *pod, to target, src, dst netip.Addr) Path {
	what := "a host reaches itself: no policy is asked"
	if from.why == "" {
		what = "a pod reaches itself: no policy is asked"
	}
	end := func(d policy.Direction, p *pod) Side {
		return Side{Direction: d, Pod: p.known(), Allowed: true, Findings: []Finding{{Text: what}}}
	}
	return Path{Src: src, Dst: dst, Port: to.number, MadeUp: from.madeUp, Allowed: true,
		Egress: end(policy.Egress, from), Ingress: end(policy.Ingress, to.pod)}
}

// missing says of pods that have no port in the Northbound: no policy is asked about them there.
func (c *Cluster) missing(pods ...*pod) []string {
	var notes []string
	for _, p := range pods {
		if p.why == "" && !c.actual.Port(p.port) {
			notes = append(notes, fmt.Sprintf("the Northbound has no port %s for pod %s, which has no network until it has one",
				p.port, p.key()))
		}
	}
	return notes
}

// path judges a connection by some rows. What the destination's policies say is told even where the source's
// refuse it.
func (c *Cluster) path(tables *acl.Tables, connection acl.Connection, from *pod, to target) Path {
	p := Path{Src: connection.Src, Dst: connection.Dst, Port: connection.DstPort, MadeUp: from.madeUp || to.madeUp}
	if g := to.gateway; g != nil {
		connection = g.leaving(connection, from)
	}
	verdicts := []acl.Verdict{tables.Judge(connection)}
	p.Allowed = verdicts[0].Allowed
	steps := parted(tables, connection, verdicts[0].Steps)
	switch {
	case to.gateway != nil:
		arriving := tables.Judge(to.gateway.arriving(p, to.port, connection))
		verdicts = append(verdicts, arriving)
		p.Allowed = p.Allowed && arriving.Allowed
		steps[policy.Ingress] = arriving.Steps
	case !p.Allowed && len(steps[policy.Ingress]) == 0 && from.port != to.port:
		within := tables.Switch(from.port) == tables.Switch(to.port)
		connection.Inport, connection.VIP = "", netip.AddrPort{}
		alone := tables.Judge(connection)
		verdicts = append(verdicts, alone)
		steps[policy.Ingress] = slices.DeleteFunc(alone.Steps, func(s acl.Step) bool {
			return within && s.Stage != acl.ToPort
		})
	}
	p.Egress = c.side(policy.Egress, from, steps[policy.Egress])
	p.Ingress = c.side(policy.Ingress, to.pod, steps[policy.Ingress])
	if to.barredBy != "" {
		p.Allowed, p.Egress.Allowed = false, false
		p.Egress.Findings = []Finding{{tierName(0), notAdmitted(to.barredBy)}}
	}
	if to.gateway != nil {
		p.Notes = append(p.Notes, to.gateway.note(&p))
	}
	for _, v := range verdicts {
		p.Notes = append(p.Notes, verdictNotes(&v)...)
	}
	if !c.running && to.why != "" && !p.Egress.Allowed {
		p.Notes = append(p.Notes, c.domainNotes(from)...)
	}
	return p
}

// parted gives each end its own of the ACLs that a packet met: those of its switch or, of one switch that both are
// on, of the stage. A packet between two switches meets the ACLs of both of them.
func parted(tables *acl.Tables, c acl.Connection, steps []acl.Step) (ends [2][]acl.Step) {
	source, destination := tables.Switch(c.Inport), tables.Switch(c.Outport)
	for _, step := range steps {
		d := policy.Egress
		if step.Switch == destination && (source != destination || step.Stage == acl.ToPort) {
			d = policy.Ingress
		}
		ends[d] = append(ends[d], step)
	}
	return ends
}

func verdictNotes(v *acl.Verdict) []string {
	var notes []string
	for _, r := range v.Unread {
		notes = append(notes, fmt.Sprintf("%s comes before and cannot be evaluated here (%s): this is the verdict without it",
			r, r.Text))
	}
	for _, rules := range v.Ambiguous {
		notes = append(notes, fmt.Sprintf("%v have one priority and decide differently: OVN leaves open which of them holds",
			rules))
	}
	if v.Bypass != nil {
		notes = append(notes, fmt.Sprintf("%s keeps the connection from the Service's load balancer", v.Bypass))
	}
	return notes
}
