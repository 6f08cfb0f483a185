package ovn

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

var update = flag.Bool("update", false, "write golden files anew")

// world stands for the API server: objects by key, with the annotations that the cluster asked for.
type world struct {
	objects  map[part.Event]any
	uids     int
	problems []objects.Problem
}

func newWorld() *world { return &world{objects: map[part.Event]any{}} }

// watchedKinds are the kinds of all objects that a controller watches.
var watchedKinds = sync.OnceValue(func() []*objects.Kind {
	config := ovntest.Config()
	return newCluster(must(config.Settings())).kinds()
})

// trim does to an object what the informer of its kind does.
func trim(o any) any {
	for _, k := range watchedKinds() {
		if trimmed := must(k.Trim(o)); trimmed != o {
			return trimmed
		}
	}
	return o
}

// changed says whether an informer hands on an update.
func changed(before, after any) bool {
	return !slices.ContainsFunc(watchedKinds(), func(k *objects.Kind) bool { return !k.Changed(before, after) })
}

func (w *world) Get(k part.Event) any { return w.objects[k] }

func (w *world) Keys() []part.Event { return slices.Collect(maps.Keys(w.objects)) }

func (w *world) meta(namespace, name string) metav1.ObjectMeta {
	w.uids++
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("uid-%d", w.uids))}
}

func (w *world) put(given ...any) []part.Event {
	var keys []part.Event
	for _, o := range given {
		var k objects.Key
		switch o := o.(type) {
		case *objects.Node:
			k = objects.Key{Kind: objects.NodeKind, Name: o.Name}
		case *objects.Pod:
			k = objects.Key{Kind: objects.PodKind, Name: objects.FullName(o.Namespace, o.Name)}
		case *objects.Service:
			k = objects.Key{Kind: objects.ServiceKind, Name: objects.FullName(o.Namespace, o.Name)}
		case *objects.EndpointSlice:
			k = objects.Key{Kind: objects.SliceKind, Name: objects.FullName(o.Namespace, o.Name)}
		case *objects.Namespace:
			k = objects.Key{Kind: objects.NamespaceKind, Name: o.Name}
		case *objects.EgressIP:
			k = objects.Key{Kind: objects.EgressKind, Name: o.Name}
		case *objects.AddressPool:
			k = objects.Key{Kind: objects.PoolKind, Name: o.Name}
		case *objects.ResolvedNames:
			k = objects.Key{Kind: objects.ResolvedKind, Name: o.Name}
		case *objects.PodNetworks:
			k = objects.Key{Kind: objects.PodNetworksKind, Name: objects.FullName(o.Namespace, o.Name)}
		case *objects.ServiceCIDR:
			k = objects.Key{Kind: objects.ServiceCIDRKind, Name: o.Name}
		case *objects.PolicyObject:
			k = objects.Key{Kind: objects.PolicyKinds[o.Kind], Name: objects.FullName(o.Namespace, o.Name)}
		default:
			panic(fmt.Sprintf("%T", o))
		}
		w.objects[k] = o
		keys = append(keys, k)
	}
	return keys
}

func (w *world) node(name string, cidrs ...string) *objects.Node {
	return &objects.Node{ObjectMeta: w.meta("", name), PodCIDRs: cidrs}
}

func (w *world) pod(namespace, name, node string) *objects.Pod {
	return &objects.Pod{ObjectMeta: w.meta(namespace, name), Node: node}
}

func (w *world) service(name string, ips ...string) *objects.Service {
	s := &objects.Service{ObjectMeta: w.meta("default", name),
		Ports: []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 80}}}
	for _, ip := range ips {
		s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr(ip))
	}
	return s
}

func (w *world) slice(name, service string, ports []objects.ServicePort,
	endpoints ...objects.Endpoint) *objects.EndpointSlice {
	s := &objects.EndpointSlice{ObjectMeta: w.meta("default", name), Service: service, Ports: ports, Endpoints: endpoints}
	if len(endpoints) > 0 {
		s.IPv6 = endpoints[0].Addr.Is6()
	}
	return s
}

func ready(addr, node string) objects.Endpoint {
	return objects.Endpoint{Addr: netip.MustParseAddr(addr), Node: node, Ready: true, Serving: true}
}

// absorb does to the objects what the API server would: annotations and PodNetworks are written.
func (w *world) absorb(c *cluster) (touched []part.Event) {
	c.pods.NoteNetworks(func(string, ovsdb.Owner) bool { return false })
	for _, a := range c.TakeNotes() {
		k := a.Key()
		if a.Subresource == part.Status {
			touched = append(touched, w.absorbStatus(k, a)...)
			continue
		}
		if networks, ok := a.Body.(part.Networks); ok {
			touched = append(touched, w.absorbNetworks(k, a, networks)...)
			continue
		}
		switch o := w.objects[k].(type) {
		case *objects.Node:
			if o.UID == a.UID {
				o2 := *o
				o2.Network = ovntest.Written(a)
				touched = append(touched, w.put(&o2)...)
			}
		case *objects.Pod:
			if o.UID == a.UID {
				o2 := *o
				o2.Network = ovntest.Written(a)
				touched = append(touched, w.put(&o2)...)
			}
		}
	}
	w.problems = append(w.problems, c.TakeProblems()...)
	return touched
}

// absorbNetworks makes PodNetworks, or what it is then.
func (w *world) absorbNetworks(k objects.Key, p part.Patch, networks part.Networks) []part.Event {
	before, there := w.objects[k].(*objects.PodNetworks)
	switch {
	case there != (p.UID != "") || there && before.UID != p.UID: // of an object that is not there any more
		return nil
	case networks.Gone:
		delete(w.objects, k)
		return []part.Event{k}
	}
	o := &objects.PodNetworks{ObjectMeta: w.meta(p.Namespace, p.Name), Node: networks.Node.UID,
		Lines: map[types.UID]contract.PodAddresses{}}
	if there {
		o.UID = before.UID
	}
	for _, line := range networks.Pods {
		o.Lines[types.UID(line.UID)] = line
	}
	return w.put(o)
}

// reasons are the problems since the last call, and forgets them.
func (w *world) reasons() []string {
	var list []string
	for _, p := range w.problems {
		list = append(list, fmt.Sprintf("%s %s %s", p.Kind, objects.FullName(p.Object.Namespace, p.Object.Name), p.Reason))
	}
	w.problems = nil
	return list
}

// changeOf is what an owner comes to, by the part that has its rows.
func (c *cluster) changeOf(owner ovsdb.Owner) ovsdb.Change {
	word, _ := part.Split(owner)
	for _, p := range c.parts {
		if slices.Contains(p.gives, word) {
			return p.Change(owner).Change
		}
	}
	panic(owner)
}

// again are the changes that follow when the rows of an owner are asked for although nothing has changed.
func (c *cluster) again(owner ovsdb.Owner) []ovsdb.Change {
	c.update([]part.Event{part.Signal{What: part.Again, Name: string(owner)}}, func(part.Event) any { return nil })
	return c.takeChanges()
}

// cold is a new controller's Northbound of the objects that are there.
func cold(t testing.TB, s *settings.Settings, w *world) (*cluster, *ovsdb.Engine) {
	t.Helper()
	engine := ovsdbtest.Engine(t, ovsdbtest.Northbound(t), northbound.Tables...)
	c := newCluster(s)
	c.begin(records.Records{}, w.Keys(), w.Get)
	if err := engine.Replace(context.Background(), c.takeEverything()); err != nil {
		t.Fatal(err)
	}
	return c, engine
}

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", path, diff(string(want), text))
	}
}

// diff lists the lines that only one of two texts has.
func diff(want, got string) string {
	var out strings.Builder
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, line := range w {
		if !slices.Contains(g, line) {
			fmt.Fprintln(&out, "-", line)
		}
	}
	for _, line := range g {
		if !slices.Contains(w, line) {
			fmt.Fprintln(&out, "+", line)
		}
	}
	return out.String()
}
