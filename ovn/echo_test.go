package ovn

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/watch"
	"github.com/weftnet/weft/ovsdb"
)

// looks has the next looks at all AddressPools, and at EgressIPs, leave a trace, and says at which there was one.
func (s *scene) looks() func() string {
	trace := netip.MustParseAddr("192.0.2.254")
	reserved := within(within(reflect.ValueOf(s.c.pools), "reserved"), "outside")
	reserved.SetMapIndex(reflect.ValueOf(trace), reflect.ValueOf("that of the test"))
	s.egressIPs(func(_ string, standing reflect.Value) { standing.SetZero() })
	return func() string {
		var seen []string
		now := within(within(reflect.ValueOf(s.c.pools), "reserved"), "outside")
		if !now.MapIndex(reflect.ValueOf(trace)).IsValid() {
			seen = append(seen, "AddressPools")
		}
		s.egressIPs(func(name string, standing reflect.Value) {
			if !standing.IsNil() {
				seen = append(seen, name)
			}
		})
		return strings.Join(seen, " ")
	}
}

// egressIPs has each EgressIP, in the order of their names, and the list of nodes that was found for it when it was
// looked at last.
func (s *scene) egressIPs(do func(name string, standing reflect.Value)) {
	all := within(reflect.ValueOf(&s.c.egress), "all")
	for _, name := range slices.SortedFunc(slices.Values(all.MapKeys()), func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	}) {
		do(name.String(), within(all.MapIndex(name), "standing"))
	}
}

// within is a field of what a pointer points to, which may be another package's.
func within(pointer reflect.Value, name string) reflect.Value {
	f := pointer.Elem().FieldByName(name)
	return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
}

// statusOf is an object's status with something else in it, as its own controller or another hand may write it.
func statusOf(status string, edit func(map[string]any)) string {
	now := map[string]any{}
	if err := json.Unmarshal([]byte(status), &now); err != nil {
		panic(err)
	}
	edit(now)
	return string(must(json.Marshal(now)))
}

// TestAStatusEchoIsNoWork: what is written to the status of an AddressPool or an EgressIP comes back as an event of it.
// It asks for no row, and no pool, Service or EgressIP is looked at for it. What another hand has written is put back.
func TestAStatusEchoIsNoWork(t *testing.T) {
	s := newScene(t, withBalancers)
	n := s.egressNode(1)
	n.PodCIDRs, n.Facts = n.PodCIDRs[:1], ovntest.Facts(1, false)
	s.do(n, s.namespace("default", "team=a"), s.pod("default", "web", "e1"), s.addressPool("p", "203.0.113.64/28"),
		s.egressIP("a", "team=a", "203.0.113.20"), s.balanced("web"))
	s.touch(s.c.TakeExpected())
	pool, egress := objects.Key{Kind: objects.PoolKind, Name: "p"}, objects.Key{Kind: objects.EgressKind, Name: "a"}
	// say has an object come with another status, and gives what is written then.
	say := func(k objects.Key, edit func(map[string]any)) (written string) {
		t.Helper()
		looks := s.looks()
		switch o := s.objects[k].(type) {
		case *objects.AddressPool:
			after := *o
			after.Status = statusOf(o.Status, edit)
			s.put(&after)
		case *objects.EgressIP:
			after := *o
			after.Status = statusOf(o.Status, edit)
			s.put(&after)
		}
		s.c.update([]part.Event{k}, s.Get)
		if changes := s.c.takeChanges(); len(changes) > 0 {
			t.Errorf("%v asks for %d owners' rows, of %s first", k, len(changes), changes[0].Owner)
		}
		s.want("looked at", looks(), "")
		notes := s.c.TakeNotes()
		for _, a := range notes {
			written += ovntest.Written(a)
			s.absorbStatus(objects.Key{Kind: a.Kind, Name: a.Name}, a)
		}
		return written
	}
	for k, want := range map[objects.Key]string{pool: `"used":1`, egress: `"pods":1`} {
		field := strings.Trim(strings.Split(want, ":")[0], `"`)
		s.want("nothing is new", say(k, func(map[string]any) {}), "")
		for _, forge := range []func(map[string]any){
			func(status map[string]any) { status[field] = 7 },
			func(status map[string]any) { delete(status, "conditions") },
			func(status map[string]any) { clear(status) },
		} {
			if written := say(k, forge); !strings.Contains(written, want) || !strings.Contains(written, `"conditions":[{`) {
				t.Errorf("a forged status of %v is followed by %q", k, written)
			}
			s.want("it is right again", say(k, func(map[string]any) {}), "")
		}
	}
	looks := s.looks()
	edited := *s.objects[pool].(*objects.AddressPool)
	edited.Generation++
	s.do(&edited)
	s.want("what another spec has looked at", looks(), "AddressPools")
}

// TestRowsOfWhatHasAStatusComeBack, however the event of a status and another hand's change of the rows come together.
func TestRowsOfWhatHasAStatusComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := watch.NewQueue()
		w := &lockedWorld{world: newWorld(), queue: q}
		n := w.node("l1", "10.244.0.0/24")
		n.Facts, n.Ready, n.Labels = ovntest.Facts(1, false), true,
			objects.NewLabelSet(map[string]string{v1alpha1.EgressLabel: ""})
		policies := w.policies(t, "{kind: NetworkPolicy, metadata: {namespace: default, name: it}, spec: {podSelector: {}, "+
			"policyTypes: [Ingress]}}")
		w.put(append(policies, n, w.namespace("default"), w.egressIP("a", "", "203.0.113.20"))...)
		m := &memory{}
		l, _ := lead(t, m, w)
		mine := owners("EgressIP/a", "NetworkPolicy/default/it")
		there := func() bool {
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			return !slices.ContainsFunc(mine, func(o ovsdb.Owner) bool { return len(m.owners[o].Rows) == 0 })
		}
		if !there() {
			t.Fatal("it has no rows")
		}
		for _, withStatus := range []bool{false, true} {
			m.set(func() {
				for _, owner := range mine {
					delete(m.owners, owner)
				}
			})
			l.suspect(t.Context(), mine)
			if withStatus {
				after := *w.Get(objects.Key{Kind: objects.EgressKind, Name: "a"}).(*objects.EgressIP)
				after.Status = `{"pods":1}`
				w.change(&after)
			}
			time.Sleep(2 * spacing)
			if !there() {
				t.Errorf("the rows do not come back; with an event of a status: %v", withStatus)
			}
			time.Sleep(lastPause * 3) // the dispute is over
		}
	})
}
