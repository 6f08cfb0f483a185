package domains

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/northbound/northboundtest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
)

// noServices is a cluster in which the key dns-server-nodes alone says who is believed.
type noServices struct{}

func (noServices) SlicesOf(string) []*objects.EndpointSlice { return nil }

// TestPart plays what nodes' agents have seen, and what policies name. It says after each step which owners are dirty,
// and which addresses their sets have.
func TestPart(t *testing.T) {
	clock := &part.Clock{}
	clock.At(time.Unix(1000, 0))
	seen := map[part.Event]any{}
	says := func(node string, lines ...string) func(p *Part) {
		return func(p *Part) {
			o := &objects.ResolvedNames{Names: map[string][]objects.ResolvedAddress{}}
			for _, line := range lines {
				name, addr, _ := strings.Cut(line, " ")
				o.Names[name] = append(o.Names[name], objects.ResolvedAddress{Addr: netip.MustParseAddr(addr), Until: 1090})
			}
			k := objects.Key{Kind: objects.ResolvedKind, Name: node}
			seen[k] = o
			p.Take(part.NewBatch([]part.Event{k}, func(e part.Event) any { return seen[e] }))
		}
	}
	p := New(part.NewOutbox(), &settings.Settings{DNSNodes: []string{"n1"}}, clock, noServices{})
	for _, step := range []struct {
		name string
		play func(p *Part)
		want string
	}{
		{"nobody names a domain", says("n1", "www.example.com 203.0.113.1"), ""},
		{"a policy names one", func(p *Part) { p.Use("WWW.example.com.", 1) }, "www.example.com=[203.0.113.1]"},
		{"a pattern", func(p *Part) { p.Use("*.example.com", 1) }, "*.example.com=[203.0.113.1]"},
		{"a node without a DNS server", says("n2", "www.example.com 203.0.113.66"), ""},
		{"another address", says("n1", "www.example.com 203.0.113.1", "www.example.com 203.0.113.2"),
			"*.example.com=[203.0.113.1 203.0.113.2] www.example.com=[203.0.113.1 203.0.113.2]"},
		{"their rows are asked for again", func(p *Part) {
			p.Take(part.NewBatch([]part.Event{part.Signal{What: part.Again, Name: "DomainName/*.example.com"}}, nil))
		}, "*.example.com=[203.0.113.1 203.0.113.2]"},
		{"no policy names it any more", func(p *Part) { p.Use("www.example.com", -1) }, "www.example.com=gone"},
		{"its time is over", func(p *Part) {
			clock.At(time.Unix(1090, 0))
			p.Take(part.NewBatch([]part.Event{part.Signal{What: Instant}}, nil))
		}, "*.example.com=[]"},
	} {
		step.play(p)
		p.Reconcile()
		var list []string
		for at, owner := range p.Dirty(false) {
			if at != part.Sets {
				t.Errorf("%s: %s at stage %d", step.name, owner, at)
			}
			_, name := part.Split(owner)
			text := "gone"
			if len(northboundtest.Change(t, p, owner).Rows) > 0 {
				text = fmt.Sprint(p.Addresses(name))
			}
			list = append(list, name+"="+text)
		}
		if got := strings.Join(list, " "); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
		p.Clean()
	}
	if owner := northbound.DomainOwner("nobody.example.com"); len(p.Change(owner).Rows) > 0 {
		t.Errorf("%s has rows", owner)
	}
}
