package ui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

func podEnd(node, name, address string, port int) api.FlowEnd {
	namespace, name, _ := strings.Cut(name, "/")
	return api.FlowEnd{Kind: api.PodEnd, Namespace: namespace, Name: name, Node: node, Address: address, Port: port}
}

// talking is the market with connections, and with a rule that refuses.
func talking() *cluster {
	c := market()
	var (
		web1 = podEnd("l1", "shop/web-1", "10.244.0.5", 40000)
		web3 = podEnd("w1", "shop/web-3", "10.244.2.3", 40001)
		safe = podEnd("l2", "bank/safe-1", "10.244.1.3", 40002)
		db   = podEnd("l2", "shop/db-1", "10.244.1.5", 8080)
		host = api.FlowEnd{Kind: api.NodeEnd, Name: "l1", Address: "192.0.2.1", Port: 40003}
		gate = api.FlowEnd{Kind: api.GatewayEnd, Name: "gw-l1", Address: "100.64.0.2", Port: 40004}
		away = api.FlowEnd{Kind: api.OutsideEnd, Address: "198.51.100.9", Port: 443}
		none = api.FlowEnd{Kind: api.AddressEnd, Address: "10.244.9.9", Port: 8080}
	)
	by := &api.FlowService{Namespace: "shop", Name: "db", Address: "10.96.0.10", Port: 80}
	c.flows = api.NetworkFlows{Time: metav1.NowMicro(), NodesAsked: 3, Flows: []api.Flow{
		{Source: web1, Destination: db, Service: by, Protocol: "TCP", State: "ESTABLISHED"},
		{Source: web1, Destination: db, Service: by, Protocol: "TCP", State: "TIME_WAIT"},
		{Source: web1, Destination: db, Protocol: "TCP", State: "SYN_SENT"},
		{Source: web3, Destination: db, Service: by, Protocol: "TCP", State: "SYN_SENT"},
		{Source: safe, Destination: away, Protocol: "UDP"},
		{Source: host, Destination: podEnd("l1", "shop/web-1", "10.244.0.5", 0), Protocol: "ICMP"},
		{Source: gate, Destination: web1, Protocol: "TCP", State: "ESTABLISHED"},
		{Source: web1, Destination: none, Protocol: "SCTP", State: "COOKIE_WAIT"},
		{Source: web1, Destination: none, Protocol: "SCTP", State: "COOKIE_WAIT", Packets: 1, ReplyPackets: 1},
		{Source: web1, Destination: podEnd("l1", "shop/new-1", "10.244.0.9", 80), Protocol: "TCP", State: "ESTABLISHED"},
	}}
	c.hits = []api.PolicyHits{rule("shop", "db", "isolation from ingress", "Deny", "l2", 100),
		rule("shop", "db", "spec.ingress[0]", "Allow", "l2", 50), rule("", "guard", "spec.egress[0]", "Deny", "l1", 7)}
	return c
}

// rule is one of a policy, with what it has met on a node.
func rule(namespace, policy, rule, action, node string, packets uint64) api.PolicyHits {
	name := strings.TrimPrefix(namespace+"/"+policy, "/")
	return api.PolicyHits{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policy},
		Policy: "NetworkPolicy " + name, Rule: rule, Action: action, Nodes: []api.NodeHits{{Node: node, Packets: packets}}}
}

// place is where the map has an end of a flow.
func (c *cluster) place(e api.FlowEnd) string {
	switch e.Kind {
	case api.PodEnd:
		return "pod/" + e.Namespace + "/" + e.Name
	case api.NodeEnd:
		return "host/" + e.Name
	case api.OutsideEnd:
		return "outside"
	}
	for _, node := range c.topology.Nodes {
		if e.Kind == api.GatewayEnd && node.Gateway != nil && node.Gateway.Name == e.Name {
			return "host/" + node.Name
		}
	}
	return "addresses"
}

// talk are the lines of edges that the API's flows come to, and of what rules have refused since.
func (c *cluster) talk(refused ...string) []string {
	counts := map[string]int{}
	for _, f := range c.flows.Flows {
		if f.Destination.Name == "new-1" { // which the topology does not have yet
			continue
		}
		kind := "answered"
		if (f.State == "SYN_SENT" || f.State == "COOKIE_WAIT") && f.ReplyPackets == 0 {
			kind = "unanswered"
		}
		counts[fmt.Sprintf("%s %s > %s", kind, c.place(f.Source), c.place(f.Destination))]++
	}
	for line, n := range counts {
		refused = append(refused, fmt.Sprintf("%s %d", line, n))
	}
	slices.Sort(refused)
	return refused
}

// talks are the lines of the edges of connections that are drawn.
func (b *tab) talks() (lines []string) {
	b.Helper()
	for _, d := range b.elements() {
		if d.Talk != "" {
			lines = append(lines, fmt.Sprintf("%s %s > %s %d", d.Talk, d.Source, d.Target, d.Count))
		}
	}
	slices.Sort(lines)
	return lines
}

// tell has the page show live connections, and gives what it does when it is time to ask again.
func (b *tab) tell() (again func()) {
	b.Helper()
	value[bool](b, `(() => { const real = window.setInterval; window.setInterval = (f, ms) => { window.again = f;
		return real(f, 1e9); }; return true; })()`)
	b.press("Live connections")
	b.until("window.again !== undefined")
	return func() { b.Helper(); value[bool](b, "(() => { again(); return true; })()") }
}

const drawnTalk = "document.querySelector('.canvas').picture.drawn().filter((e) => e.talk)"

// TestLiveConnectionsAreThoseOfTheAPI, also after a change, and they are gone when nobody wants them.
func TestLiveConnectionsAreThoseOfTheAPI(t *testing.T) {
	c := talking()
	b := open(t, c)
	if n := c.timesAsked(api.NetworkFlowsResource); n != 0 {
		t.Errorf("the nodes are asked %d times before anybody wants that", n)
	}
	again := b.tell()
	b.until(drawnTalk + ".length > 0")
	compare(t, "drawn is", b.talks(), c.talk())
	summary := strings.Join(b.texts(".live"), " ")
	for _, want := range []string{"10 connections between 8 pairs", "3 unanswered", "0 packets refused by policies",
		"1 pair not drawn"} {
		if !strings.Contains(summary, want) {
			t.Errorf("%q is not in %q", want, summary)
		}
	}
	b.picture("live")
	c.change(func() {
		c.flows.Flows = c.flows.Flows[2:6]
		c.hits[0].Nodes[0].Packets = 112
		c.hits[1].Nodes[0].Packets = 70
		c.hits[2].Nodes[0].Packets = 3 // its node counts from the start again
		c.hits = append(c.hits, rule("bank", "new", "isolation from egress", "Deny", "l2", 4000))
		c.flows.NodesUnanswered, c.flows.Omitted, c.flows.FromOwnNode = 1, 5, 12
	})
	again()
	b.until(drawnTalk + ".some((e) => e.talk === 'refused')")
	compare(t, "after a change, drawn is", b.talks(), c.talk("refused refused > group/l2/shop 12",
		"refused node/l1 > refused 3"))
	summary = strings.Join(b.texts(".live"), " ")
	for _, want := range []string{"15 packets refused by policies", "1 of 3 nodes have not answered",
		"5 connections more", "12 from pods' own nodes"} {
		if !strings.Contains(summary, want) {
			t.Errorf("%q is not in %q", want, summary)
		}
	}
	b.press("Live connections")
	b.until(drawnTalk + ".length === 0")
	b.shows(c)
}

// timesAsked is how often a resource was asked for.
func (c *cluster) timesAsked(resource string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.questions[resource]
}

// TestNobodyAsksForWhatIsNotSeen: a page that is hidden asks the nodes nothing.
func TestNobodyAsksForWhatIsNotSeen(t *testing.T) {
	c := talking()
	b := open(t, c)
	again := b.tell()
	b.until(drawnTalk + ".length > 0")
	before := c.timesAsked(api.NetworkFlowsResource)
	hide := func(hidden bool) {
		value[bool](b, fmt.Sprintf(
			"Object.defineProperty(document, 'hidden', { configurable: true, value: %v }) === document", hidden))
	}
	hide(true)
	again()
	hide(false)
	c.change(func() { c.flows.Flows = c.flows.Flows[:1] })
	again()
	b.until(drawnTalk + ".length === 1")
	if asked := c.timesAsked(api.NetworkFlowsResource) - before; asked != 1 {
		t.Errorf("the nodes are asked %d times, of which the page was hidden once", asked)
	}
}

// TestTheTableOfConnectionsSaysTheSame, and each one leads to its way.
func TestTheTableOfConnectionsSaysTheSame(t *testing.T) {
	c := talking()
	b := open(t, c)
	again := b.tell()
	b.until(drawnTalk + ".length > 0")
	c.change(func() { c.hits[0].Nodes[0].Packets++ })
	again()
	b.press("Table")
	b.until("document.querySelector('.refused tbody tr') !== null")
	compare(t, "the table has", b.texts(".conversations tbody tr"), []string{
		"shop/web-110.244.9.98080/sctp2▲ 1 unansweredFollow", "shop/web-1shop/db-18080/tcp1▲ 1 unansweredFollow",
		"shop/web-3shop/db-1shop/db:808080/tcp1▲ 1 unansweredFollow", "shop/web-1shop/db-1shop/db:808080/tcp2Follow",
		"gateway/gw-l1shop/web-140000/tcp1", "node/l1shop/web-1ICMP1Follow",
		"bank/safe-1198.51.100.9 (outside)443/udp1Follow", "shop/web-1shop/new-180/tcp1Follow"})
	compare(t, "refused is", b.texts(".refused tbody tr"), []string{"NetworkPolicy shop/dbisolation from ingressl2✕ 1"})
	b.picture("live-table")
	b.named("the table of connections")
	b.readable("the table of connections")
	b.fill("input[type=search]", "safe-1")
	b.until("document.querySelectorAll('.conversations tbody tr').length === 1")
	b.fill("input[type=search]", "")
	b.do(chromedp.Click(chromedp.CSS(".conversations [aria-label='Follow the way from shop/web-3 to svc/shop/db']")))
	b.comesTo("way")
	got := value[string](b, "['from', 'to', 'port', 'protocol'].map((name) => "+
		"document.querySelector(`[name=${name}]`).value).join(' ')")
	if got != "shop/web-3 svc/shop/db 80 tcp" {
		t.Errorf("it follows %s", got)
	}
}

// TestWithoutTheRightToFlows the page says so in words, with the remedy, and the map stays.
func TestWithoutTheRightToFlows(t *testing.T) {
	c := talking()
	c.refused = []string{api.NetworkFlowsResource, api.PolicyHitsResource}
	b := open(t, c)
	b.tell()
	b.until("document.querySelectorAll('.live .refusals').length === 2")
	got := strings.Join(b.texts(".live .refusals"), " ")
	for _, want := range []string{"networkflows is forbidden to alice", "--clusterrole=" + api.NetworkFlowsRole,
		"policyhits is forbidden to alice", "--clusterrole=" + api.PolicyHitsRole} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if lines := b.talks(); len(lines) > 0 {
		t.Errorf("drawn is %q", lines)
	}
}

// TestManyConnectionsAreBounded: the worst and the most are drawn, and the rest is counted.
func TestManyConnectionsAreBounded(t *testing.T) {
	c := large(2000)
	c.crowd(20_000)
	b := open(t, c)
	b.tell()
	b.until(drawnTalk + ".length > 0")
	lines := b.talks()
	if len(lines) != 200 {
		t.Errorf("%d edges are drawn", len(lines))
	}
	all := map[string]int{}
	for _, f := range c.flows.Flows {
		all[fmt.Sprintf("group/%s/%s > group/%s/%s", f.Source.Node, f.Source.Namespace, f.Destination.Node,
			f.Destination.Namespace)]++
	}
	for _, line := range lines {
		edge, count, _ := strings.Cut(strings.TrimPrefix(line, "answered "), " > ")
		target, n, _ := strings.Cut(count, " ")
		if want := fmt.Sprint(all[edge+" > "+target]); n != want {
			t.Errorf("%s: the API has %s", line, want)
		}
	}
	if want, got := fmt.Sprintf("%d edges more not drawn", len(all)-200),
		strings.Join(b.texts(".live"), " "); !strings.Contains(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// crowd has so many connections between pods, more from some than from others.
func (c *cluster) crowd(connections int) {
	var pods []api.FlowEnd
	for _, node := range c.topology.Nodes {
		for _, p := range node.Pods {
			pods = append(pods, podEnd(node.Name, p.Namespace+"/"+p.Name, p.Addresses[0], 8080))
		}
	}
	for i := range connections {
		from, to := i*i%len(pods), (i*i+i*7)%len(pods)
		c.flows.Flows = append(c.flows.Flows, api.Flow{Source: pods[from], Destination: pods[to], Protocol: "TCP",
			State: "ESTABLISHED"})
	}
}

// compare fails if lines differ.
func compare(t *testing.T, saying string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\n%s\nand the API says\n%s", saying, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
