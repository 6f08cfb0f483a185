package openvswitch

import (
	"strconv"
	"testing"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
)

func TestBridgeMappingsAreRemembered(t *testing.T) {
	for name, test := range map[string]struct {
		list, ours     string
		want           map[string]string
		all, remembers string
	}{
		"nothing":   {"", "", nil, "", ""},
		"the first": {"", "", map[string]string{"external": "br-ex"}, "external:br-ex", "external:br-ex"},
		"beside another's": {"theirs:br0", "", map[string]string{"storage": "br-st"},
			"storage:br-st,theirs:br0", "storage:br-st"},
		"again": {"storage:br-st,theirs:br0", "storage:br-st",
			map[string]string{"storage": "br-st"}, "storage:br-st,theirs:br0", "storage:br-st"},
		"another bridge": {"storage:br-st,theirs:br0", "storage:br-st", map[string]string{"storage": "br1"},
			"storage:br1,theirs:br0", "storage:br1"},
		"not wanted any more": {"external:br-ex,storage:br-st,theirs:br0", "external:br-ex,storage:br-st",
			map[string]string{"external": "br-ex"}, "external:br-ex,theirs:br0", "external:br-ex"},
		"none wanted any more":          {"storage:br-st", "storage:br-st", nil, "", ""},
		"somebody had the same already": {"storage:br-st", "", map[string]string{"storage": "br-st"}, "storage:br-st", ""},
		"and it stays his":              {"storage:br-st", "", nil, "storage:br-st", ""},
		"somebody changed ours":         {"storage:br9", "storage:br-st", nil, "storage:br9", ""},
	} {
		all, remembers := withMappings(test.list, test.ours, test.want)
		if all != test.all || remembers != test.remembers {
			t.Errorf("%s: %q, of it ours %q", name, all, remembers)
		}
	}
}

// TestAPartWaits: before an ovn-controller that reads a part of the Southbound has the flows of all its switches, it
// leaves those that there are; and one that reads all does not wait.
func TestAPartWaits(t *testing.T) {
	for all, wait := range map[bool]string{true: "0", false: "10000"} {
		c := nodeconfig.Default()
		c.MonitorAll = all
		got := chassisSettings(c, platform.Uplink{}, nil)
		if got["ovn-monitor-all"] != strconv.FormatBool(all) || got["ovn-ofctrl-wait-before-clear"] != wait {
			t.Errorf("ovn-monitor-all %v: ovn-controller is told %v", all, got)
		}
	}
}

func TestAHostedChassisHasTheNodesName(t *testing.T) {
	had := map[string]string{"system-id": "theirs"}
	c := nodeconfig.Default()
	c.NodeName, c.Chassis = "n1", nodeconfig.ChassisHosted
	if got := chassisSettings(c, platform.Uplink{}, had)["system-id"]; got != c.NodeName {
		t.Errorf("system-id becomes %q", got)
	}
	c.Chassis = nodeconfig.ChassisLocal
	if got, set := chassisSettings(c, platform.Uplink{}, had)["system-id"]; set {
		t.Errorf("a chassis of its own is renamed to %q", got)
	}
}
