package acl

import "strings"

// maxDepth is how deep OVN lets parentheses be nested.
const maxDepth = 100

// Parse reads the expression of a match column. A *ParseError tells what is wrong with it: OVN writes
// such an ACL to the log and goes on without it, unless the error is ErrUnsupported.
func Parse(text string) (*Match, error) {
	p := &parser{lexer: lexer{text: text}}
	m, err := p.match()
	if err != nil {
		return nil, err // a nil *ParseError must not become an error
	}
	return m, nil
}

type parser struct {
	lexer lexer
	token token
	depth int
	// not says that an odd number of negations are around the token: what may be tested only for
	// equality may then be tested only for inequality.
	not      bool
	mentions []*comparison
}

func (p *parser) match() (*Match, *ParseError) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.token.kind == end {
		return nil, p.failure("write 1 to match every packet", "the match is empty")
	}
	root, err := p.expression()
	if err != nil {
		return nil, err
	}
	if p.token.kind != end {
		return nil, p.failure("join comparisons by && or ||", "unexpected %s after the end of the expression", p.token)
	}
	return &Match{root: root, mentions: p.mentions}, nil
}

func (p *parser) failure(remedy, problem string, args ...any) *ParseError {
	return p.lexer.failure(p.token.at, remedy, problem, args...)
}

func (p *parser) advance() (err *ParseError) {
	p.token, err = p.lexer.next()
	return err
}

func (p *parser) accept(op string) (bool, *ParseError) {
	if !p.token.is(op) {
		return false, nil
	}
	return true, p.advance()
}

func (p *parser) expression() (node, *ParseError) {
	n, err := p.negation()
	if err != nil {
		return nil, err
	}
	operator := p.token
	if !operator.is("&&") && !operator.is("||") {
		return n, nil
	}
	for p.token.is(operator.text) {
		if err := p.advance(); err != nil {
			return nil, err
		}
		next, err := p.negation()
		if err != nil {
			return nil, err
		}
		n = join(operator.text == "||", n, next)
	}
	if p.token.is("&&") || p.token.is("||") {
		return nil, p.failure("put one of them and its operands in parentheses", "&& and || stand side by side")
	}
	return n, nil
}

func (p *parser) negation() (node, *ParseError) {
	negated, err := p.accept("!")
	if err != nil {
		return nil, err
	}
	if !negated {
		n, _, err := p.primary()
		return n, err
	}
	p.not = !p.not
	operand := p.token
	n, atomic, err := p.primary()
	p.not = !p.not
	if err != nil {
		return nil, err
	}
	if !atomic {
		return nil, p.lexer.failure(operand.at, "put parentheses around what ! negates", "! stands before a comparison")
	}
	return n.negate(), nil
}

// primary reads what needs no parentheses; atomic says that ! may stand before it.
func (p *parser) primary() (n node, atomic bool, err *ParseError) {
	switch {
	case p.token.is("("):
		n, err = p.parenthesis()
		return n, true, err
	case p.token.kind == name:
		return p.symbolFirst()
	}
	return p.constantFirst()
}

func (p *parser) parenthesis() (node, *ParseError) {
	if p.depth == maxDepth {
		return nil, p.failure("write it flatter", "parentheses are nested deeper than %d", maxDepth)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	p.depth++
	n, err := p.expression()
	if err != nil {
		return nil, err
	}
	p.depth--
	if !p.token.is(")") {
		return nil, p.failure("write a ) before it", "%s where a parenthesis should end", p.token)
	}
	return n, p.advance()
}

func (p *parser) symbolFirst() (node, bool, *ParseError) {
	at := p.token
	s, err := p.symbol()
	if err != nil {
		return nil, false, err
	}
	relation := p.relation()
	if relation == "" {
		n, err := p.mention(at, s)
		return n, true, err
	}
	if err := p.advance(); err != nil {
		return nil, false, err
	}
	vs, err := p.values()
	if err != nil {
		return nil, false, err
	}
	n, err := p.compare(at, s, relation, vs)
	return n, false, err
}

// mention reads a symbol without a comparison, which means that it is not 0.
func (p *parser) mention(at token, s *symbol) (node, *ParseError) {
	if s.width == 0 || s.width > 1 && !p.not {
		return nil, p.failure("write ==, != or another comparison after it", "%s is not compared with anything", s.name)
	}
	zero := constant{format: hexadecimal}
	return p.compare(at, s, "!=", values{constants: []constant{zero}})
}

func (p *parser) constantFirst() (node, bool, *ParseError) {
	at := p.token
	vs, err := p.values()
	if err != nil {
		return nil, false, err
	}
	first := p.relation()
	if first == "" {
		if c := at.value; at.kind == integer && !c.masked && c.format == decimal && c.value.compare(number{0, 1}) <= 0 {
			return literal(c.value.low == 1), true, nil
		}
		return nil, false, p.failure("write a comparison with a symbol, as in ip4.src == 10.0.0.0/8",
			"%s is not compared with anything", at)
	}
	if err := p.advance(); err != nil {
		return nil, false, err
	}
	symbolAt := p.token
	s, err := p.symbol()
	if err != nil {
		return nil, false, err
	}
	low, err := p.compare(symbolAt, s, turned[first], vs)
	if err != nil {
		return nil, false, err
	}
	second := p.relation()
	if second == "" {
		return low, false, nil
	}
	if second[0] != first[0] || strings.ContainsAny(first, "!") || first == "==" {
		return nil, false, p.failure("write a range as 1 <= x <= 5 or 5 >= x >= 1", "%s and %s make no range", first, second)
	}
	if err := p.advance(); err != nil {
		return nil, false, err
	}
	if vs, err = p.values(); err != nil {
		return nil, false, err
	}
	high, err := p.compare(symbolAt, s, second, vs)
	if err != nil {
		return nil, false, err
	}
	return &junction{terms: []node{low, high}, chain: true}, false, nil
}

func (p *parser) relation() string {
	if _, is := inverted[p.token.text]; is && p.token.kind == operator {
		return p.token.text
	}
	return ""
}

func (p *parser) symbol() (*symbol, *ParseError) {
	t := p.token
	if t.kind != name {
		return nil, p.failure("write a symbol, such as ip4.src or tcp.dst", "%s where a symbol should stand", t)
	}
	s := symbols[t.text]
	if s == nil {
		failure := p.failure("see man ovn-sb, Logical_Flow, match", "there is no symbol %s", t.text)
		if inOVN(t.text) {
			failure = p.failure("write the ACL without it, or use ovn-trace", "%s cannot be evaluated", t.text)
			failure.Unsupported = true
		}
		return nil, failure
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.token.is("[") {
		failure := p.failure("write it as a comparison with a mask or a range", "bits of %s cannot be evaluated", s.name)
		failure.Unsupported = s.width > 1
		return nil, failure
	}
	return s, nil
}

// values are the constants that a symbol is compared with.
type values struct {
	constants []constant
	sets      []string
	ports     []string
	groups    []string
	braced    bool
}

func (p *parser) values() (values, *ParseError) {
	var vs values
	braced, err := p.accept("{")
	if err != nil {
		return vs, err
	}
	if !braced {
		return vs, p.value(&vs)
	}
	for vs.braced = true; ; {
		if err := p.value(&vs); err != nil {
			return vs, err
		}
		if _, err := p.accept(","); err != nil {
			return vs, err
		}
		if done, err := p.accept("}"); done || err != nil {
			return vs, err
		}
	}
}

func (p *parser) value(vs *values) *ParseError {
	switch t := p.token; t.kind {
	case integer:
		vs.constants = append(vs.constants, t.value)
	case set:
		vs.sets = append(vs.sets, t.text)
	case quoted:
		vs.ports = append(vs.ports, t.text)
	case group:
		vs.groups = append(vs.groups, t.text)
	default:
		return p.failure("write a number, an address, a quoted port, $set or @group", "%s where a constant should stand", t)
	}
	if len(vs.constants)+len(vs.sets) > 0 && len(vs.ports)+len(vs.groups) > 0 {
		return p.failure("compare with ports and with numbers or addresses apart",
			"%s is of another type than the constants before it", p.token)
	}
	return p.advance()
}

// compare checks a comparison as OVN does, and makes it.
func (p *parser) compare(at token, s *symbol, relation string, vs values) (node, *ParseError) {
	failure := func(remedy, problem string, args ...any) (node, *ParseError) {
		return nil, p.lexer.failure(at.at, remedy, problem, args...)
	}
	if s.width > 0 != (len(vs.ports)+len(vs.groups) == 0) {
		if s.width == 0 {
			return failure("write a quoted port or a @group", "%s is compared with a number or an address", s.name)
		}
		return failure("write a number, an address or a $set", "%s is compared with a port", s.name)
	}
	for _, c := range vs.constants {
		if c.width() > s.width {
			return failure("write a constant that fits", "%s does not fit the %d bits of %s", c, s.width, s.name)
		}
	}
	equality := relation == "==" || relation == "!="
	switch {
	case !equality && vs.braced:
		return failure("use == or !=", "%s is compared with a set by %s", s.name, relation)
	case !equality && s.nominal:
		return failure("use ==", "%s has no order", s.name)
	case !equality && len(vs.sets) > 0:
		return failure("use == or !=", "%s is compared with an address set by %s", s.name, relation)
	case !equality && vs.constants[0].masked:
		return failure("use == or !=", "%s is compared with a masked constant by %s", s.name, relation)
	case s.predicate && len(vs.sets) > 0:
		return failure("write the predicate alone", "%s is compared with an address set", s.name)
	case s.predicate:
		for _, c := range vs.constants {
			if positive := c.value.low&1 == 1; positive == (relation == "!=") != p.not {
				return failure("test for what packets have to be instead, or write an ACL of higher priority for them",
					"%s may not be negated", s.name)
			}
		}
	case s.nominal && relation == "==" == p.not:
		return failure("test for equality, or write an ACL of higher priority for the rest",
			"%s may not be tested for inequality", s.name)
	}
	c := &comparison{symbol: s, relation: relation, constants: vs.constants, sets: vs.sets, ports: vs.ports,
		groups: vs.groups}
	for _, v := range c.constants {
		c.inline.add(v)
	}
	if len(c.sets)+len(c.groups) > 0 {
		p.mentions = append(p.mentions, c)
	}
	return c, nil
}
