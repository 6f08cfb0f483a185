package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weftnet/weft/ovn/acl"
)

// Question asks what becomes of a connection.
type Question struct {
	From, To End
	Protocol string // tcp, udp, sctp or icmp
	Port     uint16 // 0 of icmp
}

// End is one of a connection's: a pod or a Service by its name, or an address.
type End struct {
	Namespace, Name string
	Service         bool
	Addr            netip.Addr // valid: it has no name
}

// Key is the name of an end that has one: NAMESPACE/NAME.
func (e End) Key() string { return e.Namespace + "/" + e.Name }

func (e End) String() string {
	switch {
	case e.Addr.IsValid():
		return e.Addr.String()
	case e.Service:
		return "svc/" + e.Key()
	}
	return e.Key()
}

func (q Question) String() string { return q.From.String() + " -> " + q.destination() }

// destination is what ParseQuestion reads as the connection's second end.
func (q Question) destination() string {
	to := q.To.String()
	if q.To.Addr.Is6() {
		to = "[" + to + "]"
	}
	if q.Protocol == icmp {
		return to + ":" + icmp
	}
	return fmt.Sprintf("%s:%d/%s", to, q.Port, q.Protocol)
}

const icmp = "icmp"

// protocols are those that a question may name, by their IP numbers.
var protocols = map[string]uint8{"tcp": acl.TCP, "udp": acl.UDP, "sctp": acl.SCTP}

// ParseQuestion reads a connection's two ends: [NAMESPACE/]POD or an address, and the same or svc/NAMESPACE/NAME
// with a colon and PORT[/PROTOCOL] or "icmp". A pod that is named alone is in the given namespace.
func ParseQuestion(from, to, namespace string) (Question, error) {
	var q Question
	var err error
	if q.From, err = parseEnd(from, namespace); err != nil {
		return q, err
	}
	if q.From.Service {
		return q, fmt.Errorf("%q: a Service opens no connections; name a pod, as NAMESPACE/NAME, or an address", from)
	}
	i := strings.LastIndexByte(to, ':')
	if i < 0 {
		return q, fmt.Errorf("%q lacks a port; write %s:80, %s:53/udp or %s:icmp", to, to, to, to)
	}
	host, what := to[:i], to[i+1:]
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return q, fmt.Errorf("%q: an IPv6 address stands in brackets before its port; write it like [2001:db8::1]:80", to)
	}
	if q.To, err = parseEnd(host, namespace); err != nil {
		return q, err
	}
	if what == icmp {
		if q.Protocol = icmp; q.To.Service {
			return q, fmt.Errorf("%q: Services have no ICMP; ask one of its pods", to)
		}
		return q, nil
	}
	number, protocol, named := strings.Cut(what, "/")
	if !named {
		protocol = "tcp"
	}
	q.Protocol = strings.ToLower(protocol)
	if protocols[q.Protocol] == 0 {
		return q, fmt.Errorf("%q: protocol %q is none of tcp, udp and sctp; ICMP has no ports and is asked for as %s:icmp",
			to, protocol, host)
	}
	port, err := strconv.ParseUint(number, 10, 16)
	if err != nil || port == 0 {
		return q, fmt.Errorf("%q: %q is not a port number from 1 to 65535", to, number)
	}
	q.Port = uint16(port)
	return q, nil
}

func parseEnd(text, namespace string) (End, error) {
	bare := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		bare = text[1 : len(text)-1]
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		if addr.Zone() != "" {
			return End{}, fmt.Errorf("%q: leave out the zone %%%s, which means nothing in a cluster", text, addr.Zone())
		}
		return End{Addr: addr.Unmap()}, nil
	}
	parts := strings.Split(text, "/")
	e := End{Namespace: namespace, Name: parts[len(parts)-1]}
	switch {
	case len(parts) == 2:
		e.Namespace = parts[0]
	case len(parts) == 3 && parts[0] == "svc":
		e.Namespace, e.Service = parts[1], true
	case len(parts) != 1:
		return e, fmt.Errorf("%q is neither a pod, as [NAMESPACE/]NAME, nor a Service, as svc/NAMESPACE/NAME, nor an address",
			text)
	}
	if len(validation.IsDNS1123Label(e.Namespace))+len(validation.IsDNS1123Subdomain(e.Name)) > 0 {
		return e, fmt.Errorf("%q is not an address, and not a name of lower case letters, digits and '-'", text)
	}
	return e, nil
}

// Expectation is what somebody takes for granted of a connection.
type Expectation struct {
	Question
	Allow bool
	// Where it is written, as FILE:LINE.
	Where string
}

func (e Expectation) String() string {
	word := "deny"
	if e.Allow {
		word = "allow"
	}
	return word + " " + e.Question.String()
}

// ParseExpectations reads a line each: "allow FROM -> TO" or "deny FROM -> TO", with ends as ParseQuestion
// reads them. What follows a # is a comment. The error names every line that cannot be read.
func ParseExpectations(file, text, namespace string) ([]Expectation, error) {
	var list []Expectation
	var errs []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		e, err := parseExpectation(line, namespace)
		e.Where = fmt.Sprintf("%s:%d", file, number)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.Where, err))
		}
		list = append(list, e)
	}
	if number == 0 || len(list) == 0 {
		errs = append(errs, fmt.Errorf("%s: has no line like \"allow prod/web -> prod/db:5432\"", file))
	}
	return list, errors.Join(errs...)
}

func parseExpectation(line, namespace string) (e Expectation, err error) {
	words := strings.Fields(line)
	if len(words) != 4 || words[2] != "->" || words[0] != "allow" && words[0] != "deny" {
		return e, fmt.Errorf("%q is not like \"allow prod/web -> prod/db:5432\" or \"deny prod/web -> 192.0.2.1:53/udp\"",
			line)
	}
	e.Allow = words[0] == "allow"
	e.Question, err = ParseQuestion(words[1], words[3], namespace)
	return e, err
}
