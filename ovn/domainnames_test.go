package ovn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/domains"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// dnsScene is a cluster with a DNS server on the nodes that its slice names, and a clock.
type dnsScene struct {
	*testing.T
	w   *world
	c   *cluster
	now time.Time
}

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newDNSScene(t *testing.T, serverNodes ...string) *dnsScene {
	s := &dnsScene{T: t, w: newWorld(), now: midnight}
	s.servers(serverNodes...)
	s.restart()
	return s
}

// restart has a new controller begin.
func (s *dnsScene) restart() {
	s.c = newCluster(ovntest.Settings(s.T, ovntest.Dual))
	s.c.At(s.now)
	s.c.begin(records.Records{}, s.w.Keys(), s.w.Get)
}

// servers moves the DNS servers.
func (s *dnsScene) servers(nodes ...string) {
	object := &objects.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns-1"},
		Service: "kube-dns", Ports: []objects.ServicePort{{Name: "dns", Protocol: "udp", Port: 53}}}
	var keys []part.Event
	for i, node := range nodes {
		server := s.w.pod("kube-system", fmt.Sprintf("coredns-%d", i), node)
		server.Controlled = true
		keys = append(keys, s.w.put(server)...)
		e := ready(fmt.Sprintf("10.244.%d.9", i), node)
		e.Pod = server.UID
		object.Endpoints = append(object.Endpoints, e)
	}
	s.touch(append(keys, s.w.put(object)...))
}

func (s *dnsScene) touch(keys []part.Event) {
	if s.c != nil {
		s.c.At(s.now)
		s.c.update(keys, s.w.Get)
	}
}

// saw has a node's agent report NAME ADDRESS SECONDS, the time that it may be used for from now on.
func (s *dnsScene) saw(node string, lines ...string) {
	s.Helper()
	o := &v1alpha1.ResolvedNames{}
	for _, line := range lines {
		var name, addr string
		var seconds int
		if _, err := fmt.Sscan(line, &name, &addr, &seconds); err != nil {
			s.Fatalf("%q: %v", line, err)
		}
		one := v1alpha1.ResolvedAddress{Address: addr, Until: metav1.NewTime(s.now.Add(time.Duration(seconds) * time.Second))}
		o.Names = append(o.Names, v1alpha1.ResolvedName{Name: name, Addresses: []v1alpha1.ResolvedAddress{one}})
		if n := len(o.Names); n > 1 && o.Names[n-2].Name == name {
			o.Names[n-2].Addresses = append(o.Names[n-2].Addresses, one)
			o.Names = o.Names[:n-1]
		}
	}
	object := objects.TrimResolvedNames(&unstructured.Unstructured{}, o, nil)
	object.ObjectMeta = s.w.meta("", node)
	s.touch(s.w.put(object))
}

// sets are the rows that were written since the last call, as NAME: ADDRESSES.
func (s *dnsScene) sets() []string {
	var list []string
	for _, change := range s.c.takeChanges() {
		name, ours := strings.CutPrefix(string(change.Owner), "DomainName/")
		if !ours {
			continue
		}
		if len(change.Rows) == 0 {
			list = append(list, name+": gone")
			continue
		}
		var members []string
		for _, m := range change.Memberships {
			members = append(members, m.Values...)
		}
		list = append(list, strings.TrimSpace(name+": "+strings.Join(members, " ")))
	}
	return list
}

func (s *dnsScene) want(what string, sets ...string) {
	s.Helper()
	if got := s.sets(); !slices.Equal(got, sets) {
		s.Errorf("%s: the sets are\n%q, want\n%q", what, got, sets)
	}
}

func TestAddressSetsOfDomains(t *testing.T) {
	s := newDNSScene(t, "l1", "l2")
	s.c.domains.Use("WWW.Example.com.", 1)
	s.c.domains.Use("*.example.com", 1)
	s.want("they are there before an answer", "*.example.com:", "www.example.com:")

	s.saw("l1", "www.example.com 203.0.113.1 90", "other.example.org 203.0.113.9 90")
	s.want("a name and its pattern", "*.example.com: 203.0.113.1", "www.example.com: 203.0.113.1")
	s.saw("l2", "www.example.com 2001:db8::1 90", "a.b.example.com 203.0.113.2 90", "example.com 203.0.113.8 90")
	s.want("what all servers said", "*.example.com: 203.0.113.1 203.0.113.2 2001:db8::1",
		"www.example.com: 203.0.113.1 2001:db8::1")
	s.saw("l1", "www.example.com 203.0.113.1 90")
	s.want("nothing new")
	s.saw("l1")
	s.want("a server forgets", "*.example.com: 203.0.113.2 2001:db8::1", "www.example.com: 2001:db8::1")

	s.c.domains.Use("www.example.com", 1)
	s.c.domains.Use("www.example.com", -1)
	s.want("one of two policies goes")
	s.c.domains.Use("www.example.com", -1)
	s.want("the last one goes", "www.example.com: gone")
	s.c.domains.Use("www.example.com", 1)
	s.want("it comes back", "www.example.com: 2001:db8::1")

	delete(s.w.objects, objects.Key{Kind: objects.ResolvedKind, Name: "l2"})
	s.touch([]part.Event{objects.Key{Kind: objects.ResolvedKind, Name: "l2"}})
	s.want("a node is gone", "*.example.com:", "www.example.com:")
}

func TestDomainsAddressesExpire(t *testing.T) {
	s := newDNSScene(t, "l1", "l2")
	s.c.domains.Use("www.example.com", 1)
	s.saw("l1", "www.example.com 203.0.113.1 90", "www.example.com 203.0.113.2 300")
	s.saw("l2", "www.example.com 203.0.113.1 120")
	s.want("both", "www.example.com: 203.0.113.1 203.0.113.2")
	if expected := s.c.TakeExpected(); !slices.Equal(expected, []part.Event{part.Signal{What: domains.Instant}}) {
		t.Fatalf("the cluster waits for %v", expected)
	}
	for _, step := range []struct {
		seconds int
		sets    []string
	}{
		{60, nil}, // at 60 s
		{45, nil}, // at 105 s: another server said it later
		{15, []string{"www.example.com: 203.0.113.2"}},
		{179, nil},
		{1, []string{"www.example.com:"}},
	} {
		s.now = s.now.Add(time.Duration(step.seconds) * time.Second)
		s.touch([]part.Event{part.Signal{What: domains.Instant}})
		s.want(s.now.Format("04:05"), step.sets...)
		if waits := len(s.c.TakeExpected()) == 1; waits != (s.now.Sub(midnight) < 300*time.Second) {
			t.Errorf("%s: the cluster waits for time to pass: %v", s.now.Format("04:05"), waits)
		}
	}
	s.saw("l1", "www.example.com 203.0.113.3 -1")
	s.want("what is over already is not taken")
}

// What a node without a DNS server says would open policies of the whole cluster.
func TestOnlyNodesWithDNSServersAreBelieved(t *testing.T) {
	s := newDNSScene(t, "l1")
	s.c.domains.Use("www.example.com", 1)
	s.saw("l2", "www.example.com 203.0.113.66 90")
	s.want("no server there", "www.example.com:")
	s.servers("l2")
	s.want("the server moves there", "www.example.com: 203.0.113.66")
	s.saw("l1", "www.example.com 203.0.113.1 90")
	s.want("it is not here any more")
	s.servers("l1")
	s.want("the old server's answers have their time", "www.example.com: 203.0.113.1 203.0.113.66")
	s.saw("l2", "www.example.com 203.0.113.66 90", "www.example.com 203.0.113.67 90")
	s.want("but there are no new ones")
	s.now = s.now.Add(30 * time.Second)
	s.restart()
	s.c.domains.Use("www.example.com", 1)
	s.want("a new controller believes those who are servers now", "www.example.com: 203.0.113.1")
}

func TestAddressesThatNoHostOutsideHas(t *testing.T) {
	s := newDNSScene(t, "l1")
	s.c.domains.Use("www.example.com", 1)
	var lines []string
	for _, addr := range []string{"127.0.0.1", "::1", "169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "fe80::1%eth0",
		"203.0.113", "::ffff:203.0.113.1", "10.1.2.3"} {
		lines = append(lines, "www.example.com "+addr+" 90")
	}
	s.saw("l1", lines...)
	s.want("two can be reached", "www.example.com: 10.1.2.3 203.0.113.1")
}

// Domain names may have letters that names of address sets have not.
func TestNamesOfDomainSets(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("a-very-long-label.", 13) + "example.com"
	for _, name := range []string{"example.com", "*.example.com", "my-host.example.com", "my_host.example.com", long,
		"b" + long} {
		for _, ipv4 := range []bool{true, false} {
			set := domains.SetName(name, ipv4)
			if seen[set] != "" {
				t.Errorf("%s and %s have the same set %s", name, seen[set], set)
			}
			seen[set] = name
			if strings.ContainsFunc(set, func(r rune) bool {
				return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '.')
			}) || len(set) > 100 {
				t.Errorf("%s is no name of an address set", set)
			}
		}
	}
	if domains.SetName("Example.COM.", true) != domains.SetName("example.com", true) ||
		!strings.HasPrefix(domains.SetName("*.example.com", true), "domain_.example.com_") {
		t.Errorf("names are %v", slices.Sorted(maps.Keys(seen)))
	}
}

// A controller that restarts finds its address sets as they must be.
func TestDomainsInTheNorthbound(t *testing.T) {
	s := newDNSScene(t, "l1")
	s.saw("l1", "www.example.com 203.0.113.1 90", "www.example.com 2001:db8::1 90")
	d := ovsdbtest.Northbound(t)
	server := ovsdbtest.Server(t, d)
	client := ovsdbtest.Connect(t, d, server.Endpoint, northbound.Tables...)
	engine := ovsdb.NewEngine(client)
	apply := func(c *cluster) {
		t.Helper()
		c.domains.Use("www.example.com", 1)
		if err := engine.Replace(t.Context(), c.takeEverything()); err != nil {
			t.Fatal(err)
		}
	}
	apply(s.c)
	sets := ovsdb.List(client, func(a *nb.AddressSet) bool { return strings.HasPrefix(a.Name, "domain_") })
	members := map[string][]string{}
	for _, set := range sets {
		members[set.Name] = set.Addresses
	}
	if len(members) != 2 || !slices.Equal(members[domains.SetName("www.example.com", true)], []string{"203.0.113.1"}) ||
		!slices.Equal(members[domains.SetName("www.example.com", false)], []string{"2001:db8::1"}) {
		t.Fatalf("the Northbound has %v", members)
	}
	before := server.Transactions()
	s.restart()
	apply(s.c)
	if after := server.Transactions(); after != before {
		t.Errorf("a restart makes %d transactions", after-before)
	}
	if changes := s.c.again(northbound.DomainOwner("*.example.com")); len(changes) != 1 ||
		changes[0].Owner != northbound.DomainOwner("*.example.com") {
		t.Errorf("asked for the rows again, %v", changes)
	}
}

// TestHostileResolvedNames: whoever owns a node with a DNS server may write any object. No address of it counts for
// longer than an agent could have said, none beyond the number that an agent holds, and nothing in it ends the
// controller or is read by it more than once.
func TestHostileResolvedNames(t *testing.T) {
	at := func(until time.Time, addresses ...string) v1alpha1.ResolvedName {
		n := v1alpha1.ResolvedName{Name: "www.example.com"}
		for _, a := range addresses {
			n.Addresses = append(n.Addresses, v1alpha1.ResolvedAddress{Address: a, Until: metav1.NewTime(until)})
		}
		return n
	}
	numbered := func(count int) (list []string) {
		for i := range count {
			list = append(list, fmt.Sprintf("203.%d.%d.%d", i>>16&255, i>>8&255, i&255))
		}
		return list
	}
	named := func(n v1alpha1.ResolvedName, name string) v1alpha1.ResolvedName {
		n.Name = name
		return n
	}
	spread := func(count int, name func(int) string) (list []v1alpha1.ResolvedName) {
		for i, a := range numbered(count) {
			list = append(list, named(at(midnight.Add(time.Hour), a), name(i)))
		}
		return list
	}
	const day = 24 * time.Hour
	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, c := range []struct {
		name  string
		names []v1alpha1.ResolvedName
		uses  string
		count int           // of addresses that count
		after time.Duration // when none counts any more
	}{
		{"a day and its grace, by a clock that is fast",
			[]v1alpha1.ResolvedName{at(midnight.Add(day+time.Minute+objects.ClockSkew), "203.0.113.1")}, "www.example.com", 1,
			day + time.Minute + objects.ClockSkew},
		{"two days", []v1alpha1.ResolvedName{at(midnight.Add(2*day), "203.0.113.1")}, "www.example.com", 1,
			day + time.Minute + objects.ClockSkew},
		{"for ever", []v1alpha1.ResolvedName{at(end, "203.0.113.1", "2001:db8::1")}, "www.example.com", 2, day + time.Minute +
			objects.ClockSkew},
		{"since ever", []v1alpha1.ResolvedName{at(time.Time{}, "203.0.113.1")}, "www.example.com", 0, 0},
		{"before 1970", []v1alpha1.ResolvedName{at(time.Unix(-1, 0), "203.0.113.1")}, "www.example.com", 0, 0},
		{"no time at all", []v1alpha1.ResolvedName{{Name: "www.example.com", Addresses: []v1alpha1.ResolvedAddress{
			{Address: "203.0.113.1"}}}}, "www.example.com", 0, 0},
		{"many of a name", []v1alpha1.ResolvedName{at(end, numbered(9000)...)}, "www.example.com", 256, day + time.Minute +
			objects.ClockSkew},
		{"a name many times", spread(9000, func(int) string { return "www.example.com" }), "www.example.com", 256, time.Hour},
		{"a name in many forms", spread(9000, func(i int) string {
			return []string{"www.example.com", "WWW.example.com."}[i%2]
		}), "www.example.com", 256, time.Hour},
		{"many of a pattern", []v1alpha1.ResolvedName{named(at(end, numbered(20000)...), "*.example.com")}, "*.example.com",
			8000, day + time.Minute + objects.ClockSkew},
		{"many names of a pattern", spread(20000, func(i int) string { return fmt.Sprintf("a%d.example.com", i) }),
			"*.example.com", 8000, time.Hour},
		{"a long name", []v1alpha1.ResolvedName{named(at(end, "203.0.113.1"), strings.Repeat("a.", 1<<19)+"example.com")},
			"*.example.com", 0, 0},
		{"no name", []v1alpha1.ResolvedName{named(at(end, "203.0.113.1"), "")}, "*.example.com", 0, 0},
		{"no addresses", []v1alpha1.ResolvedName{at(end, "", "203.0.113.1/24", strings.Repeat("1", 1<<20),
			"::ffff:127.0.0.1")}, "www.example.com", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newDNSScene(t, "l1")
			s.c.domains.Use(c.uses, 1)
			object := objects.TrimResolvedNames(&unstructured.Unstructured{}, &v1alpha1.ResolvedNames{Names: c.names}, nil)
			object.ObjectMeta = s.w.meta("", "l1")
			said := fmt.Sprint(object.Names)
			counts := func(what string, want int) {
				t.Helper()
				s.touch([]part.Event{part.Signal{What: domains.Instant}})
				if got := len(s.c.domains.Addresses(c.uses)); got != want {
					t.Errorf("%s: %d addresses count, want %d", what, got, want)
				}
			}
			s.touch(s.w.put(object))
			counts("at first", c.count)
			if fmt.Sprint(object.Names) != said {
				t.Error("the object, which others read, is changed")
			}
			s.now = midnight.Add(c.after - time.Second)
			counts("before the end", c.count)
			s.now = midnight.Add(c.after)
			s.c.TakeExpected()
			counts("at the end", 0)
			if expected := s.c.TakeExpected(); len(expected) > 0 {
				t.Errorf("it waits for %v", expected)
			}
		})
	}
}
