package conntrack

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
)

// way is a direction of a connection.
func way(source, destination string, counted ...uint64) contract.Direction {
	d := contract.Direction{Source: netip.MustParseAddrPort(source), Destination: netip.MustParseAddrPort(destination)}
	if len(counted) == 2 {
		d.Packets, d.Bytes = counted[0], counted[1]
	}
	return d
}

// Lines as they are, of each datapath.
func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		want contract.Connection
		zone uint16
	}{
		"userspace, TCP to a Service by IPv6": {
			`tcp,orig=(src=fd00:10:244:1::4,dst=fd00:10:96::10,sport=46290,dport=80),reply=(src=fd00:10:244:1::3,dst=fd00:10:244:1::4,sport=80,dport=46290),zone=7,timeout=86399,mark=2,protoinfo=(state=ESTABLISHED)`,
			contract.Connection{Protocol: "tcp", State: "ESTABLISHED",
				Original: way("[fd00:10:244:1::4]:46290", "[fd00:10:96::10]:80"),
				Reply:    way("[fd00:10:244:1::3]:80", "[fd00:10:244:1::4]:46290")}, 7},
		"userspace, in the host's zone": {
			`tcp,orig=(src=172.31.0.254,dst=10.244.1.3,sport=59676,dport=80),reply=(src=10.244.1.3,dst=100.64.0.2,sport=80,dport=59676),timeout=86399,protoinfo=(state=ESTABLISHED)`,
			contract.Connection{Protocol: "tcp", State: "ESTABLISHED", Original: way("172.31.0.254:59676", "10.244.1.3:80"),
				Reply: way("10.244.1.3:80", "100.64.0.2:59676")}, 0},
		"userspace, with -m": {
			`tcp,orig=(src=10.244.1.2,dst=10.244.1.3,sport=45766,dport=80),reply=(src=10.244.1.3,dst=10.244.1.2,sport=80,dport=45766),id=0,zone=2,status=0,timeout=86399,protoinfo=(state_orig=ESTABLISHED,state_reply=ESTABLISHED,wscale_orig=10,wscale_reply=10,flags_orig=WINDOW_SCALE,flags_reply=WINDOW_SCALE)`,
			contract.Connection{Protocol: "tcp", Original: way("10.244.1.2:45766", "10.244.1.3:80"),
				Reply: way("10.244.1.3:80", "10.244.1.2:45766")}, 2},
		"userspace, an echo": {
			`icmpv6,orig=(src=fd00:10:244:1::4,dst=fd00:10:244:1::3,id=204,type=128,code=0),reply=(src=fd00:10:244:1::3,dst=fd00:10:244:1::4,id=204,type=129,code=0),zone=6,timeout=29`,
			contract.Connection{Protocol: "icmpv6", ID: 204, Original: way("[fd00:10:244:1::4]:0", "[fd00:10:244:1::3]:0"),
				Reply: way("[fd00:10:244:1::3]:0", "[fd00:10:244:1::4]:0")}, 6},
		"Windows, UDP that has no answer": {
			`udp,orig=(src=10.244.1.3,dst=10.244.1.4,sport=50737,dport=5353,packets=1,bytes=43),reply=(src=10.244.1.4,dst=10.244.1.3,sport=5353,dport=50737),zone=7,timeout=59`,
			contract.Connection{Protocol: "udp", Original: way("10.244.1.3:50737", "10.244.1.4:5353", 1, 43),
				Reply: way("10.244.1.4:5353", "10.244.1.3:50737")}, 7},
		"Windows, in a zone of TCP": {
			`tcp,orig=(src=169.254.169.5,dst=10.244.1.3,sport=50016,dport=80,packets=2,bytes=140),reply=(src=10.244.1.3,dst=169.254.169.5,sport=80,dport=50016,packets=1,bytes=74),zone=32774,timeout=86399,protoinfo=(state=FIN_WAIT_1)`,
			contract.Connection{Protocol: "tcp", State: "FIN_WAIT_1", Original: way("169.254.169.5:50016", "10.244.1.3:80", 2,
				140), Reply: way("10.244.1.3:80", "169.254.169.5:50016", 1, 74)}, 32774},
		"Linux' kernel, with times and labels": {
			`tcp,orig=(src=10.244.1.4,dst=198.51.100.7,sport=57058,dport=443,packets=12,bytes=1822),reply=(src=198.51.100.7,dst=192.0.2.11,sport=443,dport=57058,packets=9,bytes=5120),start=2026-11-26T10:00:00.250,zone=16,timeout=431999,labels=0x2,protoinfo=(state=ESTABLISHED),helper=ftp`,
			contract.Connection{Protocol: "tcp", State: "ESTABLISHED", Original: way("10.244.1.4:57058", "198.51.100.7:443",
				12, 1822), Reply: way("198.51.100.7:443", "192.0.2.11:57058", 9, 5120)}, 16},
		"Linux' kernel, SCTP": {
			`sctp,orig=(src=10.244.1.4,dst=10.244.1.3,sport=40000,dport=9899),reply=(src=10.244.1.3,dst=10.244.1.4,sport=9899,dport=40000),zone=6,timeout=209,protoinfo=(state=ESTABLISHED,vtag_orig=7,vtag_reply=9)`,
			contract.Connection{Protocol: "sctp", State: "ESTABLISHED", Original: way("10.244.1.4:40000", "10.244.1.3:9899"),
				Reply: way("10.244.1.3:9899", "10.244.1.4:40000")}, 6},
		"a protocol without a name": {
			`47,orig=(src=10.244.1.4,dst=10.244.1.3),reply=(src=10.244.1.3,dst=10.244.1.4),zone=6,timeout=599`,
			contract.Connection{Protocol: "47", Original: way("10.244.1.4:0", "10.244.1.3:0"),
				Reply: way("10.244.1.3:0", "10.244.1.4:0")}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			got, zone, err := Parse(c.line)
			if err != nil || zone != c.zone || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v in zone %d, %v\nwant %+v in zone %d", got, zone, err, c.want, c.zone)
			}
		})
	}
}

func TestWhatIsNoEntry(t *testing.T) {
	const pair = "(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2)"
	for line, want := range map[string]string{
		"":                                "does not begin with a protocol",
		"orig=" + pair:                    "does not begin with a protocol",
		"tcp,orig=" + pair:                "lacks one of its directions",
		"tcp,reply=" + pair:               "lacks one of its directions",
		"tcp,orig=(src=x),reply=" + pair:  "orig: src: ParseAddr",
		"tcp,orig=(src=10.0.0.1,dst=::1)": "no pair of addresses of one family",
		"tcp,orig=" + pair + ",reply=" + pair + ",zone=65536":    "zone: strconv.ParseUint",
		"tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=-1),reply=()": "orig: sport: strconv.ParseUint",
		"ovs-appctl: no datapath":                                "lacks one of its directions",
	} {
		if c, _, err := Parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %s", line, c, err, want)
		}
	}
}

// FuzzParse wants a connection with both directions, each of one family, or a reason.
func FuzzParse(f *testing.F) {
	f.Add(`tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2),reply=(src=10.0.0.2,dst=10.0.0.1,sport=2,dport=1),zone=1,protoinfo=(state=ESTABLISHED)`)
	f.Add(`icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id=203,type=8,code=0),reply=(src=10.0.0.2,dst=10.0.0.1,id=203,type=0,code=0),zone=7`)
	f.Add(`udp,orig=(src=fe80::1%eth0,dst=::2,sport=1),reply=((src=::2,dst=::1)),,=,zone=,labels=0x`)
	f.Fuzz(func(t *testing.T, line string) {
		c, _, err := Parse(line)
		if err != nil {
			if err.Error() == "" || !reflect.DeepEqual(c, contract.Connection{}) {
				t.Errorf("%q is refused with %+v and %q", line, c, err)
			}
			return
		}
		for _, d := range []contract.Direction{c.Original, c.Reply} {
			if !d.Source.IsValid() || d.Source.Addr().BitLen() != d.Destination.Addr().BitLen() {
				t.Errorf("%q has the direction %+v", line, d)
			}
		}
		if !strings.HasPrefix(line, c.Protocol+",") || !strings.Contains(line, c.State) {
			t.Errorf("%q is %+v", line, c)
		}
	})
}
