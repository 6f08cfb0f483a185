package ovn

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/watch"
	"github.com/weftnet/weft/ovsdb"
)

func withNetworks(c *settings.Config) { c.PodNetworks = true }

// reading is a node whose agent says whether it reads PodNetworks.
func (s *scene) reading(reads bool) *objects.Node {
	n := s.node("l1", "10.244.0.0/24")
	if before, ok := s.objects[objects.Key{Kind: objects.NodeKind, Name: "l1"}].(*objects.Node); ok {
		n.UID, n.Network = before.UID, before.Network
	}
	facts := ovntest.ReadFacts(ovntest.Facts(1, false))
	facts.PodNetworks = reads
	n.Facts = contract.Format(facts)
	return n
}

var networksOfL1 = objects.Key{Kind: objects.PodNetworksKind, Name: "weft-nodes/l1"}

// told is what PodNetworks of node l1 say, "none" if there are none.
func (s *scene) told() string {
	o, ok := s.objects[networksOfL1].(*objects.PodNetworks)
	if !ok {
		return "none"
	}
	var lines []string
	for _, line := range o.Lines {
		_, name, _ := strings.Cut(line.Pod, "/")
		lines = append(lines, name+" "+line.Addresses[0].Addr().String())
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// later gives the parts the events that they have expected.
func (s *scene) later() {
	s.t.Helper()
	s.touch(s.c.TakeExpected())
}

// watches says whether node l1 is told that there are PodNetworks.
func (s *scene) watches() bool {
	s.t.Helper()
	network, err := objects.ParseAnnotation[contract.NodeNetwork](contract.NodeNetworkAnnotation,
		s.objects[objects.Key{Kind: objects.NodeKind, Name: "l1"}].(*objects.Node).Network)
	if err != nil {
		s.t.Fatal(err)
	}
	return network.PodNetworks
}

// TestPodNetworksStory: pods that come and go on a node whose agent reads PodNetworks have no annotation.
func TestPodNetworksStory(t *testing.T) {
	s := newScene(t, withNetworks)
	s.do(s.reading(true), s.pod("default", "a", "l1"), s.pod("default", "b", "l1"))
	s.want("two pods", s.told(), "a 10.244.0.3, b 10.244.0.4")
	s.want("an annotation", s.annotated("a"), "")
	if !s.watches() {
		t.Error("the agent is not told that there are PodNetworks")
	}
	s.do(s.pod("default", "c", "l1"))
	s.want("a third one", s.told(), "a 10.244.0.3, b 10.244.0.4, c 10.244.0.5")

	s.remove(objects.PodKind, "default/a")
	s.want("a pod is gone, and nobody waits for that", s.told(), "a 10.244.0.3, b 10.244.0.4, c 10.244.0.5")
	s.later()
	s.want("a while later", s.told(), "b 10.244.0.4, c 10.244.0.5")

	before := s.objects[objects.Key{Kind: objects.PodKind, Name: "default/b"}].(*objects.Pod).UID
	s.remove(objects.PodKind, "default/b")
	again := s.pod("default", "b", "l1")
	s.do(again)
	o := s.objects[networksOfL1].(*objects.PodNetworks)
	if _, old := o.Lines[before]; old || len(o.Lines[again.UID].Addresses) != 1 {
		t.Errorf("a pod that was made again: %v", o.Lines)
	}

	edited := *o
	edited.Lines = maps.Clone(o.Lines)
	delete(edited.Lines, again.UID)
	s.do(&edited)
	if s.want("somebody has taken a line out", s.told(), "b "+s.addresses("b")+", c 10.244.0.5"); s.annotated("b") != "" {
		t.Error("the pod is annotated")
	}
	foreign := *s.objects[networksOfL1].(*objects.PodNetworks)
	foreign.Wrong = true
	s.do(&foreign)
	if s.objects[networksOfL1].(*objects.PodNetworks).Wrong {
		t.Error("what the controller does not write stays")
	}
	s.remove(objects.PodNetworksKind, networksOfL1.Name)
	s.want("somebody has deleted it", s.told(), "b "+s.addresses("b")+", c 10.244.0.5")
	s.wantReasons()
}

// TestPodNetworksOfOneBatch: pods that come together are one write.
func TestPodNetworksOfOneBatch(t *testing.T) {
	s := newScene(t, withNetworks)
	s.do(s.reading(true))
	keys := s.put(s.pod("default", "a", "l1"), s.pod("default", "b", "l1"), s.pod("default", "c", "l1"))
	s.c.update(keys, s.Get)
	s.c.takeChanges()
	s.c.pods.NoteNetworks(func(_ string, owner ovsdb.Owner) bool { return owner == "Pod/default/b" })
	notes := s.c.TakeNotes()
	if len(notes) != 1 || len(notes[0].Body.(part.Networks).Pods) != 2 {
		t.Fatalf("three pods, of which the Northbound refuses one, make %v", notes)
	}
	if text := string(notes[0].JSON(time.Now())); !strings.Contains(text, `"pods":["default/a `) ||
		!strings.Contains(text, `"kind":"Node","name":"l1"`) || strings.Contains(text, "annotations") {
		t.Error(text)
	}
	s.c.pods.NoteNetworks(func(string, ovsdb.Owner) bool { return false })
	if notes = s.c.TakeNotes(); len(notes) != 1 || len(notes[0].Body.(part.Networks).Pods) != 3 {
		t.Errorf("when it is taken: %v", notes)
	}
	s.c.pods.NoteNetworks(func(string, ovsdb.Owner) bool { return false })
	if notes = s.c.TakeNotes(); len(notes) > 0 {
		t.Errorf("what was asked for is asked for again: %v", notes)
	}
}

// TestPodNetworksAfterARestart: a new controller finds what the former one has told, and writes nothing. Where the
// Northbound is lost, it gives pods the addresses that their nodes were told.
func TestPodNetworksAfterARestart(t *testing.T) {
	s := newScene(t, withNetworks)
	s.do(s.reading(true))
	for _, name := range []string{"z", "a"} { // not in the order in which a controller would give addresses
		s.do(s.pod("default", name, "l1"))
	}
	before := s.objects[networksOfL1]
	for _, northbound := range []map[string]string{{"default/z": "10.244.0.3", "default/a": "10.244.0.4"}, nil} {
		s.restart(northbound)
		s.want("z", s.addresses("z"), "10.244.0.3")
		s.want("a", s.addresses("a"), "10.244.0.4")
		if s.later(); s.objects[networksOfL1] != before {
			t.Errorf("it was written again: %v", s.objects[networksOfL1])
		}
	}
	s.wantReasons()
}

// TestAgentThatReadsNoPodNetworks: its pods have annotations, until it reads and when it does not any more. It gets the
// right to read once.
func TestAgentThatReadsNoPodNetworks(t *testing.T) {
	s := newScene(t, withNetworks)
	grants := func(objects ...any) (n int) {
		keys := s.put(objects...)
		for len(keys) > 0 {
			s.c.update(keys, s.Get)
			s.c.takeChanges()
			s.c.pods.NoteNetworks(func(string, ovsdb.Owner) bool { return false })
			for _, p := range s.c.Notes {
				if networks, ok := p.Body.(part.Networks); ok && networks.Grant {
					n++
				}
			}
			keys = s.absorb(s.c)
		}
		return n
	}
	if n := grants(s.reading(false), s.pod("default", "a", "l1")); n != 1 {
		t.Errorf("%d rights are given", n)
	}
	s.want("both know it", s.told()+", "+s.annotated("a"), "a 10.244.0.3, 10.244.0.3")
	if n := grants(s.pod("default", "b", "l1")); n != 0 {
		t.Errorf("%d rights are given once more", n)
	}
	if n := grants(s.reading(true), s.pod("default", "c", "l1")); n != 0 {
		t.Errorf("%d rights are given to who has them", n)
	}
	s.want("the third one", s.told()+"; "+s.annotated("c"), "a 10.244.0.3, b 10.244.0.4, c 10.244.0.5; ")
	if n := grants(s.reading(false)); n != 1 {
		t.Errorf("%d rights are given to who has lost them", n)
	}
	s.want("the third one", s.annotated("c"), "10.244.0.5")
	node := s.reading(true)
	node.UID = "another"
	if n := grants(node); n != 1 || s.objects[networksOfL1].(*objects.PodNetworks).Node != "another" {
		t.Errorf("%d rights are given to a Node that was made again: %v", n, s.objects[networksOfL1])
	}
}

// TestBackToAnnotations: with the key off, pods get their annotations first. Then the object goes, and then the agent
// is told so.
func TestBackToAnnotations(t *testing.T) {
	s := newScene(t, withNetworks)
	s.do(s.reading(true), s.pod("default", "a", "l1"), s.pod("default", "b", "l1"))
	off := *s.c.settings
	off.PodNetworks = false
	s.c = newCluster(&off)
	s.c.begin(records.Records{}, s.Keys(), s.Get)
	s.c.takeEverything()
	s.c.pods.NoteNetworks(func(string, ovsdb.Owner) bool { return false })
	for _, note := range s.c.TakeNotes() {
		if note.Annotation() != contract.PodNetworkAnnotation {
			t.Errorf("too early: %v", note)
		}
	}
	if !s.watches() {
		t.Error("the agent is told too early")
	}
	s.restart(nil)
	s.want("a", s.annotated("a"), "10.244.0.3")
	s.want("b", s.annotated("b"), "10.244.0.4")
	s.want("the object", s.told(), "none")
	if s.watches() {
		t.Error("the agent is still told that there are PodNetworks")
	}
	s.do(s.pod("default", "c", "l1"))
	s.want("a new one", s.annotated("c")+" "+s.told(), "10.244.0.5 none")
	on := off
	on.PodNetworks = true
	s.c = newCluster(&on)
	s.restart(nil)
	s.want("and forward again", s.told(), "a 10.244.0.3, b 10.244.0.4, c 10.244.0.5")
	s.wantReasons()
}

// TestNodeIsToldOfCommittedPods: a leader tells a node of a pod once the Northbound has its port.
func TestNodeIsToldOfCommittedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, withNetworks)
		w := &lockedWorld{world: s.world, queue: watch.NewQueue()}
		w.put(s.reading(true), w.pod("default", "good", "l1"), w.pod("default", "bad", "l1"))
		m := &memory{refuse: map[ovsdb.Owner]error{"Pod/default/bad": errors.New("constraint violation")}}
		told := ""
		l := newLeader(t, m, w)
		l.cluster = s.c
		l.annotate = func(patches []part.Patch) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range patches {
				if networks, ok := p.Body.(part.Networks); ok {
					told = strings.Join(networks.At(time.Time{}).([]string), ", ")
				}
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.run(ctx) }()
		want := func(names ...string) {
			t.Helper()
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			if strings.Count(told, "default/") != len(names) || slices.ContainsFunc(names, func(name string) bool {
				return !strings.Contains(told, "default/"+name+" ")
			}) {
				t.Errorf("the node is told %q, want %v", told, names)
			}
		}
		time.Sleep(time.Second)
		want("good")
		w.change(w.pod("default", "later", "l1"))
		time.Sleep(time.Second)
		want("good", "later")
		m.set(func() { m.refuse = nil })
		time.Sleep(2 * lastPause)
		want("good", "later", "bad")
		stop()
		<-done
	})
}

// TestPodNetworksOfARealController from its objects to its writes, by its informers.
func TestPodNetworksOfARealController(t *testing.T) {
	node := kubeNode("l1", "10.244.0.0/24")
	facts := ovntest.ReadFacts(ovntest.Facts(1, false))
	facts.PodNetworks = true
	node.Annotations = map[string]string{contract.NodeFactsAnnotation: contract.Format(facts)}
	d := deploy(t, node, kubePod("one", "l1"))
	first := d.start("first", withNetworks)
	own := d.own.Resource(v1alpha1.PodNetworksResource).Namespace(contract.PodNetworksNamespace)
	says := func(pods ...string) func() bool {
		return func() bool {
			o, err := own.Get(context.Background(), "l1", metav1.GetOptions{})
			if err != nil {
				return false
			}
			lines, _, _ := unstructured.NestedStringSlice(o.Object, "pods")
			return len(lines) == len(pods) && !slices.ContainsFunc(pods, func(pod string) bool {
				return !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "default/"+pod+" ") })
			})
		}
	}
	d.eventually("the node is told of the first pod", says("one"))
	d.create(kubePod("two", "l1"))
	d.eventually("the node is told of the second pod", says("one", "two"))
	if err := own.Delete(context.Background(), "l1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.eventually("it comes back", says("one", "two"))
	first.stop()
	d.start("second", nil)
	d.eventually("with the key off, pods are annotated and the object goes", func() bool {
		p, err := d.api.CoreV1().Pods("default").Get(context.Background(), "two", metav1.GetOptions{})
		_, gone := own.Get(context.Background(), "l1", metav1.GetOptions{})
		return err == nil && p.Annotations[contract.PodNetworkAnnotation] != "" && gone != nil
	})
	if p := d.port("default_two"); p == nil || types.UID(p.Options["iface-id-ver"]) != "two" {
		t.Errorf("its port is %v", p)
	}
}
