package ovntrace

import (
	"bytes"
	"io"
	"net/netip"
	"regexp"
	"slices"
)

// Variables are those of a chassis (ovn-sb(5), Chassis_Template_Var), by their names. Logical flows name them after a
// caret, and each chassis has its own values for them. ovn-trace has none, and leaves such flows out.
type Variables map[string]netip.Addr

// valued is what may be an address in an expression.
var valued = regexp.MustCompile(`[0-9a-f.:]+`)

// Unexpanded puts variables in the place of their values: it is the match of a logical flow as the Southbound has it,
// if what ovn-trace shows of the flow was expanded.
func (v Variables) Unexpanded(match string) string {
	names := map[string]string{}
	for name, value := range v {
		names[value.String()] = "^" + name
	}
	return valued.ReplaceAllStringFunc(match, func(text string) string {
		if name, ok := names[text]; ok {
			return name
		}
		return text
	})
}

// Parts of actions in JSON that ovn-trace does not follow as OVN does.
const (
	// unsnat in a gateway router is nothing to ovn-trace, and ends the packet's way (execute_ct_nat in
	// utilities/ovn-trace.c). The packet goes on to the next table. Whatever is for an address of the router's own meets
	// it, as NodePorts do.
	unsnat = `"ct_snat;"`
	// solicit asks for a neighbour, in ovn-trace with a packet to the address that asks for it (execute_nd_ns), and so
	// again and again, in megabytes. It is not the packet that is followed.
	solicit = `"nd_ns { nd.target = xxreg0; output; };`
	// learn and drop stand in one action: OVN learns a client's endpoint from a packet that it drops. The next one goes to
	// the same endpoint, and would do so here if anything were learnt.
	learn = `"commit_lb_aff(`
	drop  = `/* drop */`
)

// expander writes on what is written to it, JSON of the Southbound, with values in the place of variables, with
// actions that ovn-trace can follow, and without what is out of the scope. What it may replace waits for its end, which
// comes before the end of the JSON.
type expander struct {
	variables Variables
	to        io.Writer
	waits     []byte // a caret and a name, or the beginning of one of parts
	learns    bool   // it is in an action that learns
	trimmer   trimmer
}

// parts are what is looked for, beside variables.
var parts = []string{unsnat, solicit, learn, drop, members, datapaths}

// Write is part of [io.Writer].
func (e *expander) Write(text []byte) (int, error) {
	var out bytes.Buffer
	for rest := text; len(rest) > 0; {
		switch {
		case e.trimmer.list != "":
			e.trimmer.takes(rest[0], &out)
			rest = rest[1:]
		case len(e.waits) == 0:
			before := rest
			if at := bytes.IndexAny(rest, `^"/`); at >= 0 {
				before = rest[:at]
				e.waits, rest = append(e.waits, rest[at]), rest[1:]
			}
			out.Write(before)
			rest = rest[len(before):]
		case e.takes(rest[0]):
			e.waits, rest = append(e.waits, rest[0]), rest[1:]
		default:
			out.WriteString(e.instead())
			e.waits = e.waits[:0]
		}
	}
	if _, err := e.to.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// takes says whether a byte belongs to what waits.
func (e *expander) takes(b byte) bool {
	if e.waits[0] == '^' {
		return b == '_' || '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z'
	}
	return slices.ContainsFunc(parts, func(part string) bool {
		n := len(e.waits)
		return n < len(part) && part[n] == b && part[:n] == string(e.waits)
	})
}

// instead is what stands in the place of what waits, which is itself if nothing does.
func (e *expander) instead() string {
	if value, ok := e.variables[string(e.waits[1:])]; ok && e.waits[0] == '^' {
		return value.String()
	}
	switch text := string(e.waits); text {
	case unsnat:
		return `"next;"`
	case solicit:
		return `"`
	case learn:
		e.learns = true
		return text
	case members, datapaths:
		e.trimmer.list = text
		return text
	case drop:
		if e.learns {
			text = "next;"
		}
		e.learns = false
		return text
	default:
		return text
	}
}
