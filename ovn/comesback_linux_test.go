package ovn

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/cases"
)

// TestNodesComeBackAHundredTimes: whatever leaves and comes back with a node, in any order, the Northbound has the same
// rows as before, and none besides, and the controller remembers as much as before.
func TestNodesComeBackAHundredTimes(t *testing.T) {
	s := ovntest.Settings(t, func(c *settings.Config) {
		ovntest.Dual(c)
		withShared(c)
		c.AllocateLoadBalancerAddresses, c.PodNetworks = true, true
		c.JoinCIDRs = []string{"100.64.0.0/28", "fd98::/64"}
	})
	database := ovsdbtest.Northbound(t)
	north := ovsdbtest.Server(t, database)
	asked := ovsdbtest.Connect(t, database, north.Endpoint)

	l := &life{t: t, w: newWorld(), c: newCluster(s), random: rand.New(rand.NewPCG(7, 17))}
	l.engine = ovsdb.NewEngine(ovsdbtest.Connect(t, database, north.Endpoint, northbound.Tables...))
	l.c.begin(records.Records{}, nil, l.w.Get)
	if err := l.engine.Replace(context.Background(), l.c.takeEverything()); err != nil {
		t.Fatal(err)
	}
	comesBackWorld(l.w)
	l.apply(l.w.Keys())
	l.quiesce()
	rows := identities(t, asked, database)
	sizes := sizesOf(l.c)
	l.w.reasons()

	rounds := cases.Of(100)
	for range rounds {
		l.leavesAndComesBack([]string{"l1", "l2", "w1", "w2"}[l.random.IntN(4)])
	}
	l.quiesce()
	if now := identities(t, asked, database); !slices.Equal(now, rows) {
		t.Errorf("after %d times the Northbound has other rows:\n%s", rounds, diff(strings.Join(rows, "\n"),
			strings.Join(now, "\n")))
	}
	for what, n := range sizesOf(l.c) {
		if n != sizes[what] {
			t.Errorf("%s is %d, and was %d", what, n, sizes[what])
		}
	}
	if told := l.w.reasons(); len(told) > 0 && slices.ContainsFunc(told, func(r string) bool {
		return !strings.HasSuffix(r, "WindowsDatapath") && !strings.HasSuffix(r, "NoSCTPOnWindows")
	}) {
		t.Errorf("what is told: %q", told)
	}

	before := ovsdb.Dump(l.engine.Client())
	again := newCluster(s)
	again.begin(engine{Engine: l.engine}.Records(s), l.w.Keys(), l.w.Get)
	if err := l.engine.Replace(context.Background(), again.takeEverything()); err != nil {
		t.Fatal(err)
	}
	if after := ovsdb.Dump(l.engine.Client()); after != before {
		t.Errorf("a controller that starts then writes:\n%s", diff(before, after))
	}
}

// comesBackWorld has Linux and Windows nodes, and something of each kind that has rows among a node's, or about it.
func comesBackWorld(w *world) {
	mixedWorld(w)
	for k, o := range w.objects {
		if n, ok := o.(*objects.Node); ok {
			n.Labels = objects.NewLabelSet(map[string]string{"weft.net/egress": ""})
			n.Ready, n.Zone = true, map[bool]string{true: "z1", false: "z2"}[n.Name < "w"]
			n.Facts = ovntest.EditFacts(hostNumber(n), true, func(f *contract.NodeFacts) {
				*f, f.PodNetworks = ovntest.ReadFacts(n.Facts), true
			})
			w.objects[k] = n
		}
	}
	outside := w.service("outside", "10.96.0.20", "fd00:10:96::20")
	outside.NodePorts = []objects.NodePort{{ServicePort: outside.Ports[0], Number: 30080}}
	outside.ExternalLocal, outside.Balancer = true, objects.LoadBalancer{Wanted: true, Families: "4,6"}
	w.put(w.namespace("default", "team=a"), outside, w.egressIP("e", "team=a", "203.0.113.20", "2001:db8::20"),
		w.addressPool("a", "203.0.113.40/31", "2001:db8::40/126"))
	w.put(w.slice("outside-4", "outside", outside.Ports))
	hostPort := w.pod("default", "host-port", "l1")
	hostPort.HostPorts = []objects.HostPort{{Protocol: "tcp", Port: 8080, Into: 80}}
	w.put(hostPort)
}

func hostNumber(n *objects.Node) int {
	return map[string]int{"l1": 1, "l2": 2, "w1": 3, "w2": 4}[n.Name]
}

// leavesAndComesBack has a node go with its pods, and come back as another object with others. Meanwhile a pod and a
// Service elsewhere come and go. The order is random.
func (l *life) leavesAndComesBack(name string) {
	l.t.Helper()
	w := l.w
	node := objects.Key{Kind: objects.NodeKind, Name: name}
	former := w.objects[node].(*objects.Node)
	var gone []part.Event
	var back []any
	fresh := *former
	fresh.ObjectMeta, fresh.Network = w.meta("", name), ""
	back = append(back, &fresh)
	gone = append(gone, node)
	for k, o := range w.objects {
		if p, ok := o.(*objects.Pod); ok && p.Node == name {
			again := w.pod(p.Namespace, p.Name, name)
			again.HostPorts = p.HostPorts
			gone, back = append(gone, k), append(back, again)
		}
	}
	guest, web := w.pod("default", "guest", "l1"), w.service("guest", "10.96.0.30")
	endpoints := *w.objects[objects.Key{Kind: objects.SliceKind, Name: "default/outside-4"}].(*objects.EndpointSlice)
	endpoints.Endpoints = []objects.Endpoint{ready("10.244.1.9", name)}
	without := endpoints
	without.Endpoints = nil
	for _, step := range []struct {
		come  []any
		leave []part.Event
	}{
		{[]any{guest, web, &endpoints}, nil},
		{nil, gone},
		{[]any{&without}, []part.Event{objects.Key{Kind: objects.PodKind, Name: "default/guest"}}},
		{back, []part.Event{objects.Key{Kind: objects.ServiceKind, Name: "default/guest"}}},
	} {
		l.inAnyOrder(step.come, step.leave)
	}
}

// inAnyOrder has objects come and others go, in batches of any size. What the controller writes comes between them.
func (l *life) inAnyOrder(come []any, leave []part.Event) {
	l.t.Helper()
	var steps []func() []part.Event
	for _, o := range come {
		steps = append(steps, func() []part.Event { return l.w.put(o) })
	}
	for _, k := range leave {
		steps = append(steps, func() []part.Event { delete(l.w.objects, k); return []part.Event{k} })
	}
	l.random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	var batch []part.Event
	for i, step := range steps {
		batch = append(batch, step()...)
		if i == len(steps)-1 || l.random.IntN(2) == 0 {
			l.apply(batch)
			batch = nil
			if l.random.IntN(2) == 0 {
				l.apply(l.w.absorb(l.c))
			}
		}
	}
}

// everyRow asks a server for all its rows.
func everyRow(t *testing.T, client *ovsdb.Client, d ovsdbtest.Database, each func(table string, row libovsdb.Row)) {
	t.Helper()
	for table := range d.Model.Types() {
		result, err := client.Transact(t.Context(), libovsdb.Operation{Op: libovsdb.OperationSelect, Table: table})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range result[0].Rows {
			each(table, row)
		}
	}
}

// identities are the tables and UUIDs of rows. A pod that comes back is another one, and so is its port: of ports of
// pods they have the owner.
func identities(t *testing.T, client *ovsdb.Client, d ovsdbtest.Database) (list []string) {
	t.Helper()
	everyRow(t, client, d, func(table string, row libovsdb.Row) {
		is := row["_uuid"].(libovsdb.UUID).GoUUID
		if marks, ok := row["external_ids"].(libovsdb.OvsMap); ok && table == nb.LogicalSwitchPortTable {
			if owner, _ := marks.GoMap[ovsdb.OwnerMark].(string); strings.HasPrefix(owner, objects.PodKind.String()+"/") {
				is = owner
			}
		}
		list = append(list, table+" "+is)
	})
	slices.Sort(list)
	return list
}
