package node

import (
	"testing"

	"github.com/weftnet/weft/test/imports"
)

// Each room of the agent imports those below it alone: neither system reaches behind the contract, and the
// database knows nobody that uses it.
func TestImportsPointOneWay(t *testing.T) {
	imports.PointOneWay(t, "github.com/weftnet/weft/node", map[string]string{
		"platform":      "extbridge statefile",
		"linux":         "platform domains extbridge",
		"windows":       "platform extbridge hns hostnet ovsdriver",
		"nodeconfig":    "ipsec ovsdriver statefile",
		"openvswitch":   "platform nodeconfig extbridge local",
		"local":         "",
		"capture":       "pktmon",
		"probe":         "",
		"ovncontroller": "nodeconfig unixctl",
		"health":        "",
		"pods":          "hostservice",
		"attach":        "platform nodeconfig openvswitch health pods",
		"encryption":    "nodeconfig openvswitch health ipsec",
		"gateway":       "platform nodeconfig openvswitch health extbridge ctlookup ctprobe openflow local",

		// Who listens on the host is known without Services, and sockets are opened without a plan.
		"hostservice":           "hostservice/listeners hostservice/proxy extbridge",
		"hostservice/proxy":     "hostservice/listeners",
		"hostservice/listeners": "statefile",
	})
}
