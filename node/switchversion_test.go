package node

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform/platformtest"
)

// TestTheSwitchTellsItsVersion whatever the database says of it, and is not asked at each look.
func TestTheSwitchTellsItsVersion(t *testing.T) {
	v := startVswitchd(t)
	v.says.Store("ovs-vswitchd (Open vSwitch) 3.7.1")
	n := newBareNodeWith(t, func(c *nodeconfig.Config, _ *platformtest.Fake) { c.OVSControl = "tcp:" + v.Addr().String() })
	facts, err := n.facts(t.Context())
	if err != nil || facts.OpenVSwitch != "3.7.1" {
		t.Errorf("%q, %v", facts.OpenVSwitch, err)
	}
	if asked := v.asked.Load(); asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func TestTheVersionOfASwitchThatIsRestarted(t *testing.T) {
	v := startVswitchd(t)
	config := nodeconfig.Config{OVSControl: "tcp:" + v.Addr().String()}
	root := &vswitch.OpenvSwitch{OVSVersion: ptr.To("3.5.0")}
	var version switchVersion
	for _, c := range []struct{ name, says, want string }{
		{"it does not answer, and the database tells", "", "3.5.0"},
		{"it answers", "ovs-vswitchd (Open vSwitch) 3.6.0\n", "3.6.0"},
		{"it is down for a moment", "", "3.6.0"},
		{"it is another one", "ovs-vswitchd (Open vSwitch) 3.7.1\n", "3.7.1"},
	} {
		v.says.Store(c.says)
		version.asked = time.Now().Add(-versionFresh)
		if got := version.of(t.Context(), config, root); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	version = switchVersion{}
	nowhere := nodeconfig.Config{OVSDatabase: "tcp:127.0.0.1:1"}
	if got := version.of(t.Context(), nowhere, &vswitch.OpenvSwitch{}); got != "" {
		t.Errorf("nobody tells it, and it is %q", got)
	}
}
