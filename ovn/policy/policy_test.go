package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"
)

func read[T any](t testing.TB, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return o
}

// rulesText writes rules shortly: "ingress[0] Accept from … at …".
func rulesText(p *Policy) []string {
	var list []string
	for _, r := range p.Rules {
		var peers, ports []string
		for _, peer := range r.Peers {
			switch {
			case peer.Pods != nil:
				peers = append(peers, peer.Pods.String())
			case peer.Nodes != nil:
				peers = append(peers, "nodes "+string(*peer.Nodes))
			case peer.Domain != "":
				peers = append(peers, peer.Domain)
			default:
				peers = append(peers, fmt.Sprint(peer.Blocks))
			}
		}
		for _, port := range r.Ports {
			ports = append(ports, fmt.Sprintf("%s/%s%d-%d", port.Protocol, port.Name, port.First, port.Last))
		}
		if r.Anyone {
			peers = []string{"anyone"}
		}
		if r.AnyPort {
			ports = []string{"any"}
		}
		list = append(list, fmt.Sprintf("%s[%d] %s %s at %s", r.Direction, r.Index, r.Action, strings.Join(peers, ", "),
			strings.Join(ports, " ")))
	}
	return list
}

func TestNetworkPolicies(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		isolates   [2]bool
		rules      []string
		problems   []string // fields
	}{
		{"nothing at all", `{podSelector: {}}`, [2]bool{true, false}, nil, nil},
		{"egress without types", `{podSelector: {}, egress: [{}]}`, [2]bool{true, true},
			[]string{"egress[0] Accept anyone at any"}, nil},
		{"egress alone", `{podSelector: {}, policyTypes: [Egress], ingress: [{}]}`, [2]bool{false, true}, nil, nil},
		{"an unknown type", `{podSelector: {}, policyTypes: [Ingress, Sideways]}`, [2]bool{true, false}, nil,
			[]string{"spec.policyTypes[1]"}},
		{"peers", `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: b}}}, {namespaceSelector: {}}, {namespaceSelector: {matchExpressions: [{key: x, operator: In, values: [z, w]}]}, podSelector: {matchExpressions: [{key: c, operator: DoesNotExist}]}}]}]}`,
			[2]bool{true, false}, []string{"ingress[0] Accept ns: pods a=b, namespaces *: pods *, namespaces x in (w,z): pods " +
				"!c at any"}, nil},
		{"ports", `{podSelector: {}, ingress: [{ports: [{}, {port: 1}, {port: 2, endPort: 65535, protocol: UDP}, {port: web, protocol: SCTP}]}]}`,
			[2]bool{true, false}, []string{"ingress[0] Accept anyone at tcp/0-0 tcp/1-1 udp/2-65535 sctp/web0-0"}, nil},
		{"bad ports match nothing",
			`{podSelector: {}, ingress: [{ports: [{port: 0}, {port: 70000}, {port: 9, endPort: 8}, {port: 9, endPort: 70000}, {endPort: 9}, {port: web, endPort: 9}, {port: 1, protocol: ICMP}]}]}`,
			[2]bool{true, false}, []string{"ingress[0] Accept anyone at "},
			[]string{"spec.ingress[0].ports[0].port", "spec.ingress[0].ports[1].port", "spec.ingress[0].ports[2].endPort",
				"spec.ingress[0].ports[3].endPort", "spec.ingress[0].ports[4].endPort", "spec.ingress[0].ports[5].endPort",
				"spec.ingress[0].ports[6].protocol"}},
		{"bad peers match nothing",
			`{podSelector: {}, ingress: [{from: [{}, {podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}, {ipBlock: {cidr: nonsense}}, {ipBlock: {cidr: "::ffff:10.0.0.0/104"}}, {podSelector: {matchExpressions: [{key: a, operator: Maybe}]}}, {ipBlock: {cidr: 10.0.0.0/8, except: [x]}}]}]}`,
			[2]bool{true, false}, []string{"ingress[0] Accept  at any"},
			[]string{"spec.ingress[0].from[0]", "spec.ingress[0].from[1]", "spec.ingress[0].from[2].ipBlock.cidr",
				"spec.ingress[0].from[3].ipBlock.cidr", "spec.ingress[0].from[4].podSelector",
				"spec.ingress[0].from[5].ipBlock.except[0]"}},
		{"excepts", `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.7/8, except: [10.128.0.0/9, 10.0.0.0/10]}}, {ipBlock: {cidr: 10.0.0.0/8, except: [192.0.2.0/24]}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/8]}}, {ipBlock: {cidr: 10.0.0.0/16, except: [10.0.0.0/8]}}]}]}`,
			[2]bool{true, false}, []string{"ingress[0] Accept [10.64.0.0/10], [10.0.0.0/8] at any"},
			[]string{"spec.ingress[0].from[1].ipBlock.except[0]", "spec.ingress[0].from[3].ipBlock.except[0]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, problems := FromNetworkPolicy(read[networkingv1.NetworkPolicy](t, "{metadata: {namespace: ns, name: n}, spec: "+
				c.spec+"}"))
			if p == nil {
				t.Fatal(problems)
			}
			if p.Isolates != c.isolates || !slices.Equal(rulesText(p), c.rules) {
				t.Errorf("isolates %v, rules %q", p.Isolates, rulesText(p))
			}
			wantProblems(t, problems, c.problems)
		})
	}
	if p, problems := FromNetworkPolicy(read[networkingv1.NetworkPolicy](t, "{spec: {podSelector: {matchExpressions: "+
		"[{key: a, operator: Maybe}]}}}")); p != nil || len(problems) != 1 {
		t.Errorf("a policy that selects nobody knows whom: %v, %v", p, problems)
	}
}

// TestTooManyExceptions: one tenant's policy does not fill the nodes' flow tables.
func TestTooManyExceptions(t *testing.T) {
	o := read[networkingv1.NetworkPolicy](t,
		`{spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}, {ipBlock: {cidr: 192.0.2.0/24}}]}]}}`)
	for i := range 2000 {
		block := o.Spec.Ingress[0].From[0].IPBlock
		block.Except = append(block.Except, netip.AddrFrom4([4]byte{byte(i), byte(i >> 8), 7, byte(i)}).String()+"/32")
	}
	p, problems := FromNetworkPolicy(o)
	wantProblems(t, problems, []string{"spec.ingress[0].from[0].ipBlock"})
	if rules := rulesText(p); !slices.Equal(rules, []string{"ingress[0] Accept [192.0.2.0/24] at any"}) {
		t.Errorf("%q", rules)
	}
}

// TestManyWrongParts: the last problem that is told counts the others.
func TestManyWrongParts(t *testing.T) {
	_, problems := FromNetworkPolicy(read[networkingv1.NetworkPolicy](t, "{spec: {podSelector: {}, ingress: [{from: ["+
		strings.Repeat("{ipBlock: {cidr: none}},", maxProblems+5)+"]}]}}"))
	if len(problems) != maxProblems {
		t.Fatalf("%d problems, want %d", len(problems), maxProblems)
	}
	const want = "; 5 more of its parts are wrong"
	for i, p := range problems {
		if last := i == maxProblems-1; strings.HasSuffix(p.String(), want) != last {
			t.Errorf("problem %d is %q", i, p)
		}
	}
}

func wantProblems(t *testing.T, problems []Problem, fields []string) {
	t.Helper()
	var got []string
	for _, p := range problems {
		got = append(got, p.Field)
	}
	if !slices.Equal(got, fields) {
		t.Errorf("problems %v, want at %q", problems, fields)
	}
}

func TestClusterNetworkPolicies(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		rules      []string
		problems   []string
	}{
		{"all peers", `{tier: Admin, priority: 7, subject: {namespaces: {}}, ingress: [{action: Pass, from: [{namespaces: {}}, {pods: {namespaceSelector: {matchLabels: {a: b}}, podSelector: {}}}]}],
			egress: [{action: Accept, to: [{nodes: {matchLabels: {c: d}}}, {networks: [10.0.0.0/8, "2001:db8::/32"]}, {domainNames: [Example.ORG., "*.kubernetes.io"]}], protocols: [{tcp: {}}, {udp: {destinationPort: {number: 53}}}, {sctp: {destinationPort: {range: {start: 1, end: 2}}}}]}]}`,
			[]string{"ingress[0] Pass namespaces *: pods *, namespaces a=b: pods * at any", "egress[0] Accept nodes c=d, " +
				"[10.0.0.0/8], [2001:db8::/32], example.org, *.kubernetes.io at tcp/0-0 udp/53-53 sctp/1-2"}, nil},
		{"what cannot be read accepts nothing",
			`{tier: Baseline, priority: 7, subject: {namespaces: {}}, egress: [{action: Accept, to: [{networks: [10.0.0.0/8, x]}]}, {action: Accept, to: [{namespaces: {}}], protocols: [{}]}]}`,
			[]string{"egress[0] Accept  at any", "egress[1] Accept  at "}, []string{"spec.egress[0].to[0].networks[1]",
				"spec.egress[1].protocols[0]"}},
		{"or denies everything",
			`{tier: Baseline, priority: 7, subject: {namespaces: {}}, ingress: [{action: Pass, from: [{}]}], egress: [{action: Deny, to: [{domainNames: [example.org]}]}, {action: Deny, to: [{nodes: {}}], protocols: [{destinationNamedPort: web}]}, {action: Drop, to: [{namespaces: {}}]}]}`,
			[]string{"ingress[0] Deny anyone at any", "egress[0] Deny anyone at any", "egress[1] Deny anyone at any",
				"egress[2] Deny namespaces *: pods * at any"},
			[]string{"spec.ingress[0].from[0]", "spec.egress[0].to[0].domainNames", "spec.egress[1].to[0]",
				"spec.egress[2].action"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, problems := FromClusterNetworkPolicy(read[v1alpha2.ClusterNetworkPolicy](t, "{metadata: {name: n}, spec: "+c.spec+
				"}"))
			if p == nil {
				t.Fatal(problems)
			}
			if !slices.Equal(rulesText(p), c.rules) {
				t.Errorf("rules %q", rulesText(p))
			}
			wantProblems(t, problems, c.problems)
		})
	}
	for field, spec := range map[string]string{
		"spec.tier":     `{tier: First, priority: 1, subject: {namespaces: {}}}`,
		"spec.priority": `{tier: Admin, priority: 1001, subject: {namespaces: {}}}`,
		"spec.subject":  `{tier: Admin, priority: 1, subject: {}}`,
		"spec.ingress": `{tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [` +
			strings.Repeat("{action: Deny, from: [{namespaces: {}}]}, ", 26) + `]}`,
		"spec.subject.namespaces": `{tier: Admin, priority: 1, subject: {namespaces: {matchExpressions: [{key: a, operator: Maybe}]}}}`,
	} {
		p, problems := FromClusterNetworkPolicy(read[v1alpha2.ClusterNetworkPolicy](t, "{spec: "+spec+"}"))
		if p != nil {
			t.Errorf("%s: in force", field)
		}
		wantProblems(t, problems, []string{field})
	}
}

// TestOlderKinds read as the newer kind does what means the same.
func TestOlderKinds(t *testing.T) {
	admin, problems := FromAdminNetworkPolicy(read[v1alpha1.AdminNetworkPolicy](t, `{metadata: {name: n}, spec: {priority: 3, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {a: b}}}},
		ingress: [{name: r, action: Allow, from: [{namespaces: {}}], ports: [{portNumber: {protocol: TCP, port: 80}}, {namedPort: web}]}],
		egress: [{action: Deny, to: [{networks: [10.0.0.0/8]}], ports: [{portRange: {protocol: UDP, start: 1, end: 9}}]}, {action: Accept, to: [{nodes: {}}]}]}}`))
	wantProblems(t, problems, []string{"spec.egress[1].action"})
	newer, _ := FromClusterNetworkPolicy(read[v1alpha2.ClusterNetworkPolicy](t, `{metadata: {name: n}, spec: {tier: Admin, priority: 3, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {a: b}}}},
		ingress: [{name: r, action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}, {destinationNamedPort: web}]}],
		egress: [{action: Deny, to: [{networks: [10.0.0.0/8]}], protocols: [{udp: {destinationPort: {range: {start: 1, end: 9}}}}]}, {action: accept, to: [{nodes: {}}]}]}}`))
	newer.Kind = AdminNetworkPolicy
	if !reflect.DeepEqual(admin, newer) {
		t.Errorf("%+v, want %+v", admin, newer)
	}
	baseline, problems := FromBaselineAdminNetworkPolicy(read[v1alpha1.BaselineAdminNetworkPolicy](t,
		`{metadata: {name: default}, spec: {subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{}]}]}}`))
	wantProblems(t, problems, []string{"spec.ingress[0].ports[0]"})
	if baseline.Tier != Baseline || baseline.Priority != MaxPriority+1 || baseline.Kind != BaselineAdminNetworkPolicy {
		t.Errorf("%+v", baseline)
	}
}

// TestBlocksLeaveOutTheirExceptions asks addresses of random blocks whether they are in, and compares with
// the definition.
func TestBlocksLeaveOutTheirExceptions(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		whole := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(random.IntN(4)), 0, 0}), 8+random.IntN(10)).Masked()
		var except []string
		var parts []netip.Prefix
		within := func() netip.Addr {
			a := whole.Addr().As4()
			for bit := whole.Bits(); bit < 32; bit++ {
				a[bit/8] |= byte(random.IntN(2)) << (7 - bit%8)
			}
			return netip.AddrFrom4(a)
		}
		for range random.IntN(5) {
			part := netip.PrefixFrom(within(), whole.Bits()+random.IntN(33-whole.Bits())).Masked()
			parts, except = append(parts, part), append(except, part.String())
		}
		r := &reader{}
		blocks, ok := r.block("b", whole.String(), except)
		if !ok || len(r.problems) > 0 {
			t.Fatalf("seed %d: %s less %v: %v", seed, whole, except, r.problems)
		}
		for i := range 40 {
			addr := within()
			if len(parts) > 0 && i%2 == 0 { // at an edge
				addr = parts[random.IntN(len(parts))].Addr()
				if random.IntN(2) == 0 && addr != whole.Addr() {
					addr = addr.Prev()
				}
			}
			contains := func(p netip.Prefix) bool { return p.Contains(addr) }
			if want := !slices.ContainsFunc(parts, contains); slices.ContainsFunc(blocks, contains) != want {
				t.Fatalf("seed %d: %s in %s less %v: want %v, got %v", seed, addr, whole, except, want, blocks)
			}
		}
		for i := range blocks {
			for j := range i {
				if blocks[i].Overlaps(blocks[j]) {
					t.Fatalf("seed %d: %v overlap", seed, blocks)
				}
			}
		}
	}
}

// FuzzSelector: a selector's text is read back as what selects the same.
func FuzzSelector(f *testing.F) {
	f.Add("{matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b, c]}, {key: d, operator: Exists}]}",
		"a", "b")
	f.Add("{matchExpressions: [{key: a, operator: NotIn, values: [\"\"]}]}", "x.y/z", "")
	f.Fuzz(func(t *testing.T, spec, key, value string) {
		o := &networkingv1.NetworkPolicy{}
		if yaml.Unmarshal([]byte("{spec: {podSelector: "+spec+"}}"), o) != nil {
			return
		}
		p, _ := FromNetworkPolicy(o)
		if p == nil {
			return
		}
		_, pods := p.Subject.Selectors()
		again, _ := FromNetworkPolicy(o)
		if again.Subject != p.Subject {
			t.Fatalf("%q, then %q", p.Subject.Pods, again.Subject.Pods)
		}
		want, err := metav1.LabelSelectorAsSelector(&o.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		if set := (labels.Set{key: value}); pods.Matches(set) != want.Matches(set) {
			t.Fatalf("%q does not select %v as %q does", p.Subject.Pods, set, want)
		}
	})
}

// FuzzDomain: what is read as a domain name has no other form.
func FuzzDomain(f *testing.F) {
	for _, name := range []string{"*.Kubernetes.io.", "a.b", "a..b", "-a.b", "*.a", "*"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if domain, ok := parseDomain(name); ok {
			if again, ok := parseDomain(domain); !ok || again != domain || domain != strings.ToLower(domain) ||
				strings.HasSuffix(domain, ".") {
				t.Fatalf("%q: %q, then %q, %v", name, domain, again, ok)
			}
		}
	})
}
