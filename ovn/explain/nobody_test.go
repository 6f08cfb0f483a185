package explain

import (
	"slices"
	"testing"
)

// TestNobodyIsTold: selectors that select no pod are told where a policy is about an end of the question, or may be
// meant for it.
func TestNobodyIsTold(t *testing.T) {
	const policy = "\n---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: "
	const mistyped = policy + "rule}, spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: " +
		"{matchLabels: {app: web}}}, {podSelector: {matchLabels: {app: wbe}}}, {ipBlock: {cidr: 192.0.2.0/24}}]}]}}" +
		policy + "subject}, spec: {podSelector: {matchLabels: {app: dbb}}}}" +
		policy + "elsewhere, namespace: other}, spec: {podSelector: {matchLabels: {app: dbb}}}}"
	c, err := newCluster(read(t, running+mistyped), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	const (
		rule = "NetworkPolicy default/rule, spec.ingress[0]: [default: pods app=wbe] selects no pod; correct the labels, " +
			"or the namespace's"
		subject = "NetworkPolicy default/subject has no effect: its subject [default: pods app=dbb] selects no pod; " +
			"correct its labels"
	)
	for _, ask := range []struct {
		from, to string
		want     []string
	}{
		{"web", "db:80", []string{rule, subject}},
		{"192.0.2.12", "web:80", []string{subject}},
		{"192.0.2.12", "agent:80", nil},
	} {
		q, err := ParseQuestion(ask.from, ask.to, "default")
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Ask(q, "")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a.Nobody, ask.want) {
			t.Errorf("%s -> %s: got %q, want %q", ask.from, ask.to, a.Nobody, ask.want)
		}
	}
}
