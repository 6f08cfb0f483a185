package gateway

import (
	"testing"

	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
)

// A real ovs-vswitchd is asked by the uplink's bridge, and its datapath, which is Linux', needs no lookup.
func TestARealDatapathIsExamined(t *testing.T) {
	const uplink = "weft-uplink"
	o := nodetest.StartOVS(t)
	o.VS("add-br", uplink, "--", "set", "bridge", uplink, "datapath_type="+nodetest.Datapath(), "fail_mode=standalone")
	b := newUplinkBench(t, &openvswitchtest.Vswitchd{}, func(c *nodeconfig.Config) {
		c.ConntrackLookup, c.OVSDatabase = nodeconfig.LookupAuto, o.OVSDatabase() // beside which the bridge's socket is
	})
	b.fake.Uplink.Host = uplink
	b.ReconcileUplinkOnce(t.Context())
	if on, known := b.lookup.state(); on || !known {
		t.Errorf("lookups %v, known %v", on, known)
	}
}

func TestMain(m *testing.M) { nodetest.Main(m) }
