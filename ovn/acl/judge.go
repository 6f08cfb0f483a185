package acl

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/nb"
)

// Connection is the first packet of a connection, as it arrives.
type Connection struct {
	// Packet has the backend's address and port where a load balancer stands between. Its Inport and
	// Outport are the logical switch ports where it starts and ends; "" is beyond the switches.
	Packet
	// VIP is what the source asked for, if a load balancer of its switch stands between: ACLs of
	// from-lport without apply-after-lb see it in place of the backend's.
	VIP netip.AddrPort
	// Hairpin is the address that the load balancer gives a source that is its own backend (its
	// hairpin_snat_ip; without it, the VIP's): ACLs of to-lport see it in place of Src.
	Hairpin netip.Addr
}

// hairpin says that a load balancer sends the packet back to where it came from.
func (c *Connection) hairpin() bool { return c.VIP.IsValid() && c.Inport == c.Outport }

// dialled is the packet before load balancing.
func (c *Connection) dialled() Packet {
	p := c.Packet
	if c.VIP.IsValid() {
		p.Dst, p.DstPort = c.VIP.Addr(), c.VIP.Port()
	}
	p.Outport = "" // not known yet
	return p
}

// Step is an ACL that a packet met and that had a say.
type Step struct {
	Stage  Stage
	Switch string
	Rule   *Rule
}

// Verdict is what becomes of a connection.
type Verdict struct {
	Allowed bool
	// Steps are the ACLs that decided, or passed the decision on, in the order in which the packet met
	// them. A stage without a step let the packet pass because no ACL matched.
	Steps []Step
	// Ambiguous holds ACLs of one tier and priority that match with different actions: OVN leaves open
	// which of them it takes. The steps have the first of them.
	Ambiguous [][]*Rule
	// Unread are ACLs that came before the deciding ones and could not be evaluated: the verdict is
	// the one without them.
	Unread []*Rule
	// Bypass is an allow-stateless ACL that kept the packet from the load balancer, whatever its tier:
	// the connection does not reach the backend.
	Bypass *Rule
}

// Judge follows the first packet of a connection: through its source's switch, from-lport before and
// after load balancing, and through its destination's, to-lport. Between two switches it also leaves the
// one and enters the other by their router ports, where ACLs that ask for no port hold as well.
// Neighbour discovery and multicast listener discovery always pass, and what a load balancer sends back
// to its source meets no ACL of the stage after it, as in OVN.
func (t *Tables) Judge(c Connection) Verdict {
	v := Verdict{Allowed: true}
	if isControl(&c.Packet) {
		return v
	}
	from, to := t.home[c.Inport], t.home[c.Outport]
	if from != nil && !from.send(c, from == to, &v) {
		return v
	}
	if to != nil && from != to {
		c.Inport, c.VIP = to.router, netip.AddrPort{}
		to.send(c, true, &v)
	}
	return v
}

// send judges a packet in all stages of a switch. If the destination is not there, it leaves by the
// router.
func (l *logicalSwitch) send(c Connection, there bool, v *Verdict) bool {
	first, after, last := c.dialled(), c.Packet, c.Packet
	after.Outport = ""
	if !there {
		last.Outport = l.router
	}
	if c.hairpin() {
		if last.Src = c.VIP.Addr(); c.Hairpin.IsValid() {
			last.Src = c.Hairpin
		}
	}
	if c.VIP.IsValid() {
		if v.Bypass = l.bypass(&first); v.Bypass != nil {
			v.Allowed = false
			return false
		}
	}
	return l.judge(FromPort, &first, v) && (c.hairpin() || l.judge(FromPortLB, &after, v)) && l.judge(ToPort, &last, v)
}

// bypass is an ACL that has OVN treat a packet statelessly, before any ACL is judged.
func (l *logicalSwitch) bypass(p *Packet) *Rule {
	for _, r := range l.stateless {
		if r.Match.root.eval(p, &l.env) {
			return r
		}
	}
	return nil
}

func (l *logicalSwitch) judge(stage Stage, p *Packet, v *Verdict) bool {
	for _, rules := range l.rules[stage] {
		i := slices.IndexFunc(rules, func(r *Rule) bool {
			if r.Match == nil {
				v.Unread = append(v.Unread, r)
				return false
			}
			return r.Match.root.eval(p, &l.env)
		})
		if i < 0 {
			continue
		}
		r := rules[i]
		v.Steps = append(v.Steps, Step{stage, l.name, r})
		if all := l.rivals(rules[i:], p); len(all) > 1 {
			v.Ambiguous = append(v.Ambiguous, all)
		}
		switch r.Action {
		case nb.ACLActionPass:
			continue
		case nb.ACLActionDrop, nb.ACLActionReject:
			v.Allowed = false
			return false
		}
		return true
	}
	return true
}

// rivals are the first rule and those of its priority that match with another action.
func (l *logicalSwitch) rivals(rules []*Rule, p *Packet) []*Rule {
	first := rules[0]
	all := []*Rule{first}
	for _, r := range rules[1:] {
		if r.Priority != first.Priority {
			break
		}
		if r.Match != nil && effect(r.Action) != effect(first.Action) && r.Match.root.eval(p, &l.env) {
			all = append(all, r)
		}
	}
	return all
}

// effect makes one of what OVN treats alike.
func effect(action string) string {
	if action == nb.ACLActionAllow {
		return nb.ACLActionAllowRelated
	}
	return action
}

var (
	discovery  = isND(133, 134, 135, 136)
	linkLocal  = netip.MustParsePrefix("fe80::/10")
	mldRouters = netip.MustParseAddr("ff02::16")
)

// isControl tells the IPv6 control traffic that OVN never puts before ACLs.
func isControl(p *Packet) bool {
	if discovery(p) {
		return true
	}
	if !isICMP6(p) || !p.Dst.IsMulticast() {
		return false
	}
	switch p.ICMPType {
	case 130, 131, 132:
		return linkLocal.Contains(p.Src)
	case 143:
		return p.Dst == mldRouters
	}
	return false
}
