package node

import (
	"path/filepath"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

// A real ovs-vswitchd is asked by br-int's connection, and its datapath, which is Linux', needs no lookup.
func TestARealDatapathIsExamined(t *testing.T) {
	o := nodetest.StartOVS(t)
	o.VS("add-br", integrationBridge, "--", "set", "bridge", integrationBridge, "datapath_type="+nodetest.Datapath(), "fail_mode=secure")
	n := newUplinkNode(t, &vswitchd{})
	n.lookup = newCommitLookup(LookupAuto)
	n.config.OVSOpenFlow = "unix:" + filepath.Join(filepath.Dir(o.Control(nodetest.Vswitchd)), integrationBridge+".mgmt")
	n.keepUplinkOnce(t.Context())
	if on, known := n.lookup.state(); on || !known {
		t.Errorf("lookups %v, known %v", on, known)
	}
}
