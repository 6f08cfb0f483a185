package ovn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// TestForeignSelectors: whatever label keys somebody's policy asks for, others' policies hold for their pods.
func TestForeignSelectors(t *testing.T) {
	const pods = `
{kind: Namespace, metadata: {name: prod, labels: {stage: prod}}}
---
{kind: Namespace, metadata: {name: evil, labels: {stage: evil}}}
---
{kind: Pod, metadata: {namespace: prod, name: db, labels: {app: db}}}
---
{kind: Pod, metadata: {namespace: evil, name: e, labels: {app: e}}}
`
	for _, key := range []string{"all", "namespaces", "pods", "in", "notin", "exists"} {
		for name, policies := range map[string]string{
			"all namespaces": `
{kind: ClusterNetworkPolicy, metadata: {name: guard}, spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}
---
{kind: NetworkPolicy, metadata: {namespace: evil, name: x}, spec: {podSelector: {matchLabels: {no: pod}}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: KEY, operator: Exists}]}}]}]}}`,
			"one namespace": `
{kind: NetworkPolicy, metadata: {namespace: prod, name: deny}, spec: {podSelector: {}}}
---
{kind: NetworkPolicy, metadata: {namespace: prod, name: a}, spec: {podSelector: {matchExpressions: [{key: KEY, operator: Exists}]}}}`,
		} {
			t.Run(key+" in "+name, func(t *testing.T) {
				offline, err := Translate(ovntest.Config(), manifests(t, pods+"---"+strings.ReplaceAll(policies, "KEY", key)))
				if err != nil {
					t.Fatal(err)
				}
				if verdicts(t, offline)("evil/e > prod/db tcp/22") {
					t.Error("the connection is allowed")
				}
			})
		}
	}
}

// TestCostlyPolicies: what one policy, or one pod, may cost all others is bounded, and what is beyond is told.
func TestCostlyPolicies(t *testing.T) {
	s := newScene(t, nil)
	peers, abroad, rules, within, named := "", "", "", "", ""
	for i := range 1500 {
		peer := fmt.Sprintf("podSelector: {matchExpressions: [{key: k%d, operator: DoesNotExist}]}}, ", i)
		peers += "{" + peer
		abroad += "{namespaceSelector: {}, " + peer
		rules += "{from: [{podSelector: {}}]}, "
		if i < 900 {
			within += "{" + peer
			named += fmt.Sprintf("{port: p%d}, ", i)
		}
	}
	n := s.node("n1", "10.244.0.0/24")
	n.Facts = ovntest.Facts(1, false)
	p := s.pod("prod", "many", "n1")
	for i := range 1500 {
		p.Ports = append(p.Ports, objects.ContainerPort{Name: "http", Protocol: policy.TCP, Number: uint16(1000 + i)})
	}
	s.do(s.namespace("prod"), n, p)
	told := s.reasons()
	statuses, acls := s.written(s.put(s.policies(t, "{kind: NetworkPolicy, metadata: {namespace: prod, name: peers}, "+
		"spec: {podSelector: {}, ingress: [{from: ["+peers+"]}]}}\n---\n"+
		"{kind: NetworkPolicy, metadata: {namespace: prod, name: rules}, spec: {podSelector: {}, ingress: ["+rules+
		"]}}\n---\n"+
		"{kind: NetworkPolicy, metadata: {namespace: prod, name: abroad}, spec: {podSelector: {}, policyTypes: [Egress], "+
		"egress: [{to: ["+abroad+"]}]}}\n---\n"+
		"{kind: NetworkPolicy, metadata: {namespace: prod, name: pairs}, spec: {podSelector: {}, policyTypes: [Egress], "+
		"egress: [{to: ["+within+"], ports: ["+named+"]}]}}\n---\n"+
		"{kind: NetworkPolicy, metadata: {namespace: prod, name: named}, spec: {podSelector: {}, ingress: [{ports: [{port: "+
		"http}]}]}}")...))
	for name, field := range map[string]string{
		"peers": "spec.ingress[0].from[1000]", "rules": "spec.ingress[1000]", "abroad": "spec.egress[0].to[100]",
		"pairs": "pairs of a named port",
	} {
		if text := statuses[name]; !strings.Contains(text, "PartlyInForce") || !strings.Contains(text, field) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if selections, pairs := s.c.selections.Size(); selections > 1110 || pairs > 1010 {
		t.Errorf("%d selections, and %d pairs of a named port and those that have it", selections, pairs)
	}
	if n := acls["NetworkPolicy/prod/rules"]; n != 1001 {
		t.Errorf("%d rows for the rules", n)
	}
	if n := acls["NetworkPolicy/prod/named"]; n != objects.MaxNumbers+1 {
		t.Errorf("%d rows for the named port", n)
	}
	if told = append(told, s.reasons()...); !slices.Contains(told, "Pod prod/many TooManyPorts") || len(told) > 100 {
		t.Errorf("told %d: %q", len(told), told[:min(len(told), 10)])
	}
}

// TestNamedPortsHaveABound: a NetworkPolicy's named ports times the numbers behind them times the peers beside them,
// which a tenant chooses all, are not more text than everybody's ovn-controller can bear.
func TestNamedPortsHaveABound(t *testing.T) {
	except, selectors, named := "", "", ""
	for i := range 300 {
		except += fmt.Sprintf("10.%d.%d.7/32, ", i%200, i%250)
		selectors += fmt.Sprintf("{podSelector: {matchLabels: {k: v%d}}}, ", i)
		named += fmt.Sprintf("{port: p%d}, ", i)
	}
	from := map[string]string{"blocks": "{ipBlock: {cidr: 0.0.0.0/0, except: [" + except + "]}}", "selectors": selectors}
	for _, c := range []struct {
		name, text string
		partly     bool
	}{
		{"ingress from blocks", "{policyTypes: [Ingress], podSelector: {}, ingress: [{from: [" + from["blocks"] +
			"], ports: [" + named + "]}]}", true},
		{"ingress from pods", "{policyTypes: [Ingress], podSelector: {}, ingress: [{from: [" + from["selectors"] +
			"], ports: [" + named + "]}]}", true},
		{"egress to blocks", "{policyTypes: [Egress], podSelector: {}, egress: [{to: [" + from["blocks"] + "], ports: [" +
			named + "]}]}", true},
		{"many rules", "{policyTypes: [Ingress], podSelector: {}, ingress: [" + strings.Repeat("{ports: ["+named+"]}, ", 3) +
			"]}", true},
		{"few", "{policyTypes: [Ingress], podSelector: {}, ingress: [{from: [{podSelector: {}}, {ipBlock: {cidr: " +
			"0.0.0.0/0}}], ports: [{port: p1}, {port: p2}]}]}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, nil)
			n := s.node("n1", "10.244.0.0/16")
			n.Facts = ovntest.Facts(1, false)
			s.do(s.namespace("prod"), n)
			for pod := range 30 {
				p := s.pod("prod", fmt.Sprint("many", pod), "n1")
				for i := range 300 {
					p.Ports = append(p.Ports, objects.ContainerPort{Name: fmt.Sprint("p", i), Protocol: policy.TCP,
						Number: uint16(1000 + 1000*pod + i)})
				}
				s.do(p)
			}
			keys := s.put(s.policies(t, "{kind: NetworkPolicy, metadata: {namespace: prod, name: it}, spec: "+c.text+"}")...)
			s.c.update(keys, s.Get)
			changes := s.c.takeChanges()
			s.c.policies.Written(ownersOf(changes), nil)
			length := 0
			for _, change := range changes {
				for _, row := range change.Rows {
					if acl, ok := row.Model.(*nb.ACL); ok {
						length += len(acl.Match)
					}
				}
			}
			status := ""
			for _, a := range s.c.TakeNotes() {
				status += ovntest.Written(a)
			}
			if length > 4<<20 {
				t.Errorf("its ACLs match by %d MiB of text", length>>20)
			}
			if partly := strings.Contains(status, "PartlyInForce") && strings.Contains(status,
				"beyond the 20000 terms"); partly != c.partly {
				t.Errorf("partly in force: %v; %s", partly, status)
			}
		})
	}
}

// TestANoteIsPutBack, and its policy's rows are not made anew for it: whoever owns the policy may write its status as
// often as he likes. Its time stays that of the first writing.
func TestANoteIsPutBack(t *testing.T) {
	s := newScene(t, nil)
	n := s.node("n1", "10.244.0.0/24")
	n.Facts = ovntest.Facts(1, false)
	s.do(s.namespace("prod"), n)
	const text = "{kind: NetworkPolicy, metadata: {namespace: prod, name: it}, spec: {podSelector: {}, policyTypes: " +
		"[Ingress]}}"
	policyOf := func(noted string) *objects.PolicyObject {
		o := s.policies(t, text)[0].(*objects.PolicyObject)
		o.Noted, o.Generation = noted, 7
		return o
	}
	// say has the policy's note be a text, and gives what Weft says a second later, and how many owners have their rows
	// made.
	now := time.Unix(1700000000, 0)
	say := func(noted string) (string, int) {
		s.c.At(now)
		now = now.Add(time.Second)
		s.c.update(s.put(policyOf(noted)), s.Get)
		changes := s.c.takeChanges()
		s.c.policies.Written(ownersOf(changes), nil)
		notes, made := s.c.TakeNotes(), len(changes)
		s.absorb(s.c)
		if len(notes) > 1 {
			t.Fatalf("notes: %v", notes)
		}
		for _, note := range notes {
			return note.Body.(part.Annotation).Value.At(now), made
		}
		return "", made
	}
	ours, _ := say("")
	if !strings.Contains(ours, `"inForce":true`) {
		t.Fatal(ours)
	}
	if again, made := say(ours); again != "" || made != 0 {
		t.Errorf("its own note comes back: %q, and %d owners' rows are made anew", again, made)
	}
	for _, noted := range []string{`{"inForce":false}`, "", "{", ours + " "} {
		if again, made := say(noted); again != ours || made != 0 {
			t.Errorf("after %q the note is %q, and %d owners' rows are made anew", noted, again, made)
		}
		say(ours)
	}
}

// TestStatusOfRefusedSets: no policy says that it is in force while the Northbound refuses one of its sets, or a
// pod in one. It does once that is over.
func TestStatusOfRefusedSets(t *testing.T) {
	const text = `{kind: NetworkPolicy, metadata: {namespace: prod, name: deny}, spec: {podSelector: {matchLabels: {app: db}}}}
---
{kind: NetworkPolicy, metadata: {namespace: prod, name: other}, spec: {podSelector: {matchLabels: {app: web}}}}`
	for _, refused := range []ovsdb.Owner{"Pods/prod: pods app=db", "Pod/prod/db"} {
		t.Run(string(refused), func(t *testing.T) {
			s := newScene(t, nil)
			n := s.node("n1", "10.244.0.0/24")
			n.Facts = ovntest.Facts(1, false)
			p := s.pod("prod", "db", "n1")
			p.Labels = objects.NewLabelSet(map[string]string{"app": "db"})
			s.do(s.namespace("prod"), n, p)
			noted := func(err *ovsdb.RefusedError) (names []string) {
				s.c.policies.Written(ownersOf(s.c.takeChanges()), err)
				for _, a := range s.c.TakeNotes() {
					names = append(names, a.Name)
				}
				return names
			}
			s.c.update(s.put(s.policies(t, text)...), s.Get)
			if names := noted(&ovsdb.RefusedError{Owners: map[ovsdb.Owner]error{refused: errors.New("no")}}); !slices.Equal(
				names, []string{"other"}) {
				t.Errorf("in force are %q", names)
			}
			s.c.update(s.c.TakeExpected(), s.Get)
			if names := noted(nil); !slices.Equal(names, []string{"deny"}) {
				t.Errorf("later in force are %q", names)
			}
		})
	}
}

// TestForgedStatuses: of a status that is there already its time counts if it is this policy's and can be true.
func TestForgedStatuses(t *testing.T) {
	for since, kept := range map[string]bool{"2026-01-02T00:00:00Z": true, "2026-01-04T00:00:00Z": false,
		"2025-12-31T00:00:00Z": false} {
		for _, uid := range []string{"own", "another's"} {
			s := newScene(t, nil)
			s.c.At(time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC))
			o := s.policies(t, `{kind: NetworkPolicy, metadata: {namespace: prod, name: p, creationTimestamp: "2026-01-01T00:00:00Z"}, spec: {podSelector: {}}}`)[0].(*objects.PolicyObject)
			o.UID = "own"
			o.Noted = fmt.Sprintf(`{"uid":%q,"generation":%d,"inForce":true,"since":%q,"reason":"InForce","message":"all is well"}`, uid, o.Generation, since)
			statuses, _ := s.written(s.put(o))
			if text := statuses["p"]; strings.Contains(text, since) != (kept && uid == "own") ||
				strings.Contains(text, "all is well") || !strings.Contains(text, `"uid":"own"`) {
				t.Errorf("since %s of %s: %s", since, uid, text)
			}
		}
	}
}
