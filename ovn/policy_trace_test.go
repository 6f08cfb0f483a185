package ovn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestNobodyOutsideIsANode asks ovn-trace what becomes of packets that come from outside with the address that a
// node has among the pods, by each kind of gateway: a node reaches the pods on it whatever policies say.
func TestNobodyOutsideIsANode(t *testing.T) {
	w := newWorld()
	e1, e2 := w.egressNode(1), w.egressNode(2)
	e1.gateway, e2.gateway = "true", "true"
	w.put(e1, e2, w.namespace("a", "team=a"))
	w.put(w.pod("a", "one", "e1"), w.egressIP("team-a.x", "team=a", "203.0.113.20", "2001:db8::20"))
	w.put(w.policies(t, `{kind: NetworkPolicy, metadata: {namespace: a, name: one}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 198.51.100.0/24}}, {ipBlock: {cidr: "2001:db8:9::/64"}}]}]}}`)...)
	o := compile(t, testSettings(t, func(c *Config) { dual(c); withShared(c) }), w)
	o.wantGateway("chassis-1", "chassis-2")

	for gateway, name := range map[string]string{"-e1": "a node's own", "-egress@team-a.x": "of an egress address", "@shared": "shared"} {
		t.Run(name, func(t *testing.T) {
			o.t = t
			mac := strings.TrimSpace(ovsdbtest.Run(t, "ovn-nbctl", "--db="+o.northbound.Endpoint, "--bare", "--columns=mac", "find", "Logical_Router_Port", fmt.Sprintf("name=%q", "rtoe"+gateway)))
			for from, enters := range map[string]bool{"10.244.1.2": false, "10.244.2.2": false, "198.51.100.7": true, "fd00:10:244:1::2": false, "2001:db8:9::7": true} {
				ip, to := "ip4", "10.244.1.3"
				if strings.Contains(from, ":") {
					ip, to = "ip6", "fd00:10:244:1::3"
				}
				text := o.trace(fmt.Sprintf(`inport==%q && eth.src==02:00:00:00:00:99 && eth.dst==%s && ip.ttl==64 && %[3]s.src==%[4]s && %[3]s.dst==%[5]s && tcp.dst==22`, "localnet"+gateway, mac, ip, from, to))
				if strings.Contains(text, `ingress(dp="join"`) != enters {
					t.Errorf("from %s: it enters the cluster: want %v\n%s", from, enters, text)
				}
			}
		})
	}
}
