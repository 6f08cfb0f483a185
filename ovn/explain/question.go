package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/acl"
)

// Question asks what becomes of a connection.
type Question struct {
	From, To End
	Protocol string // tcp, udp, sctp or icmp; "" of a Service is that of its port
	Port     uint16 // 0 of icmp, and of a Service that is asked by the name of its port, or by its only one
	PortName string // of a Service; "" of others
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
	if read, err := api.ParseTraceEnd(e.Key(), ""); err == nil && read.Kind != api.PodEnd { // its namespace is called svc
		return "pod/" + e.Key()
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
	switch {
	case q.Protocol == icmp:
		return to + ":" + icmp
	case q.Port != 0:
		return fmt.Sprintf("%s:%d/%s", to, q.Port, q.Protocol)
	case q.PortName == "":
		return to
	case q.Protocol == "":
		return to + ":" + q.PortName
	}
	return fmt.Sprintf("%s:%s/%s", to, q.PortName, q.Protocol)
}

const icmp = "icmp"

// protocols are those that a question may name, by their IP numbers.
var protocols = map[string]uint8{"tcp": acl.TCP, "udp": acl.UDP, "sctp": acl.SCTP}

// ParseQuestion reads a connection's two ends: [NAMESPACE/]POD or an address, and the same or svc/[NAMESPACE/]NAME
// with a colon and PORT[/PROTOCOL] or "icmp". The port of a Service may be its name, or be left out if there is only
// one. What is named without a namespace is in the given one.
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
	host := to
	if i >= 0 {
		host = to[:i]
	}
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return q, fmt.Errorf("%q: an IPv6 address stands in brackets before its port; write it like [2001:db8::1]:80", to)
	}
	if q.To, err = parseEnd(host, namespace); err != nil {
		return q, err
	}
	switch {
	case i >= 0:
		err = q.parsePort(to, host, to[i+1:])
	case !q.To.Service:
		err = fmt.Errorf("%q lacks a port; write %s:80, %s:53/udp or %s:icmp", to, to, to, to)
	}
	return q, err
}

// parsePort reads PORT[/PROTOCOL], icmp or, of a Service, the name of a port.
func (q *Question) parsePort(to, host, what string) error {
	if what == icmp {
		if q.Protocol = icmp; q.To.Service {
			return fmt.Errorf("%q: Services have no ICMP; ask one of its pods", to)
		}
		return nil
	}
	port, protocol, named := strings.Cut(what, "/")
	number, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err == nil && number > 0:
		q.Port = uint16(number)
	case !q.To.Service:
		return fmt.Errorf("%q: %q is not a port number from 1 to 65535", to, port)
	case len(validation.IsValidPortName(port)) > 0:
		return fmt.Errorf("%q: %q is neither a port number from 1 to 65535 nor the name of a Service's port", to, port)
	default:
		q.PortName = port
	}
	if !named && q.PortName != "" {
		return nil
	}
	if !named {
		protocol = "tcp"
	}
	q.Protocol = strings.ToLower(protocol)
	if protocols[q.Protocol] == 0 {
		return fmt.Errorf("%q: protocol %q is none of tcp, udp and sctp; ICMP has no ports and is asked for as %s:icmp",
			to, protocol, host)
	}
	return nil
}

// parseEnd reads an end as [api.ParseTraceEnd] does. A name with a dot is a pod's: none is resolved here.
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
	e, err := api.ParseTraceEnd(text, namespace)
	switch {
	case err != nil:
		return End{}, fmt.Errorf("%q is neither a pod, as [NAMESPACE/]NAME, nor a Service, as svc/[NAMESPACE/]NAME, nor an "+
			"address", text)
	case e.Kind == api.NodeEnd:
		return End{}, fmt.Errorf("%q: give an address of the node (`kubectl get nodes -o wide`)", text)
	case e.Kind == api.AddressEnd:
		e.Namespace = namespace
	}
	if len(validation.IsDNS1123Label(e.Namespace))+len(validation.IsDNS1123Subdomain(e.Name)) > 0 {
		return End{}, fmt.Errorf("%q is not an address, and not a name of lower case letters, digits and '-'", text)
	}
	return End{Namespace: e.Namespace, Name: e.Name, Service: e.Kind == api.ServiceEnd}, nil
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
