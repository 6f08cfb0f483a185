package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/ovn/ovntrace"
)

// QuestionError is what is wrong with a question: it has no answer until it is asked in another way.
type QuestionError struct {
	// Field is that of the question, as spec.port.
	Field string
	// Text is what is wrong, and the remedy.
	Text string
}

func (e *QuestionError) Error() string { return e.Field + ": " + e.Text }

func questionErrorf(field, format string, args ...any) error {
	return &QuestionError{field, fmt.Sprintf(format, args...)}
}

// question is a [api.TraceSpec] that was checked.
type question struct {
	from, to api.TraceEnd
	address  netip.Addr // of the destination, if it is one
	client   netip.Addr // the source, if it is an address
	entry    string     // the Node by whose gateway the client enters; "" is the one that fits
	port     string     // "" is none
	protocol ovntrace.Protocol
	family   string
	ovn      bool
	live     bool
}

// Families of addresses, as Kubernetes names them.
const (
	ipv4 = "IPv4"
	ipv6 = "IPv6"
)

// readQuestion checks a question. Nothing that passes has a character that a name, an address or a number may not have.
func readQuestion(spec api.TraceSpec) (q question, err error) {
	q = question{from: spec.Source, to: spec.Destination, port: spec.Port, family: spec.Family, ovn: spec.OVN,
		live: spec.Live, entry: spec.Node, protocol: ovntrace.Protocol(strings.ToLower(spec.Protocol))}
	if err := checkEnd("spec.source", q.from); err != nil {
		return q, err
	}
	if err := checkEnd("spec.destination", q.to); err != nil {
		return q, err
	}
	if q.to.Kind == api.AddressEnd {
		if q.address, err = readAddress("spec.destination.name", q.to.Name); err != nil {
			return q, err
		}
	}
	if err := q.checkSource(); err != nil {
		return q, err
	}
	switch q.protocol {
	case "", ovntrace.TCP, ovntrace.UDP, ovntrace.SCTP:
	default:
		return q, questionErrorf("spec.protocol", "%q is none of tcp, udp and sctp; without a port, an echo (ICMP) is asked "+
			"for", spec.Protocol)
	}
	if q.family != "" && q.family != ipv4 && q.family != ipv6 {
		return q, questionErrorf("spec.family", "%q is neither IPv4 nor IPv6; leave it out for IPv4, or for IPv6 if "+
			"an end has no IPv4", q.family)
	}
	if err := q.checkPort(); err != nil {
		return q, err
	}
	return q, q.checkLive()
}

// checkLive refuses a probe that nobody can send.
func (q *question) checkLive() error {
	switch {
	case !q.live:
	case q.from.Kind != api.PodEnd:
		return questionErrorf("spec.live", "a probe is sent from the network of a Pod, and the source is of kind %s; ask "+
			"from a Pod, or leave it out", q.from.Kind)
	case q.port == "" && q.to.Kind != api.ServiceEnd:
		return questionErrorf("spec.live", "a probe is a connection and no echo (ICMP); name a port, or leave it out")
	}
	return nil
}

// checkSource reads who opens the connection.
func (q *question) checkSource() (err error) {
	switch {
	case q.from.Kind == api.ServiceEnd:
		return questionErrorf("spec.source.kind", "a trace begins at a Pod, a Node or an Address outside; ask from one of "+
			"them")
	case q.from.Kind != api.AddressEnd && q.entry != "":
		return questionErrorf("spec.node", "a %s does not come in by a gateway; leave it out", q.from.Kind)
	case q.from.Kind != api.AddressEnd:
		return nil
	case q.to.Kind != api.AddressEnd && q.to.Kind != api.NodeEnd:
		return questionErrorf("spec.destination.kind", "a connection from outside goes to an address that is known there: "+
			"give one of a Service's (`kubectl get services -A`), or a node and a NodePort")
	}
	q.client, err = readAddress("spec.source.name", q.from.Name)
	return err
}

func (q *question) checkPort() error {
	switch _, numbered := q.number(); {
	case q.port == "" && q.to.Kind != api.ServiceEnd && q.protocol != "":
		return questionErrorf("spec.port", "is empty, and %s has ports; name one, or leave the protocol out", q.protocol)
	case q.port == "" || numbered:
		return nil
	case q.to.Kind == api.ServiceEnd && len(validation.IsValidPortName(q.port)) == 0:
		return nil
	}
	return questionErrorf("spec.port", "%q is not a number from 1 to 65535; a port of a Service may be named, too", q.port)
}

// number is the port's, if it is one.
func (q *question) number() (uint16, bool) {
	n, err := strconv.ParseUint(q.port, 10, 16)
	return uint16(n), err == nil && n > 0
}

// transport is the protocol, and the port, where the destination is no Service.
func (q *question) transport() (ovntrace.Protocol, uint16) {
	number, ok := q.number()
	if !ok {
		return ovntrace.ICMP, 0
	}
	return cmp.Or(q.protocol, ovntrace.TCP), number
}

// portText is the port, and the protocol if one is named: 53/udp, dns, or "by udp" where any port would do.
func (q *question) portText() string {
	switch {
	case q.protocol == "":
		return q.port
	case q.port == "":
		return "by " + string(q.protocol)
	}
	return q.port + "/" + string(q.protocol)
}

func checkEnd(field string, e api.TraceEnd) error {
	var wrong []string
	switch e.Kind {
	case api.PodEnd:
		wrong = append(validation.IsDNS1123Label(e.Namespace), validation.IsDNS1123Subdomain(e.Name)...)
	case api.ServiceEnd:
		wrong = append(validation.IsDNS1123Label(e.Namespace), validation.IsDNS1123Label(e.Name)...)
	case api.NodeEnd:
		wrong = validation.IsDNS1123Subdomain(e.Name)
	case api.AddressEnd: // which is parsed
	default:
		return questionErrorf(field+".kind", "%q is none of Pod, Service, Node and Address", e.Kind)
	}
	if (e.Kind == api.NodeEnd || e.Kind == api.AddressEnd) && e.Namespace != "" {
		return questionErrorf(field+".namespace", "a %s is in no namespace; leave it out", e.Kind)
	}
	if len(wrong) > 0 {
		return questionErrorf(field, "%q is not the name of a %s: %s", strings.TrimPrefix(e.Namespace+"/"+e.Name, "/"),
			e.Kind, wrong[0])
	}
	return nil
}

func readAddress(field, text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	addr = addr.Unmap()
	switch {
	case err != nil:
		return addr, questionErrorf(field, "%q is not an address, like 192.0.2.1 or 2001:db8::1", text)
	case addr.Zone() != "" || !addr.IsGlobalUnicast():
		return addr, questionErrorf(field, "%s is not the address of one host beyond the own link; give "+
			"such an address", addr)
	}
	return addr, nil
}
