package status

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovsdb"
)

// nodeObject is a Node with what its agent and the controller say of it, which is Ready and has more conditions.
func nodeObject(name string, facts contract.NodeFacts, subnet string, more ...corev1.NodeCondition) *corev1.Node {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: before(time.Hour),
		Annotations: map[string]string{contract.NodeFactsAnnotation: contract.Format(facts),
			contract.NodeNetworkAnnotation: contract.Format(contract.NodeNetwork{
				PodCIDRs: []netip.Prefix{netip.MustParsePrefix(subnet)}})}}}
	o.Labels = map[string]string{corev1.LabelOSStable: "linux"}
	o.Status.Conditions = append([]corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}, more...)
	return KeepNode(o)
}

// switchOf are the ports of a node's switch: its own two, and pods'.
func switchOf(node string, pods ...string) (uuid string, ports []string) {
	owner := northbound.NodeOwner(node)
	for _, key := range []string{"switch", "management"} {
		ports = append(ports, ovsdb.ID(nb.LogicalSwitchPortTable, owner, key))
	}
	return northbound.SwitchID(node), append(ports, pods...)
}

// waiter is a pod that waits.
func waiter(name string, addressed bool, since time.Duration) (p pod) {
	p.Metadata = metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
		CreationTimestamp: before(time.Hour)}
	p.Spec.NodeName = "l1"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: before(since)}}
	if addressed {
		metav1.SetMetaDataAnnotation(&p.Metadata, contract.PodNetworkAnnotation, contract.Format(contract.PodNetwork{
			UID: string(p.Metadata.UID), Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.0.9/24")}}))
	}
	return p
}

// TestSourcesArePutTogether: what one says of a node is found beside what the others say.
func TestSourcesArePutTogether(t *testing.T) {
	l1, ports := switchOf("l1", "u1", "u2", "u3")
	host := api.Lease{Name: "kube-system/weft-chassis.host-c2", Holder: "c2", Renewed: microBefore(time.Second)}
	r := &reading{at: now, door: "c1",
		nodes: []*corev1.Node{
			nodeObject("w1", contract.NodeFacts{Chassis: "w1", OS: "windows", Hosted: &contract.Hosted{Address: "x:1"}},
				"10.244.1.0/24"),
			nodeObject("l1", contract.NodeFacts{Chassis: "id-1", Version: "1.2.0"}, "10.244.0.0/29", corev1.NodeCondition{
				Type: contract.AgentCondition, Status: corev1.ConditionFalse, Reason: "AgentNotReady", Message: "it hangs"}),
			nodeObject("l2", contract.NodeFacts{Chassis: "id-2"}, "fd00::/64"),
		},
		northbound: north{database: api.Database{Name: Northbound, Answers: true},
			global:   nb.NBGlobal{NbCfg: 5, SbCfg: 5, HvCfg: 3, SbCfgTimestamp: int(now.UnixMilli())},
			switches: map[string][]string{l1: ports, "foreign": {"u9"}},
			down:     map[string]string{"u1": "shop_northd", "u3": "shop_chassis", "u9": "shop_foreign"}},
		southbound: south{database: api.Database{Name: Southbound, Answers: true}, configuration: 5,
			chassis:   map[string]int{"id-1": 3, "w1": 5, "gone": 0},
			unclaimed: map[string]struct{}{"shop_chassis": {}}},
		leases: leases{hosts: map[string]chassisHost{"c2": {host, []string{"w0", "w1"}}},
			nodes: map[string]string{"w1": "c2"}},
		waiting: waitingPods{pods: []pod{waiter("young", false, overdue(lacksAddress)-1),
			waiter("address", false, overdue(lacksAddress)), waiter("volumes", true, overdue(lacksSandbox)-1),
			waiter("northd", true, 5*time.Minute), waiter("chassis", true, 4*time.Minute),
			waiter("sandbox", true, 3*time.Minute)}},
	}
	r.nodes[0].Annotations[contract.NodeNetworkAnnotation] = contract.Format(contract.NodeNetwork{Zone: "b",
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}})
	s := r.list().Items[0]
	var lines []string
	for _, n := range s.Nodes {
		c := n.AgentCondition
		if says := c != nil && !c.Ready && c.Reason == "AgentNotReady" && c.Message == "it hangs"; says != (n.Name == "l1") {
			t.Errorf("the agent of %s says %+v", n.Name, c)
		}
		lines = append(lines, fmt.Sprintf("%s %s %t agent=%t%s chassis=%s/%t behind=%d hosted=%t/%t ports=%d/%d %v", n.Name,
			n.System, n.Ready, n.Agent, n.Version, n.Chassis, n.Registered, n.Behind, n.Host != nil, n.Unreachable, n.Ports,
			n.Down, n.Subnets))
	}
	for _, p := range s.Pods.Longest {
		lines = append(lines, p.Name+" lacks "+p.Lacks)
	}
	lines = append(lines, fmt.Sprintf("%d ports, %d down, %d waiting %v, strays %v", s.Pods.Ports, s.Pods.Down,
		s.Pods.Waiting, s.Pods.Lacking, s.Strays))
	want := []string{
		"l1 linux true agent=true1.2.0 chassis=id-1/true behind=2 hosted=false/false ports=3/2 [{10.244.0.0/29 3 1}]",
		"l2 linux true agent=true chassis=id-2/false behind=0 hosted=false/false ports=0/0 [{fd00::/64 0 65533}]",
		"w1 linux true agent=true chassis=w1/true behind=0 hosted=true/true ports=0/0 [{10.244.1.0/24 0 252}]",
		"northd lacks binding", "chassis lacks chassis", "sandbox lacks sandbox", "address lacks address",
		"3 ports, 2 down, 4 waiting [{address 1} {binding 1} {chassis 1} {sandbox 1}], strays [gone]",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if len(s.Nodes) > 2 && (s.Nodes[2].Host.Holder != "c2" || s.Nodes[2].Zone != "b" || s.Nodes[0].Zone != "") {
		t.Errorf("w1's host is %+v, and the zones are %q and %q", s.Nodes[2].Host, s.Nodes[2].Zone, s.Nodes[0].Zone)
	}
}

// TestWhatWeftSaysOfAPolicy is believed of that policy alone, in the version that it has.
func TestWhatWeftSaysOfAPolicy(t *testing.T) {
	since := now.Add(-time.Hour)
	for name, c := range map[string]struct {
		said                  string
		current, ready, force bool
	}{
		"in force": {contract.Format(contract.PolicyStatus{UID: "u", Generation: 3, InForce: true, Reason: "InForce",
			Since: &since}), true, true, true},
		"in part": {contract.Format(contract.PolicyStatus{UID: "u", Generation: 3, InForce: true, Reason: partly}), true,
			false, true},
		"not in force": {contract.Format(contract.PolicyStatus{UID: "u", Generation: 3, Reason: "BadPolicy"}), true, false,
			false},
		"of a former version": {contract.Format(contract.PolicyStatus{UID: "u", Generation: 2, InForce: true,
			Reason: "InForce"}), false, true, true},
		"another policy's": {contract.Format(contract.PolicyStatus{UID: "v", Generation: 3, InForce: true,
			Reason: "InForce"}), false, false, false},
		"its creator's": {"{", false, false, false},
		"nothing":       {"", false, false, false},
	} {
		o := &metav1.ObjectMeta{UID: "u", Generation: 3}
		if c.said != "" {
			metav1.SetMetaDataAnnotation(o, contract.PolicyStatusAnnotation, c.said)
		}
		got, force := annotatedCondition(o)
		if got.Current != c.current || got.Ready != c.ready || force != c.force {
			t.Errorf("%s: %+v, in force: %t", name, got, force)
		}
	}
}

// FuzzNode: a node writes one annotation itself, and whoever may edit Nodes the other. Neither ends the door, and what
// is told of them has bounds.
func FuzzNode(f *testing.F) {
	f.Add(`{"chassis": "n", "hosted": {"address": "x"}}`, `{"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}`)
	f.Add(`{"chassis": 1}`, `{"podCIDRs": ["::/0", "0.0.0.0/0", "", "10.0.0.0/32"]}`)
	f.Add(`null`, `{"podCIDRs": [null, "::ffff:1.2.3.4/128"]}`)
	f.Fuzz(func(t *testing.T, facts, network string) {
		o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
			contract.NodeFactsAnnotation: facts, contract.NodeNetworkAnnotation: network}}}
		r := &reading{at: now, nodes: []*corev1.Node{KeepNode(o)}}
		n := r.list().Items[0].Nodes[0]
		if len(n.Chassis) > maxText || len(n.Wrong) > maxText {
			t.Errorf("%d bytes of a chassis, %d of what is wrong", len(n.Chassis), len(n.Wrong))
		}
		for _, s := range n.Subnets {
			if s.Free < 0 || s.Free > 1<<16 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// TestPodsOfNodesThatReadPodNetworks have no annotation: one without a port lacks its address.
func TestPodsOfNodesThatReadPodNetworks(t *testing.T) {
	portOf := func(name string) string {
		return ovsdb.ID(nb.LogicalSwitchPortTable, northbound.PodOwner("shop/"+name), "uid-"+name)
	}
	l1, ports := switchOf("l1", portOf("sandbox"), portOf("chassis"))
	for _, test := range []struct {
		reads, answers bool
		want           string
	}{
		{true, true, "chassis lacks chassis, sandbox lacks sandbox, address lacks address"},
		{false, true, "chassis lacks address, sandbox lacks address, address lacks address"},
		{true, false, "chassis lacks chassis, sandbox lacks sandbox, address lacks sandbox"}, // nobody knows the ports
	} {
		node := nodeObject("l1", contract.NodeFacts{PodNetworks: test.reads}, "10.244.0.0/29")
		r := &reading{at: now, nodes: []*corev1.Node{node},
			northbound: north{database: api.Database{Answers: test.answers}, switches: map[string][]string{l1: ports},
				down: map[string]string{portOf("chassis"): "shop_chassis"}},
			southbound: south{unclaimed: map[string]struct{}{"shop_chassis": {}}},
			waiting: waitingPods{pods: []pod{waiter("address", false, 2*time.Minute), waiter("sandbox", false, 3*time.Minute),
				waiter("chassis", false, 4*time.Minute)}},
		}
		var lines []string
		for _, p := range r.list().Items[0].Pods.Longest {
			lines = append(lines, p.Name+" lacks "+p.Lacks)
		}
		if got := strings.Join(lines, ", "); got != test.want {
			t.Errorf("of an agent that reads them (%t), with a Northbound that answers (%t): %s", test.reads, test.answers, got)
		}
	}
}
