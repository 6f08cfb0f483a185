package ovn

import (
	"slices"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Pods of Windows nodes have a bound, also when their node is found to be one later. Others have none, nor has
// anybody where the key is 0: no row says 0, by which the extension would let no connection come about.
func TestPodConnections(t *testing.T) {
	for connections, want := range map[int]string{0: "", 1000: "1000"} {
		w := newWorld()
		mixedWorld(w)
		c := newCluster(testSettings(t, func(config *settings.Config) {
			dual(config)
			config.WindowsPodConnections = connections
		}))
		c.begin(records{}, w.keys(), w.get)
		c.takeChanges()
		wants := func(pod, limit string) {
			t.Helper()
			port := c.changeOf(northbound.PodOwner("default/" + pod)).Rows[0].Model.(*nb.LogicalSwitchPort)
			if got, is := port.Options[zoneLimit]; got != limit || is != (limit != "") {
				t.Errorf("%d connections: %s has the options %v", connections, pod, port.Options)
			}
		}
		wants("web-w1", want)
		wants("web-l2", "")
		l2 := *w.objects[objects.Key{Kind: objects.NodeKind, Name: "l2"}].(*objects.Node)
		l2.OS = contract.Windows
		c.update(w.put(&l2), w.get)
		if !slices.ContainsFunc(c.takeChanges(), func(change ovsdb.Change) bool {
			return change.Owner == northbound.PodOwner("default/web-l2")
		}) {
			t.Error("the node is another system's, and its pod's port is not looked at again")
		}
		wants("web-l2", want)
	}
}
