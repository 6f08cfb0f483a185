package ovntrace

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// web is a packet that has an expression.
func web() Packet {
	return Packet{Inport: "shop_web", EthSrc: net.HardwareAddr{0x0a, 0x58, 10, 244, 0, 3},
		EthDst: net.HardwareAddr{0x0a, 0x58, 10, 244, 0, 1}, Src: netip.MustParseAddr("10.244.0.3"),
		Dst: netip.MustParseAddr("10.244.1.3"), Protocol: TCP, SrcPort: 40000, DstPort: 80}
}

func TestExpressions(t *testing.T) {
	const ends = `inport == "shop_web" && eth.src == 0a:58:0a:f4:00:03 && eth.dst == 0a:58:0a:f4:00:01 && ip.ttl == 64 && `
	for want, edit := range map[string]func(*Packet){
		"ip4.src == 10.244.0.3 && ip4.dst == 10.244.1.3 && tcp.src == 40000 && tcp.dst == 80": func(*Packet) {},
		"ip4.src == 10.244.0.3 && ip4.dst == 10.244.1.3 && icmp4.type == 8 && icmp4.code == 0": func(p *Packet) {
			p.Protocol = ICMP
		},
		"ip6.src == fd00::3 && ip6.dst == fd00:1::3 && icmp6.type == 129 && icmp6.code == 0": func(p *Packet) {
			p.Src, p.Dst, p.Protocol, p.Reply = netip.MustParseAddr("fd00::3"), netip.MustParseAddr("fd00:1::3"), ICMP, true
		},
	} {
		p := web()
		edit(&p)
		if got, err := p.Expression(); err != nil || got != ends+want {
			t.Errorf("got %s, %v, want %s%s", got, err, ends, want)
		}
	}
}

// TestNoExpression: nothing that could be more than a value comes into an expression.
func TestNoExpression(t *testing.T) {
	for want, edit := range map[string]func(*Packet){
		"has a name that Weft gives none": func(p *Packet) { p.Inport = `shop_web" || 1 || inport == "x` },
		"the logical port \"\"":           func(p *Packet) { p.Inport = "" },
		"each needs 6 bytes":              func(p *Packet) { p.EthDst = nil },
		"not of one family":               func(p *Packet) { p.Dst = netip.MustParseAddr("fd00::3") },
		"fe80::1%eth0": func(p *Packet) {
			p.Src, p.Dst = netip.MustParseAddr("fe80::2"), netip.MustParseAddr("fe80::1%eth0")
		},
		"none of tcp, udp, sctp and icmp": func(p *Packet) { p.Protocol = "tcp || 1" },
	} {
		p := web()
		edit(&p)
		if got, err := p.Expression(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}
