package domains

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// reply is a DNS message for a question, with records like "www.example.com A 203.0.113.1 60", edited.
func reply(t testing.TB, question string, edit func(*dnsmessage.Message), records ...string) []byte {
	t.Helper()
	name, err := dnsmessage.NewName(question + ".")
	if err != nil {
		t.Fatal(err)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 1, Response: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
	for _, record := range records {
		m.Answers = append(m.Answers, resource(t, record))
	}
	if edit != nil {
		edit(&m)
	}
	text, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func resource(t testing.TB, text string) dnsmessage.Resource {
	t.Helper()
	var owner, kind, value string
	var ttl uint32
	if _, err := fmt.Sscan(text, &owner, &kind, &value, &ttl); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(owner + "."),
		Class: dnsmessage.ClassINET, TTL: ttl}}
	switch kind {
	case "A":
		r.Body = &dnsmessage.AResource{A: netip.MustParseAddr(value).As4()}
	case "AAAA":
		r.Body = &dnsmessage.AAAAResource{AAAA: netip.MustParseAddr(value).As16()}
	case "CNAME":
		r.Body = &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(value + ".")}
	case "TXT":
		r.Body = &dnsmessage.TXTResource{TXT: []string{value}}
	case "CHAOS":
		r.Header.Class, r.Body = dnsmessage.ClassCHAOS, &dnsmessage.AResource{A: netip.MustParseAddr(value).As4()}
	}
	return r
}

func (a answer) String() string {
	var words []string
	for _, one := range a.addresses {
		words = append(words, fmt.Sprint(one.addr, "/", one.ttl))
	}
	return a.name + ": " + strings.Join(words, " ")
}

func TestParseAnswer(t *testing.T) {
	for _, c := range []struct {
		name, question string
		edit           func(*dnsmessage.Message)
		records        []string
		want           string // "" is none
	}{
		{name: "one address", question: "www.example.com", records: []string{"www.example.com A 203.0.113.1 60"},
			want: "www.example.com: 203.0.113.1/1m0s"},
		{name: "capitals", question: "WWW.Example.COM", records: []string{"www.EXAMPLE.com AAAA 2001:db8::1 5"},
			want: "www.example.com: 2001:db8::1/5s"},
		{name: "a chain of aliases, in any order", question: "www.example.com",
			records: []string{"c.cdn.example A 203.0.113.3 9", "b.cdn.example CNAME C.cdn.example 8",
				"www.example.com CNAME b.cdn.example 7"},
			want: "www.example.com: 203.0.113.3/9s"},
		{name: "aliases in a circle", question: "www.example.com",
			records: []string{"www.example.com CNAME b.example.com 60", "b.example.com CNAME www.example.com 60",
				"b.example.com A 203.0.113.1 60"},
			want: "www.example.com: 203.0.113.1/1m0s"},
		{name: "an alias alone", question: "www.example.com", records: []string{"www.example.com CNAME b.example.com 60"}},
		{name: "addresses of a name that nobody asked for", question: "www.example.com",
			records: []string{"www.example.com A 203.0.113.1 60", "other.example.com A 203.0.113.66 60"},
			want:    "www.example.com: 203.0.113.1/1m0s"},
		{name: "a name that nobody wants", question: "unwanted.example.org",
			records: []string{"unwanted.example.org A 203.0.113.1 60"}},
		{name: "records of other kinds and classes", question: "www.example.com",
			records: []string{"www.example.com TXT hello 60", "www.example.com CHAOS 203.0.113.66 60",
				"www.example.com A 203.0.113.1 60"}, want: "www.example.com: 203.0.113.1/1m0s"},
		{name: "addresses that no host outside has", question: "www.example.com",
			records: []string{"www.example.com A 127.0.0.1 60", "www.example.com A 169.254.169.254 60",
				"www.example.com AAAA ::1 60",
				"www.example.com A 0.0.0.0 60", "www.example.com AAAA ff02::1 60", "www.example.com AAAA ::ffff:203.0.113.1 60"},
			want: "www.example.com: 203.0.113.1/1m0s"},
		{name: "a question", question: "www.example.com", edit: func(m *dnsmessage.Message) { m.Response = false },
			records: []string{"www.example.com A 203.0.113.1 60"}},
		{name: "no such name", question: "www.example.com", edit: func(m *dnsmessage.Message) {
			m.RCode = dnsmessage.RCodeNameError
		}, records: []string{"www.example.com A 203.0.113.1 60"}},
		{name: "an update", question: "www.example.com", edit: func(m *dnsmessage.Message) { m.OpCode = 5 },
			records: []string{"www.example.com A 203.0.113.1 60"}},
		{name: "another class", question: "www.example.com", edit: func(m *dnsmessage.Message) {
			m.Questions[0].Class = dnsmessage.ClassCHAOS
		}, records: []string{"www.example.com A 203.0.113.1 60"}},
		{name: "no question", question: "www.example.com", edit: func(m *dnsmessage.Message) { m.Questions = nil },
			records: []string{"www.example.com A 203.0.113.1 60"}},
		{name: "addresses beside the answer", question: "www.example.com", edit: func(m *dnsmessage.Message) {
			m.Additionals, m.Answers = m.Answers, nil
		}, records: []string{"www.example.com A 203.0.113.1 60"}},
		{name: "no records", question: "www.example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			message := reply(t, c.question, c.edit, c.records...)
			a, ok := parseAnswer(message, func(name string) bool { return strings.HasSuffix(name, ".example.com") }, false)
			if ok != (c.want != "") || ok && a.String() != c.want {
				t.Errorf("the answer is %v %q, want %q", ok, a, c.want)
			}
		})
	}
}

// Of a message that is cut the whole records count if it is known to be, and none if it is not.
func TestCutMessage(t *testing.T) {
	message := reply(t, "www.example.com", nil, "www.example.com A 203.0.113.1 60", "www.example.com A 203.0.113.2 60")
	message = message[:len(message)-1]
	wanted := func(string) bool { return true }
	if a, ok := parseAnswer(message, wanted, true); !ok || a.String() != "www.example.com: 203.0.113.1/1m0s" {
		t.Errorf("a first fragment gives %v %v", ok, a)
	}
	if a, ok := parseAnswer(message, wanted, false); ok {
		t.Errorf("a broken message gives %v", a)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(reply(f, "www.example.com", nil, "www.example.com CNAME a.example.com 60", "a.example.com A 203.0.113.1 60"),
		false)
	f.Add(reply(f, "www.example.com", nil, "www.example.com AAAA 2001:db8::1 4294967295"), true)
	f.Fuzz(func(t *testing.T, message []byte, cut bool) {
		a, ok := parseAnswer(message, func(string) bool { return true }, cut)
		if ok != (len(a.addresses) > 0) && ok {
			t.Fatalf("%v is an answer without addresses", a)
		}
		if !ok {
			return
		}
		for _, one := range a.addresses {
			if !one.addr.IsGlobalUnicast() || one.addr.Is4In6() || one.ttl < 0 {
				t.Fatalf("%v has %v", a.name, one)
			}
		}
		if a.name != strings.ToLower(a.name) || strings.HasSuffix(a.name, ".") {
			t.Fatalf("%q is not in normal form", a.name)
		}
	})
}

func FuzzParseFrame(f *testing.F) {
	for _, frame := range [][]byte{udpFrame("10.0.0.1:53", "10.0.0.2:4000", []byte("text"), 0),
		udpFrame("[fd00::1]:53", "[fd00::2]:4000", []byte("text"), 0),
		udpFrame("10.0.0.1:53", "10.0.0.2:4000", []byte("text"), 0x2000)} {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if p, ok := parseFrame(frame); ok && (len(p.payload) > len(frame)-14 || !p.src.IsValid() ||
			p.protocol != protocolTCP && p.protocol != protocolUDP) {
			t.Fatalf("%+v", p)
		}
	})
}

// udpFrame is a datagram in a frame.
func udpFrame(from, to string, payload []byte, fragment uint16) []byte {
	src, dst := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	datagram := binary.BigEndian.AppendUint16(nil, src.Port())
	datagram = binary.BigEndian.AppendUint16(datagram, dst.Port())
	datagram = binary.BigEndian.AppendUint16(datagram, uint16(8+len(payload)))
	datagram = append(append(datagram, 0, 0), payload...)
	frame := make([]byte, 12)
	if src.Addr().Is4() {
		frame = append(frame, 0x08, 0x00, 0x45, 0)
		frame = binary.BigEndian.AppendUint16(frame, uint16(20+len(datagram)))
		frame = binary.BigEndian.AppendUint16(append(frame, 0, 0), fragment)
		frame = append(frame, 64, protocolUDP, 0, 0)
	} else {
		frame = binary.BigEndian.AppendUint16(append(frame, 0x86, 0xdd, 0x60, 0, 0, 0), uint16(len(datagram)))
		frame = append(frame, protocolUDP, 64)
	}
	return append(append(append(frame, src.Addr().AsSlice()...), dst.Addr().AsSlice()...), datagram...)
}

func TestParseFrame(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"IPv4", udpFrame("10.0.0.1:53", "10.0.0.2:4000", []byte("text"), 0), "10.0.0.1:53 10.0.0.2:4000 text false"},
		{"IPv6", udpFrame("[fd00::1]:53", "[fd00::2]:4000", []byte("text"), 0), "[fd00::1]:53 [fd00::2]:4000 text false"},
		{"padding", append(udpFrame("10.0.0.1:53", "10.0.0.2:4000", []byte("text"), 0), 0, 0, 0),
			"10.0.0.1:53 10.0.0.2:4000 text false"},
		{"a first fragment", udpFrame("10.0.0.1:53", "10.0.0.2:4000", []byte("text"), 0x2000),
			"10.0.0.1:53 10.0.0.2:4000 text true"},
		{"another fragment", udpFrame("10.0.0.1:53", "10.0.0.2:4000", []byte("text"), 0x2001), ""},
		{"less than it says", udpFrame("10.0.0.1:53", "10.0.0.2:4000", []byte("text"), 0)[:44], ""},
	} {
		p, ok := parseFrame(c.frame)
		got := ""
		if ok {
			got = fmt.Sprint(p.src, " ", p.dst, " ", string(p.payload), " ", p.cut)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What a server sends in segments of any size, some of them twice, is the same messages.
func TestStreamsInAnySegments(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var sent []string
		var data []byte
		for i := range 1 + random.IntN(5) {
			message := strings.Repeat(fmt.Sprint(i), random.IntN(3000))
			sent = append(sent, message)
			data = append(binary.BigEndian.AppendUint16(data, uint16(len(message))), message...)
		}
		start := random.Uint32() // some wrap around
		s, got := newStreams(), []string(nil)
		segment := func(from, to int, flags uint8) {
			p := packet{protocol: protocolTCP, src: netip.MustParseAddrPort("10.0.0.1:53"),
				dst: netip.MustParseAddrPort("10.0.0.2:4000"),
				seq: start + 1 + uint32(from), flags: flags | flagACK, payload: data[from:to]}
			s.read(p, func(message []byte) { got = append(got, string(message)) })
		}
		syn := packet{protocol: protocolTCP, src: netip.MustParseAddrPort("10.0.0.1:53"),
			dst: netip.MustParseAddrPort("10.0.0.2:4000"), seq: start, flags: flagSYN | flagACK}
		s.read(syn, func([]byte) { t.Fatal("a connection begins with a message") })
		for at := 0; at < len(data); {
			next := min(len(data), at+random.IntN(2000))
			segment(max(0, at-random.IntN(3)*random.IntN(500)), next, 0)
			at = next
		}
		segment(len(data), len(data), flagFIN)
		if !slices.Equal(got, sent) {
			t.Fatalf("seed %d: %d messages, want %d", seed, len(got), len(sent))
		}
		if len(s.all) != 0 || s.buffered != 0 {
			t.Fatalf("seed %d: %d connections and %d bytes are left", seed, len(s.all), s.buffered)
		}
	}
}

// A connection that was not seen from its beginning, or of which something was missed, is not read: a message
// in it may be what a stranger has written into a record.
func TestStreamsDoNotGuess(t *testing.T) {
	framed := append([]byte{0, 2}, "hi"...)
	at := func(seq uint32, flags uint8, payload []byte) packet {
		return packet{protocol: protocolTCP, src: netip.MustParseAddrPort("10.0.0.1:53"),
			dst: netip.MustParseAddrPort("10.0.0.2:4000"), seq: seq, flags: flags | flagACK, payload: payload}
	}
	for name, segments := range map[string][]packet{
		"in the middle": {at(100, 0, framed)},
		"after a gap":   {at(99, flagSYN, nil), at(101, 0, framed), at(100, 0, framed)},
		"after its end": {at(99, flagSYN, nil), at(100, flagRST, nil), at(100, 0, framed)},
	} {
		s := newStreams()
		for _, p := range segments {
			s.read(p, func(message []byte) { t.Errorf("%s: %q was read", name, message) })
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	s := newStreams()
	for i := range uint32(3 * maxStreams) {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 4000)
		p := packet{protocol: protocolTCP, src: netip.MustParseAddrPort("10.0.0.1:53"), dst: client, seq: 0,
			flags: flagSYN | flagACK}
		s.read(p, nil)
		p.flags, p.seq, p.payload = flagACK, 1, append([]byte{0xff, 0xff}, make([]byte, 4000)...)
		s.read(p, nil)
		if len(s.all) > maxStreams || s.buffered > maxBuffered {
			t.Fatalf("%d connections and %d bytes are remembered", len(s.all), s.buffered)
		}
	}
	if len(s.all) == 0 || s.buffered == 0 {
		t.Error("nothing is remembered")
	}
}
