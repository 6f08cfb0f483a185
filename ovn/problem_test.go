package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
)

// TestUntoldPartsCostNoWords: a tenant's object has a thousand parts that something is wrong with, and of these maxTold are
// told. What is allocated for each of the others is compared with what a part costs that nothing is wrong with.
func TestUntoldPartsCostNoWords(t *testing.T) {
	at, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.9")
	services := func(parts int, edit func(o *service)) func() []problem {
		s := newScene(t, nil)
		n := s.node("n1", "10.244.0.0/24")
		n.facts = facts(1, false)
		first, o := s.service("first", "10.96.0.10"), s.service("second", "10.96.0.11")
		first.ports, o.ports = nil, nil
		for i := range parts {
			port := servicePort{fmt.Sprint("p", i), "tcp", uint16(1000 + i)}
			first.ports, o.ports = append(first.ports, port), append(o.ports, port)
		}
		first.externalIPs = []netip.Addr{other}
		edit(o)
		s.do(s.namespace("default"), n, first, o)
		return func() []problem {
			_, found := s.c.services.judge("default/second", o)
			return slices.Concat(found, sourceProblems(o))
		}
	}
	pods := func(parts int, windows bool, port hostPort) func() []problem {
		s := newScene(t, nil)
		n := s.node("n1", "10.244.0.0/24")
		n.facts = facts(1, false)
		p := s.pod("default", "a", "n1")
		for i := range parts {
			port.port = uint16(1000 + i)
			p.hostPorts = append(p.hostPorts, port)
		}
		s.do(s.namespace("default"), n, p)
		on := s.c.nodes.all["n1"].placement
		if windows {
			on.os = contract.Windows
		}
		return func() []problem { return hostPortProblems(p, &on) }
	}
	numbers := func(parts, each int) func() []problem {
		p := newScene(t, nil).pod("default", "a", "n1")
		for i := range parts {
			for j := range each {
				p.ports = append(p.ports, containerPort{fmt.Sprint("p", i), "TCP", uint16(1 + j)})
			}
		}
		return func() []problem { return numberProblems(p) }
	}
	for _, c := range []struct {
		name, reason string
		bad, good    func(parts int) func() []problem
	}{
		{"ports of an address that another Service has", "AddressConflict",
			func(n int) func() []problem {
				return services(n, func(o *service) { o.externalIPs = []netip.Addr{other} })
			},
			func(n int) func() []problem {
				return services(n, func(o *service) { o.externalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.10")} })
			}},
		{"NodePorts out of the range", "NodePortOutOfRange",
			func(n int) func() []problem { return services(n, nodePortsFrom(1000)) },
			func(n int) func() []problem { return services(n, nodePortsFrom(30000)) }},
		{"source ranges that are none", "BadSourceRange",
			func(n int) func() []problem { return services(n, rangesLike("10.0.%d.%d", n)) },
			func(n int) func() []problem { return services(n, rangesLike("10.0.%d.%d/32", n)) }},
		{"host ports of an address that is not the node's", "UnknownHostIP",
			func(n int) func() []problem { return pods(n, false, hostPort{"tcp", other, 0, 80}) },
			func(n int) func() []problem { return pods(n, false, hostPort{"tcp", at, 0, 80}) }},
		{"host ports of SCTP on Windows", "NoSCTPOnWindows",
			func(n int) func() []problem { return pods(n, true, hostPort{"sctp", at, 0, 80}) },
			func(n int) func() []problem { return pods(n, false, hostPort{"sctp", at, 0, 80}) }},
		{"names with too many numbers", "TooManyPorts",
			func(n int) func() []problem { return numbers(n, maxNumbers+1) },
			func(n int) func() []problem { return numbers(n, maxNumbers) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const few, many = 100, 900
			each := func(of func(int) func() []problem) float64 {
				small, large := of(few), of(many)
				allocs := func(problems func() []problem) float64 { return testing.AllocsPerRun(3, func() { problems() }) }
				return (allocs(large) - allocs(small)) / (many - few)
			}
			if bad, good := each(c.bad), each(c.good); bad-good > 1.5 { // an error of a parser's is one
				t.Errorf("a part that something is wrong with takes %.1f allocations, another one %.1f", bad, good)
			}
			if found := c.good(few)(); len(found) > 0 {
				t.Errorf("of parts that are right is told %v", found)
			}
			told := fewOf(c.bad(many)(), c.reason)
			if len(told) != maxTold+1 {
				t.Fatalf("%d are told: %v", len(told), told)
			}
			if want := fmt.Sprintf("%d more", many-maxTold); !strings.Contains(told[maxTold].message, want) {
				t.Errorf("the last one is %q, want %q", told[maxTold].message, want)
			}
		})
	}
}

// fewOf are what is told for a reason.
func fewOf(found []problem, reason string) []problem {
	return slices.DeleteFunc(few(found), func(p problem) bool { return p.reason != reason })
}

func nodePortsFrom(first int) func(*service) {
	return func(o *service) {
		for i, p := range o.ports {
			o.nodePorts = append(o.nodePorts, nodePort{p, uint16(first + i)})
		}
	}
}

func rangesLike(format string, count int) func(*service) {
	return func(o *service) {
		for i := range count {
			o.sourceRanges = append(o.sourceRanges, fmt.Sprintf(format, i/250, i%250))
		}
	}
}
