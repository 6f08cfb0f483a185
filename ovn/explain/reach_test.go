package explain

import (
	"fmt"
	"strings"
	"testing"
)

// market has an app whose pods policies tell apart, one without ports, and a pod of the host's network.
const market = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: bank}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web, track: stable}}, spec: {containers: [{name: c, ports: [{containerPort: 80}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-2, namespace: shop, labels: {app: web, track: canary}}, spec: {containers: [{name: c, ports: [{containerPort: 80}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, spec: {containers: [{name: c, ports: [{containerPort: 5432}, {containerPort: 9187}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: safe, namespace: bank}, spec: {containers: [{name: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: exporter, namespace: bank}, spec: {hostNetwork: true, containers: [{name: c}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: db, namespace: shop}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {track: stable}}}], ports: [{port: 5432}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: safe, namespace: bank}, spec: {podSelector: {}}}
`

// text is a line for each pair that was asked about.
func (r *Reach) text() string {
	var b strings.Builder
	for i, from := range r.Apps {
		for j, to := range r.Apps {
			for _, way := range r.Ways[i][j] {
				fmt.Fprintf(&b, "%s/%s -> %s/%s %s %d: %d of %d\n", from.Namespace, from.Name, to.Namespace, to.Name, way.Protocol,
					way.Port, way.Allowed, way.Asked)
			}
		}
	}
	return b.String()
}

func TestWhoReachesWhom(t *testing.T) {
	c, err := New(read(t, strings.TrimSpace(market)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]string{
		"": `bank/safe -> shop/db tcp 5432: 0 of 1
bank/safe -> shop/db tcp 9187: 0 of 1
bank/safe -> shop/web tcp 80: 2 of 2
shop/db -> bank/safe icmp 0: 0 of 1
shop/db -> shop/web tcp 80: 2 of 2
shop/web -> bank/safe icmp 0: 0 of 2
shop/web -> shop/db tcp 5432: 1 of 2
shop/web -> shop/db tcp 9187: 0 of 2
shop/web -> shop/web tcp 80: 2 of 2
`,
		"bank": `bank/safe -> shop/db tcp 5432: 0 of 1
bank/safe -> shop/db tcp 9187: 0 of 1
bank/safe -> shop/web tcp 80: 2 of 2
shop/db -> bank/safe icmp 0: 0 of 1
shop/web -> bank/safe icmp 0: 0 of 2
`,
	} {
		reach, err := c.Reach(namespace)
		if err != nil {
			t.Fatal(err)
		}
		if got := reach.text(); got != want {
			t.Errorf("of namespace %q: got\n%s\nwant\n%s", namespace, got, want)
		}
		if web := reach.Apps[2]; web != (App{"shop", "web", 2, "web-1"}) {
			t.Errorf("the app is %+v", web)
		}
	}
}

// TestReachAgreesWithQuestions: of each pair of apps, the pods that stand for all are not the ones that are asked here.
func TestReachAgreesWithQuestions(t *testing.T) {
	const pods = 12
	text := market
	for i := range pods {
		track := []string{"stable", "canary"}[i%2]
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: many-%02d, namespace: shop, labels: {app: "+
			"many, track: %s}}, spec: {containers: [{name: c, ports: [{containerPort: 80}]}]}}\n", i, track)
	}
	c, err := New(read(t, strings.TrimSpace(text)), nil)
	if err != nil {
		t.Fatal(err)
	}
	reach, err := c.Reach("")
	if err != nil {
		t.Fatal(err)
	}
	answers := map[bool]int{}
	for i := range pods {
		q, err := ParseQuestion(fmt.Sprintf("shop/many-%02d", i), "shop/db:5432", "")
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Ask(q, "ipv4")
		if err != nil {
			t.Fatal(err)
		}
		answers[answer.Allowed()]++
	}
	if answers[true] != pods/2 || answers[false] != pods/2 || !strings.Contains(reach.text(),
		"shop/many -> shop/db tcp 5432: 1 of 2\n") {
		t.Errorf("the pods have %v, and the app\n%s", answers, reach.text())
	}
}

func TestReachOfTooManyApps(t *testing.T) {
	var text strings.Builder
	text.WriteString("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n")
	for i := range 201 {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: Pod, metadata: {name: p%d, namespace: shop}, spec: {containers: "+
			"[{name: c}]}}\n", i)
	}
	c, err := New(read(t, strings.TrimSpace(text.String())), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reach(""); err == nil || !strings.Contains(err.Error(), "201 apps") ||
		!strings.Contains(err.Error(), "one namespace") {
		t.Errorf("the error is %v", err)
	}
	if _, err := c.Reach("shop"); err == nil || !strings.Contains(err.Error(), `apps of namespace "shop"`) ||
		!strings.Contains(err.Error(), "policy explain") {
		t.Errorf("of the namespace: %v", err)
	}
	if reach, err := c.Reach("bank"); err != nil || reach.text() != "" {
		t.Errorf("of another namespace: %v, %v", reach, err)
	}
}
