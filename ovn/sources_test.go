package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/loadbalancer"
	"github.com/weftnet/weft/ovn/objects"
)

func TestSourceRanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranges []string
		edit   func(*objects.Service)
		want   []string // priority, action and match
		told   string
	}{
		{"none", nil, nil, nil, ""},
		{"IPv4", []string{"192.0.2.0/24", "198.51.100.7/32"}, nil, []string{
			"1000 drop ip4.dst == {203.0.113.9} && (tcp.dst == {80})",
			"1001 pass (ip4.dst == {203.0.113.9} && (tcp.dst == {80})) && ip4.src == {192.0.2.0/24, 198.51.100.7/32}",
			"1001 pass inport == @weft_hosts && (ip4.dst == {203.0.113.9} && (tcp.dst == {80}))"}, ""},
		{"host bits, and a range within another", []string{"192.0.2.9/24", "192.0.2.128/25"}, nil, []string{
			"1000 drop ip4.dst == {203.0.113.9} && (tcp.dst == {80})",
			"1001 pass (ip4.dst == {203.0.113.9} && (tcp.dst == {80})) && ip4.src == {192.0.2.0/24}",
			"1001 pass inport == @weft_hosts && (ip4.dst == {203.0.113.9} && (tcp.dst == {80}))"}, ""},
		{"bad ones admit nobody", []string{"192.0.2.0", "::ffff:192.0.2.0/120"}, nil, []string{
			"1000 drop ip4.dst == {203.0.113.9} && (tcp.dst == {80})",
			"1001 pass inport == @weft_hosts && (ip4.dst == {203.0.113.9} && (tcp.dst == {80}))"}, "BadSourceRange"},
		{"a bad one beside a good one", []string{"x", "192.0.2.0/24"}, nil, []string{
			"1000 drop ip4.dst == {203.0.113.9} && (tcp.dst == {80})",
			"1001 pass (ip4.dst == {203.0.113.9} && (tcp.dst == {80})) && ip4.src == {192.0.2.0/24}",
			"1001 pass inport == @weft_hosts && (ip4.dst == {203.0.113.9} && (tcp.dst == {80}))"}, "BadSourceRange"},
		{"the other family has none", []string{"2001:db8::/32"}, nil, []string{
			"1000 drop ip4.dst == {203.0.113.9} && (tcp.dst == {80})",
			"1001 pass inport == @weft_hosts && (ip4.dst == {203.0.113.9} && (tcp.dst == {80}))"}, "NoSourceRange"},
		{"both families, several ports", []string{"192.0.2.0/24", "2001:db8::/32"}, func(s *objects.Service) {
			s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr("fd00:10:96::a"))
			s.Ingress = append(s.Ingress, netip.MustParseAddr("2001:db8:1::9"), netip.MustParseAddr("203.0.113.8"))
			s.Ports = append(s.Ports, objects.ServicePort{Name: "https", Protocol: "tcp", Port: 443},
				objects.ServicePort{Name: "h3", Protocol: "udp", Port: 443})
		}, []string{
			"1000 drop ip4.dst == {203.0.113.8, 203.0.113.9} && (tcp.dst == {80, 443} || udp.dst == {443})",
			"1000 drop ip6.dst == {2001:db8:1::9} && (tcp.dst == {80, 443} || udp.dst == {443})",
			"1001 pass (ip4.dst == {203.0.113.8, 203.0.113.9} && (tcp.dst == {80, 443} || udp.dst == {443})) && ip4.src == " +
				"{192.0.2.0/24}",
			"1001 pass inport == @weft_hosts && (ip4.dst == {203.0.113.8, 203.0.113.9} && (tcp.dst == {80, 443} || udp.dst " +
				"== {443}))",
			"1001 pass (ip6.dst == {2001:db8:1::9} && (tcp.dst == {80, 443} || udp.dst == {443})) && ip6.src == {2001:db8::/32}",
			"1001 pass inport == @weft_hosts && (ip6.dst == {2001:db8:1::9} && (tcp.dst == {80, 443} || udp.dst == {443}))"},
			""},
		{"no load balancer", []string{"192.0.2.0/24"}, func(s *objects.Service) { s.Ingress, s.ExternalIPs = nil, s.Ingress },
			nil, ""},
		{"an address that another Service has", []string{"192.0.2.0/24"}, func(s *objects.Service) {
			s.Rejected = &objects.Rejection{Claims: map[objects.Claim]struct{}{{Addr: netip.MustParseAddr("203.0.113.9"),
				Port: 80, Protocol: "tcp"}: {}}}
		}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newWorld().service("web", "10.96.0.10")
			s.Ingress, s.SourceRanges = []netip.Addr{netip.MustParseAddr("203.0.113.9")}, c.ranges
			if c.edit != nil {
				c.edit(s)
			}
			change, _ := loadbalancer.Rows(s, nil, &loadbalancer.Nodes{
				Announcer: func(netip.Addr) (string, bool) { return "", false },
			})
			var got []string
			for _, row := range change.Rows {
				acl, ok := row.Model.(*nb.ACL)
				if !ok {
					continue
				}
				got = append(got, fmt.Sprintf("%d %s %s", acl.Priority, acl.Action, acl.Match))
				if acl.Tier != 0 || acl.Direction != nb.ACLDirectionFromLport || *acl.Name != "default/web" {
					t.Errorf("ACL %+v", acl)
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
			var told []string
			for _, p := range loadbalancer.Problems(s, nil, loadbalancer.SizeOf(s, nil), &loadbalancer.Nodes{}) {
				told = append(told, p.Reason)
			}
			if got := strings.Join(slices.Compact(told), " "); got != c.told {
				t.Errorf("told %q, want %q", got, c.told)
			}
		})
	}
}
