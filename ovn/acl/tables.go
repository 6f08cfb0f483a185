package acl

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// Stage is one of the three places of a logical switch's pipeline that have ACLs, in the order in which
// a packet meets them.
type Stage int

const (
	FromPort    Stage = iota // from-lport, before load balancing
	FromPortLB               // from-lport with apply-after-lb
	ToPort                   // to-lport
	stageNumber = iota
)

func (s Stage) String() string {
	return [...]string{"from-lport", "from-lport after load balancing", "to-lport"}[s]
}

// tiers is how many tiers OVN has.
const tiers = 4

// Rule is an ACL as it stands in the tables.
type Rule struct {
	UUID string
	// Name is the row's; Owner and Key are weft's marks on it, "" on an operator's ACL.
	Name, Owner, Key string
	// Group is the port group that has it, or Switch the switch.
	Group, Switch string
	Stage         Stage
	Tier          int
	Priority      int
	Action        string
	// Text is the match as it was written, Match as it was read: nil if it could not be.
	Text  string
	Match *Match
	Log   bool
}

// String names the rule as an operator finds it: by weft's marks, else by its name, else by its UUID.
func (r *Rule) String() string {
	switch {
	case r.Owner != "":
		return "ACL " + r.Owner + " " + r.Key
	case r.Name != "":
		return "ACL " + r.Name
	}
	return "ACL " + r.UUID
}

// Tables are rows made ready for judging. They do not change; many goroutines may use them.
type Tables struct {
	env      Env // with the groups' ports of all switches
	switches map[string]*logicalSwitch
	// home is each port's switch.
	home map[string]*logicalSwitch
}

// logicalSwitch is a switch with the ACLs that OVN applies on it.
type logicalSwitch struct {
	name string
	// router is the port that leads to other switches, "" if there is none or more than one.
	router string
	env    Env
	// rules are sorted by tier, then by priority, the highest first.
	rules [stageNumber][tiers][]*Rule
	// stateless are those of from-lport, in either stage, that are allow-stateless.
	stateless []*Rule
}

// New reads rows. The error joins what OVN would leave out, and ACLs that this package cannot
// evaluate (errors.Is ErrUnsupported for each of those); the tables are good without them, and Judge
// tells when it met one of the latter.
func New(rows Rows) (*Tables, error) {
	b := &builder{
		Tables: &Tables{env: Env{Sets: map[string]*Set{}, Groups: map[string]Ports{}}, switches: map[string]*logicalSwitch{},
			home: map[string]*logicalSwitch{}},
		acls: map[string]*Rule{}, ports: map[string]*nb.LogicalSwitchPort{}, dead: map[string]bool{},
	}
	b.readPorts(rows)
	b.readSets(rows)
	b.readACLs(rows)
	b.apply(rows)
	return b.Tables, errors.Join(b.errs...)
}

// Port says whether there is a logical switch port of a name.
func (t *Tables) Port(name string) bool { return t.home[name] != nil }

// Switch is the one that a port is on, "" if there is no such port.
func (t *Tables) Switch(port string) string {
	if l := t.home[port]; l != nil {
		return l.name
	}
	return ""
}

type builder struct {
	*Tables
	acls  map[string]*Rule                 // by UUID
	ports map[string]*nb.LogicalSwitchPort // by UUID
	dead  map[string]bool                  // UUIDs of ACLs that OVN leaves out
	errs  []error
}

func (b *builder) fail(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf(format, args...))
}

func (b *builder) readPorts(rows Rows) {
	for _, p := range rows.Ports {
		b.ports[p.UUID] = p
	}
	for _, s := range rows.Switches {
		l := b.addSwitch(s.Name)
		routers := 0
		for _, uuid := range s.Ports {
			p := b.ports[uuid]
			if p == nil {
				b.fail("switch %s has port %s, which is not among the rows: list the ports with the switches", s.Name, uuid)
				continue
			}
			b.home[p.Name] = l
			if p.Type == "router" {
				l.router = p.Name
				routers++
			}
		}
		if routers > 1 {
			l.router = ""
		}
	}
	for _, p := range rows.Ports {
		if b.home[p.Name] == nil {
			b.home[p.Name] = b.addSwitch("")
		}
	}
}

func (b *builder) addSwitch(name string) *logicalSwitch {
	if b.switches[name] == nil {
		b.switches[name] = &logicalSwitch{name: name, env: Env{Sets: b.env.Sets, Groups: map[string]Ports{}}}
	}
	return b.switches[name]
}

// readSets reads address sets and port groups, with the sets of their ports' addresses.
func (b *builder) readSets(rows Rows) {
	addSet := func(kind, name, set string, addresses []string) {
		s, err := NewSet(addresses)
		if err != nil {
			b.fail("%s %s: %w", kind, name, err)
		}
		b.env.Sets[set] = s
	}
	for _, s := range rows.AddressSets {
		addSet("address set", s.Name, s.Name, s.Addresses)
	}
	for _, g := range rows.PortGroups {
		all := Ports{}
		b.env.Groups[g.Name] = all
		var ip4, ip6 []string
		for _, uuid := range g.Ports {
			p := b.ports[uuid]
			if p == nil {
				b.fail("port group %s has port %s, which is not among the rows: list the ports with the groups", g.Name, uuid)
				continue
			}
			all[p.Name] = struct{}{}
			local := b.home[p.Name].env.Groups
			if local[g.Name] == nil {
				local[g.Name] = Ports{}
			}
			local[g.Name][p.Name] = struct{}{}
			v4, v6 := portAddresses(p)
			ip4, ip6 = append(ip4, v4...), append(ip6, v6...)
		}
		addSet("port group", g.Name, g.Name+"_ip4", ip4)
		addSet("port group", g.Name, g.Name+"_ip6", ip6)
	}
}

// portAddresses are the IP addresses in "MAC IP..." and dynamic addresses of a port.
func portAddresses(p *nb.LogicalSwitchPort) (ip4, ip6 []string) {
	texts := p.Addresses
	if p.DynamicAddresses != nil {
		texts = append(slices.Clone(texts), *p.DynamicAddresses)
	}
	for _, text := range texts {
		for _, field := range strings.Fields(text) {
			field, _, _ = strings.Cut(field, "/")
			switch a, err := netip.ParseAddr(field); {
			case err != nil:
			case a.Is4():
				ip4 = append(ip4, field)
			default:
				ip6 = append(ip6, field)
			}
		}
	}
	return ip4, ip6
}

func (b *builder) readACLs(rows Rows) {
	for _, a := range rows.ACLs {
		r := &Rule{UUID: a.UUID, Owner: a.ExternalIDs[ovsdb.OwnerMark], Key: a.ExternalIDs[ovsdb.KeyMark],
			Tier: a.Tier, Priority: a.Priority, Action: a.Action, Text: a.Match, Log: a.Log}
		if a.Name != nil {
			r.Name = *a.Name
		}
		after, _ := strconv.ParseBool(a.Options["apply-after-lb"])
		switch {
		case a.Direction == nb.ACLDirectionToLport:
			r.Stage = ToPort
		case after:
			r.Stage = FromPortLB
		}
		b.acls[a.UUID] = r
		if a.Tier < 0 || a.Tier >= tiers {
			b.fail("%s: tier %d: OVN has tiers 0 to %d", r, a.Tier, tiers-1)
			b.dead[a.UUID] = true
			continue
		}
		var err error
		if r.Match, err = Parse(a.Match); err == nil {
			err = r.Match.Check(&b.env)
			b.dead[a.UUID] = err != nil
		} else {
			b.dead[a.UUID] = !errors.Is(err, ErrUnsupported)
		}
		if err != nil {
			b.fail("%s: %w", r, err)
		}
	}
}

// apply puts the ACLs where OVN applies them: on their switch, or on every switch that has a port of
// their port group.
func (b *builder) apply(rows Rows) {
	for _, s := range rows.Switches {
		for _, uuid := range s.ACLs {
			b.put(b.switches[s.Name], uuid, "switch "+s.Name, func(r *Rule) { r.Switch = s.Name })
		}
	}
	for _, g := range rows.PortGroups {
		for _, uuid := range g.ACLs {
			if r := b.acls[uuid]; r != nil && r.Group == "" {
				r.Group = g.Name
			}
			for _, l := range b.switches {
				if l.env.Groups[g.Name] != nil {
					b.put(l, uuid, "port group "+g.Name, func(*Rule) {})
				}
			}
		}
	}
	for _, l := range b.switches {
		for s := range l.rules {
			for t := range l.rules[s] {
				slices.SortFunc(l.rules[s][t], func(a, b *Rule) int {
					return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Key, b.Key),
						cmp.Compare(a.UUID, b.UUID))
				})
			}
		}
	}
}

func (b *builder) put(l *logicalSwitch, uuid, on string, edit func(*Rule)) {
	r := b.acls[uuid]
	if r == nil {
		b.fail("%s has ACL %s, which is not among the rows: list the ACLs with it", on, uuid)
		return
	}
	edit(r)
	if b.dead[uuid] || r.Match != nil && r.Match.Check(&l.env) != nil {
		return
	}
	l.rules[r.Stage][r.Tier] = append(l.rules[r.Stage][r.Tier], r)
	if r.Action == nb.ACLActionAllowStateless && r.Stage != ToPort && r.Match != nil {
		l.stateless = append(l.stateless, r)
	}
}
