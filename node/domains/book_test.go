package domains

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func wanting(patterns ...string) *book {
	b := newBook()
	set := map[string]struct{}{}
	for _, pattern := range patterns {
		set[pattern] = struct{}{}
	}
	b.want(set)
	return b
}

func (b *book) hear(now time.Time, name string, ttl time.Duration, addrs ...string) {
	a := answer{name: name}
	for _, addr := range addrs {
		a.addresses = append(a.addresses, address{netip.MustParseAddr(addr), ttl})
	}
	b.learn(a, now)
}

// lines are a report's, with seconds from noon.
func lines(names []v1alpha1.ResolvedName) []string {
	list := []string{}
	for _, name := range names {
		var words []string
		for _, a := range name.Addresses {
			words = append(words, fmt.Sprintf("%s/%.0f", a.Address, a.Until.Sub(noon).Seconds()))
		}
		list = append(list, name.Name+": "+strings.Join(words, " "))
	}
	return list
}

func TestWantedNames(t *testing.T) {
	b := wanting("example.com", "*.example.org")
	for name, want := range map[string]bool{
		"example.com": true, "www.example.com": false, "myexample.com": false,
		"www.example.org": true, "a.b.example.org": true, "example.org": false, "wikipedia.org": false, "org": false,
	} {
		if b.wants(name) != want {
			t.Errorf("%s is wanted: %v", name, !want)
		}
	}
}

// An address counts for its time to live and grace. News are reported at once; that an address is still
// there only when grace begins.
func TestTimesOfAddresses(t *testing.T) {
	b := wanting("www.example.com")
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	report := func(seconds int, want ...string) {
		t.Helper()
		names, _ := b.report(at(seconds))
		if got := lines(names); !slices.Equal(got, want) {
			t.Errorf("after %d s the report is %q, want %q", seconds, got, want)
		}
	}
	urgent := func() bool {
		select {
		case <-b.urgent:
			return true
		default:
			return false
		}
	}
	b.hear(at(0), "www.example.com", time.Second, "203.0.113.1")
	if !urgent() {
		t.Error("a new address is no news")
	}
	report(0, "www.example.com: 203.0.113.1/90") // 30 s at least, and 60 s
	b.hear(at(50), "www.example.com", time.Second, "203.0.113.1")
	if urgent() || b.due(at(50)) {
		t.Error("an answer within grace is to be reported")
	}
	b.hear(at(61), "www.example.com", time.Second, "203.0.113.1")
	if urgent() || !b.due(at(61)) {
		t.Error("an answer after grace has begun is urgent, or not to be reported")
	}
	report(61, "www.example.com: 203.0.113.1/151")
	b.hear(at(61), "www.example.com", 2*time.Hour, "203.0.113.2")
	b.hear(at(61), "www.example.com", 1000*time.Hour, "203.0.113.3")
	if !urgent() {
		t.Error("a second address is no news")
	}
	report(62, "www.example.com: 203.0.113.1/151 203.0.113.2/7321 203.0.113.3/86521")
	if b.due(at(150)) || !b.due(at(151)) {
		t.Error("that an address is over is noticed at another time")
	}
	report(151, "www.example.com: 203.0.113.2/7321 203.0.113.3/86521")
	b.hear(at(200), "www.example.com", time.Second, "203.0.113.3")
	report(200, "www.example.com: 203.0.113.2/7321 203.0.113.3/86521") // a shorter time takes nothing back
}

func TestReportThatFailed(t *testing.T) {
	b := wanting("www.example.com")
	b.hear(noon, "www.example.com", time.Minute, "203.0.113.1")
	_, since := b.report(noon)
	if !since.Equal(noon) {
		t.Errorf("news wait since %v", since)
	}
	b.failed(since)
	if !b.due(noon) {
		t.Error("a report that failed is not repeated")
	}
	if _, again := b.report(noon); !again.Equal(noon) {
		t.Errorf("the same news wait since %v", again)
	}
}

func TestReportOfTheAgentBefore(t *testing.T) {
	b := wanting("www.example.com")
	b.hear(noon, "www.example.com", time.Minute, "203.0.113.1", "2001:db8::1")
	names, _ := b.report(noon)
	next := wanting()
	next.restore(names, noon.Add(time.Second))
	if next.due(noon.Add(time.Second)) {
		t.Error("what is written already is written again")
	}
	again, _ := next.report(noon.Add(time.Second))
	if !slices.Equal(lines(again), lines(names)) {
		t.Errorf("the next agent has %q of %q", lines(again), lines(names))
	}
	late := wanting()
	late.restore(names, noon.Add(time.Hour))
	if _, addresses, _ := late.size(); addresses != 0 || !late.due(noon.Add(time.Hour)) {
		t.Error("what is over is kept")
	}
}

// Whoever makes up names in a zone that answers to any has nothing reported again: what a pattern has, it has
// once, and each name that somebody wants by itself has its own.
func TestNamesOfAPatternAreOne(t *testing.T) {
	b := wanting("*.example.com", "*.cdn.example.com", "www.cdn.example.com")
	for i := range 3 * maxAddresses {
		b.hear(noon, fmt.Sprintf("made-up-%d.cdn.example.com", i), time.Minute, "203.0.113.1", "203.0.113.2")
	}
	b.hear(noon, "made-up.example.com", time.Minute, "203.0.113.1")
	b.hear(noon, "www.cdn.example.com", time.Minute, "203.0.113.3")
	want := []string{"*.cdn.example.com: 203.0.113.1/120 203.0.113.2/120", "*.example.com: 203.0.113.1/120",
		"www.cdn.example.com: 203.0.113.3/120"}
	if names, _ := b.report(noon); !slices.Equal(lines(names), want) {
		t.Errorf("the report is %q, want %q", lines(names), want)
	}
	b.hear(noon, "another.cdn.example.com", time.Minute, "203.0.113.2", "203.0.113.1")
	if b.due(noon) {
		t.Error("an address that the pattern has is news")
	}
	b.hear(noon, "another.cdn.example.com", time.Minute, "203.0.113.4")
	if !b.due(noon) {
		t.Error("an address that the pattern has not is no news")
	}
	b.hear(noon, "example.com", time.Minute, "203.0.113.5")
	if names, _ := b.report(noon); slices.ContainsFunc(lines(names), func(line string) bool {
		return strings.Contains(line, "203.0.113.5")
	}) {
		t.Error("a name that nobody wants is reported")
	}
}

// manyAddresses are as many.
func manyAddresses(number int) []string {
	var many []string
	for i := range number {
		many = append(many, netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}).String())
	}
	return many
}

// Whoever can make up names and addresses of one pattern takes nothing from the others, and the object does
// not grow without end.
func TestBookIsBounded(t *testing.T) {
	b, many := wanting("www.example.com", "*.attacker.example"), manyAddresses(20_000)
	b.hear(noon, "www.example.com", time.Minute, many[:5000]...)
	if _, addresses, lost := b.size(); addresses != maxAddresses || lost != 5000-maxAddresses {
		t.Errorf("a name has %d addresses, and %d are lost", addresses, lost)
	}
	b.hear(noon.Add(time.Second), "www.example.com", time.Minute, "203.0.113.1")
	names, _ := b.report(noon.Add(time.Second))
	if !strings.Contains(lines(names)[0], "203.0.113.1/") {
		t.Error("a new address finds no room")
	}
	for i, addr := range many {
		b.hear(noon.Add(time.Duration(i)*time.Millisecond), fmt.Sprintf("n%d.attacker.example", i), time.Hour, addr)
		if _, addresses, _ := b.size(); addresses > maxTotal {
			t.Fatalf("there are %d addresses", addresses)
		}
	}
	names, _ = b.report(noon.Add(20 * time.Second))
	count := map[string]int{}
	for _, name := range names {
		count[name.Name] = len(name.Addresses)
	}
	if count["www.example.com"] != maxAddresses || count["*.attacker.example"] <= maxTotal/2 {
		t.Errorf("there are left %v", count)
	}
}
