//go:build linux

package chassis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/tenure"
	"github.com/weftnet/weft/node/nodetest"
)

// place has the controller say which zone a node is in.
func (w *world) place(name, zone string) {
	w.tb.Helper()
	w.annotate(name, contract.Format(contract.NodeNetwork{ID: 1, Zone: zone}))
}

// annotate sets a node's annotation weft.net/node-network, or removes it if it is to be empty.
func (w *world) annotate(name, network string) {
	w.tb.Helper()
	ofNodes := w.admin.CoreV1().Nodes()
	object, err := ofNodes.Get(w.tb.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.tb.Fatal(err)
	}
	object = object.DeepCopy()
	delete(object.Annotations, contract.NodeNetworkAnnotation)
	if network != "" {
		object.Annotations[contract.NodeNetworkAnnotation] = network
	}
	if _, err := ofNodes.Update(w.tb.Context(), object, metav1.UpdateOptions{}); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) startIn(zone, identity string) *chassisHost {
	w.tb.Helper()
	config := w.config(identity)
	config.Zone = zone
	return w.startWith(config)
}

// sees waits until a host sees so many hosts of its zone, itself included.
func (c *chassisHost) sees(tb testing.TB, want int) {
	tb.Helper()
	nodetest.Eventually(tb, nodetest.Patience, func() error {
		if n := c.metricValue(tb, "weft_chassis_hosts"); n != float64(want) {
			return fmt.Errorf("it sees %v hosts, not %d", n, want)
		}
		return nil
	})
}

// hasTaken says how many nodes a host has taken.
func (c *chassisHost) hasTaken(tb testing.TB) int {
	tb.Helper()
	return int(c.metricValue(tb, "weft_chassis_takeovers_total"))
}

func TestHostsShareTheNodesOfTheirZone(t *testing.T) {
	nodes := names(9)
	ofA, ofB, ofNone, late := nodes[:4], nodes[4:6], nodes[6:8], nodes[8]
	w := newWorld(t, nodes...)
	for _, name := range ofA {
		w.place(name, "a")
	}
	for _, name := range ofB {
		w.place(name, "b")
	}
	w.place(ofNone[0], "")
	w.place(ofNone[1], "")
	w.annotate(late, "{") // the controller will write it again
	a1, a2, b := w.startIn("a", "a1"), w.startIn("a", "a2"), w.startIn("b", "b1")
	w.together(ofA, a1, a2)
	w.together(ofB, b)
	a1.sees(t, 2)
	a2.sees(t, 2)
	b.sees(t, 1)
	for _, host := range []*chassisHost{a1, a2} {
		nodetest.Eventually(t, nodetest.Patience, func() error {
			if has := len(host.connectedNodes()); has == 0 || has > 3 { // three are a quarter more than the half
				return fmt.Errorf("%s holds %d of 4", host.config.Identity, has)
			}
			return nil
		})
	}
	for identity, zone := range map[string]string{"a1": "a", "a2": "a", "b1": "b"} {
		if label := w.lease(hostLease(identity)).Labels[contract.ZoneLabel]; label != zone {
			t.Errorf("the Lease of %s has zone %q", identity, label)
		}
	}
	// A node is nobody's until its zone is known: the first host to take it is of this zone.
	w.place(late, "b")
	w.together(append(slices.Clone(ofB), late), b)
	if lease := w.lease(nodeLease(late)); tenure.Holder(lease) != "b1" || transitions(lease) != 0 {
		t.Errorf("%s was taken before its zone was known: %v", late, lease.Spec)
	}
	if taken := b.hasTaken(t); taken != 3 {
		t.Errorf("the host of zone b has taken %d nodes, not 3", taken)
	}
	none := w.start("none")
	w.together(ofNone, none)
	none.sees(t, 1)
	if label, there := w.lease(hostLease("none")).Labels[contract.ZoneLabel]; there {
		t.Errorf("the Lease of a host without a zone has zone %q", label)
	}
	w.together(ofA, a1, a2)
}

// TestANodeOfAZoneWithoutHostsWaits: its host is lost, and a host of another zone, which knows that for long enough to
// take it, does not.
func TestANodeOfAZoneWithoutHostsWaits(t *testing.T) {
	nodes := names(4)
	w := newWorld(t, nodes...)
	for i, name := range nodes {
		w.place(name, []string{"a", "b"}[i%2])
	}
	ofA, ofB := []string{nodes[0], nodes[2]}, []string{nodes[1], nodes[3]}
	a, lost := w.startIn("a", "a1"), w.startIn("b", "b1")
	w.together(ofA, a)
	w.together(ofB, lost)
	lost.link.freeze(true, true)
	due := testLease + testLease/2 // also for a host that is not the one to have the node
	nodetest.Eventually(t, 4*testLease, func() error {
		silent := a.sightings.of(hostLease("b1")).since.Add(due)
		if looked := time.Unix(0, a.looked.Load()); !looked.After(silent.Add(testLease / 8)) {
			return fmt.Errorf("it looked last %v before the nodes would be due", silent.Sub(looked))
		}
		return nil
	})
	for _, name := range ofB {
		if lease := w.lease(nodeLease(name)); tenure.Holder(lease) != "b1" || transitions(lease) != 0 {
			t.Errorf("%s was taken: %v", name, lease.Spec)
		}
	}
	if taken := a.hasTaken(t); taken != 2 {
		t.Errorf("the host of zone a has taken %d nodes, not 2", taken)
	}
	lost.link.thaw()
	w.together(ofB, lost)
	w.together(ofA, a)
}

func TestANodeMovesToAnotherZone(t *testing.T) {
	nodes := names(2)
	w := newWorld(t, nodes...)
	w.place(nodes[0], "a")
	w.place(nodes[1], "a")
	a, b := w.startIn("a", "a1"), w.startIn("b", "b1")
	w.together(nodes, a)
	begun := time.Now()
	w.place(nodes[0], "b")
	w.together(nodes[:1], b)
	t.Logf("the other zone's host has it after %v", time.Since(begun))
	w.together(nodes[1:], a)
	lease := w.lease(nodeLease(nodes[0]))
	if tenure.Holder(lease) != "b1" || transitions(lease) != 1 {
		t.Errorf("it was not given up and then taken: %v", lease.Spec)
	}
	// Where the annotation is gone or cannot be read, the node stays. The event of the second node comes after those.
	w.annotate(nodes[0], "")
	w.annotate(nodes[0], "{")
	w.place(nodes[1], "b")
	w.together(nodes, b)
	if now := w.lease(nodeLease(nodes[0])); now.UID != lease.UID || transitions(now) != 1 {
		t.Errorf("it was given up: %v", now.Spec)
	}
	// Without zones again.
	w.place(nodes[0], "")
	w.together(nodes[1:], b)
	none := w.start("none")
	w.together(nodes[:1], none)
}

// TestAHostThatComesBackInAnotherZoneKeepsNoNode: it has held a node until it was killed. The hosts of the node's zone
// see that it lives.
func TestAHostThatComesBackInAnotherZoneKeepsNoNode(t *testing.T) {
	w := newWorld(t, names(2)...)
	w.place("win00", "a")
	w.place("win01", "b")
	leases := w.admin.CoordinationV1().Leases("kube-system")
	if _, err := leases.Create(t.Context(), acquired(nil, "kube-system", "win00", "h", testLease, time.Now()),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	h, a := w.startIn("b", "h"), w.startIn("a", "a1")
	w.together([]string{"win01"}, h)
	w.together([]string{"win00"}, a)
}

func TestWhichNodesAHostServes(t *testing.T) {
	in := func(zone string) string { return contract.Format(contract.NodeNetwork{ID: 1, Zone: zone}) }
	for _, c := range []struct {
		name, zone, network string // of the host, and of the node
		held, want          bool
	}{
		{"its zone's", "a", in("a"), false, true},
		{"another zone's", "a", in("b"), false, false},
		{"another zone's that it holds", "a", in("b"), true, false},
		{"one without a zone", "a", in(""), false, false},
		{"one that nothing is said of", "a", "", false, false},
		{"one that nothing is said of any more", "a", "", true, true},
		{"one that cannot be read", "a", "{", false, false},
		{"one that cannot be read any more", "a", "{", true, true},
		{"a number for a zone", "a", `{"zone":1}`, false, false},
		{"without zones", "", in(""), false, true},
		{"without zones, a new one", "", "", false, true},
		{"without zones, one that cannot be read", "", "{", false, true},
		{"without zones, one of a zone", "", in("a"), false, false},
		{"without zones, one of a zone that it holds", "", in("a"), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			object := hostedOn("n", "192.0.2.1:16642")
			if c.network != "" {
				object.Annotations[contract.NodeNetworkAnnotation] = c.network
			}
			object.Annotations["other"] = "x"
			var kept any = object
			for range 2 { // an informer may do it again
				var err error
				if kept, err = keepFacts(kept); err != nil {
					t.Fatal(err)
				}
			}
			n, ok, err := hostedNode(kept.(*corev1.Node))
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			h := &host{config: Config{Zone: c.zone}, members: map[string]*member{}}
			if c.held {
				h.members["n"] = &member{}
			}
			if _, got := h.served(map[string]node{"n": n})["n"]; got != c.want {
				t.Errorf("served: %t, want %t (%+v)", got, c.want, n)
			}
		})
	}
}

// TestAHostLooksAgainWhenANodeMoves, and not when a kubelet says that it lives.
func TestAHostLooksAgainWhenANodeMoves(t *testing.T) {
	node := func(zone, heartbeat string) any {
		object := hostedOn("n", "192.0.2.1:16642")
		object.Annotations[contract.NodeNetworkAnnotation] = contract.Format(contract.NodeNetwork{ID: 1, Zone: zone})
		object.Annotations["kubelet"] = heartbeat
		kept, err := keepFacts(object)
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	if saysTheSame(node("a", "1"), node("b", "1")) {
		t.Error("a node that moves to another zone says the same")
	}
	if !saysTheSame(node("a", "1"), node("a", "2")) {
		t.Error("a node whose kubelet lives says something else")
	}
}

// TestHostsOfOtherZonesDoNotCount: a host of an earlier version, whose Lease has no label of a zone, is without one.
func TestHostsOfOtherZonesDoNotCount(t *testing.T) {
	s := newSightings(time.Hour)
	for identity, zone := range map[string]string{"a1": "a", "a2": "a", "b1": "b", "old": ""} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: hostLease(identity)}}
		label(lease, contract.LeaseOfHost)
		if zone != "" {
			lease.Labels[contract.ZoneLabel] = zone
		}
		s.note(lease)
	}
	for zone, want := range map[string][]string{"a": {"a1", "a2"}, "b": {"b1"}, "": {"old"}, "c": nil} {
		h := &host{config: Config{Identity: "self", Zone: zone}, sightings: s, terms: tenure.NewTerms(time.Hour)}
		var got []string
		for _, c := range h.candidates() {
			got = append(got, c.identity)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("zone %q has %v, want %v", zone, got, want)
		}
	}
}

// TestAHostTellsItsZone: what the Lease has said before counts no more.
func TestAHostTellsItsZone(t *testing.T) {
	w := newWorld(t)
	leases := w.admin.CoordinationV1().Leases("kube-system")
	for _, zone := range []string{"a", "b", ""} {
		former := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: hostLease("h")}}
		label(former, contract.LeaseOfHost)
		former.Labels[contract.ZoneLabel] = "former"
		if _, err := leases.Create(t.Context(), former, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		h := w.startIn(zone, "h")
		nodetest.Eventually(t, nodetest.Patience, func() error {
			if h.terms.Current() == nil {
				return errors.New("it has not renewed its Lease")
			}
			return nil
		})
		now, there := w.lease(hostLease("h")).Labels[contract.ZoneLabel]
		if now != zone || there != (zone != "") {
			t.Errorf("a host of zone %q says %q", zone, now)
		}
		h.stop() // removes the Lease
	}
}
