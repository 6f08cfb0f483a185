package acl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Match is an expression that was read. It prints as a text of the same meaning.
type Match struct {
	root node
	// mentions are the comparisons with address sets and port groups.
	mentions []*comparison
}

func (m *Match) String() string { return m.root.String() }

// Matches evaluates the match. One that mentions what env does not have matches nothing, whatever else
// it says: OVN leaves such a flow out whole.
func (m *Match) Matches(p Packet, env *Env) bool {
	return m.Check(env) == nil && m.root.eval(&p, env)
}

// Unmet are the parts of the match that a packet does not meet, each as a text; all others hold. The parts are those of
// a conjunction, and of a match that is none there is one.
func (m *Match) Unmet(p Packet, env *Env) (texts []string) {
	parts := []node{m.root}
	if j, is := m.root.(*junction); is && !j.or && !j.chain {
		parts = j.terms
	}
	for _, part := range parts {
		if !part.eval(&p, env) {
			texts = append(texts, part.String())
		}
	}
	return texts
}

// Check tells what of the match env does not have.
func (m *Match) Check(env *Env) error {
	var errs []error
	for _, c := range m.mentions {
		for _, name := range c.sets {
			switch s := env.Sets[name]; {
			case s == nil:
				errs = append(errs, fmt.Errorf("there is no address set %s; OVN ignores an ACL that mentions it: create it", name))
			case s.width > c.symbol.width:
				errs = append(errs, fmt.Errorf("address set %s has values that do not fit %s; OVN ignores an ACL that compares "+
					"the two: keep IPv4 and IPv6 addresses in sets of their own", name, c.symbol.name))
			}
		}
		for _, name := range c.groups {
			if env.Groups[name] == nil {
				errs = append(errs, fmt.Errorf("there is no port group %s, or no port of it on this switch; OVN ignores an ACL "+
					"that mentions it: create it", name))
			}
		}
	}
	return errors.Join(errs...)
}

// Sets and Groups name the address sets and port groups that the match mentions.
func (m *Match) Sets() []string {
	return m.names(func(c *comparison) []string { return c.sets })
}

func (m *Match) Groups() []string {
	return m.names(func(c *comparison) []string { return c.groups })
}

func (m *Match) names(of func(*comparison) []string) (names []string) {
	for _, c := range m.mentions {
		names = append(names, of(c)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// node is a part of an expression. Negations are worked into it while it is read.
type node interface {
	eval(*Packet, *Env) bool
	negate() node
	String() string
}

type literal bool

func (b literal) eval(*Packet, *Env) bool { return bool(b) }
func (b literal) negate() node            { return !b }
func (b literal) String() string {
	if b {
		return "1"
	}
	return "0"
}

// junction is a conjunction or disjunction.
type junction struct {
	or    bool
	terms []node
	// chain says that it is a conjunction written as 0 <= x <= 5.
	chain bool
}

// join combines two expressions; a run of one operator is one junction.
func join(or bool, a, b node) node {
	var terms []node
	for _, n := range []node{a, b} {
		if j, is := n.(*junction); is && j.or == or && !j.chain {
			terms = append(terms, j.terms...)
		} else {
			terms = append(terms, n)
		}
	}
	return &junction{or: or, terms: terms}
}

func (j *junction) eval(p *Packet, env *Env) bool {
	for _, t := range j.terms {
		if t.eval(p, env) == j.or {
			return j.or
		}
	}
	return !j.or
}

func (j *junction) negate() node {
	n := &junction{or: !j.or}
	for _, t := range j.terms {
		n.terms = append(n.terms, t.negate())
	}
	return n
}

func (j *junction) String() string {
	if j.chain {
		low, high := j.terms[0].(*comparison), j.terms[1].(*comparison)
		return low.constants[0].String() + " " + turned[low.relation] + " " + high.String()
	}
	operator := " && "
	if j.or {
		operator = " || "
	}
	var terms []string
	for _, t := range j.terms {
		text := t.String()
		if inner, is := t.(*junction); is && !inner.chain {
			text = "(" + text + ")"
		}
		terms = append(terms, text)
	}
	return strings.Join(terms, operator)
}

var (
	inverted = map[string]string{"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
	turned   = map[string]string{"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
)

// comparison compares a symbol with constants. == holds with any of them, != with none.
type comparison struct {
	symbol    *symbol
	relation  string
	constants []constant // of an integer symbol; inline holds them for look-up
	inline    Set
	sets      []string
	ports     []string // of a string symbol
	groups    []string
}

func (c *comparison) negate() node {
	n := *c
	n.relation = inverted[c.relation]
	return &n
}

func (c *comparison) eval(p *Packet, env *Env) bool {
	if c.symbol.predicate {
		return c.symbol.has(p)
	}
	if c.symbol.text != nil {
		return c.hasPort(c.symbol.text(p), env)
	}
	if c.relation == "!=" && c.empty(env) {
		return true // as OVN has it, also of packets that lack the field
	}
	if !c.symbol.has(p) {
		return false
	}
	value := c.symbol.number(p)
	switch c.relation {
	case "==":
		return c.holds(value, env)
	case "!=":
		return !c.holds(value, env)
	}
	order := value.compare(c.constants[0].value)
	switch c.relation {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// holds says whether a value is among the constants. Constants without bits that count, as in 0/0,
// equal everything, and differ from nothing.
func (c *comparison) holds(value number, env *Env) bool {
	if c.inline.has(value) {
		return true
	}
	for _, name := range c.sets {
		if s := env.Sets[name]; s != nil && s.has(value) {
			return true
		}
	}
	return false
}

func (c *comparison) hasPort(port string, env *Env) bool {
	if port == "" {
		return false
	}
	if slices.Contains(c.ports, port) {
		return true
	}
	for _, name := range c.groups {
		if _, in := env.Groups[name][port]; in {
			return true
		}
	}
	return false
}

func (c *comparison) empty(env *Env) bool {
	if len(c.constants) > 0 {
		return false
	}
	for _, name := range c.sets {
		if s := env.Sets[name]; s != nil && !s.empty() {
			return false
		}
	}
	return true
}

func (c *comparison) String() string {
	if c.symbol.predicate {
		return c.symbol.name
	}
	var values []string
	for _, v := range c.constants {
		values = append(values, v.String())
	}
	for _, v := range c.sets {
		values = append(values, "$"+v)
	}
	for _, v := range c.ports {
		values = append(values, quote(v))
	}
	for _, v := range c.groups {
		values = append(values, "@"+v)
	}
	text := values[0]
	if len(values) > 1 {
		text = "{" + strings.Join(values, ", ") + "}"
	}
	return c.symbol.name + " " + c.relation + " " + text
}
