package hyperv

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
)

// The features that a stock ovs-vswitchd finds are those that the one of Windows found with the extension's
// own code. Of SNAT to zeros it does not ask the datapath (lib/dpif-netlink.c, dpif_netlink_ct_get_features):
// a lab has to switch that off.
func TestProbe(t *testing.T) {
	n := startNode(t, KnownFaults())
	got := map[string]string{}
	for line := range strings.SplitSeq(n.ctl("dpif/show-dp-features", "br-int"), "\n") {
		name, value, _ := strings.Cut(line, ":")
		got[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	for name, want := range map[string]string{
		"Masked set action": "No", "Tunnel push pop": "No", "Ufid": "No", "Truncate action": "Yes", "Clone action": "No",
		"Sample nesting": "3", "Conntrack eventmask": "Yes", "Conntrack clear": "No", "Max dp_hash algorithm": "0",
		"Check pkt length action": "No", "Conntrack timeout policy": "Yes", "Explicit Drop action": "No",
		"Optimized Balance TCP mode": "No", "Max VLAN headers": "0", "Max MPLS depth": "3", "Recirc": "Yes",
		"CT state": "Yes", "CT zone": "Yes", "CT mark": "Yes", "CT label": "Yes", "CT state NAT": "Yes",
		"CT orig tuple": "Yes", "CT orig tuple for IPv6": "No", "IPv6 ND Extension": "No", "MPLS Label add": "No",
		"psample action": "No",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, and %q on Windows", name, got[name], want)
		}
	}
}

// A flow that rewrites neighbour discovery's flags is refused whole, as on Windows and on Linux kernels.
func TestNDExtensionsAreRefused(t *testing.T) {
	n := startNode(t, KnownFaults())
	flow := "icmp6,icmp_type=136,actions=set_field:0->nd_reserved,normal"
	if output, err := n.try("ovs-ofctl", "-Oopenflow15", "add-flow", n.management(), flow); err == nil {
		t.Error("the flow is there: ", output)
	} else if !strings.Contains(output, "OFPBAC_BAD_SET_ARGUMENT") {
		t.Error(output)
	}
}

// Without the extension ovs-vswitchd aborts as soon as its database has a bridge, and not before.
func TestAbortWithoutExtension(t *testing.T) {
	n := startNode(t, KnownFaults())
	n.extension.SetEnabled(false)
	n.expectAbort()
	if output, err := n.try("ovs-vswitchd", n.OVSDatabase(), "--unixctl="+filepath.Join(t.TempDir(), "ctl")); err == nil ||
		!strings.Contains(output, aborted) {
		t.Errorf("with its bridge ovs-vswitchd goes on: %s", output)
	}
	n.VS("--no-wait", "del-br", "br-int")
	run(t, "ip", "link", "add", "routed", "type", "veth", "peer", "name", "other")
	t.Cleanup(func() { run(t, "ip", "link", "del", "routed") })
	run(t, "ip", "addr", "add", "192.0.2.1/24", "dev", "routed")
	run(t, "ip", "link", "set", "routed", "up")
	n.Start(nodetest.Vswitchd)
	n.VS("set", "open_vswitch", ".", "external_ids:seen=yes") // it has taken that up
	n.VS("--no-wait", "add-br", "br-int")
	n.expectAbort()
	n.extension.SetEnabled(true)
	n.Start(nodetest.Vswitchd)
	n.VS("wait-until", "interface", "br-int", "ofport=65534")
}

const aborted = "lost communication with the kernel device"

// expectAbort waits until ovs-vswitchd has ended with the driver's message.
func (n *node) expectAbort() {
	n.t.Helper()
	nodetest.Eventually(n.t, 10*time.Second, func() error {
		conn, err := net.Dial("unix", n.Control(nodetest.Vswitchd))
		if err == nil {
			conn.Close()
			return os.ErrExist
		}
		return nil
	})
	text, err := os.ReadFile(filepath.Join(filepath.Dir(n.Control(nodetest.Vswitchd)), "ovs-vswitchd.err"))
	if err != nil || !strings.Contains(string(text), aborted) {
		n.t.Errorf("ovs-vswitchd ended otherwise: %s %v", text, err)
	}
}

// Without Hyper-V's management service no port of type internal comes.
func TestNoManagementService(t *testing.T) {
	n := startNode(t, KnownFaults())
	n.extension.SetVMMS(false)
	n.VS("--no-wait", "add-port", "br-int", "vnic1", "--", "set", "interface", "vnic1", "type=internal")
	nodetest.Eventually(t, 10*time.Second, func() error {
		if text := n.VS("get", "interface", "vnic1", "error"); !strings.Contains(text, "could not add") {
			return os.ErrNotExist
		}
		return nil
	})
	n.extension.SetVMMS(true)
	n.VS("del-port", "br-int", "vnic1", "--", "add-port", "br-int", "vnic1", "--", "set", "interface", "vnic1",
		"type=internal")
	run(t, "ip", "link", "show", "vnic1")
	n.VS("del-port", "br-int", "vnic1")
	if _, err := net.InterfaceByName("vnic1"); err == nil {
		t.Error("the vNIC is still there after its port has gone")
	}
}
