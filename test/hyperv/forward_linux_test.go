package hyperv

import (
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/node/nodetest"
)

// Packets go by exact-match flows, which ovs-vswitchd makes by upcalls, dumps with their statistics, and
// takes away when they are idle.
func TestForwarding(t *testing.T) {
	n := startNode(t, KnownFaults())
	one, two := n.pod(1), n.pod(2)
	n.flows("actions=normal")
	if got := one.ping(two.address, 10); got != 10 {
		t.Fatalf("%d of 10 pings are answered", got)
	}
	if got := one.ping(two.address6, 10); got != 10 {
		t.Fatalf("%d of 10 pings are answered by IPv6", got)
	}
	dump := n.ctl("dpctl/dump-flows", "-m")
	if !strings.Contains(dump, "src=10.0.0.1,dst=10.0.0.2") || !strings.Contains(dump, "actions:") {
		t.Error(dump)
	}
	if s := n.extension.Status(); s.Hits < 20 || s.Misses == 0 {
		t.Errorf("%+v", s)
	}
	n.VS("set", "open_vswitch", ".", "other_config:max-idle=1000")
	nodetest.Eventually(t, 20*time.Second, func() error {
		if dump := n.ctl("dpctl/dump-flows"); strings.Contains(dump, "ipv4") {
			return errPending
		}
		return nil
	})
}

// track are flows that track every packet in a zone of its sender and then one of its receiver, as OVN does
// for two pods of one node with policies.
var track = []string{
	"table=0,priority=1,ip,actions=ct(table=1,zone=1)",
	"table=0,priority=1,ipv6,actions=ct(table=1,zone=1)",
	"table=1,ct_state=+new+trk,ip,actions=ct(commit,zone=1),resubmit(,2)",
	"table=1,ct_state=+new+trk,ipv6,actions=ct(commit,zone=1),resubmit(,2)",
	"table=1,ct_state=+est+trk,actions=resubmit(,2)",
	"table=2,ip,actions=ct(table=3,zone=2)",
	"table=2,ipv6,actions=ct(table=3,zone=2)",
	"table=3,ct_state=+new+trk,ip,actions=ct(commit,zone=2),normal",
	"table=3,ct_state=+new+trk,ipv6,actions=ct(commit,zone=2),normal",
	"table=3,ct_state=+est+trk,actions=normal",
}

// The original tuple of one zone is the key of the next one's lookup: pings between pods of one node end.
func TestStaleTuple(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		want   int
	}{{"fault", KnownFaults(), 0}, {"no fault", without(StaleTuple), 4}} {
		t.Run(c.name, func(t *testing.T) {
			n := startNode(t, c.faults)
			one, two := n.pod(1), n.pod(2)
			n.flows(track...)
			if got := one.ping(two.address, 4); got != c.want {
				t.Errorf("%d of 4 pings are answered, not %d:\n%s", got, c.want, n.ctl("dpctl/dump-conntrack"))
			}
		})
	}
}

// A packet of a tracked IPv6 connection hits no flow.
func TestTrackedIPv6(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		hits   bool
	}{{"fault", KnownFaults(), false}, {"no fault", without(TrackedIPv6), true}} {
		t.Run(c.name, func(t *testing.T) {
			n := startNode(t, c.faults)
			one, two := n.pod(1), n.pod(2)
			n.flows(track...)
			if got := one.ping(two.address6, 20); got != 20 {
				t.Fatalf("%d of 20 pings are answered", got)
			}
			misses := n.extension.Status().Misses
			if hits := misses < 60; hits != c.hits {
				t.Errorf("%d packets missed", misses)
			}
		})
	}
}

// Fragments, which ovs-vswitchd gets as one packet, go out as fragments of their size.
func TestFragmentsByUpcalls(t *testing.T) {
	n := startNode(t, KnownFaults())
	one, two := n.pod(1), n.pod(2)
	n.flows("table=0,ip,actions=ct(table=1,zone=1)", "table=1,ip,actions=normal")
	run(t, "ip", "link", "set", "vpod2", "mtu", "1300")
	one.run("ip", "link", "set", "eth0", "mtu", "1300")
	two.run("ip", "link", "set", "eth0", "mtu", "1300")
	if got := one.pingSized(two.address, 4, 3000); got != 4 {
		t.Errorf("%d of 4 pings of 3,000 bytes are answered", got)
	}
}

// What ovs-vswitchd tries in order to know it is not told as executed.
func TestProbesAreNotExecuted(t *testing.T) {
	n := startNode(t, KnownFaults())
	one, two := n.pod(1), n.pod(2)
	n.flows("actions=normal")
	if got := one.ping(two.address, 2); got != 2 {
		t.Fatalf("%d of 2 pings are answered", got)
	}
	executed := n.extension.Executed()
	for _, action := range []string{"clone", "trunc", "set_masked"} {
		if executed[action] != 0 {
			t.Errorf("%s: %d times", action, executed[action])
		}
	}
	if executed["output"] == 0 {
		t.Errorf("executed: %v", executed)
	}
}

// What flows match is told by the masks of ovs-vswitchd, where the driver's keys do not have it, too. What no flow
// looks at is not told, though it is in the keys.
func TestMatchesAreRecorded(t *testing.T) {
	n := startNode(t, KnownFaults())
	one, two := n.pod(1), n.pod(2)
	n.flows("priority=2,tcp,tcp_flags=+urg,actions=drop",
		"priority=2,icmp6,icmp_type=135,nd_target=fd00::42,actions=drop", "priority=1,actions=normal")
	one.run("bash", "-c", "exec 3<>/dev/tcp/"+two.address+"/9 || true") // nobody listens
	if got := one.ping("fd00::42", 1); got != 0 {
		t.Fatalf("%d answers of nobody", got)
	}
	executed := n.extension.Executed()
	for _, name := range []string{"match in_port", "match tcp_flags urg", "match nd_target"} {
		if executed[name] == 0 {
			t.Errorf("no flow has %q: %v", name, executed)
		}
	}
	for _, name := range []string{"match ct_state", "match ct_orig_tuple4", "match skb_mark", "match tun_id"} {
		if executed[name] != 0 {
			t.Errorf("%d flows have %q", executed[name], name)
		}
	}
}
