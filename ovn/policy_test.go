package ovn

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovsdb"
)

// manifests reads YAML documents of the kinds that policies depend on.
func manifests(t testing.TB, text string) []runtime.Object {
	t.Helper()
	var list []runtime.Object
	for document := range strings.SplitSeq(text, "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatal(err)
		}
		object := map[string]runtime.Object{
			"Pod": &corev1.Pod{}, "Node": &corev1.Node{}, "Namespace": &corev1.Namespace{},
			"NetworkPolicy":        &networkingv1.NetworkPolicy{},
			"ClusterNetworkPolicy": &v1alpha2.ClusterNetworkPolicy{}, "AdminNetworkPolicy": &v1alpha1.AdminNetworkPolicy{},
			"BaselineAdminNetworkPolicy": &v1alpha1.BaselineAdminNetworkPolicy{},
		}[head.Kind]
		if object == nil {
			t.Fatalf("kind %q", head.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		list = append(list, object)
	}
	return list
}

// policies are manifests of policies, trimmed.
func (w *world) policies(t testing.TB, text string) []any {
	t.Helper()
	var list []any
	for _, o := range manifests(t, text) {
		k, trimmed, err := offlineObject(o)
		if err != nil {
			t.Fatal(err)
		}
		p, ok := trimmed.(*objects.PolicyObject)
		if !ok {
			t.Fatalf("%s is no policy", k.Kind)
		}
		w.uids++
		p.Generation = int64(w.uids)
		list = append(list, p)
	}
	return list
}

// cast is a small cluster: two namespaces, and pods whose ports of one name have different numbers.
const cast = `
{kind: Namespace, metadata: {name: prod, labels: {stage: prod}}}
---
{kind: Namespace, metadata: {name: test, labels: {stage: test}}}
---
{kind: Pod, metadata: {namespace: prod, name: web, labels: {app: web}}, spec: {containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}}
---
{kind: Pod, metadata: {namespace: prod, name: web2, labels: {app: web}}, spec: {containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}}
---
{kind: Pod, metadata: {namespace: prod, name: db, labels: {app: db}}}
---
{kind: Pod, metadata: {namespace: test, name: web, labels: {app: web}}}
---
`

// verdicts asks "FROM > TO PROTOCOL/PORT" of the rows, where each side is namespace/name or an address.
func verdicts(t *testing.T, offline *Offline) func(question string) bool {
	t.Helper()
	rows, err := acl.FromChanges(offline.Changes)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := acl.New(rows)
	if err != nil {
		t.Fatal(err)
	}
	return func(question string) bool {
		t.Helper()
		connection, err := ask(offline, question)
		if err != nil {
			t.Fatal(err)
		}
		v := tables.Judge(connection)
		if len(v.Unread)+len(v.Ambiguous) > 0 {
			t.Errorf("%s: not clear: %+v", question, v)
		}
		return v.Allowed
	}
}

// ask reads "FROM > TO PROTOCOL/PORT".
func ask(offline *Offline, question string) (acl.Connection, error) {
	ends, what, _ := strings.Cut(question, " > ")
	to, what, _ := strings.Cut(what, " ")
	protocol, number, _ := strings.Cut(what, "/")
	port, _ := strconv.Atoi(number)
	return offline.Connection(ends, to, protocol, uint16(port), 0)
}

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		name, policies string
		allowed        []string
		refused        []string
	}{
		{"default deny", `{kind: NetworkPolicy, metadata: {namespace: prod, name: deny}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}`,
			[]string{"test/web > 192.0.2.1 tcp/80"}, []string{"test/web > prod/web tcp/80", "prod/web > 192.0.2.1 udp/53",
				"prod/web > prod/db icmp", "198.51.100.1 > prod/db tcp/22"}},
		{"by label and number", `{kind: NetworkPolicy, metadata: {namespace: prod, name: db}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}, {port: 6000, endPort: 6010}]}]}}`,
			[]string{"prod/web > prod/db tcp/5432", "prod/web2 > prod/db tcp/6010", "prod/db > test/web tcp/80"},
			[]string{"test/web > prod/db tcp/5432", "prod/web > prod/db udp/5432", "prod/web > prod/db tcp/6011"}},
		{"by port name", `{kind: NetworkPolicy, metadata: {namespace: prod, name: web}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: http}]}]}}`,
			[]string{"test/web > prod/web tcp/80", "192.0.2.1 > prod/web2 tcp/8080"}, []string{"test/web > prod/web tcp/8080",
				"test/web > prod/web2 tcp/80"}},
		{"egress by port name", `{kind: NetworkPolicy, metadata: {namespace: test, name: web}, spec: {podSelector: {}, egress: [{to: [{namespaceSelector: {matchLabels: {stage: prod}}}], ports: [{port: http}]}]}}`,
			[]string{"test/web > prod/web tcp/80", "test/web > prod/web2 tcp/8080"}, []string{"test/web > prod/web tcp/8080",
				"test/web > prod/db tcp/80", "test/web > 192.0.2.1 tcp/80"}},
		{"blocks", `{kind: NetworkPolicy, metadata: {namespace: prod, name: out}, spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.128/25]}}]}]}}`,
			[]string{"prod/web > 192.0.2.1 tcp/80", "prod/web > 192.0.2.127 icmp"}, []string{"prod/web > 192.0.2.128 tcp/80",
				"prod/web > prod/db tcp/80", "prod/web > 198.51.100.1 tcp/1"}},
		{"tiers", `{kind: NetworkPolicy, metadata: {namespace: prod, name: open}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{}]}}
---
{kind: ClusterNetworkPolicy, metadata: {name: a}, spec: {tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {stage: prod}}}, ingress: [
  {action: Pass, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}}]}, {action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 22}}}]}]}}
---
{kind: ClusterNetworkPolicy, metadata: {name: b}, spec: {tier: Admin, priority: 2, subject: {namespaces: {}}, ingress: [{action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {range: {start: 20, end: 30}}}}]}]}}
---
{kind: ClusterNetworkPolicy, metadata: {name: c}, spec: {tier: Baseline, priority: 0, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}`,
			[]string{"prod/db > prod/web tcp/22", "test/web > prod/web tcp/23", "test/web > prod/db tcp/23",
				"test/web > prod/web tcp/80"},
			[]string{"test/web > prod/web tcp/22", "test/web > prod/db tcp/80", "prod/db > test/web tcp/80"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := ovntest.Config()
			ovntest.Dual(&config)
			offline, err := Translate(config, manifests(t, cast+c.policies))
			if err != nil {
				t.Fatal(err)
			}
			if len(offline.Problems) > 0 {
				t.Error(offline.Problems)
			}
			allowed := verdicts(t, offline)
			for _, q := range c.allowed {
				if !allowed(q) {
					t.Errorf("%s is refused", q)
				}
			}
			for _, q := range c.refused {
				if allowed(q) {
					t.Errorf("%s is allowed", q)
				}
			}
			if t.Failed() {
				t.Log(aclText(offline.Changes))
			}
		})
	}
}

// aclText lists ACLs a line each.
func aclText(changes []ovsdb.Change) string {
	var lines []string
	for _, c := range changes {
		for _, r := range c.Rows {
			if a, ok := r.Model.(*nb.ACL); ok {
				lines = append(lines, fmt.Sprintf("%d %5d %-10s %-13s %s  # %s", a.Tier, a.Priority, a.Direction, a.Action, a.Match,
					*a.Name))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// policiesWorld has policies of every kind on two nodes.
func policiesWorld(t testing.TB, w *world) {
	l1, l2 := w.node("l1", "10.244.0.0/24", "fd00:10:244::/64"), w.node("l2", "fd00:10:244:1::/64", "10.244.1.0/24")
	l1.Facts, l2.Facts = ovntest.Facts(1, true), ovntest.Facts(2, true)
	w.put(l1, l2)
	for i, o := range manifests(t, strings.TrimSuffix(cast, "---\n")) {
		_, trimmed, err := offlineObject(o)
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := trimmed.(*objects.Pod); ok {
			p.Node = []string{"l1", "l2"}[i%2]
		}
		w.put(trimmed)
	}
	w.put(w.policies(t, `
{kind: NetworkPolicy, metadata: {namespace: prod, name: default-deny}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}
---
{kind: NetworkPolicy, metadata: {namespace: prod, name: web}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: http}]}],
  egress: [{to: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: 5432}, {port: 6000, endPort: 6010}]}, {ports: [{port: 53, protocol: UDP}, {port: 53}]}]}}
---
{kind: NetworkPolicy, metadata: {namespace: prod, name: db}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [
  {from: [{namespaceSelector: {matchLabels: {stage: test}}, podSelector: {matchLabels: {app: web}}}, {ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.64/26]}}, {ipBlock: {cidr: "10.0.0.0/33"}}]}]}}
---
{kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 10, subject: {namespaces: {}}, ingress: [{name: no-ssh, action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 22}}}]}]}}
---
{kind: ClusterNetworkPolicy, metadata: {name: guests}, spec: {tier: Admin, priority: 10, subject: {namespaces: {matchLabels: {stage: test}}}, egress: [{action: Pass, to: [{nodes: {}}]}, {action: Accept, to: [{domainNames: ["*.example.org"]}]}]}}
---
{kind: BaselineAdminNetworkPolicy, metadata: {name: default}, spec: {subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: ["0.0.0.0/0"]}], ports: [{portNumber: {protocol: UDP, port: 53}}]}]}}`)...)
}

// TestPoliciesOfAnOVNWithoutTiers: NetworkPolicies hold, and those of the cluster are told that they don't.
func TestPoliciesOfAnOVNWithoutTiers(t *testing.T) {
	w := newWorld()
	policiesWorld(t, w)
	settings := ovntest.Settings(t, ovntest.Dual)
	settings.Lacks.AclTiers = true
	c := newCluster(settings)
	c.begin(records.Records{}, w.Keys(), w.Get)
	changes := c.takeEverything()
	acls := map[string]int{}
	for _, change := range changes {
		kind, _, _ := strings.Cut(string(change.Owner), "/")
		for _, r := range change.Rows {
			if acl, ok := r.Model.(*nb.ACL); ok {
				acls[kind]++
				if acl.Action == nb.ACLActionPass {
					t.Errorf("%s %s passes on to another tier", change.Owner, r.Key)
				}
			}
		}
	}
	if acls["NetworkPolicy"] == 0 || acls["Policies"] == 0 || acls["ClusterNetworkPolicy"]+
		acls["BaselineAdminNetworkPolicy"] > 0 {
		t.Errorf("ACLs by kind of owner: %v", acls)
	}
	c.TakeNotes() // those of nodes and pods
	c.policies.Written(ownersOf(changes), nil)
	for _, a := range c.TakeNotes() {
		if cluster := a.Kind != objects.NetworkPolicyKind; cluster != strings.Contains(ovntest.Written(a), "OVN 23.06") {
			t.Errorf("%v %s: %s", a.Kind, a.Name, ovntest.Written(a))
		}
	}
}

// TestPolicyStatuses: what becomes of a policy stands at it once its rows are written, and not before.
func TestPolicyStatuses(t *testing.T) {
	w := newWorld()
	policiesWorld(t, w)
	c := newCluster(ovntest.Settings(t, ovntest.Dual))
	c.begin(records.Records{}, w.Keys(), w.Get)
	c.TakeNotes()
	changes := c.takeEverything()
	if notes := c.TakeNotes(); len(notes) > 0 {
		t.Fatalf("statuses before the rows: %v", notes)
	}
	c.policies.Written(ownersOf(changes),
		&ovsdb.RefusedError{Owners: map[ovsdb.Owner]error{"NetworkPolicy/prod/web": errors.New("full")}})
	got := map[string]string{}
	for _, a := range c.TakeNotes() {
		got[a.Kind.String()+" "+a.Name] = ovntest.Written(a)
	}
	for name, words := range map[string][]string{
		"NetworkPolicy default-deny": {`"inForce":true`, `"since":"2023-11-14T22:13:20Z"`,
			"2 ACLs in the OVN Northbound (weft.net/owner=NetworkPolicy/prod/default-deny)", "port group pods_prod"},
		"NetworkPolicy db": {`"inForce":true`, "PartlyInForce", "spec.ingress[0].from[2].ipBlock.cidr",
			"10.0.0.0/33"},
		"ClusterNetworkPolicy guard":         {`"status":"True"`, `"reason":"InForce"`},
		"ClusterNetworkPolicy guests":        {`"status":"True"`, "2 ACLs in the OVN Northbound (weft.net/owner=ClusterNetworkPolicy/guests)"},
		"BaselineAdminNetworkPolicy default": {`"status":"True"`, `"message":"1 ACL in the OVN Northbound`},
	} {
		for _, word := range words {
			if !strings.Contains(got[name], word) {
				t.Errorf("%s: %s lacks %s", name, got[name], word)
			}
		}
	}
	if text, ok := got["NetworkPolicy web"]; ok {
		t.Errorf("of what was refused: %s", text)
	}
	w.absorb(c)
	c.takeChanges()
	c.policies.Written(nil, nil)
	if notes := c.TakeNotes(); len(notes) > 0 {
		t.Errorf("again: %v", notes)
	}
}

// written takes in events, and gives by policy what statuses say once the rows are there, and how many ACLs
// these have.
func (s *scene) written(keys []part.Event) (statuses map[string]string, acls map[ovsdb.Owner]int) {
	s.c.update(keys, s.Get)
	changes := s.c.takeChanges()
	s.c.policies.Written(ownersOf(changes), nil)
	statuses, acls = map[string]string{}, map[ovsdb.Owner]int{}
	for _, a := range s.c.TakeNotes() {
		statuses[a.Name] = ovntest.Written(a)
	}
	for _, change := range changes {
		acls[change.Owner] = len(change.Rows)
	}
	s.absorb(s.c)
	return statuses, acls
}

// TestPoliciesOfOnePriority share its room, which the older has first; the younger has it when the older goes.
func TestPoliciesOfOnePriority(t *testing.T) {
	const older, younger = "ClusterNetworkPolicy/older", "ClusterNetworkPolicy/younger"
	policy := func(name string, day, rules int) string {
		return fmt.Sprintf(`{kind: ClusterNetworkPolicy, metadata: {name: %s, creationTimestamp: "2026-01-%02dT00:00:00Z"}, spec: {tier: Admin, priority: 7, subject: {namespaces: {}}, ingress: [%s]}}`,
			name, day, strings.Repeat("{action: Deny, from: [{namespaces: {}}]},", rules))
	}
	for _, c := range []struct {
		rules  int // the younger's
		reason string
		acls   int
	}{{12, "InForce", 12}, {13, "PriorityFull", 0}} {
		t.Run(fmt.Sprint(c.rules), func(t *testing.T) {
			s := newScene(t, nil)
			statuses, acls := s.written(s.put(s.policies(t, policy("younger", 2, c.rules)+"\n---\n"+policy("older", 1, 20))...))
			if text := statuses["younger"]; !strings.Contains(text, fmt.Sprintf("%q", c.reason)) ||
				strings.Contains(text, `"True"`) != (c.acls > 0) || acls[younger] != c.acls {
				t.Errorf("the younger has %d ACLs, and its status is %s; want %s", acls[younger], text, c.reason)
			}
			if text := statuses["older"]; !strings.Contains(text, `"InForce"`) || acls[older] != 20 {
				t.Errorf("the older has %d ACLs, and its status is %s", acls[older], text)
			}
			if told := s.reasons(); slices.Contains(told, "ClusterNetworkPolicy younger PriorityFull") != (c.acls == 0) {
				t.Errorf("problems %q", told)
			}
			gone := objects.Key{Kind: objects.ClusterPolicyKind, Name: "older"}
			delete(s.objects, gone)
			after, acls := s.written([]part.Event{gone})
			maps.Copy(statuses, after)
			if text := statuses["younger"]; !strings.Contains(text, `"InForce"`) || !strings.Contains(text, `"True"`) ||
				acls[younger] != c.rules {
				t.Errorf("once the older is gone the younger has %d ACLs, and its status is %s", acls[younger], text)
			}
			s.wantReasons()
		})
	}
}

// TestBadLogging is told to whoever has the annotation, a Namespace or a cluster-wide policy, until it is right.
func TestBadLogging(t *testing.T) {
	s := newScene(t, nil)
	annotated := func(text string) []any {
		n := s.namespace("prod")
		n.Logging = text
		p := s.policies(t, `{kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 7, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}`)[0].(*objects.PolicyObject)
		p.Logging = text
		return []any{n, p}
	}
	for _, text := range []string{`{"deny":"loud"}`, `deny`, `{"denied":"warning"}`} {
		s.do(annotated(text)...)
		s.wantReasons("Namespace prod BadAnnotation", "ClusterNetworkPolicy guard BadAnnotation")
		s.do(annotated(`{"deny":"warning"}`)...)
		s.wantReasons()
	}
}

// TestSCTPOnWindows: those whose policies speak of SCTP are told that Windows nodes don't, once there is one.
func TestSCTPOnWindows(t *testing.T) {
	s := newScene(t, nil)
	s.do(s.policies(t, `{kind: NetworkPolicy, metadata: {namespace: prod, name: calls}, spec: {podSelector: {}, ingress: [{ports: [{port: 3868, protocol: SCTP}, {port: 80}]}]}}
---
{kind: NetworkPolicy, metadata: {namespace: prod, name: web}, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}`)...)
	s.wantReasons()
	w1 := s.node("w1", "10.244.1.0/24")
	w1.OS = contract.Windows
	s.do(w1)
	s.wantReasons("Node w1 WindowsDatapath", "NetworkPolicy prod/calls NoSCTPOnWindows")
	s.remove(objects.NodeKind, "w1")
	s.do(w1)
	s.wantReasons("Node w1 WindowsDatapath", "NetworkPolicy prod/calls NoSCTPOnWindows")
}

// TestManyWrongParts of a policy: the last Event has the number of those that the Events before it do not name.
func TestManyWrongParts(t *testing.T) {
	const wrong = 50
	s := newScene(t, nil)
	s.written(s.put(s.policies(t, fmt.Sprintf(
		`{kind: NetworkPolicy, metadata: {name: web, namespace: default}, spec: {podSelector: {}, ingress: [{from: [%s]}]}}`,
		strings.Repeat("{ipBlock: {cidr: none}},", wrong)))...))
	if len(s.problems) != objects.MaxTold+1 {
		t.Fatalf("%d are told: %v", len(s.problems), s.problems)
	}
	want := fmt.Sprintf("the same holds for %d more of its parts", wrong-objects.MaxTold)
	if last := s.problems[objects.MaxTold].Message; last != want {
		t.Errorf("the last Event is %q, want %q", last, want)
	}
}
