package ovntrace

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// balances is the action of a flow that gives a packet to one of a load balancer's endpoints (ovn-sb(5), ct_lb_mark).
var balances = regexp.MustCompile(`^ct_lb(?:_mark|_mark_local)?\(backends=([^;)]*)`)

// Endpoints are those of the first load balancer that the packet met; none where it met none. One of them has got it.
func (t *Trace) Endpoints() []netip.AddrPort {
	for i := range t.Visits {
		if t.Visits[i].Aside {
			continue
		}
		for j := range t.Visits[i].Flows {
			if list := t.Visits[i].Flows[j].Endpoints(); len(list) > 0 {
				return list
			}
		}
	}
	return nil
}

// Endpoints are those that the flow chooses among; none of a flow that is no load balancer's. One without a port has
// the port 0.
func (f *Flow) Endpoints() (list []netip.AddrPort) {
	for _, action := range f.Actions {
		m := balances.FindStringSubmatch(action)
		if m == nil {
			continue
		}
		for text := range strings.SplitSeq(m[1], ",") {
			if at, err := netip.ParseAddrPort(text); err == nil {
				list = append(list, at)
			} else if addr, err := netip.ParseAddr(text); err == nil {
				list = append(list, netip.AddrPortFrom(addr, 0))
			}
		}
	}
	return list
}

// ForcesSource says whether a router gives what the flow has balanced an address of its own as the source. It does so
// in its egress pipeline, by a flag that ovn-trace forgets on the way there.
func (f *Flow) ForcesSource() bool {
	return slices.ContainsFunc(f.Actions, func(action string) bool {
		return balances.MatchString(action) && strings.HasSuffix(action, "; force_snat);")
	})
}

// LearnsClient says whether the flow notes which endpoint a client has got (ovn-sb(5), commit_lb_aff).
func (f *Flow) LearnsClient() bool {
	return slices.ContainsFunc(f.Actions, func(action string) bool { return strings.HasPrefix(action, "commit_lb_aff(") })
}

// Drops says whether the flow ends the packet.
func (f *Flow) Drops() bool { return f.UUID == "" || slices.Contains(f.Actions, "drop;") }

// translates is the action of a flow that gives a packet another address (ovn-sb(5), ct_dnat, ct_snat).
var translates = regexp.MustCompile(`^ct_([sd])nat(?:_in_czone)?\(([0-9a-f:.]+)(?:,.*)?\);$`)

// Translation is the address that the flow gives a packet: its source, or its destination.
func (f *Flow) Translation() (address netip.Addr, source, ok bool) {
	for _, action := range f.Actions {
		if m := translates.FindStringSubmatch(action); m != nil {
			if addr, err := netip.ParseAddr(m[2]); err == nil {
				return addr, m[1] == "s", true
			}
		}
	}
	return netip.Addr{}, false, false
}
