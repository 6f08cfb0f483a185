package node

import (
	"testing"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
)

// A real ovs-vswitchd is asked by the uplink's bridge, and its datapath, which is Linux', needs no lookup.
func TestARealDatapathIsExamined(t *testing.T) {
	const uplink = "weft-uplink"
	o := nodetest.StartOVS(t)
	o.VS("add-br", uplink, "--", "set", "bridge", uplink, "datapath_type="+nodetest.Datapath(), "fail_mode=standalone")
	n := newUplinkNode(t, &vswitchd{})
	n.platform.Uplink.Host = uplink
	n.gateway.lookup = newCommitLookup(nodeconfig.LookupAuto)
	n.gateway.config.OVSDatabase = o.OVSDatabase() // beside which the bridge's socket is
	n.gateway.reconcileUplinkOnce(t.Context())
	if on, known := n.gateway.lookup.state(); on || !known {
		t.Errorf("lookups %v, known %v", on, known)
	}
}
