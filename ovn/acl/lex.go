package acl

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrUnsupported marks a match that OVN may well accept and this package cannot evaluate.
var ErrUnsupported = errors.New("cannot be evaluated here")

// ParseError says where in a match is what is wrong, and what to write instead.
type ParseError struct {
	Match   string
	Column  int // in characters, from 1
	Problem string
	Remedy  string
	// Unsupported says that OVN may accept it: errors.Is(err, ErrUnsupported).
	Unsupported bool
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("match %q, column %d: %s; %s", e.Match, e.Column, e.Problem, e.Remedy)
}

func (e *ParseError) Is(target error) bool { return e.Unsupported && target == ErrUnsupported }

type kind int

const (
	end      kind = iota
	name          // a symbol
	integer       // a constant
	quoted        // a string
	set           // $name
	group         // @name
	operator      // everything else
)

type token struct {
	kind  kind
	text  string // a name without its sign, a string without its quotes, an operator
	value constant
	at    int // byte offset
}

func (t token) is(op string) bool { return t.kind == operator && t.text == op }

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end"
	case integer:
		return t.value.String()
	case quoted:
		return quote(t.text)
	case set:
		return "$" + t.text
	case group:
		return "@" + t.text
	}
	return t.text
}

type lexer struct {
	text string
	at   int
}

func (l *lexer) failure(at int, remedy, problem string, args ...any) *ParseError {
	return &ParseError{Match: l.text, Column: 1 + utf8.RuneCountInString(l.text[:at]),
		Problem: fmt.Sprintf(problem, args...), Remedy: remedy}
}

// operators are in an order in which none hides a longer one.
var operators = []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "{", "}", ",", "[", "]"}

func (l *lexer) next() (token, *ParseError) {
	if err := l.skipBlanks(); err != nil {
		return token{}, err
	}
	start := l.at
	rest := l.text[start:]
	if rest == "" {
		return token{kind: end, at: start}, nil
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			l.at += len(op)
			return token{kind: operator, text: op, at: start}, nil
		}
	}
	switch c := rest[0]; {
	case c == '"':
		return l.string()
	case c == '$' || c == '@':
		l.at++
		word := l.word()
		if word == "" {
			return token{}, l.failure(start, "write the name right after it", "%c without a name", c)
		}
		if c == '$' {
			return token{kind: set, text: word, at: start}, nil
		}
		return token{kind: group, text: word, at: start}, nil
	case c == '^':
		failure := l.failure(start, "ask with the variable's value in its place",
			"a chassis template variable cannot be evaluated")
		failure.Unsupported = true
		return token{}, failure
	case isDigit(c) || strings.HasPrefix(rest, "::") || startsAddress(rest):
		return l.integer()
	}
	if word := l.word(); word != "" {
		return token{kind: name, text: word, at: start}, nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return token{}, l.failure(start, "quote names of ports, and join comparisons by && or ||",
		"%q has no place in a match", r)
}

func (l *lexer) skipBlanks() *ParseError {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case strings.ContainsRune(" \t\n\r\v\f", rune(rest[0])):
			l.at++
		case strings.HasPrefix(rest, "//"):
			length := strings.IndexByte(rest, '\n')
			if length < 0 {
				length = len(rest)
			}
			l.at += length
		case strings.HasPrefix(rest, "/*"):
			length := strings.Index(rest[2:], "*/")
			if length < 0 || strings.Contains(rest[2:2+length], "\n") {
				return l.failure(l.at, "end it by */ on the same line", "a comment does not end")
			}
			l.at += 2 + length + 2
		default:
			return nil
		}
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '.'
}

// startsAddress tells an IPv6 or Ethernet address that begins with a letter from a name.
func startsAddress(text string) bool {
	rest := strings.TrimLeft(text, "0123456789abcdefABCDEF")
	return len(rest) < len(text) && strings.HasPrefix(rest, ":")
}

func (l *lexer) word() string {
	start := l.at
	for l.at < len(l.text) && (isLetter(l.text[l.at]) || l.at > start && isDigit(l.text[l.at])) {
		l.at++
	}
	return l.text[start:l.at]
}

func (l *lexer) string() (token, *ParseError) {
	start := l.at
	for l.at++; l.at < len(l.text); l.at++ {
		switch l.text[l.at] {
		case '\\':
			l.at++
		case '"':
			l.at++
			literal := l.text[start:l.at]
			var text string
			if !utf8.ValidString(literal) || json.Unmarshal([]byte(literal), &text) != nil {
				return token{}, l.failure(start, "write it as in JSON", "the string %s cannot be read", literal)
			}
			return token{kind: quoted, text: text, at: start}, nil
		}
	}
	l.at = len(l.text)
	return token{}, l.failure(start, `end it by "`, "a string does not end")
}

func (l *lexer) integer() (token, *ParseError) {
	start := l.at
	c, err := l.bare()
	if err != nil {
		return token{}, err
	}
	if strings.HasPrefix(l.text[l.at:], "/") && !strings.HasPrefix(l.text[l.at:], "//") &&
		!strings.HasPrefix(l.text[l.at:], "/*") {
		l.at++
		m, err := l.bare()
		if err != nil {
			return token{}, err
		}
		if !c.restrict(m) {
			return token{}, l.failure(start, "write the mask as the value is written, or as a prefix length",
				"%s does not fit its mask", l.text[start:l.at])
		}
	}
	return token{kind: integer, value: c, at: start}, nil
}

// restrict gives c the mask m, if the two are written in forms that go together.
func (c *constant) restrict(m constant) bool {
	switch {
	case c.format == m.format:
		c.mask = m.value
	case c.format == ipv4 && m.format == decimal && m.value.low <= 32:
		c.mask = prefix(int(m.value.low), 32)
	case c.format == ipv6 && m.format == decimal && m.value.low <= 128:
		c.mask = prefix(int(m.value.low), 128)
	case c.format == decimal && m.format == hexadecimal && c.value == number{}:
		c.format, c.mask = hexadecimal, m.value
	default:
		return false
	}
	c.masked, c.value = true, c.value.and(c.mask)
	return true
}

// bare reads a constant without a mask.
func (l *lexer) bare() (constant, *ParseError) {
	start := l.at
	dotted := false
	for ; l.at < len(l.text); l.at++ {
		c := l.text[l.at]
		if c == '.' && !strings.HasPrefix(l.text[l.at:], "..") {
			dotted = true
		} else if !(c == ':' && !dotted) && !isDigit(c) && (!isLetter(c) || c == '_' || c == '.') {
			break
		}
	}
	text := l.text[start:l.at]
	mac, macErr := net.ParseMAC(text)
	address, addressErr := netip.ParseAddr(text)
	switch hex := strings.TrimPrefix(strings.ToLower(text), "0x"); {
	case len(text) == 17 && len(mac) == 6 && macErr == nil && strings.Count(text, ":") == 5:
		return constant{value: macNumber(mac), format: ethernet}, nil
	case text != "" && strings.Trim(text, "0123456789") == "":
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || text[0] == '0' && len(text) > 1 {
			return constant{}, l.failure(start, "write a decimal number below 2**64 without leading zeros", "%s is no number",
				text)
		}
		return constant{value: number{0, n}}, nil
	case len(hex) < len(text) && hex != "" && strings.Trim(hex, "0123456789abcdef") == "":
		hex = strings.TrimLeft(hex, "0")
		if len(hex) > 32 {
			return constant{}, l.failure(start, "write no more than 32 digits", "%s is too large", text)
		}
		hex = strings.Repeat("0", 32-len(hex)) + hex
		high, _ := strconv.ParseUint(hex[:16], 16, 64)
		low, _ := strconv.ParseUint(hex[16:], 16, 64)
		return constant{value: number{high, low}, format: hexadecimal}, nil
	case addressErr == nil && address.Is4():
		return constant{value: addressNumber(address), format: ipv4}, nil
	case addressErr == nil:
		return constant{value: addressNumber(address), format: ipv6}, nil
	}
	return constant{}, l.failure(start, "write a decimal or 0x number, or an IPv4, IPv6 or Ethernet address",
		"%q is no constant", text)
}

// parseConstant reads an entry of an address set.
func parseConstant(text string) (constant, error) {
	l := &lexer{text: text}
	t, err := l.next()
	if err != nil {
		return constant{}, err
	}
	if t.kind != integer || l.at != len(text) {
		return constant{}, l.failure(t.at, "write an IPv4, IPv6 or Ethernet address, or a prefix", "%q is no address", text)
	}
	return t.value, nil
}

// quote writes a string as OVN reads it.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
