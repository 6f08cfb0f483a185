package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// fakeAPI answers by path.
type fakeAPI map[string]apiAnswer

func (f fakeAPI) Get(_ context.Context, path string) (apiAnswer, error) {
	answer, ok := f[path]
	if !ok {
		return apiAnswer{Server: "https://192.0.2.1:6443"}, errBroken
	}
	answer.Server = "https://192.0.2.1:6443"
	return answer, nil
}

type brokenKubeconfig struct{}

func (brokenKubeconfig) Get(context.Context, string) (apiAnswer, error) {
	return apiAnswer{}, kubeconfigError{errBroken}
}

func TestAPIServer(t *testing.T) {
	version := []byte(`{"gitVersion": "v1.35.4"}`)
	for _, c := range []struct {
		name   string
		api    apiReader
		states string
		words  string
	}{
		{"answers", fakeAPI{"/version": {Status: 200, Body: version}}, "ok", "v1.35.4"},
		{"is something else", fakeAPI{"/version": {Status: 200, Body: []byte("hello")}}, "failed",
			"not as an API server does"},
		{"refuses us", fakeAPI{"/version": {Status: 401}}, "failed", "401 Unauthorized|credentials"},
		{"is away", fakeAPI{}, "failed", "https://192.0.2.1:6443 does not answer|broken"},
		{"is not known", brokenKubeconfig{}, "failed", "kubeconfig: broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkAPIServer(t.Context(), c.api), c.states, strings.Split(c.words, "|")...)
		})
	}
}

func TestClock(t *testing.T) {
	date := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := func(offset time.Duration) apiAnswer {
		return apiAnswer{Status: 200, Date: date, Asked: date.Add(offset), Answered: date.Add(offset + 100*time.Millisecond)}
	}
	for _, c := range []struct {
		name   string
		answer apiAnswer
		states string
		words  string
	}{
		{"right", at(500 * time.Millisecond), "ok", "within 1s"},
		{"at the end of the second", at(1050 * time.Millisecond), "ok", "agree"},
		{"a little ahead", at(5 * time.Second), "ok", "within 5s"},
		{"ahead", at(31 * time.Second), "warning", "30s ahead of"},
		{"behind", at(-20 * time.Second), "warning", "20s behind"},
		{"far behind", at(-time.Hour), "failed", "1h0m0s behind|time service"},
		{"years ahead", at(9999 * time.Hour), "failed", "certificates"},
		{"no date", apiAnswer{Status: 200, Asked: date, Answered: date}, "unknown", "no Date"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkClock(t.Context(), fakeAPI{"/version": c.answer}), c.states, strings.Split(c.words, "|")...)
		})
	}
	expect(t, checkClock(t.Context(), fakeAPI{}), "unknown")
}

func TestNodeObject(t *testing.T) {
	const path = "/api/v1/nodes/w1"
	for _, c := range []struct {
		name   string
		answer apiAnswer
		states string
		words  string
	}{
		{"ready", apiAnswer{Status: 200,
			Body: []byte(`{"metadata":{"annotations":{"weft.net/node-network":"{\"id\":3,\"podCIDRs\":[\"10.244.1.0/24\"]}"}}}`)}, "ok", "10.244.1.0/24"},
		{"no subnet", apiAnswer{Status: 200, Body: []byte(`{"metadata":{}}`)}, "warning", "weft controller"},
		{"bad annotation", apiAnswer{Status: 200, Body: []byte(`{"metadata":{"annotations":{"weft.net/node-network":"x"}}}`)},
			"failed", "weft.net/node-network"},
		{"not joined", apiAnswer{Status: 404}, "failed", "no Node w1|node-name"},
		{"forbidden", apiAnswer{Status: 403}, "unknown", "credentials"},
		{"nonsense", apiAnswer{Status: 200, Body: []byte(`x`)}, "unknown", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkNode(t.Context(), fakeAPI{path: c.answer}, Config{NodeName: "w1"}), c.states,
				strings.Split(c.words, "|")...)
		})
	}
}

func TestRemediesDiffer(t *testing.T) {
	for _, c := range []struct {
		err  error
		word string
	}{
		{context.DeadlineExceeded, "firewalls on both sides"},
		{errors.New("connect: connection refused"), "nothing listens"},
		{errBroken, "route"},
	} {
		if got := connectRemedy(c.err); !strings.Contains(got, c.word) {
			t.Errorf("%v: %q has no %q", c.err, got, c.word)
		}
	}
}
