package manifest

import (
	"strings"
	"testing"
)

// refusal is a manifest that an API server refuses, and what is said of it; or that it takes, if nothing is.
type refusal struct{ name, text, want string }

// refusals are what the controller need not ask about.
func refusals() []refusal {
	tenant := func(spec string) string {
		return "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec:\n  podSelector: {}\n  " +
			spec
	}
	cluster := func(spec string) string {
		return "apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: a}\nspec:\n  " +
			"tier: Admin\n  priority: 5\n  subject: {namespaces: {}}\n  " + spec
	}
	admin := func(kind, spec string) string {
		return "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: " + kind +
			"\nmetadata: {name: a}\nspec:\n  subject: {namespaces: {}}\n  " + spec
	}
	many := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+", ", n), ", ") + "]"
	}
	ingress := func(rule string) string {
		return cluster("ingress:\n  - action: Deny\n    from: [{namespaces: {}}]\n    " + rule)
	}
	egress := func(peer string) string { return cluster("egress:\n  - action: Deny\n    to:\n    - " + peer) }
	const (
		all   = "{namespaces: {}}"
		ports = "ingress:\n  - ports:\n    - port: "
		block = "ingress:\n  - from:\n    - ipBlock: {cidr: 10.0.0.0/8, except: "
	)
	return []refusal{
		{"a good one", tenant(ports + "http\n    - port: 80"), ""},
		{"a number in quotes", tenant(ports + `"80"`),
			`8: NetworkPolicy default/a: Invalid: spec.ingress[0].ports[0].port: "80" in quotes is a name`},
		{"a name in capitals", tenant(ports + "Http"),
			`8: NetworkPolicy default/a: Invalid: spec.ingress[0].ports[0].port: "Http" is no port's name`},
		{"a long name", tenant(ports + "a234567890123456"), "must be no more than 15 characters"},
		{"no name", tenant(ports + `""`), `"" is no port's name`},
		{"all of a block left out", tenant(block + "[10.0.0.0/8]}"),
			"8: NetworkPolicy default/a: Invalid: spec.ingress[0].from[0].ipBlock.except[0]: 10.0.0.0/8 is the whole block"},
		{"half of a block left out", tenant(block + "[10.0.0.0/9]}"), ""},
		{"three types", tenant("policyTypes: [Ingress, Egress, Ingress]"),
			"6: NetworkPolicy default/a: Invalid: spec.policyTypes: has 3 words"},
		{"what is not read", tenant("policyTypes: [Ingress]\n  egress:\n  - to: [{}]"),
			"8: NetworkPolicy default/a: Invalid: spec.egress[0].to[0]: has none of podSelector"},
		{"a bad label", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: {app: a b}",
			"5: Namespace a: Invalid: metadata.labels: Invalid value: \"a b\": a valid label must be"},

		{"a good one of the cluster", ingress("name: web\n    protocols: [{tcp: {destinationPort: {range: {start: 1, end: " +
			"2}}}}, {destinationNamedPort: web}]"), ""},
		{"no priority", strings.Replace(ingress("name: a"), "  priority: 5\n", "", 1),
			"4: ClusterNetworkPolicy a: Invalid: spec.priority: is required"},
		{"no protocols", ingress("protocols: []"),
			"11: ClusterNetworkPolicy a: Invalid: spec.ingress[0].protocols: is empty"},
		{"many protocols", ingress("protocols: " + many(26, "{destinationNamedPort: a}")),
			"spec.ingress[0].protocols: has 26 items, more than 25"},
		{"all of TCP", ingress("protocols: [{tcp: {}}]"),
			"11: ClusterNetworkPolicy a: Invalid: spec.ingress[0].protocols[0].tcp: is empty; give a destinationPort"},
		{"a range of one", ingress("protocols: [{udp: {destinationPort: {range: {start: 53, end: 53}}}}]"),
			"spec.ingress[0].protocols[0].udp.destinationPort.range: starts where it ends"},
		{"a long name of a rule", ingress("name: " + strings.Repeat("ä", 101)),
			"11: ClusterNetworkPolicy a: Invalid: spec.ingress[0].name: has 101 characters"},
		{"a name as long as may be", ingress("name: " + strings.Repeat("ä", 100)), ""},
		{"many peers", cluster("ingress: [{action: Deny, from: " + many(26, all) + "}]"),
			"8: ClusterNetworkPolicy a: Invalid: spec.ingress[0].from: has 26 items"},
		{"as many peers as may be", cluster("ingress: [{action: Deny, from: " + many(25, all) + "}]"), ""},
		{"no podSelector", egress("pods: {namespaceSelector: {}}"),
			"11: ClusterNetworkPolicy a: Invalid: spec.egress[0].to[0].pods.podSelector: is required"},
		{"no podSelector of the subject", strings.Replace(ingress("name: a"), "subject: {namespaces: {}}",
			"subject: {pods: {}}", 1), "7: ClusterNetworkPolicy a: Invalid: spec.subject.pods.podSelector: is required"},
		{"a network twice", egress("networks: [10.0.0.0/8, 10.0.0.0/8]"), "spec.egress[0].to[0].networks[1]: 10.0.0.0/8 is " +
			"there twice"},
		{"many networks", egress("networks: [1.0.0.0/8" + strings.Repeat(", 10.0.0.0/8", 25) + "]"),
			"spec.egress[0].to[0].networks: has 26 items"},
		{"a domain twice", cluster("egress: [{action: Accept, to: [{domainNames: [a.io, a.io]}]}]"),
			"domainNames[1]: a.io is there twice"},

		{"no priority of the older kind", admin("AdminNetworkPolicy", "ingress: []"),
			"4: AdminNetworkPolicy a: Invalid: spec.priority: is required"},
		{"as many peers as the older kind has", admin("AdminNetworkPolicy", "priority: 5\n  ingress: [{action: Deny, from: "+
			many(100, all)+"}]"), ""},
		{"more peers than the older kind has", admin("AdminNetworkPolicy", "priority: 5\n  ingress: [{action: Deny, from: "+
			many(101, all)+"}]"), "has 101 items, more than 100"},
		{"no ports", admin("AdminNetworkPolicy", "priority: 5\n  ingress: [{action: Deny, from: ["+all+"], ports: []}]"),
			"spec.ingress[0].ports: is empty"},
		{"another name", admin("BaselineAdminNetworkPolicy", "ingress: []"),
			"3: BaselineAdminNetworkPolicy a: Invalid: metadata.name: is \"a\"; the one of this kind"},
	}
}

// TestRefused: each is told with its field and line.
func TestRefused(t *testing.T) {
	for _, c := range refusals() {
		t.Run(c.name, func(t *testing.T) {
			s, err := Read(strings.NewReader(c.text), "default", "-")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range s.Problems {
				got = append(got, strings.TrimPrefix(s.Where(p.Object, p.Field), "standard input:")+": "+p.String())
			}
			if text := strings.Join(got, "\n"); !strings.Contains(text, c.want) || (c.want == "") != (text == "") {
				t.Errorf("no %q in %q", c.want, text)
			}
		})
	}
}
