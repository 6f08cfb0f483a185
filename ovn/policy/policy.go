// Package policy reads Kubernetes' network policies into one form: NetworkPolicy (networking.k8s.io/v1),
// ClusterNetworkPolicy (policy.networking.k8s.io/v1alpha2), and what was before it, AdminNetworkPolicy and
// BaselineAdminNetworkPolicy (v1alpha1).
//
// It is pure: objects in, what they mean and what is wrong with them out. What cannot be read never lets
// more through than was meant: a part of a NetworkPolicy then matches nothing, since all that it can do is
// to allow; so does a rule that accepts; and a rule that denies or passes, of which a part cannot be read,
// denies everything, as ClusterNetworkPolicy's API asks.
package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Policy is a network policy of any kind.
type Policy struct {
	Kind            Kind
	Namespace, Name string // no Namespace: it is the cluster's
	Tier            Tier
	Priority        int // within Admin's and Baseline's tiers: 0 is asked first
	Subject         Selection
	// Isolates says for each direction whether what no policy of the tier allows is refused.
	Isolates [2]bool
	// Rules of both directions, in the order in which they are asked.
	Rules []Rule
}

// Kind is a kind of object.
type Kind string

// The kinds.
const (
	NetworkPolicy              Kind = "NetworkPolicy"
	ClusterNetworkPolicy       Kind = "ClusterNetworkPolicy"
	AdminNetworkPolicy         Kind = "AdminNetworkPolicy"
	BaselineAdminNetworkPolicy Kind = "BaselineAdminNetworkPolicy"
)

// Tier groups policies: each tier is asked after the one before it.
type Tier uint8

// The tiers, by OVN's numbers. What is before them belongs to no policy.
const (
	Admin    Tier = 1
	Tenant   Tier = 2 // NetworkPolicy's
	Baseline Tier = 3
)

func (t Tier) String() string {
	return [...]string{Admin: "Admin", Tenant: "NetworkPolicy", Baseline: "Baseline"}[t]
}

// Direction is that of a connection's first packet, as the selected pods see it.
type Direction uint8

// The directions.
const (
	Ingress Direction = iota
	Egress
)

// Directions are both.
var Directions = [...]Direction{Ingress, Egress}

func (d Direction) String() string { return [...]string{"ingress", "egress"}[d] }

// Action is what becomes of a connection.
type Action uint8

// The actions.
const (
	Accept Action = iota
	Deny
	Pass // the next tier decides
)

func (a Action) String() string { return [...]string{"Accept", "Deny", "Pass"}[a] }

// Rule says what becomes of some connections.
type Rule struct {
	Direction Direction
	Index     int    // in spec.ingress or spec.egress
	Name      string // the user's, of cluster-wide policies
	Action    Action
	// Peers are those at the other end; Anyone: all are, whether pods or not.
	Anyone bool
	Peers  []Peer
	// Ports are those of the destination; AnyPort: all are, of all protocols.
	AnyPort bool
	Ports   []Port
}

// Nothing says that no connection matches.
func (r *Rule) Nothing() bool {
	return !r.Anyone && len(r.Peers) == 0 || !r.AnyPort && len(r.Ports) == 0
}

// Peer is who is at the other end. Exactly one field is set.
type Peer struct {
	Pods   *Selection
	Nodes  *Nodes
	Blocks []netip.Prefix // disjoint, sorted, of both families
	Domain string         // lower case without final dot, "*." first for all names below
}

// Port is a port, or a range of them, of a destination. All zero: every protocol's.
type Port struct {
	Protocol    Protocol // "" of a named port: any
	First, Last uint16   // both included; 0: all
	Name        string   // a container port's, instead of numbers
}

// Protocol is one that has ports, as OVN calls it.
type Protocol string

// The protocols.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	SCTP Protocol = "sctp"
)

// Problem is something wrong with a policy.
type Problem struct {
	Field string // as "spec.ingress[0].from[1].ipBlock.cidr"
	Text  string // what, what follows from it, and the remedy
	// Untold are as many more of the policy's parts that are wrong. The last problem of a policy has them.
	Untold int
}

func (p Problem) String() string {
	text := p.Field + ": " + p.Text
	if p.Untold > 0 {
		text += fmt.Sprintf("; %d more of its parts are wrong", p.Untold)
	}
	return text
}

// Key names a policy among those of its kind.
func (p *Policy) Key() string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

func (p *Policy) String() string { return string(p.Kind) + " " + p.Key() }

// Field is where a rule stands in its policy: "spec.ingress[0]".
func (r *Rule) Field() string { return fmt.Sprintf("spec.%s[%d]", r.Direction, r.Index) }

// reader reads one policy and keeps what is wrong with it.
type reader struct {
	problems                  []Problem
	prefixes                  int // of all blocks
	rules, selections, listed int // rules, peers by selectors, and ports of a NetworkPolicy
	abroad, pairs             int // of the peers those that select namespaces; named ports, each with each peer
}

// Bounds of what one NetworkPolicy may cost all others: its API has none of its own, and whoever owns a
// namespace may write one. ClusterNetworkPolicy's API has them.
const (
	maxTenantRules = 1000
	maxTenantPeers = 1000
	maxTenantPorts = 1000
	// maxTenantAbroad are peers that select namespaces: every new pod of anybody is compared with each.
	maxTenantAbroad = 100
	// maxTenantPairs are named ports of egress rules, each with each peer by selectors beside it, whose pods give the name
	// a number of their own.
	maxTenantPairs = 1000
	// maxPrefixes are those of all blocks: an exception may split its block into as many prefixes as it has
	// bits more.
	maxPrefixes = 10000
	// maxProblems are told.
	maxProblems = 20
)

// beyond says that a part is one too many.
func (r *reader) beyond(field string, count, limit int, parts string) bool {
	if count > limit {
		r.wrong(field, "is beyond the %d %s that a policy may have, and matches nothing; make several policies of it", limit,
			parts)
	}
	return count > limit
}

// told are the problems, not more than somebody reads.
func (r *reader) told() []Problem {
	if len(r.problems) <= maxProblems {
		return r.problems
	}
	list := slices.Clone(r.problems[:maxProblems])
	list[maxProblems-1].Untold = len(r.problems) - maxProblems
	return list
}

// maxQuoted bounds what a problem quotes of a user's text.
const maxQuoted = 100

func quoted(text string) string {
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return text
}

func (r *reader) wrong(field, format string, args ...any) {
	r.problems = append(r.problems, Problem{Field: field, Text: fmt.Sprintf(format, args...)})
}
