package ovn

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/test/cases"
)

// TestPoliciesComeToTheSameAsAColdStart plays random lives of pods, namespaces, nodes and policies. The rows are
// changed transaction by transaction, and at no moment may a packet pass that is refused before and after. In half of
// the lives several events come at once, some of them while no controller leads; in the others one after the other, and
// there what belongs together is parted. At the end the Northbound is what a controller makes of it that sees only what
// is left.
func TestPoliciesComeToTheSameAsAColdStart(t *testing.T) {
	for seed := range cases.Of(*lives) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := newPolicyLife(t, seed)
			l.parted = seed%2 == 1
			for range 60 {
				l.step()
			}
			l.quiesce()
			l.sameAsEver()
			again := newCluster(l.settings)
			again.begin(engine{Engine: l.engine}.Records(l.settings), l.w.Keys(), l.w.Get)
			before := ovsdb.Dump(l.engine.Client())
			if err := l.engine.Replace(context.Background(), again.takeEverything()); err != nil {
				t.Fatal(err)
			}
			if after := ovsdb.Dump(l.engine.Client()); after != before {
				t.Errorf("events and cold start differ:\n%s", diff(after, before))
			}
			if l.judged < 500 {
				t.Errorf("only %d verdicts: the events tell too little", l.judged)
			}
		})
	}
}

// policyLife is a life whose rows are followed from moment to moment.
type policyLife struct {
	life
	parted   bool
	settings *settings.Settings
	rows     map[ovsdb.Owner]ovsdb.Change
	expected []part.Event
	judged   int
}

func newPolicyLife(t *testing.T, seed uint64) *policyLife {
	s := ovntest.Settings(t, func(c *settings.Config) { ovntest.Dual(c); c.AllocateNodeCIDRs = true })
	w := newWorld()
	for i := range 3 {
		n := w.node(fmt.Sprint("n", i))
		n.Facts = ovntest.Facts(1+i, true)
		w.put(n)
	}
	for _, space := range []string{"s0", "s1"} {
		w.put(w.namespace(space, "stage=a", "kubernetes.io/metadata.name="+space))
		for i := range 3 {
			w.put(w.pod(space, fmt.Sprint("p", i), fmt.Sprint("n", i)))
		}
	}
	l := &policyLife{life: life{t: t, w: w, random: rand.New(rand.NewPCG(seed, 11))}, settings: s,
		rows: map[ovsdb.Owner]ovsdb.Change{}}
	l.c, l.engine = cold(t, s, w)
	l.take(l.c.takeEverything())
	return l
}

func (l *policyLife) take(changes []ovsdb.Change) {
	for _, change := range changes {
		if l.rows[change.Owner] = change; len(change.Rows)+len(change.Memberships) == 0 {
			delete(l.rows, change.Owner)
		}
	}
}

// step is an event or some, and at times what was put off comes due with it.
func (l *policyLife) step() {
	what, keys := l.event()
	for !l.parted && l.random.IntN(3) > 0 {
		more, others := l.event()
		what, keys = what+"; "+more, append(keys, others...)
	}
	if !l.parted && l.random.IntN(6) == 0 {
		l.failover(what)
		return
	}
	if l.random.IntN(4) == 0 {
		keys = append(keys, l.expected...)
		l.expected = nil
		what += ", and what was put off"
	}
	if l.random.IntN(3) > 0 {
		keys = append(keys, l.w.absorb(l.c)...)
	}
	l.follow(what, keys)
}

func (l *policyLife) quiesce() {
	for range 10 {
		keys := append(l.w.absorb(l.c), l.expected...)
		if l.expected = nil; len(keys) == 0 {
			return
		}
		l.follow("what was put off", keys)
	}
	l.t.Fatal("the cluster does not come to rest")
}

// follow takes in an event and makes its changes.
func (l *policyLife) follow(what string, keys []part.Event) {
	l.t.Helper()
	l.change(what, l.engine.Apply, func() []ovsdb.Change {
		l.c.update(keys, l.w.Get)
		return l.c.takeChanges()
	})
}

// failover has another controller lead, which knows nothing but what it finds.
func (l *policyLife) failover(what string) {
	l.t.Helper()
	l.change(what+", without a controller", l.engine.Replace, func() []ovsdb.Change {
		l.c, l.expected = newCluster(l.settings), nil
		l.c.begin(engine{Engine: l.engine}.Records(l.settings), l.w.Keys(), l.w.Get)
		l.c.pods.Seen(engine{Engine: l.engine}.Records(l.settings).Pods)
		return l.c.takeEverything()
	})
}

// leavers are the removals that a database's Replace adds to changes, where it adds them.
func (l *policyLife) withLeavers(changes []ovsdb.Change) []ovsdb.Change {
	gone := maps.Clone(l.rows)
	at := 0
	for i, change := range changes {
		if delete(gone, change.Owner); change.With {
			at = i + 1
		}
	}
	var leavers []ovsdb.Change
	for _, owner := range slices.Sorted(maps.Keys(gone)) {
		leavers = append(leavers, ovsdb.Change{Owner: owner, With: true})
	}
	return slices.Insert(slices.Clone(changes), at, leavers...)
}

// change makes changes. Where they are parted each is a moment of its own, except for those of pods: the events of
// a namespace are many pods', which no order could spare a moment at which some have their new labels, and
// others their old ones.
func (l *policyLife) change(what string, apply func(context.Context, []ovsdb.Change) error,
	made func() []ovsdb.Change) {
	l.t.Helper()
	old, pods := l.tables(), l.addresses()
	begun := l.c
	whole := made()
	changes := whole
	if l.c != begun {
		changes = l.withLeavers(whole)
	}
	l.expected = append(l.expected, l.c.TakeExpected()...)
	maps.DeleteFunc(pods, func(port string, addrs []netip.Addr) bool { return !slices.Equal(l.addresses()[port], addrs) })

	var between []*acl.Tables
	var owners []string
	for i, change := range changes {
		l.take(changes[i : i+1])
		owners = append(owners, string(change.Owner))
		if i+1 < len(changes) {
			next := changes[i+1]
			if next.With && !l.parted || isPod(change) && isPod(next) {
				continue
			}
		}
		between = append(between, l.tables())
	}
	if len(between) > 0 {
		l.noGap(what, owners, pods, old, between)
	}
	if err := apply(context.Background(), whole); err != nil {
		l.t.Fatal(err)
	}
	l.asFresh(what)
}

// asFresh judges packets by the rows, where some linger that nobody needs any more, and by those of a controller
// that starts now.
func (l *policyLife) asFresh(what string) {
	l.t.Helper()
	again := newCluster(l.settings)
	again.begin(engine{Engine: l.engine}.Records(l.settings), l.w.Keys(), l.w.Get)
	rows, err := acl.FromChanges(again.takeEverything())
	if err != nil {
		l.t.Fatal(err)
	}
	fresh, err := acl.New(rows)
	if err != nil {
		l.t.Fatal(err)
	}
	now, pods := l.tables(), l.addresses()
	for range 20 {
		if k, ok := l.connection(pods); ok {
			if v, want := now.Judge(k), fresh.Judge(k); v.Allowed != want.Allowed {
				l.t.Fatalf("%s: of %+v the rows say %t by %s; those of a cold start %t by %s", what, k.Packet, v.Allowed, trail(v),
					want.Allowed, trail(want))
			}
		}
	}
}

func isPod(change ovsdb.Change) bool { return strings.HasPrefix(string(change.Owner), "Pod/") }

func (l *policyLife) tables() *acl.Tables {
	l.t.Helper()
	// Values for a set that is gone are gone with it.
	rows, _ := acl.FromChanges(slices.Collect(maps.Values(l.rows)))
	tables, err := acl.New(rows)
	if err != nil {
		l.t.Fatal(err)
	}
	return tables
}

// addresses are those of all pods with a port, by the port and the pod.
func (l *policyLife) addresses() map[string][]netip.Addr {
	all := map[string][]netip.Addr{}
	for name, p := range l.c.pods.All() {
		if len(p.Addresses()) > 0 && l.rows[northbound.PodOwner(name)].Owner != "" {
			all[contract.PodPort(p.Object().Namespace,
				p.Object().Name)+" "+string(p.Object().UID)] = contract.Addrs(p.Addresses())
		}
	}
	return all
}

// noGap judges packets of pods that were there before and are still.
func (l *policyLife) noGap(what string, owners []string, pods map[string][]netip.Addr, old *acl.Tables,
	between []*acl.Tables) {
	l.t.Helper()
	now := between[len(between)-1]
	for range 60 {
		k, ok := l.connection(pods)
		if !ok {
			continue
		}
		before, after := old.Judge(k), now.Judge(k)
		l.judged++
		if before.Allowed || after.Allowed {
			continue
		}
		for i, tables := range between {
			if v := tables.Judge(k); v.Allowed {
				l.t.Fatalf("%s: at moment %d of %d, amid %s, passes %+v; before: %s; after: %s", what, i+1, len(between), owners,
					k.Packet, trail(before), trail(after))
			}
		}
	}
}

// connection is one between two pods, or a pod and a node or somebody outside; ok is false where it is none.
func (l *policyLife) connection(pods map[string][]netip.Addr) (k acl.Connection, ok bool) {
	type end struct {
		port  string
		addrs []netip.Addr
	}
	ends := []end{{"", []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8:1::2")}},
		{"", []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8:9::1")}}}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		port, _, _ := strings.Cut(name, " ")
		ends = append(ends, end{port, pods[name]})
	}
	from, to, family := ends[l.random.IntN(len(ends))], ends[l.random.IntN(len(ends))], l.random.IntN(2)
	return acl.Connection{Packet: acl.Packet{Inport: from.port, Outport: to.port, Src: from.addrs[family],
			Dst:   to.addrs[family],
			Proto: []uint8{acl.TCP, acl.UDP}[l.random.IntN(2)], SrcPort: 40000, DstPort: []uint16{80, 8080}[l.random.IntN(2)]}},
		from.port != to.port
}

func trail(v acl.Verdict) string {
	var lines []string
	for _, s := range v.Steps {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", s.Rule, s.Rule.Action, s.Rule.Text))
	}
	return strings.Join(lines, ", ")
}

// labels are few, so that policies meet pods.
func (l *policyLife) labels() objects.LabelSet {
	n := l.random.IntN
	return objects.NewLabelSet(labelMap([]string{"app=" + []string{"a", "b", "c"}[n(3)],
		"tier=" + []string{"x", "y"}[n(2)]}))
}

func (l *policyLife) event() (what string, keys []part.Event) {
	w, n := l.w, l.random.IntN
	space, host := []string{"s0", "s1"}[n(2)], fmt.Sprint("n", n(3))
	podKey := objects.Key{Kind: objects.PodKind, Name: fmt.Sprintf("%s/p%d", space, n(5))}
	switch n(12) {
	case 0, 1, 2:
		p := w.pod(space, podKey.Name[3:], host)
		p.Labels, p.Ports = l.labels(), [][]objects.ContainerPort{nil, {{Name: "web", Protocol: "tcp", Number: 80}},
			{{Name: "web", Protocol: "tcp", Number: 8080}, {Name: "web", Protocol: "udp", Number: 80}}}[n(3)]
		return "pod comes or goes", l.toggle(podKey, p)
	case 3:
		if before, ok := w.objects[podKey].(*objects.Pod); ok {
			after := *before
			w.uids++
			after.UID, after.Node, after.Network = types.UID(fmt.Sprint("again-", w.uids)), host, ""
			return "pod restarts", w.put(&after)
		}
	case 4, 5:
		if before, ok := w.objects[podKey].(*objects.Pod); ok {
			after := *before
			after.Labels = l.labels()
			return "pod relabelled", w.put(&after)
		}
	case 6:
		return "namespace relabelled",
			w.put(w.namespace(space, "stage="+[]string{"a", "b"}[n(2)], "kubernetes.io/metadata.name="+space))
	case 7:
		if before, ok := w.objects[objects.Key{Kind: objects.NodeKind, Name: host}].(*objects.Node); ok {
			after := *before
			after.Labels = l.labels()
			return "node relabelled", w.put(&after)
		}
	default:
		return l.policyEvent(space)
	}
	return "nothing", nil
}

// policyEvent adds, changes or deletes one.
func (l *policyLife) policyEvent(space string) (what string, keys []part.Event) {
	w, n := l.w, l.random.IntN
	pick := func(list ...string) string { return list[n(len(list))] }
	pods := func() string {
		return pick("{}", "{matchLabels: {app: a}}", "{matchLabels: {app: b}}", "{matchLabels: {tier: x}}",
			"{matchExpressions: [{key: app, operator: NotIn, values: [a]}]}")
	}
	spaces := func() string { return pick("{}", "{matchLabels: {stage: a}}", "{matchLabels: {stage: b}}") }
	text := ""
	if n(3) > 0 {
		peer := func() string {
			return pick("{podSelector: "+pods()+"}", "{podSelector: "+pods()+", namespaceSelector: "+spaces()+"}",
				"{ipBlock: {cidr: 10.244.0.0/16, except: [10.244.1.0/24]}}", `{ipBlock: {cidr: "::/0"}}`)
		}
		ports := func() string {
			return pick("[]", "[{port: 80}]", "[{port: web}]", "[{port: web, protocol: UDP}, {port: 8080}]")
		}
		text = fmt.Sprintf(`{kind: NetworkPolicy, metadata: {namespace: %s, name: p%d}, spec: {podSelector: %s, policyTypes: %s, ingress: [{from: [%s], ports: %s}], egress: [{to: [%s, %s], ports: %s}]}}`,
			space, n(4), pods(), pick("[Ingress]", "[Egress]", "[Ingress, Egress]"), peer(), ports(), peer(), peer(), ports())
	} else {
		subject := func() string {
			return pick("namespaces: "+spaces(), "pods: {namespaceSelector: "+spaces()+", podSelector: "+pods()+"}")
		}
		action, protocols := func() string { return pick("Accept", "Deny", "Deny", "Pass") }, func() string {
			return pick("", ", protocols: [{tcp: {destinationPort: {number: 80}}}]",
				", protocols: [{destinationNamedPort: web}]")
		}
		// No two have one priority: the API leaves open which of such is asked first, and while one makes room for
		// another their order changes.
		number := n(3)
		text = fmt.Sprintf(`{kind: ClusterNetworkPolicy, metadata: {name: c%d}, spec: {tier: %s, priority: %d, subject: {%s}, ingress: [{action: %s, from: [{%s}]%s}, {action: %s, from: [{%s}]%s}], egress: [{action: %s, to: [{%s}]%s}, {action: %s, to: [{%s}]}]}}`,
			number, pick("Admin", "Baseline"), number+3*n(3), subject(), action(), subject(), protocols(), action(), subject(),
			protocols(), action(), subject(), protocols(),
			action(), pick("nodes: {}", "nodes: {matchLabels: {tier: x}}", `networks: [192.0.2.0/24, "2001:db8:1::/64"]`))
	}
	o := w.policies(l.t, text)[0].(*objects.PolicyObject)
	k := objects.Key{Kind: objects.PolicyKinds[o.Kind], Name: objects.FullName(o.Namespace, o.Name)}
	before, changes := w.objects[k].(*objects.PolicyObject)
	if changes {
		o.UID = before.UID
	}
	return "policy " + text, l.toggle(k, o)
}
