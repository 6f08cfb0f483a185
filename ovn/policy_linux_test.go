package ovn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
)

// undo removes policies.
func (d *datapath) undo(policies ...any) {
	d.t.Helper()
	var keys []part.Event
	for _, p := range policies {
		o := p.(*objects.PolicyObject)
		k := objects.Key{Kind: objects.PolicyKinds[o.Kind], Name: objects.FullName(o.Namespace, o.Name)}
		delete(d.objects, k)
		keys = append(keys, k)
	}
	d.touch(keys)
}

// TestPoliciesWithPackets: policies hold for packets as they do in the rows, whether they come by a Service
// or not, from a pod, from its node or from outside.
func TestPoliciesWithPackets(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.do(d.namespace("default", "kubernetes.io/metadata.name=default"))
	d.pods("a", "b", "c")
	d.host("192.0.2.1/32")
	d.outside([]string{"203.0.113.100/24", "2001:db8::100/64 nodad"}, "198.51.100.0/24 via 203.0.113.1",
		"2001:db8:5::/64 via 2001:db8::1")
	label := func(name string, pairs ...string) {
		p := *d.objects[objects.Key{Kind: objects.PodKind, Name: "default/" + name}].(*objects.Pod)
		p.Labels = objects.NewLabelSet(labelMap(pairs))
		p.Ports = []objects.ContainerPort{{Name: "web", Protocol: "tcp", Number: 8080}}
		d.do(&p)
	}
	label("a", "app=a")
	label("b", "app=b")
	label("c", "app=c")
	s := d.service("web", "10.96.0.10", "fd00:10:96::a")
	s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8:5::1")}
	s.ExternalLocal = true
	d.do(s, d.slice("web-4", "web", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
		ready("10.244.0.3", "n1")),
		d.slice("web-6", "web", []objects.ServicePort{{Name: "http", Protocol: "tcp", Port: 8080}},
			ready("fd00:10:244::3", "n1")))

	type client struct{ namespace, from, network, to string }
	var (
		direct = []client{{"b", "", "tcp", "10.244.0.3:8080"}, {"b", "", "tcp", "[fd00:10:244::3]:8080"},
			{"b", "", "udp", "10.244.0.3:8080"}}
		other   = []client{{"c", "", "tcp", "10.244.0.3:8080"}, {"c", "", "tcp", "[fd00:10:244::3]:8080"}}
		service = []client{{"b", "", "tcp", "10.96.0.10:80"}, {"b", "", "tcp", "[fd00:10:96::a]:80"}}
		others  = []client{{"c", "", "tcp", "10.96.0.10:80"}, {"c", "", "tcp", "[fd00:10:96::a]:80"}}
		itself  = []client{{"a", "", "tcp", "10.96.0.10:80"}, {"a", "", "tcp", "[fd00:10:96::a]:80"}}
		node    = []client{{"host", "", "tcp", "10.244.0.3:8080"}, {"host", "192.0.2.1", "tcp", "10.244.0.3:8080"},
			{"host", "", "tcp", "10.96.0.10:80"}}
		external = []client{{"outside", "203.0.113.100", "tcp", "198.51.100.1:80"}, {"outside", "2001:db8::100", "tcp",
			"[2001:db8:5::1]:80"}}
		next = []client{{"outside", "203.0.113.254", "tcp", "198.51.100.1:80"}}
	)
	everybody := [][]client{direct, other, service, others, itself, node, external, next}
	check := func(name, text string, refused ...[]client) {
		t.Run(name, func(t *testing.T) {
			d.t = t
			policies := d.policies(t, text)
			d.do(policies...)
			no := map[client]bool{}
			for _, list := range refused {
				for _, c := range list {
					no[c] = true
				}
			}
			for _, list := range everybody {
				for _, c := range list {
					d.patience = nodetest.Patience
					if no[c] {
						d.patience = 300 * time.Millisecond
					}
					if got := d.ask(c.namespace, c.from, c.network, c.to); (got.err != nil) != no[c] {
						t.Errorf("%+v: %+v %v", c, got, got.err)
					}
				}
			}
			d.undo(policies...)
		})
		d.t = t
	}
	check("none", `{kind: NetworkPolicy, metadata: {namespace: other, name: deny}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}`)
	check("nobody", `{kind: NetworkPolicy, metadata: {namespace: default, name: deny}, spec: {podSelector: {}, policyTypes: [Ingress]}}`,
		direct, other, service, others, external, next)
	check("one client by label and port name",
		`{kind: NetworkPolicy, metadata: {namespace: default, name: a}, spec: {podSelector: {matchLabels: {app: a}}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}], ports: [{port: web}, {port: 8080, protocol: UDP}]}]}}`,
		other, others, external, next)
	check("clients outside, by their own addresses",
		`{kind: NetworkPolicy, metadata: {namespace: default, name: a}, spec: {podSelector: {matchLabels: {app: a}}, ingress: [{from: [{ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.254/32]}}, {ipBlock: {cidr: "2001:db8::/64"}}]}]}}`,
		direct, other, service, others, next)
	check("egress to the endpoint, not to the Service",
		`{kind: NetworkPolicy, metadata: {namespace: default, name: b}, spec: {podSelector: {matchLabels: {app: b}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: a}}}], ports: [{port: 8080}]}]}}`,
		direct[2:])
	check("egress to the Service's address is nothing",
		`{kind: NetworkPolicy, metadata: {namespace: default, name: b}, spec: {podSelector: {matchLabels: {app: b}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.96.0.0/16}}]}]}}`,
		direct, service)
	check("tiers", `{kind: NetworkPolicy, metadata: {namespace: default, name: a}, spec: {podSelector: {matchLabels: {app: a}}, ingress: [{from: [{podSelector: {}}]}]}}
---
{kind: ClusterNetworkPolicy, metadata: {name: first}, spec: {tier: Admin, priority: 3, subject: {namespaces: {}}, ingress: [
  {action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: c}}}}], protocols: [{destinationNamedPort: web}]}, {action: Pass, from: [{namespaces: {}}]}]}}
---
{kind: ClusterNetworkPolicy, metadata: {name: last}, spec: {tier: Baseline, priority: 3, subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: ["0.0.0.0/0"]}], protocols: [{udp: {}}]}]}}`,
		other, others, direct[2:], external, next)
	check("Baseline passes on, and the answers of who may send nothing come", `{kind: NetworkPolicy, metadata: {namespace: default, name: a}, spec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Egress]}}
---
{kind: ClusterNetworkPolicy, metadata: {name: last}, spec: {tier: Baseline, priority: 3, subject: {namespaces: {}}, ingress: [
  {action: Pass, from: [{namespaces: {}}]}, {action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: c}}}}]}]}}`)
}

// TestRefusedConnectionsEnd: of a connection that a policy comes to refuse no packet passes any more, in
// whichever tier the policy is, and it goes on where the policy goes.
func TestRefusedConnectionsEnd(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.do(d.namespace("default", "kubernetes.io/metadata.name=default"))
	d.pods("a", "b")
	// Connections are tracked as soon as there is any policy.
	d.do(d.policies(t, `{kind: NetworkPolicy, metadata: {namespace: other, name: deny}, spec: {podSelector: {}, policyTypes: [Ingress]}}`)...)
	var conns []net.Conn
	d.within("b", func() {
		for _, to := range []string{"10.244.0.3:8080", "[fd00:10:244::3]:8080"} {
			conn, err := net.Dial("udp", to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			conns = append(conns, conn)
		}
	})
	buffer := make([]byte, 100)
	asked := func(conn net.Conn, patience time.Duration) bool {
		_, err1 := conn.Write([]byte("x"))
		err2 := conn.SetReadDeadline(time.Now().Add(patience))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Read(buffer)
		return err == nil
	}
	// forget takes the answers that came too late for their questions.
	forget := func(conn net.Conn) {
		for err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err == nil; {
			_, err = conn.Read(buffer)
		}
	}
	for _, text := range []string{
		`{kind: NetworkPolicy, metadata: {namespace: default, name: a}, spec: {podSelector: {}, policyTypes: [Ingress]}}`,
		`{kind: NetworkPolicy, metadata: {namespace: default, name: a}, spec: {podSelector: {}, policyTypes: [Egress]}}`,
		`{kind: ClusterNetworkPolicy, metadata: {name: last}, spec: {tier: Baseline, priority: 3, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}`,
		`{kind: ClusterNetworkPolicy, metadata: {name: first}, spec: {tier: Admin, priority: 3, subject: {namespaces: {}}, egress: [{action: Deny, to: [{namespaces: {}}]}]}}`,
	} {
		for _, conn := range conns {
			nodetest.Eventually(t, 20*time.Second, func() error {
				if !asked(conn, time.Second) {
					return fmt.Errorf("without a policy %s does not answer", conn.RemoteAddr())
				}
				return nil
			})
		}
		policies := d.policies(t, text)
		d.do(policies...)
		for _, conn := range conns {
			forget(conn)
			for range 6 {
				if asked(conn, 200*time.Millisecond) {
					t.Errorf("%s answers under %s", conn.RemoteAddr(), text)
				}
			}
		}
		d.undo(policies...)
	}
}

// TestLocalAddressesPassNoPolicy: by link-local addresses, broadcast and multicast pods reach nobody whom policies
// refuse, while hosts and the discovery of neighbours go on.
func TestLocalAddressesPassNoPolicy(t *testing.T) {
	d := newDatapath(t, ovntest.Settings(t, ovntest.Dual))
	d.do(d.namespace("default", "kubernetes.io/metadata.name=default"))
	d.pods("a", "b")
	d.host()
	d.serve("host")
	const a, b, host = "[fe80::858:aff:fef4:3%eth0]:8080", "[fe80::858:aff:fef4:4%eth0]:8080",
		"[fe80::858:aff:fef4:2%eth0]:8080"
	for _, name := range []string{"a", "b", "host"} {
		nodetest.Eventually(t, 20*time.Second, func() error {
			if output, err := exec.Command("ip", "-n", name, "-6", "addr", "show", "tentative").CombinedOutput(); err != nil ||
				len(output) > 0 {
				return fmt.Errorf("link-local address of %s: %v: %s", name, err, output)
			}
			return nil
		})
	}
	check := func(pods bool) {
		t.Helper()
		d.patience = nodetest.Patience
		for from, to := range map[string]string{"host": a, "b": "[fd00:10:244::2]:8080"} {
			if got := d.ask(from, "", "tcp", to); got.err != nil {
				t.Errorf("%s to %s: %v", from, to, got.err)
			}
		}
		if got := d.flood("host", "a", "ff02::1%eth0"); !got {
			t.Error("a does not hear the host")
		}
		if !pods {
			d.patience = 300 * time.Millisecond
		}
		for _, way := range [][2]string{{"b", a}, {"a", b}, {"b", host}} {
			if got := d.ask(way[0], "", "tcp", way[1]); (got.err == nil) != pods {
				t.Errorf("%s to %s: %+v", way[0], way[1], got)
			}
		}
		for _, to := range []string{"255.255.255.255", "10.244.0.255", "224.0.0.1", "ff02::1%eth0"} {
			if got := d.flood("b", "a", to); got != pods {
				t.Errorf("a hears what b sends to %s: %v", to, got)
			}
		}
	}
	check(true)
	for _, text := range []string{
		`{kind: ClusterNetworkPolicy, metadata: {name: first}, spec: {tier: Admin, priority: 3, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}`,
		`{kind: ClusterNetworkPolicy, metadata: {name: first}, spec: {tier: Admin, priority: 3, subject: {namespaces: {}}, egress: [{action: Deny, to: [{namespaces: {}}]}]}}`,
	} {
		policies := d.policies(t, text)
		d.do(policies...)
		for _, name := range []string{"a", "b", "host"} {
			if output, err := exec.Command("ip", "-n", name, "neigh", "flush", "all").CombinedOutput(); err != nil {
				t.Fatalf("forget neighbours of %s: %v: %s", name, err, output)
			}
		}
		check(false)
		d.undo(policies...)
	}
	check(true)
}

// flood says whether one hears what another one sends to everybody.
func (d *datapath) flood(from, to, address string) bool {
	d.t.Helper()
	var server, client net.PacketConn
	var err1, err2 error
	network := "udp4"
	if strings.Contains(address, ":") {
		network = "udp6"
	}
	d.within(to, func() { server, err1 = net.ListenPacket(network, ":9000") })
	d.within(from, func() { client, err2 = net.ListenPacket(network, ":0") })
	if err := errors.Join(err1, err2); err != nil {
		d.t.Fatal(err)
	}
	defer server.Close()
	defer client.Close()
	buffer := make([]byte, 100)
	for deadline := time.Now().Add(d.patience); time.Now().Before(deadline); {
		var err error
		d.within(from, func() { // in which a zone has its number
			var all *net.UDPAddr
			if all, err = net.ResolveUDPAddr("udp", net.JoinHostPort(address, "9000")); err == nil {
				_, err = client.WriteTo([]byte("everybody"), all)
			}
		})
		if err := errors.Join(err, server.SetReadDeadline(time.Now().Add(100*time.Millisecond))); err != nil {
			d.t.Fatal(err)
		}
		if _, _, err := server.ReadFrom(buffer); err == nil {
			return true
		}
	}
	return false
}
