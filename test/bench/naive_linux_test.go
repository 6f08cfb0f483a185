package bench

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/test/bench/load"
)

// naiveACL is about one pod, and one peer and port.
type naiveACL struct {
	pod                 *corev1.Pod
	direction           networkingv1.PolicyType
	priority            int
	action, peer, ports string // peer is a pod's namespace/name behind "@", else a match
}

// naiveTranslation reads policies of the kinds that the load has, one pair of pods at a time.
type naiveTranslation struct {
	b          *testing.B
	namespaces []*corev1.Namespace
	pods       []*corev1.Pod
}

// naiveACLs are those of the policies of the first namespaces: what is refused, once for each pod that a default deny
// selects, and what is allowed, once for each pair of a pod and a peer's pod or block and port.
func naiveACLs(b *testing.B, l load.Load, namespaces int) []naiveACL {
	b.Helper()
	n := &naiveTranslation{b: b}
	var policies []*networkingv1.NetworkPolicy
	for _, o := range l.Objects() {
		switch o := o.(type) {
		case *corev1.Namespace:
			n.namespaces = append(n.namespaces, o)
		case *corev1.Pod:
			n.pods = append(n.pods, o)
		case *networkingv1.NetworkPolicy:
			policies = append(policies, o)
		}
	}
	some := map[string]bool{}
	for _, namespace := range n.namespaces[:namespaces] {
		some[namespace.Name] = true
	}
	var list []naiveACL
	for _, p := range policies {
		if some[p.Namespace] {
			list = append(list, n.policy(p)...)
		}
	}
	return list
}

func (n *naiveTranslation) policy(p *networkingv1.NetworkPolicy) []naiveACL {
	var list []naiveACL
	denies := len(p.Spec.Ingress)+len(p.Spec.Egress) == 0
	for _, pod := range n.pods {
		if pod.Namespace != p.Namespace || !n.selects(&p.Spec.PodSelector, pod.Labels) {
			continue
		}
		if denies {
			for _, direction := range p.Spec.PolicyTypes {
				list = append(list, naiveACL{pod: pod, direction: direction, priority: 1000, action: "drop", ports: "ip"})
			}
		}
		for _, rule := range p.Spec.Ingress {
			list = append(list, n.rule(p, pod, networkingv1.PolicyTypeIngress, rule.From, rule.Ports)...)
		}
		for _, rule := range p.Spec.Egress {
			list = append(list, n.rule(p, pod, networkingv1.PolicyTypeEgress, rule.To, rule.Ports)...)
		}
	}
	return list
}

func (n *naiveTranslation) rule(p *networkingv1.NetworkPolicy, pod *corev1.Pod, direction networkingv1.PolicyType,
	peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) []naiveACL {
	var list []naiveACL
	add := func(peer string, server *corev1.Pod) {
		for _, match := range naivePorts(ports, server) {
			list = append(list, naiveACL{pod, direction, 1001, "allow-related", peer, match})
		}
	}
	for _, peer := range peers {
		if block := peer.IPBlock; block != nil {
			side := map[networkingv1.PolicyType]string{networkingv1.PolicyTypeIngress: "src",
				networkingv1.PolicyTypeEgress: "dst"}[direction]
			match := fmt.Sprintf("ip4.%s == %s && ip4.%[1]s != {%[3]s}", side, block.CIDR, strings.Join(block.Except, ", "))
			add(match, nil)
			continue
		}
		for _, other := range n.pods {
			if !n.within(peer.NamespaceSelector, p.Namespace, other.Namespace) || peer.PodSelector != nil &&
				!n.selects(peer.PodSelector, other.Labels) {
				continue
			}
			server := pod
			if direction == networkingv1.PolicyTypeEgress {
				server = other
			}
			add("@"+other.Namespace+"/"+other.Name, server)
		}
	}
	return list
}

func (n *naiveTranslation) within(selector *metav1.LabelSelector, own, namespace string) bool {
	if selector == nil {
		return namespace == own
	}
	for _, o := range n.namespaces {
		if o.Name == namespace {
			return n.selects(selector, o.Labels)
		}
	}
	return false
}

func (n *naiveTranslation) selects(s *metav1.LabelSelector, set map[string]string) bool {
	n.b.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		n.b.Fatal(err)
	}
	return selector.Matches(labels.Set(set))
}

// naivePorts are a match a port; a name is that of a server's.
func naivePorts(ports []networkingv1.NetworkPolicyPort, server *corev1.Pod) []string {
	if len(ports) == 0 {
		return []string{"ip"}
	}
	var list []string
	for _, p := range ports {
		switch number := p.Port.IntVal; {
		case p.Port.StrVal != "":
			for _, port := range server.Spec.Containers[0].Ports {
				if port.Name == p.Port.StrVal {
					list = append(list, fmt.Sprintf("tcp.dst == %d", port.ContainerPort))
				}
			}
		case p.EndPort != nil:
			list = append(list, fmt.Sprintf("tcp.dst >= %d && tcp.dst <= %d", number, *p.EndPort))
		default:
			list = append(list, fmt.Sprintf("tcp.dst == %d", number))
		}
	}
	return list
}

// writeNaive writes ACLs to the switches of their pods' nodes.
func writeNaive(b *testing.B, nb *database, list []naiveACL) {
	b.Helper()
	db := nb.read(b)
	addresses, switches := map[string]string{}, map[string]string{}
	for _, row := range db.Tables["Logical_Switch_Port"] {
		if _, address, ok := strings.Cut(only(row["addresses"]), " "); ok {
			addresses[only(row["name"])] = address
		}
	}
	for id, row := range db.Tables["Logical_Switch"] {
		for port := range row["ports"] {
			switches[only(db.Tables["Logical_Switch_Port"][port]["name"])] = id
		}
	}
	client := dialBare(b, nb.remote, "OVN_Northbound")
	defer client.conn.Close()
	const batch = 1000
	var operations []any
	for i, acl := range list {
		port := contract.PodPort(acl.pod.Namespace, acl.pod.Name)
		side, peerSide, direction, options := "outport", "src", "to-lport", map[string]string{}
		if acl.direction == networkingv1.PolicyTypeEgress {
			side, peerSide, direction, options = "inport", "dst", "from-lport", map[string]string{"apply-after-lb": "true"}
		}
		match := []string{fmt.Sprintf("%s == %q", side, port), acl.peer, acl.ports}
		if name, ok := strings.CutPrefix(acl.peer, "@"); ok {
			namespace, name, _ := strings.Cut(name, "/")
			match[1] = "ip4." + peerSide + " == " + addresses[contract.PodPort(namespace, name)]
		} else if acl.peer == "" {
			match = []string{match[0], acl.ports}
		}
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1)
		operations = append(operations,
			map[string]any{"op": "insert", "table": "ACL", "uuid": id, "row": map[string]any{"direction": direction,
				"priority": acl.priority,
				"action":   acl.action, "match": strings.Join(match, " && "), "options": ovsdbMap(options)}},
			map[string]any{"op": "mutate", "table": "Logical_Switch", "where": whereID(switches[port]),
				"mutations": []any{[]any{"acls", "insert", []any{"set", []any{[]string{"uuid", id}}}}}})
		if len(operations) >= 2*batch || i == len(list)-1 {
			client.transact(b, operations)
			operations = nil
		}
	}
}
