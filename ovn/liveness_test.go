package ovn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
)

// watched are the members of each node's group, the node itself first.
func (s *scene) watched() map[string]string {
	change := s.c.changeOf(northbound.LivenessOwner)
	rows, groups := map[string]*nb.HAChassis{}, map[string]string{}
	for _, r := range change.Rows {
		if m, ok := r.Model.(*nb.HAChassis); ok {
			node, _, _ := strings.Cut(r.Key, "/")
			rows[r.Key] = m
			groups[node] = ""
		}
	}
	for node := range groups {
		var list []*nb.HAChassis
		for key, m := range rows {
			if strings.HasPrefix(key, node+"/") {
				list = append(list, m)
			}
		}
		slices.SortFunc(list, func(a, b *nb.HAChassis) int { return b.Priority - a.Priority })
		var names []string
		for _, m := range list {
			names = append(names, m.ChassisName)
		}
		groups[node] = strings.Join(names, " ")
	}
	return groups
}

// TestNodesWatchEachOther: with pools, from three nodes on, each by two others; who is not ready watches
// only for want of others, and a node that comes or goes changes the watchers of few.
func TestNodesWatchEachOther(t *testing.T) {
	s := newScene(t, func(c *settings.Config) { ovntest.Dual(c); withBalancers(c) })
	s.do(s.egressNode(1), s.egressNode(2), s.egressNode(3))
	s.want("without a pool", fmt.Sprint(len(s.watched())), "0")
	s.do(s.addressPool("p", "203.0.113.64/30"))
	for node, members := range s.watched() {
		if list := strings.Fields(members); len(list) != 1+2 || list[0] != "chassis-"+node[1:] ||
			slices.Contains(list[1:], list[0]) {
			t.Errorf("%s is watched by %v", node, list)
		}
	}
	s.remove(objects.NodeKind, "e3")
	s.want("of two nodes", fmt.Sprint(len(s.watched())), "0")

	for n := range 30 {
		s.do(s.egressNode(1 + n))
	}
	before := s.watched()
	windows := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "e7"}].(*objects.Node)
	windows.OS = contract.Windows
	s.do(&windows)
	s.want("Windows nodes are watched, too", fmt.Sprint(s.watched()), fmt.Sprint(before))
	s.remove(objects.NodeKind, "e9")
	changed := 0
	for node, members := range s.watched() {
		if members != before[node] {
			changed++
		}
	}
	if changed != 2 {
		t.Errorf("without one of 30 nodes %d have other watchers", changed)
	}
	watcher := strings.Fields(s.watched()["e1"])[1]
	tired := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "e" + watcher[len("chassis-"):]}].(*objects.Node)
	tired.Ready = false
	s.do(&tired)
	if slices.Contains(strings.Fields(s.watched()["e1"]), watcher) {
		t.Errorf("%s is not ready, and watches", watcher)
	}
	watcher = strings.Fields(s.watched()["e1"])[1]
	hosted := *s.objects[objects.Key{Kind: objects.NodeKind, Name: "e" + watcher[len("chassis-"):]}].(*objects.Node)
	hosted.Facts = strings.TrimSuffix(hosted.Facts, "}") + `,"hosted":{"address":"192.0.2.1:16642"}}`
	s.do(&hosted)
	if slices.Contains(strings.Fields(s.watched()["e1"]), watcher) {
		t.Errorf("%s may die with the host of its ovn-controller, and watches", watcher)
	}
	s.remove(objects.PoolKind, "p")
	s.want("without the pool", fmt.Sprint(len(s.watched())), "0")
}
