package ovn

import (
	"maps"
	"slices"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovn/topology"
	"github.com/weftnet/weft/ovsdb"
)

// Every zone of a Windows node in which connections are remembered has a bound, also when the node is found to be a
// Windows node later: its pods', its host's, its gateway router's, and by its annotation its external bridge's. Zones
// of other nodes have none. Where a key is 0 each may have the whole table: no row says 0, by which the extension would
// let no connection come about.
func TestConnectionsOfWindowsNodes(t *testing.T) {
	const table = "2097152"
	for name, c := range map[string]struct {
		pod, node                int
		ofPod, ofHost, ofGateway string
		ofBridge                 int
	}{
		"bounded":       {pod: 2000, node: 5000, ofPod: "2000", ofHost: "10000", ofGateway: "5000", ofBridge: 5000},
		"pods alone":    {pod: 2000, ofPod: "2000", ofHost: table, ofGateway: table},
		"all but pods":  {node: 5000, ofPod: table, ofHost: "10000", ofGateway: "5000", ofBridge: 5000},
		"nobody at all": {ofPod: table, ofHost: table, ofGateway: table},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			mixedWorld(w)
			cluster := newCluster(ovntest.Settings(t, func(config *settings.Config) {
				ovntest.Dual(config)
				config.WindowsPodConnections, config.WindowsNodeConnections = c.pod, c.node
			}))
			cluster.begin(records.Records{}, w.Keys(), w.Get)
			cluster.takeChanges()
			limited := func(what string, options map[string]string, want string) {
				t.Helper()
				if got, is := options[topology.ZoneLimit]; got != want || is != (want != "") {
					t.Errorf("%s has the options %v", what, options)
				}
			}
			node := func(name string, windows bool) {
				t.Helper()
				want := func(limit string) string {
					if !windows {
						return ""
					}
					return limit
				}
				pod := cluster.changeOf(northbound.PodOwner("default/web-" + name)).Rows[0].Model.(*nb.LogicalSwitchPort)
				limited(pod.Name, pod.Options, want(c.ofPod))
				routers, switches := 0, 0
				for _, row := range cluster.changeOf(northbound.NodeOwner(name)).Rows {
					switch m := row.Model.(type) {
					case *nb.LogicalSwitchPort:
						if m.Name == contract.ManagementPort(name) {
							limited(m.Name, m.Options, want(c.ofHost))
						} else {
							limited(m.Name, m.Options, "") // OVN tracks nothing at ports of routers and networks
						}
					case *nb.LogicalSwitch:
						if m.Name == name { // the other one tracks nothing
							switches++
							limited(m.Name, m.OtherConfig, want(c.ofGateway))
						}
					case *nb.LogicalRouter:
						routers++
						limited(m.Name, m.Options, want(c.ofGateway))
					}
				}
				if routers != 1 || switches != 1 {
					t.Errorf("node %s has %d gateway routers and %d switches", name, routers, switches)
				}
			}
			node("w1", true)
			node("l2", false)
			l2 := *w.objects[objects.Key{Kind: objects.NodeKind, Name: "l2"}].(*objects.Node)
			l2.OS = contract.Windows
			cluster.update(w.put(&l2), w.Get)
			changes := cluster.takeChanges()
			for _, owner := range []ovsdb.Owner{northbound.PodOwner("default/web-l2"), northbound.NodeOwner("l2")} {
				if !slices.ContainsFunc(changes, func(change ovsdb.Change) bool { return change.Owner == owner }) {
					t.Errorf("the node is another system's, and %s is not looked at again", owner)
				}
			}
			node("l2", true)
			told := map[string]int{} // what was said last
			for _, note := range cluster.Notes {
				if note.Annotation() != contract.NodeNetworkAnnotation {
					continue
				}
				network, err := objects.ParseAnnotation[contract.NodeNetwork](note.Annotation(), ovntest.Written(note))
				if err != nil {
					t.Fatal(err)
				}
				told[note.Name] = network.Connections
			}
			if want := map[string]int{"l1": 0, "l2": c.ofBridge, "w1": c.ofBridge, "w2": c.ofBridge}; !maps.Equal(told, want) {
				t.Errorf("nodes are told %v, not %v", told, want)
			}
		})
	}
}
