package ovn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// TestNobodyOutsideIsANode asks ovn-trace what becomes of packets that come from outside with the address that a
// node has among the pods, by each kind of gateway: a node reaches the pods on it whatever policies say.
func TestNobodyOutsideIsANode(t *testing.T) {
	w := newWorld()
	e1, e2 := w.egressNode(1), w.egressNode(2)
	e1.Gateway, e2.Gateway = "true", "true"
	w.put(e1, e2, w.namespace("a", "team=a"))
	w.put(w.pod("a", "one", "e1"), w.egressIP("team-a.x", "team=a", "203.0.113.20", "2001:db8::20"))
	w.put(w.policies(t, `{kind: NetworkPolicy, metadata: {namespace: a, name: one}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 198.51.100.0/24}}, {ipBlock: {cidr: "2001:db8:9::/64"}}]}]}}`)...)
	o := compile(t, ovntest.Settings(t, func(c *settings.Config) { ovntest.Dual(c); withShared(c) }), w)
	o.wantGateway("chassis-1", "chassis-2")

	for gateway, name := range map[string]string{"-e1": "a node's own", "-egress@team-a.x": "of an egress address",
		"@shared": "shared"} {
		t.Run(name, func(t *testing.T) {
			o.t = t
			mac := strings.TrimSpace(ovsdbtest.Run(t, "ovn-nbctl", "--db="+o.northbound.Endpoint, "--bare", "--columns=mac",
				"find", "Logical_Router_Port", fmt.Sprintf("name=%q", "rtoe"+gateway)))
			for from, enters := range map[string]bool{"10.244.1.2": false, "10.244.2.2": false, "198.51.100.7": true,
				"fd00:10:244:1::2": false, "2001:db8:9::7": true} {
				ip, to := "ip4", "10.244.1.3"
				if strings.Contains(from, ":") {
					ip, to = "ip6", "fd00:10:244:1::3"
				}
				text := o.trace(fmt.Sprintf(
					`inport==%q && eth.src==02:00:00:00:00:99 && eth.dst==%s && ip.ttl==64 && %[3]s.src==%[4]s && %[3]s.dst==%[5]s && tcp.dst==22`, "localnet"+gateway, mac, ip, from, to))
				if strings.Contains(text, `ingress(dp="join"`) != enters {
					t.Errorf("from %s: it enters the cluster: want %v\n%s", from, enters, text)
				}
			}
		})
	}
}

// TestPodsHaveNoLocalAddresses asks ovn-trace which packets pods and hosts may send on their switch as soon as there
// is a policy, whatever raw sockets put into them.
func TestPodsHaveNoLocalAddresses(t *testing.T) {
	w := newWorld()
	l1 := w.node("l1", "10.244.0.0/24", "fd00:10:244::/64")
	l1.Facts = ovntest.Facts(1, true)
	w.put(l1, w.namespace("default"), w.pod("default", "a", "l1"))
	w.put(w.pod("default", "b", "l1"))
	w.put(w.policies(t, `{kind: NetworkPolicy, metadata: {namespace: other, name: deny}, spec: {podSelector: {}}}`)...)
	o := compile(t, ovntest.Settings(t, ovntest.Dual), w)

	const (
		b    = `inport=="default_b" && eth.src==0a:58:0a:f4:00:04 && `
		host = `inport=="mgmt-l1" && eth.src==0a:58:0a:f4:00:02 && `
		toA  = "eth.dst==0a:58:0a:f4:00:03 && "
		all  = "eth.dst==ff:ff:ff:ff:ff:ff && "
		all6 = "eth.dst==33:33:00:00:00:01 && "
		lla  = "fe80::858:aff:fef4:3"
		llb  = "fe80::858:aff:fef4:4"
	)
	for _, c := range []struct {
		name, flow string
		reaches    bool
	}{
		{"another pod", b + toA + "ip4.src==10.244.0.4 && ip4.dst==10.244.0.3 && ip.ttl==64 && udp.dst==9", true},
		{"a link-local address", b + toA + "ip6.src==fd00:10:244::4 && ip6.dst==" + lla + " && ip.ttl==64 && tcp.dst==9",
			false},
		{"from a link-local address", b + toA + "ip6.src==" + llb + " && ip6.dst==fd00:10:244::3 && ip.ttl==64 && tcp.dst==9",
			false},
		{"broadcast", b + all + "ip4.src==10.244.0.4 && ip4.dst==10.244.0.255 && ip.ttl==64 && udp.dst==9", false},
		{"broadcast of a frame for nobody", b + all + "ip4.src==10.244.0.4 && ip4.dst==198.51.100.7 && ip.ttl==64 && " +
			"udp.dst==9", false},
		{"broadcast in a frame for a pod", b + toA + "ip4.src==10.244.0.4 && ip4.dst==255.255.255.255 && ip.ttl==64 && " +
			"udp.dst==9", false},
		{"multicast in a frame for a pod", b + toA + "ip4.src==10.244.0.4 && ip4.dst==224.0.0.1 && ip.ttl==64 && udp.dst==9",
			false},
		{"multicast", b + all6 + "ip6.src==fd00:10:244::4 && ip6.dst==ff02::1 && ip.ttl==1 && udp.dst==9", false},
		{"IPv6 multicast in a frame for a pod", b + toA + "ip6.src==fd00:10:244::4 && ip6.dst==ff0e::1 && ip.ttl==1 && " +
			"udp.dst==9", false},
		{"ARP", b + all + "arp.op==1 && arp.sha==0a:58:0a:f4:00:04 && arp.spa==10.244.0.4 && arp.tpa==10.244.0.3", true},
		{"neighbour solicitation", b + "eth.dst==33:33:ff:00:00:03 && ip6.src==" + llb + " && ip6.dst==ff02::1:ff00:3 && " +
			"ip.ttl==255 && icmp6.type==135 && icmp6.code==0 && nd.target==fd00:10:244::3", true},
		{"neighbour advertisement", b + toA + "ip6.src==" + llb + " && ip6.dst==" + lla +
			" && ip.ttl==255 && icmp6.type==136 && icmp6.code==0 && nd.target==" + llb, true},
		{"router solicitation", b + "eth.dst==33:33:00:00:00:02 && ip6.src==" + llb + " && ip6.dst==ff02::2 && ip.ttl==255 " +
			"&& icmp6.type==133 && icmp6.code==0", true},
		{"multicast listener report", b + "eth.dst==33:33:00:00:00:16 && ip6.src==" + llb +
			" && ip6.dst==ff02::16 && ip.ttl==1 && icmp6.type==143 && icmp6.code==0", true},
		{"host by a link-local address", host + toA + "ip6.src==fe80::858:aff:fef4:2 && ip6.dst==" + lla +
			" && ip.ttl==64 && tcp.dst==9", true},
		{"host's broadcast", host + all + "ip4.src==10.244.0.2 && ip4.dst==10.244.0.255 && ip.ttl==64 && udp.dst==9", true},
		{"host's multicast", host + all6 + "ip6.src==fe80::858:aff:fef4:2 && ip6.dst==ff02::1 && ip.ttl==1 && udp.dst==9",
			true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o.t = t
			if text := o.trace(c.flow); strings.Contains(text, `output to "default_a"`) != c.reaches {
				t.Errorf("it reaches the pod: want %v\n%s", c.reaches, text)
			}
		})
	}
}
