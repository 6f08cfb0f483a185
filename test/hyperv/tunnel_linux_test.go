package hyperv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/capability"
)

// What a stock ovs-vswitchd asks of tunnels with OVN's option, in both directions, has names in the record, and the
// table lets it pass.
func TestTunnelsAreRecorded(t *testing.T) {
	n := startNode(t, without(FirstPacket))
	nodetest.Sandbox(t, "far")
	run(t, "ip", "link", "add", "Ethernet", "type", "veth", "peer", "name", "eth0", "netns", "far")
	run(t, "ip", "link", "set", "Ethernet", "up")
	run(t, "ip", "netns", "exec", "far", "ip", "link", "set", "eth0", "up")
	run(t, "ip", "netns", "exec", "far", "ethtool", "-K", "eth0", "tx", "off")
	run(t, "ip", "netns", "exec", "far", "ip", "addr", "add", "192.168.77.2/24", "dev", "eth0")
	n.VS("add-br", "weft-uplink", "--", "add-port", "weft-uplink", "Ethernet", "--",
		"add-port", "br-int", "tunnel", "--", "set", "interface", "tunnel", "type=geneve", "ofport_request=9",
		"options:remote_ip=flow", "options:key=flow", "options:csum=true")
	run(t, "ip", "link", "set", "weft-uplink", "up")
	run(t, "ip", "addr", "add", "192.168.77.1/24", "dev", "weft-uplink")
	one := n.pod(1)
	n.Run("ovs-ofctl", "add-tlv-map", n.management(), "{class=0x102,type=0x80,len=4}->tun_metadata0")
	n.flows("in_port=1,actions=set_field:7->tun_id,set_field:192.168.77.2->tun_dst,set_field:0x30004->tun_metadata0,"+
		"output:9", "in_port=9,tun_id=7,tun_metadata0=0x10003,actions=output:1")

	// What comes by the tunnel: GENEVE's header with the option, and a datagram for the pod.
	header := []byte{2, 0, 0x65, 0x58, 0, 0, 7, 0, 0x01, 0x02, 0x80, 1, 0, 1, 0, 3}
	inner := filepath.Join(t.TempDir(), "inner")
	if err := os.WriteFile(inner, append(header, udp(server, client, 53, 1000, "a")...), 0o600); err != nil {
		t.Fatal(err)
	}
	wanted := []string{"match tun_id", "match tun_ipv4_src", "match tun_ipv4_dst", "match tun_geneve_opts", "set tunnel",
		"set tun_id", "set tun_ipv4_dst", "set tun_csum", "set tun_tp_dst", "set tun_geneve_opts"}
	nodetest.Eventually(t, 20*time.Second, func() error {
		run(t, "ip", "netns", "exec", "far", "bash", "-c", "cat "+inner+" > /dev/udp/192.168.77.1/6081")
		one.ping("10.0.0.2", 1)
		executed := n.extension.Executed()
		for _, name := range wanted {
			if executed[name] == 0 {
				return fmt.Errorf("no packet or flow has %q: %v", name, executed)
			}
		}
		return nil
	})
	for name := range n.extension.Executed() {
		if feature := capability.Forbidden(name); feature != "" {
			t.Errorf("%q is forbidden by %q", name, feature)
		}
	}
}
