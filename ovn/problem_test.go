package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/pods"
	"github.com/weftnet/weft/ovn/policies"
)

// TestUntoldPartsCostNoWords: a tenant's object has a thousand parts that something is wrong with, and of these maxTold
// are told. What is allocated for each of the others is compared with what a part costs that nothing is wrong with.
func TestUntoldPartsCostNoWords(t *testing.T) {
	at, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.9")
	services := func(parts int, edit func(o *objects.Service)) func() []objects.Problem {
		s := newScene(t, nil)
		n := s.node("n1", "10.244.0.0/24")
		n.Facts = ovntest.Facts(1, false)
		first, o := s.service("first", "10.96.0.10"), s.service("second", "10.96.0.11")
		first.Ports, o.Ports = nil, nil
		for i := range parts {
			port := objects.ServicePort{Name: fmt.Sprint("p", i), Protocol: "tcp", Port: uint16(1000 + i)}
			first.Ports, o.Ports = append(first.Ports, port), append(o.Ports, port)
		}
		first.ExternalIPs = []netip.Addr{other}
		edit(o)
		s.do(s.namespace("default"), n, first, o)
		return func() []objects.Problem {
			_, found := s.c.claims.Arbitrate("default/second", o)
			return slices.Concat(found, loadbalancer.Problems(o, nil, loadbalancer.SizeOf(o, nil), &loadbalancer.Nodes{}))
		}
	}
	pods := func(parts int, windows bool, port objects.HostPort) func() []objects.Problem {
		s := newScene(t, nil)
		n := s.node("n1", "10.244.0.0/24")
		n.Facts = ovntest.Facts(1, false)
		p := s.pod("default", "a", "n1")
		for i := range parts {
			port.Port = uint16(1000 + i)
			p.HostPorts = append(p.HostPorts, port)
		}
		s.do(s.namespace("default"), n, p)
		on := *s.c.nodes.At("n1")
		if windows {
			on.OS = contract.Windows
		}
		return func() []objects.Problem { return pods.HostPortProblems(p, &on) }
	}
	numbers := func(parts, each int) func() []objects.Problem {
		p := newScene(t, nil).pod("default", "a", "n1")
		for i := range parts {
			for j := range each {
				p.Ports = append(p.Ports, objects.ContainerPort{Name: fmt.Sprint("p", i), Protocol: "TCP", Number: uint16(1 + j)})
			}
		}
		return func() []objects.Problem { return policies.NumberProblems(p) }
	}
	for _, c := range []struct {
		name, reason string
		bad, good    func(parts int) func() []objects.Problem
	}{
		{"ports of an address that another Service has", "AddressConflict",
			func(n int) func() []objects.Problem {
				return services(n, func(o *objects.Service) { o.ExternalIPs = []netip.Addr{other} })
			},
			func(n int) func() []objects.Problem {
				return services(n, func(o *objects.Service) { o.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.10")} })
			}},
		{"NodePorts out of the range", "NodePortOutOfRange",
			func(n int) func() []objects.Problem { return services(n, nodePortsFrom(1000)) },
			func(n int) func() []objects.Problem { return services(n, nodePortsFrom(30000)) }},
		{"source ranges that are none", "BadSourceRange",
			func(n int) func() []objects.Problem { return services(n, rangesLike("10.0.%d.%d", n)) },
			func(n int) func() []objects.Problem { return services(n, rangesLike("10.0.%d.%d/32", n)) }},
		{"host ports of an address that is not the node's", "UnknownHostIP",
			func(n int) func() []objects.Problem {
				return pods(n, false, objects.HostPort{Protocol: "tcp", IP: other, Port: 0, Into: 80})
			},
			func(n int) func() []objects.Problem {
				return pods(n, false, objects.HostPort{Protocol: "tcp", IP: at, Port: 0, Into: 80})
			}},
		{"host ports of SCTP on Windows", "NoSCTPOnWindows",
			func(n int) func() []objects.Problem {
				return pods(n, true, objects.HostPort{Protocol: "sctp", IP: at, Port: 0, Into: 80})
			},
			func(n int) func() []objects.Problem {
				return pods(n, false, objects.HostPort{Protocol: "sctp", IP: at, Port: 0, Into: 80})
			}},
		{"names with too many numbers", "TooManyPorts",
			func(n int) func() []objects.Problem { return numbers(n, objects.MaxNumbers+1) },
			func(n int) func() []objects.Problem { return numbers(n, objects.MaxNumbers) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const few, many = 100, 900
			each := func(of func(int) func() []objects.Problem) float64 {
				small, large := of(few), of(many)
				allocs := func(problems func() []objects.Problem) float64 { return testing.AllocsPerRun(3, func() { problems() }) }
				return (allocs(large) - allocs(small)) / (many - few)
			}
			if bad, good := each(c.bad), each(c.good); bad-good > 1.5 { // an error of a parser's is one
				t.Errorf("a part that something is wrong with takes %.1f allocations, another one %.1f", bad, good)
			}
			if found := c.good(few)(); len(found) > 0 {
				t.Errorf("of parts that are right is told %v", found)
			}
			told := fewOf(c.bad(many)(), c.reason)
			if len(told) != objects.MaxTold+1 {
				t.Fatalf("%d are told: %v", len(told), told)
			}
			if want := fmt.Sprintf("%d more", many-objects.MaxTold); !strings.Contains(told[objects.MaxTold].Message, want) {
				t.Errorf("the last one is %q, want %q", told[objects.MaxTold].Message, want)
			}
		})
	}
}

// fewOf are what is told for a reason.
func fewOf(found []objects.Problem, reason string) []objects.Problem {
	return slices.DeleteFunc(objects.Few(found), func(p objects.Problem) bool { return p.Reason != reason })
}

func nodePortsFrom(first int) func(*objects.Service) {
	return func(o *objects.Service) {
		for i, p := range o.Ports {
			o.NodePorts = append(o.NodePorts, objects.NodePort{ServicePort: p, Number: uint16(first + i)})
		}
	}
}

func rangesLike(format string, count int) func(*objects.Service) {
	return func(o *objects.Service) {
		for i := range count {
			o.SourceRanges = append(o.SourceRanges, fmt.Sprintf(format, i/250, i%250))
		}
	}
}
