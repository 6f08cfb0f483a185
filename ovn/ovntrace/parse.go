package ovntrace

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Trace is what ovn-trace prints of a packet, in its detailed form.
type Trace struct {
	// Visits are the pipelines that the packet, and what OVN has made of it, passed, in the order of the output.
	Visits []Visit
}

// Visit is a passage through a pipeline of a datapath.
type Visit struct {
	// Pipeline is ingress or egress.
	Pipeline string
	// Datapath is the name of the logical switch or router.
	Datapath string
	// Inport and Outport are names of logical ports; Outport is "" of an ingress pipeline.
	Inport, Outport string
	// Aside says that this is not the packet: OVN has made another one while it went on, as a question for a neighbour.
	Aside bool
	// Instead is what OVN has made of the packet in its place, as tcp_reset; "" where it is the packet itself.
	Instead string
	// Flows are the logical flows that matched, in order.
	Flows []Flow
	// Outputs are the ports to which the pipeline has given the packet.
	Outputs []Output
	// Errors are what ovn-trace says that it cannot tell.
	Errors []string
}

// Flow is a logical flow that matched.
type Flow struct {
	Table int
	// Stage is the name of the table, as ls_in_acl_eval.
	Stage    string
	Match    string
	Priority int
	// UUID are the first 32 bits of the row's, as eight digits; "" where nothing in the table has matched, which drops.
	UUID string
	// Actions are those of the flow, one a line.
	Actions []string
}

// Output is a port to which a packet was given, and its type (ovn-sb(5), Port_Binding): "" of a pod or a host.
type Output struct{ Port, Type string }

var (
	visitLine = regexp.MustCompile(`^(ingress|egress)\(dp="([^"]*)"(?:, inport="([^"]*)")?(?:, outport="([^"]*)")?\)$`)
	flowLine  = regexp.MustCompile(`^([0-9]{1,3})\. ([a-z0-9_?]+)(?: \([^ ]*\))?: (.*), priority ([0-9]{1,5}), uuid ([0-9a-f]{8})$`)
	noneLine  = regexp.MustCompile(`^([0-9]{1,3})\. ([a-z0-9_?]+)(?: \([^ ]*\))?: no match \(implicit drop\)$`)
	outLine   = regexp.MustCompile(`^/\* output to "([^"]*)", type "([^"]*)" \*/$`)
	ruleLine  = regexp.MustCompile(`^-{2,}$`)
)

// Parse reads the output of a run. Lines that it does not know are actions of the flow above them.
func Parse(text string) (*Trace, error) {
	p := &parser{lines: strings.Split(text, "\n"), trace: &Trace{}, member: none, aside: none}
	for p.at = 0; p.at < len(p.lines); p.at++ {
		p.line(p.lines[p.at])
	}
	if len(p.trace.Visits) == 0 {
		return nil, fmt.Errorf("ovn-trace has printed no pipeline: %.200q", strings.TrimSpace(text))
	}
	return p.trace, nil
}

// parser goes through the lines. A title has a line of hyphens below it. ovn-trace indents a title, and all that
// belongs to it, if its parent goes on after it: what is further in than the packet's own titles is about another
// packet. Members of a multicast group are further in, too, and so is all that follows from one of them.
type parser struct {
	lines []string
	at    int
	trace *Trace
	// base is the indentation of the packet's own titles, and member that of the titles of a multicast group's members;
	// none is no group.
	base, member int
	// instead is what OVN has made of the packet.
	instead string
	// aside is the indentation of a packet that was made beside it; none is no such packet.
	aside int
}

const (
	none = -1
	// step is how much further in a title is whose parent goes on.
	step = 4
)

func (p *parser) line(line string) {
	text := strings.TrimLeft(line, " ")
	if text == "" || strings.HasPrefix(text, "# ") {
		return
	}
	if p.at+1 < len(p.lines) && ruleLine.MatchString(strings.TrimLeft(p.lines[p.at+1], " ")) {
		p.at++
		p.title(text, len(line)-len(text))
		return
	}
	p.below(text)
}

// title begins a pipeline, or says what became of the packet.
func (p *parser) title(text string, indent int) {
	own := p.own(indent)
	if own && strings.HasPrefix(text, "multicast(") {
		p.member = indent + step
		return
	}
	if m := visitLine.FindStringSubmatch(text); m != nil {
		v := Visit{Pipeline: m[1], Datapath: m[2], Inport: m[3], Outport: m[4], Aside: !own}
		if own {
			v.Instead = p.instead
		}
		p.trace.Visits = append(p.trace.Visits, v)
		return
	}
	if word, _, _ := strings.Cut(text, " "); own && refusals[word] {
		p.instead = word
	}
}

// own says whether a title is about the packet, and remembers where such titles stand.
func (p *parser) own(indent int) bool {
	if p.aside != none && indent >= p.aside {
		return false
	}
	p.aside = none
	switch {
	case indent == p.member:
		p.base = indent + step
	case indent > p.base:
		p.aside = indent
		return false
	case indent < p.base:
		p.base, p.member = indent, none
	}
	return true
}

// refusals are packets that OVN makes in the place of one that it does not let pass.
var refusals = map[string]bool{"tcp_reset": true, "sctp_abort": true, "reject": true, "icmp4": true, "icmp6": true,
	"icmp4_error": true, "icmp6_error": true}

// below reads what stands below a title.
func (p *parser) below(text string) {
	if len(p.trace.Visits) == 0 {
		return
	}
	v := &p.trace.Visits[len(p.trace.Visits)-1]
	if m := flowLine.FindStringSubmatch(text); m != nil {
		v.Flows = append(v.Flows, Flow{Table: number(m[1]), Stage: m[2], Match: m[3], Priority: number(m[4]), UUID: m[5]})
		return
	}
	if m := noneLine.FindStringSubmatch(text); m != nil {
		v.Flows = append(v.Flows, Flow{Table: number(m[1]), Stage: m[2]})
		return
	}
	if m := outLine.FindStringSubmatch(text); m != nil {
		v.Outputs = append(v.Outputs, Output{m[1], m[2]})
		return
	}
	if rest, ok := strings.CutPrefix(text, "*** "); ok {
		v.Errors = append(v.Errors, rest)
		return
	}
	if len(v.Flows) > 0 {
		last := &v.Flows[len(v.Flows)-1]
		last.Actions = append(last.Actions, text)
	}
}

// number is one of digits that a pattern has counted.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
