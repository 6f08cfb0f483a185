package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/pods"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// scene is a cluster in small: what a test does to objects, and what comes of it.
type scene struct {
	t *testing.T
	*world
	c *cluster
	// northbound is what has been written of each owner: what was not looked at again is as it was.
	northbound map[ovsdb.Owner]ovsdb.Change
}

func newScene(t *testing.T, edit func(*settings.Config)) *scene {
	return &scene{t, newWorld(), newCluster(ovntest.Settings(t, edit)), map[ovsdb.Owner]ovsdb.Change{}}
}

// do puts objects and takes in the events, those of the annotations that follow too.
func (s *scene) do(objects ...any) {
	s.t.Helper()
	s.touch(s.put(objects...))
}

func (s *scene) touch(keys []part.Event) {
	s.t.Helper()
	for len(keys) > 0 {
		s.c.update(keys, s.Get)
		s.write(s.c.takeChanges())
		keys = s.absorb(s.c)
	}
}

func (s *scene) write(changes []ovsdb.Change) {
	for _, change := range changes {
		s.northbound[change.Owner] = change
	}
}

// restart has a new controller begin with the objects that are there, and with what the Northbound
// says that pods have: "default/web" and its addresses.
func (s *scene) restart(northbound map[string]string) {
	s.t.Helper()
	s.c = newCluster(s.c.settings)
	r := records.Records{Pods: map[types.UID][]netip.Addr{}}
	for name, ips := range northbound {
		r.Pods[s.objects[objects.Key{Kind: objects.PodKind, Name: name}].(*objects.Pod).UID] = running(&objects.Pod{},
			strings.Fields(ips)...).IPs
	}
	s.c.begin(r, s.Keys(), s.Get)
	clear(s.northbound)
	s.write(s.c.takeEverything())
	s.touch(s.absorb(s.c))
}

func (s *scene) remove(k *objects.Kind, names ...string) {
	s.t.Helper()
	var keys []part.Event
	for _, name := range names {
		keys = append(keys, objects.Key{Kind: k, Name: name})
		delete(s.objects, objects.Key{Kind: k, Name: name})
	}
	s.touch(keys)
}

// addresses are a pod's, of its row.
func (s *scene) addresses(name string) string {
	if p := s.c.pods.At("default/" + name); p != nil {
		return strings.Join(ipam.Texts(contract.Addrs(p.Addresses())), " ")
	}
	return ""
}

// annotated are the addresses in a pod's annotation.
func (s *scene) annotated(name string) string {
	s.t.Helper()
	o := s.objects[objects.Key{Kind: objects.PodKind, Name: "default/" + name}].(*objects.Pod)
	n, _, err := contract.Parse[contract.PodNetwork](objects.AnnotationMap(contract.PodNetworkAnnotation, o.Network),
		contract.PodNetworkAnnotation)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(ipam.Texts(contract.Addrs(n.Addresses)), " ")
}

func (s *scene) want(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (s *scene) wantReasons(want ...string) {
	s.t.Helper()
	if got := s.reasons(); !slices.Equal(got, want) {
		s.t.Errorf("problems %q, want %q", got, want)
	}
}

// wantMessage checks the words of the problems since the last call, and forgets them.
func (s *scene) wantMessage(words ...string) {
	s.t.Helper()
	if len(s.problems) != 1 {
		s.t.Fatalf("problems %v, want one", s.problems)
	}
	for _, word := range words {
		if text := s.problems[0].String(); !strings.Contains(text, word) {
			s.t.Errorf("%q lacks %q", text, word)
		}
	}
	s.problems = nil
}

func running(p *objects.Pod, ips ...string) *objects.Pod {
	for _, ip := range ips {
		p.IPs = append(p.IPs, netip.MustParseAddr(ip))
	}
	return p
}

func written(p *objects.Pod, prefixes ...string) *objects.Pod {
	var list []netip.Prefix
	for _, text := range prefixes {
		list = append(list, netip.MustParsePrefix(text))
	}
	p.Network = pods.Annotation(p.UID, list)
	return p
}

func TestPodLives(t *testing.T) {
	s := newScene(t, nil)
	s.do(s.pod("default", "early", "l1")) // before its node
	s.want("without a node", s.addresses("early"), "")
	s.do(s.node("l1", "10.244.0.0/24"))
	s.want("first address", s.addresses("early"), "10.244.0.3")
	s.want("annotation", s.annotated("early"), "10.244.0.3")

	host := s.pod("default", "host", "l1")
	host.HostNetwork = true
	s.do(host, s.pod("default", "unscheduled", ""))
	s.want("host network", s.addresses("host"), "")

	job := s.pod("default", "job", "l1")
	s.do(job)
	s.want("job", s.addresses("job"), "10.244.0.4")
	done := *job
	done.Completed = true
	s.do(&done)
	s.want("completed", s.addresses("job"), "")

	s.do(s.pod("default", "next", "l1"))
	s.want("a freed address is not given at once", s.addresses("next"), "10.244.0.5")

	before := s.c.pods.At("default/next").Object().UID
	s.do(s.pod("default", "next", "l1")) // deleted and created anew, seen as one update
	s.want("a new incarnation gets a new address", s.addresses("next"), "10.244.0.6")
	if s.c.changeOf(northbound.PodOwner("default/next")).Rows[0].Key == string(before) {
		t.Error("a new incarnation has the old one's row")
	}

	s.remove(objects.NodeKind, "l1")
	s.want("without its node", s.addresses("next"), "")
	s.do(s.node("l1", "10.244.0.0/24"))
	s.want("its node is back", s.addresses("next"), "10.244.0.6")
	s.remove(objects.PodKind, "default/next", "default/early")
	s.want("deleted", s.addresses("next"), "")
	s.wantReasons()
}

func TestPodAddressesSurvive(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(s *scene, p *objects.Pod) *objects.Pod
		want   string
		reason string
	}{
		{"annotation", func(_ *scene, p *objects.Pod) *objects.Pod { return written(p, "10.244.0.77/24") }, "10.244.0.77",
			""},
		{"status, the annotation is lost", func(_ *scene, p *objects.Pod) *objects.Pod { return running(p, "10.244.0.77") },
			"10.244.0.77", ""},
		{"status, the annotation was edited", func(_ *scene, p *objects.Pod) *objects.Pod {
			return running(written(p, "10.244.0.99/24"), "10.244.0.77")
		},
			"10.244.0.77", "Pod default/web PodNetworkRestored"},
		{"annotation is nonsense", func(_ *scene, p *objects.Pod) *objects.Pod { p.Network = "?"; return p }, "10.244.0.3",
			"Pod default/web BadPodNetwork"},
		{"status is outside of the subnet", func(_ *scene, p *objects.Pod) *objects.Pod { return running(p, "10.1.2.3") },
			"10.244.0.3", "Pod default/web AddressLost"},
		{"annotation is outside of the subnet", func(_ *scene, p *objects.Pod) *objects.Pod {
			return written(p, "10.244.1.77/24")
		}, "10.244.0.3", "Pod default/web AddressLost"},
		{"annotation is the router's", func(_ *scene, p *objects.Pod) *objects.Pod { return written(p, "10.244.0.1/24") },
			"10.244.0.3", "Pod default/web AddressLost"},
		{"annotation is broadcast", func(_ *scene, p *objects.Pod) *objects.Pod { return written(p, "10.244.0.255/24") },
			"10.244.0.3", "Pod default/web AddressLost"},
		{"annotation is another pod's", func(s *scene, p *objects.Pod) *objects.Pod {
			s.put(running(s.pod("default", "zzz", "l1"), "10.244.0.77"))
			return written(p, "10.244.0.77/24")
		}, "10.244.0.78", "Pod default/web AddressLost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, nil)
			s.put(s.node("l1", "10.244.0.0/24"), c.edit(s, s.pod("default", "web", "l1")))
			for i := range 3 { // new pods, some before it in order, must not take its address
				s.put(s.pod("default", fmt.Sprintf("a%d", i), "l1"))
			}
			if c.reason != "" && c.want == "10.244.0.3" { // alone, to know which address comes
				for i := range 3 {
					delete(s.objects, objects.Key{Kind: objects.PodKind, Name: fmt.Sprintf("default/a%d", i)})
				}
			}
			s.restart(nil)
			if c.name == "annotation is another pod's" {
				if s.addresses("web") == "10.244.0.77" || s.addresses("zzz") != "10.244.0.77" {
					t.Errorf("web has %s, zzz has %s", s.addresses("web"), s.addresses("zzz"))
				}
			} else {
				s.want("address", s.addresses("web"), c.want)
			}
			s.want("annotation", s.annotated("web"), s.addresses("web"))
			if c.reason == "" {
				s.wantReasons()
			} else {
				s.wantReasons(c.reason)
			}
		})
	}
}

// TestAddressesAreNotTakenOver: what whoever creates a pod can write or bring about gives it nobody
// else's address, neither at once nor when the next controller takes over.
func TestAddressesAreNotTakenOver(t *testing.T) {
	const stolen = "10.244.0.3"
	born := func(p *objects.Pod, minute int) *objects.Pod {
		p.CreationTimestamp = metav1.NewTime(time.Unix(int64(minute)*60, 0))
		return p
	}
	t.Run("a new pod's wishes", func(t *testing.T) {
		s := newScene(t, nil)
		s.do(s.node("l1", "10.244.0.0/24"), s.pod("default", "victim", "l1"))
		s.remove(objects.PodKind, "default/victim")
		s.want("without uid", func() string {
			thief := s.pod("default", "thief", "l1")
			thief.Network = `{"addresses":["10.244.0.3/24"]}`
			s.do(thief)
			return s.addresses("thief")
		}(), "10.244.0.4")
		s.do(written(s.pod("default", "foresighted", "l1"), stolen+"/24"))
		s.want("with its uid", s.addresses("foresighted"), "10.244.0.5")
		s.do(running(s.pod("default", "quick", "l1"), stolen))
		s.want("with a status", s.addresses("quick"), "10.244.0.6")
		s.wantReasons("Pod default/thief PodNetworkRestored", "Pod default/foresighted PodNetworkRestored")
	})
	for _, c := range []struct {
		name       string
		thief      func(s *scene) *objects.Pod // comes before the victim in order of names
		northbound map[string]string
		reasons    []string
	}{
		{"the Northbound knows the victim", func(s *scene) *objects.Pod {
			return born(running(s.pod("default", "a", "l1"), stolen), 1)
		},
			map[string]string{"default/victim": stolen}, []string{"Pod default/a AddressLost"}},
		{"the Northbound knows both", func(s *scene) *objects.Pod {
			return born(running(s.pod("default", "a", "l1"), stolen), 1)
		},
			map[string]string{"default/victim": stolen, "default/a": "10.244.0.9"}, nil},
		{"the Northbound is lost", func(s *scene) *objects.Pod {
			return born(running(s.pod("default", "a", "l1"), stolen), 3)
		},
			nil, []string{"Pod default/a AddressLost"}},
		{"the Northbound is lost, an annotation", func(s *scene) *objects.Pod {
			return born(written(s.pod("default", "a", "l1"), stolen+"/24"), 1)
		},
			nil, []string{"Pod default/a AddressLost"}},
		{"another pod's annotation", func(s *scene) *objects.Pod {
			p := written(s.pod("default", "a", "l1"), stolen+"/24")
			p.UID = "another"
			return born(p, 1)
		}, nil, []string{"Pod default/a PodNetworkRestored"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, nil)
			s.put(s.node("l1", "10.244.0.0/24"), c.thief(s), born(running(s.pod("default", "victim", "l1"), stolen), 2))
			s.restart(c.northbound)
			s.want("the victim's", s.addresses("victim"), stolen)
			if got := s.addresses("a"); got == "" || got == stolen {
				t.Errorf("the thief has %q", got)
			}
			s.wantReasons(c.reasons...)
		})
	}
}

// TestRecordsOutliveAStaleStore: a pod that the former leader has served and this one's store shows
// late is no new one.
func TestRecordsOutliveAStaleStore(t *testing.T) {
	s := newScene(t, nil)
	late := s.pod("default", "late", "l1")
	s.put(late, s.node("l1", "10.244.0.0/24"))
	r := records.Records{Pods: map[types.UID][]netip.Addr{late.UID: {netip.MustParseAddr("10.244.0.77")}}}
	s.c.begin(r, []part.Event{objects.Key{Kind: objects.NodeKind, Name: "l1"}}, s.Get)
	s.do(late)
	s.want("address", s.addresses("late"), "10.244.0.77")
	s.wantReasons()
}

func TestEditedAnnotationIsPutBack(t *testing.T) {
	s := newScene(t, nil)
	s.do(s.node("l1", "10.244.0.0/24"), s.pod("default", "web", "l1"))
	edited := *s.objects[objects.Key{Kind: objects.PodKind, Name: "default/web"}].(*objects.Pod)
	s.do(written(&edited, "10.244.0.99/24"))
	s.want("row", s.addresses("web"), "10.244.0.3")
	s.want("annotation", s.annotated("web"), "10.244.0.3")
	s.wantMessage("Pod default/web", "PodNetworkRestored", "10.244.0.99", "written anew")
	edited.Network = ""
	s.do(&edited)
	s.want("annotation that was removed", s.annotated("web"), "10.244.0.3")
	s.wantReasons()
}

// TestMessagesAreShort whatever users write, and end with the remedy.
func TestMessagesAreShort(t *testing.T) {
	s := newScene(t, nil)
	long := strings.Repeat("ü", 100_000)
	l1, bad := s.node("l1", "10.244.0.0/24"), s.pod("default", "bad", "l1")
	edited, odd := s.pod("default", "edited", "l1"), s.node("l2", "10.244.1.0/24")
	bad.Network = `{"addresses":["` + long + `"]}`
	edited.Network = `{"mac":"` + long + `"}`
	l1.Facts = `{"chassis":"c","addresses":["` + long + `"]}`
	odd.Facts = `{"chassis":"c","gateway":{"mac":"` + long + `"}}`
	s.do(l1, odd, bad, edited)
	if len(s.problems) != 4 {
		t.Fatalf("%d problems", len(s.problems))
	}
	for _, p := range s.problems {
		if len(p.Message) > 500 || !utf8.ValidString(p.Message) || !strings.Contains(p.Message, "written anew") &&
			!strings.Contains(p.Message, "writes it anew") {
			t.Errorf("%s: %d bytes: %s", p.Reason, len(p.Message), objects.Cut(p.Message, 2000))
		}
	}
	quoting := objects.Problemf(objects.PodKind, &bad.ObjectMeta, &reasons.Event{Name: "X"}, "%s", long)
	if len(quoting.Message) > objects.MaxMessage || !utf8.ValidString(quoting.Message) {
		t.Errorf("a message of %d bytes", len(quoting.Message))
	}
}

// TestFactsAreAddresses and nothing else: they become part of OVN's matches.
func TestFactsAreAddresses(t *testing.T) {
	for _, field := range []string{`"addresses":[%s]`,
		`"gateway":{"network":"n","mac":"02:00:00:00:00:01","addresses":["192.0.2.9/24"],"nextHops":[%s]}`} {
		for _, addr := range []string{`"fe80::1%x || ip4 || {ip6.dst == ::"`, `""`, `"::ffff:192.0.2.1"`} {
			s := newScene(t, nil)
			n := s.node("l1", "10.244.0.0/24")
			n.Facts = `{"chassis":"c",` + strings.ReplaceAll(field, "%s", addr) + `}`
			s.do(n)
			s.wantMessage("Node l1", "BadNodeFacts", "zone", "remove the annotation")
			s.want("chassis", s.c.nodes.At("l1").Chassis(), "l1")
		}
	}
}

func TestFullPool(t *testing.T) {
	s := newScene(t, ovntest.Dual)
	s.do(s.node("l1", "10.244.0.0/29", "fd00:10:244::/64")) // four addresses
	for i := range 5 {
		s.do(s.pod("default", fmt.Sprint("p", i), "l1"))
	}
	s.want("the last that fits", s.addresses("p3"), "10.244.0.6 fd00:10:244::6")
	s.want("the first that does not", s.addresses("p4"), "")
	s.wantMessage("Pod default/p4", "NoFreeAddress", "all 4 addresses", "10.244.0.0/29", "Node l1",
		"larger pod subnets")
	s.do(s.objects[objects.Key{Kind: objects.PodKind, Name: "default/p4"}])
	s.wantReasons() // not told again
	s.remove(objects.PodKind, "default/p1")
	s.want("retried when an address is free", s.addresses("p4"), "10.244.0.4 fd00:10:244::7")
	s.want("annotation", s.annotated("p4"), s.addresses("p4"))
	s.wantReasons()
}
