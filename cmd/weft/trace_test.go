package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// names is a resolver that knows one name.
type names struct{}

func (names) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	if host != "example.com" {
		return nil, errors.New("no such host")
	}
	if network == "ip6" {
		return []netip.Addr{netip.MustParseAddr("2001:db8:9::1")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("::ffff:198.51.100.1")}, nil
}

// TestTraceQuestions reads what a command line asks.
func TestTraceQuestions(t *testing.T) {
	pod := func(namespace, name string) api.TraceEnd {
		return api.TraceEnd{Kind: api.PodEnd, Namespace: namespace, Name: name}
	}
	address := func(text string) api.TraceEnd { return api.TraceEnd{Kind: api.AddressEnd, Name: text} }
	service := func(namespace, name string) api.TraceEnd {
		return api.TraceEnd{Kind: api.ServiceEnd, Namespace: namespace, Name: name}
	}
	host := func(name string) api.TraceEnd { return api.TraceEnd{Kind: api.NodeEnd, Name: name} }
	web := pod("shop", "web")
	for line, want := range map[string]api.TraceSpec{
		"web db:5432":                     {Source: web, Destination: pod("shop", "db"), Port: "5432"},
		"prod/web pod/bank/safe":          {Source: pod("prod", "web"), Destination: pod("bank", "safe")},
		"node/l1 web:80 --family 6":       {Source: host("l1"), Destination: web, Port: "80", Family: "IPv6"},
		"web svc/db:sql":                  {Source: web, Destination: service("shop", "db"), Port: "sql"},
		"web service/bank/teller --ovn":   {Source: web, Destination: service("bank", "teller"), OVN: true},
		"web 192.0.2.1:53 --protocol udp": {Source: web, Destination: address("192.0.2.1"), Port: "53", Protocol: "udp"},
		"web [2001:db8::1]:443":           {Source: web, Destination: address("2001:db8::1"), Port: "443"},
		"web 2001:db8::1":                 {Source: web, Destination: address("2001:db8::1")},
		"web example.com:443":             {Source: web, Destination: address("198.51.100.1"), Port: "443"},
		"web example.com --family 6":      {Source: web, Destination: address("2001:db8:9::1"), Family: "IPv6"},
		"web svc/db:sql --live":           {Source: web, Destination: service("shop", "db"), Port: "sql", Live: true},
		"198.51.100.9 203.0.113.80:443 --node l1": {Source: address("198.51.100.9"), Destination: address("203.0.113.80"),
			Port: "443", Node: "l1"},
		"prod/web.0 node/l2:22": {Source: pod("prod", "web.0"), Destination: host("l2"), Port: "22"},
	} {
		cmd := traceCommand()
		if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		s, err := loadSettings(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := traceSpec(t.Context(), s, cmd.Flags().Args(), "shop", names{}); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		"web nowhere.example:80":  "resolve nowhere.example on this machine: no such host",
		"a/b/c db:80":             "is neither a pod",
		"web svc/a/b/c":           "is neither a pod",
		"web /db":                 "is neither a pod",
		"web db --family IPv6":    `family: "IPv6" is neither "4" nor "6"`,
		"web svc/:80":             "is neither a pod",
		"node/a/b db":             "is neither a pod",
		"web [example.test]:http": "no such host",
	} {
		cmd := traceCommand()
		if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		s, err := loadSettings(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := traceSpec(t.Context(), s, cmd.Flags().Args(), "shop", names{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", line, got, err, want)
		}
	}
}

// traced is an answer; somebody writes to terminals.
func traced() *api.Trace {
	t := &api.Trace{Spec: api.TraceSpec{Source: api.TraceEnd{Kind: api.PodEnd, Namespace: "shop", Name: "web"},
		Destination: api.TraceEnd{Kind: api.ServiceEnd, Namespace: "shop", Name: "db"}, Port: "sql"}}
	t.Kind, t.APIVersion, t.Namespace = api.TraceKind, api.GroupVersion, "shop"
	t.Status = api.TraceStatus{Result: api.Refused, Reason: "ingress: Deny by \x1b[2Ja policy", Remedy: "change it",
		Endpoints: []string{"10.244.1.5:3307", "10.244.1.6:3307"},
		Request: []api.TraceStep{{Kind: api.StepStart, Node: "l1", Object: "Pod shop/web", Text: "pod shop/web sends it"},
			{Kind: api.StepTunnel, Node: "l1", Text: "it goes from node l1 to node l2 by GENEVE"},
			{Kind: api.StepEnd, Node: "l2", Text: "it is dropped"}},
		OVN: []api.TraceOutput{{Packet: `inport == "shop_web"`, Text: "ingress(dp=\"l1\")\n----\n 0. a\x1b]0;b\n"}}}
	return t
}

// traceAs runs the command against a server that answers so.
func traceAs(t *testing.T, answer http.HandlerFunc, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := rootCommand()
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"trace", "--kubeconfig", serving(t, answer), "--context", "night", "-n", "shop"},
		args...))
	err := root.ExecuteContext(t.Context())
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if err != nil {
		stderr.WriteString(err.Error())
	}
	return code, stdout.String(), stderr.String()
}

// TestTraceIsTold asks as a user does, and has the answer in each form.
func TestTraceIsTold(t *testing.T) {
	var asked api.Trace
	answer := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/apis/observe.weft.net/v1alpha1/namespaces/shop/traces" ||
			json.Unmarshal(body, &asked) != nil {
			t.Errorf("%s %s: %s", r.Method, r.URL.Path, body)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(traced())
	}
	for form, want := range map[string][]string{
		"text": {"pod shop/web -> service shop/db port sql: refused\n", "To do: change it",
			"\nThe request\n  l1  pod shop/web", "\novn-trace 'inport == \"shop_web\"'\ningress(dp"},
		"wide": {"tunnel", "Pod shop/web", "Endpoints: 10.244.1.5:3307, 10.244.1.6:3307"},
		"json": {`"kind": "Trace"`, `"result": "refused"`},
		"yaml": {"---\napiVersion: observe.weft.net/v1alpha1\n", "result: refused"},
	} {
		code, out, errs := traceAs(t, answer, "web", "svc/db:sql", "-o", form)
		if code != 1 || errs != "exit code 1" {
			t.Errorf("%s: exit code %d, %q", form, code, errs)
		}
		for _, word := range want {
			if !strings.Contains(out, word) {
				t.Errorf("%s: got %s\nwant %q", form, out, word)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("%s: a terminal would obey %q", form, out)
		}
	}
	if asked.Spec.Destination.Kind != api.ServiceEnd || asked.Spec.Port != "sql" {
		t.Errorf("it asks %+v", asked.Spec)
	}
	arrives := func(w http.ResponseWriter, _ *http.Request) {
		good := traced()
		good.Status.Result = api.Arrives
		_ = json.NewEncoder(w).Encode(good)
	}
	if code, _, errs := traceAs(t, arrives, "web", "db:80"); code != 0 || errs != "" {
		t.Errorf("a packet that arrives: exit code %d, %q", code, errs)
	}
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}`)
	}
	if code, _, errs := traceAs(t, refuse, "web", "db:80"); code != 3 || !strings.Contains(errs, api.TraceRole) {
		t.Errorf("a user without the right: exit code %d, %q", code, errs)
	}
	if code, _, errs := traceAs(t, http.NotFound, "web", "db:80"); code != 3 || !strings.Contains(errs, "install weft") {
		t.Errorf("a cluster without a door: exit code %d, %q", code, errs)
	}
}

// TestProbesAreTold: what a probe has met is told beside the trace, and the exit code says whether both agree.
func TestProbesAreTold(t *testing.T) {
	probe := func(result, comparison string) *api.TraceProbe {
		return &api.TraceProbe{Protocol: "tcp", Source: "10.244.0.5", Destination: "10.96.0.10:3306", Result: result,
			After: metav1.Duration{Duration: 1234567 * time.Nanosecond}, Comparison: comparison,
			Reason: "nobody \x1b[2Jlistens", Remedy: "start it"}
	}
	for name, c := range map[string]struct {
		result string
		probe  *api.TraceProbe
		code   int
		want   []string
	}{
		"both arrive": {api.Arrives, probe(api.ProbeAnswered, api.ProbeAgrees), 0,
			[]string{"\nThe probe: answered, as traced\n  by TCP from 10.244.0.5 to 10.96.0.10:3306, after 1.2ms\n"}},
		"both are refused": {api.Refused, probe(api.ProbeRefused, api.ProbeAgrees), 1, []string{"refused, as traced"}},
		"they differ": {api.Arrives, probe(api.ProbeRefused, api.ProbeDiffers), 2,
			[]string{"The probe: refused, differs from the trace\n", "  nobody  [2Jlistens\n  To do: start it\n"}},
		"nothing is told": {api.Arrives, probe(api.ProbeUnanswered, api.ProbeUnknown), 2,
			[]string{"The probe: unanswered\n"}},
		"it is not sent": {api.Arrives, probe("", api.ProbeUnknown), 2, []string{"not sent\n", "10.96.0.10:3306\n"}},
		"no word of it":  {api.Arrives, nil, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := traceAs(t, func(w http.ResponseWriter, _ *http.Request) {
				answer := traced()
				answer.Status.Result, answer.Status.Probe = c.result, c.probe
				_ = json.NewEncoder(w).Encode(answer)
			}, "web", "svc/db:sql", "--live")
			if code != c.code || strings.Contains(out, "\x1b") {
				t.Errorf("exit code %d, want %d: %q, %q", code, c.code, out, errs)
			}
			for _, word := range c.want {
				if !strings.Contains(out, word) {
					t.Errorf("got %s\nwant %q", out, word)
				}
			}
		})
	}
}
