package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/ovn/status"
)

// threeAM is when the status of the tests was read.
var threeAM = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)

func earlier(d time.Duration) metav1.Time { return metav1.NewTime(threeAM.Add(-d)) }

// network is the status of a cluster of both systems.
func network() *api.NetworkStatus {
	inUse := api.Condition{Current: true, Ready: true, Reason: "InUse", Changed: earlier(time.Hour)}
	node := func(name, system string, free int) api.NodeStatus {
		return api.NodeStatus{Name: name, Created: earlier(time.Hour), Ready: true, System: system, Agent: true,
			Version: "1.2.0", Chassis: name, Registered: true, Configuration: 7, Ports: 252 - free,
			Subnets: []api.SubnetStatus{{CIDR: "10.244.1.0/24", Used: 252 - free, Free: free}}}
	}
	s := &api.NetworkStatus{NotJudged: "Not looked at: Services without endpoints, and policies or peers that select no " +
		"pod. See `weft trace` and `weft policy explain`.",
		TypeMeta:   metav1.TypeMeta{Kind: api.NetworkStatusKind, APIVersion: api.GroupVersion},
		ObjectMeta: metav1.ObjectMeta{Name: api.NetworkStatusName},
		Time:       metav1.NewMicroTime(threeAM), Door: "c1",
		Leader: api.Lease{Name: "kube-system/weft-controller", Holder: "c1",
			Renewed: metav1.NewMicroTime(threeAM.Add(-2 * time.Second)), Seconds: 9},
		Databases: []api.Database{
			{Name: "OVN_Northbound", Answers: true, Model: "clustered", Leader: true, Connected: true},
			{Name: "OVN_Southbound", Answers: true, Model: "clustered", Connected: true}},
		Configuration: api.Configuration{OVN: "25.03.1", Northbound: 7, Southbound: 7, Chassis: 7,
			Translated: metav1.NewMicroTime(threeAM.Add(-time.Hour))},
		Nodes: []api.NodeStatus{node("l1", "linux", 242), node("w1", "windows", 12)},
		Pods:  api.PodsStatus{Ports: 250},
		Pools: []api.PoolStatus{{Name: "web", Used: 1, Free: 9, Condition: inUse}},
		EgressIPs: []api.EgressStatus{{Name: "shop", Addresses: []string{"203.0.113.9", "2001:db8::9"}, Node: "l1", Pods: 4,
			Condition: inUse}},
		LoadBalancers: []api.LoadBalancerStatus{{Namespace: "shop", Name: "web", Pool: true, Created: earlier(time.Hour),
			Addresses: []string{"203.0.113.70"}}, {Namespace: "shop", Name: "new", Created: earlier(time.Hour)}},
		Policies: 12,
		Certificates: []api.Certificate{{Of: "tunnel-certificate", Subject: "observe.weft.net",
			Expires: earlier(-300 * day)}},
	}
	s.Nodes[1].Hosted = true
	s.Nodes[1].Host = &api.Lease{Name: "kube-system/weft-chassis.host-c2", Holder: "c2",
		Renewed: metav1.NewMicroTime(threeAM.Add(-time.Second)), Seconds: 6}
	return judged(s)
}

const day = 24 * time.Hour

// broken is the same at a bad hour; somebody writes to terminals.
func broken() *api.NetworkStatus {
	s := network()
	s.Leader.Renewed = metav1.NewMicroTime(threeAM.Add(-5 * time.Minute))
	s.Databases[1] = api.Database{Name: "OVN_Southbound", Reason: "unix:/run/weft-observe/sb.sock: no such file"}
	s.Unread = []api.Unread{{Source: "EgressIPs", Reason: "forbidden"}}
	s.Nodes[0].Ready, s.Nodes[0].NotReady = false, "container runtime network not ready"
	s.Pods.Waiting, s.Pods.Truncated = 2000, true
	s.Pods.Lacking = []api.LackCount{{Lacks: "address", Pods: 2000}}
	s.Pods.Longest = []api.WaitingPod{{Namespace: "shop", Name: "web-7d4", Node: "l1", Since: earlier(5 * time.Minute),
		Lacks: "address"}}
	s.Certificates[0].Expires = earlier(time.Hour)
	s.Events = []api.EventGroup{
		{Object: "Node w1", Reason: "Bell\a", Component: "weft-node", Count: 1, Last: earlier(time.Second), Message: "x"},
		{Object: "Node w1", Reason: "ChassisUnreachable", Component: "weft-chassis", Count: 2,
			Last: earlier(30 * time.Second), Message: "red \x1b[31m and \n\u202ebackwards"},
		{Object: "Service shop/old", Reason: "AddressTaken", Component: "weft-controller", Count: 1,
			Last: earlier(time.Minute), Message: "spec.externalIPs[0]: it is a node's", Gone: true},
	}
	s.EventsLeftOut = 200
	return judged(s)
}

// judged fills in what a door finds.
func judged(s *api.NetworkStatus) *api.NetworkStatus {
	s.Findings = status.Judge(s)
	s.Result = api.OK
	if len(s.Findings) > 0 {
		s.Result = s.Findings[0].Severity
	}
	return s
}

// serving is an API server with a status, and a kubeconfig for it.
func serving(t *testing.T, answer http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(nodetest.Folder(t), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "%s"}}],
contexts: [{name: night, context: {cluster: c}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func answering200(s *api.NetworkStatus) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/observe.weft.net/v1alpha1/networkstatuses" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.NetworkStatusList{Items: []api.NetworkStatus{*s}})
	}
}

func runStatus(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return runCommand(t, append([]string{"status"}, args...)...)
}

// runCommand gives the exit code and what was printed.
func runCommand(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var printed, failed bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&printed)
	root.SetErr(&failed)
	cmd, err := root.ExecuteContextC(t.Context())
	var exit *exitError
	if err != nil {
		if !errors.As(err, &exit) {
			t.Fatalf("%v has no exit code", err)
		}
		if code = exit.code; exit.err != nil {
			failed.WriteString(exit.err.Error())
		}
	}
	checkExit(t, cmd, code)
	return code, printed.String(), failed.String()
}

// TestStatusIsTold in each form, with the exit code of its result.
func TestStatusIsTold(t *testing.T) {
	slow := network()
	slow.Strays = []string{"old"}
	slow.Configuration = api.Configuration{}
	slow.Nodes[0].Configuration, slow.Nodes[1].Configuration = 0, 0
	for _, c := range []struct {
		name   string
		status *api.NetworkStatus
		code   int
		args   []string
	}{
		{"status-well", network(), 0, nil},
		{"status-well-wide", network(), 0, []string{"-o", "wide"}},
		{"status-well-json", network(), 0, []string{"-o", "json"}},
		{"status-well-yaml", network(), 0, []string{"-o", "yaml"}},
		{"status-warning", judged(slow), 1, nil},
		{"status-broken", broken(), 2, nil},
		{"status-broken-wide", broken(), 2, []string{"--output=wide"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kubeconfig := serving(t, answering200(c.status))
			code, out, errs := runStatus(t, append([]string{"--kubeconfig", kubeconfig, "--context", "night"}, c.args...)...)
			if code != c.code || errs != "" {
				t.Errorf("exit code %d, want %d: %s", code, c.code, errs)
			}
			if i := strings.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' || r == '\u202e' }); i >= 0 &&
				!strings.HasSuffix(c.name, "json") && !strings.HasSuffix(c.name, "yaml") {
				t.Errorf("a terminal would obey %q", out[i:])
			}
			golden(t, c.name, out)
		})
	}
}

// refuse is an API server that answers nothing else.
func refuse(code int, reason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": %q}`,
			reason, code, message)
	}
}

// TestStatusIsNotTold: the error says what to do.
func TestStatusIsNotTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		args   []string
		want   []string
	}{
		{"to a user without the right", refuse(http.StatusForbidden, "Forbidden", `User "mallory" cannot list it`), nil,
			[]string{`User "mallory" cannot list it`, "--clusterrole=weft-observe-status --user=USER"}},
		{"by a cluster without a door", http.NotFound, nil, []string{"install weft observe, of this version"}},
		{"by a door that is away", refuse(http.StatusServiceUnavailable, "ServiceUnavailable", "away"), nil,
			[]string{"kubectl get apiservice v1alpha1.observe.weft.net"}},
		{"by nonsense", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{") }, nil,
			[]string{"read what the API server answers"}},
		{"by an empty list", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }, nil,
			[]string{"with 0 networkstatuses"}},
		{"in a form that is none", http.NotFound, []string{"-o", "xml"}, []string{`output: "xml" is none of`}},
		{"too often", http.NotFound, []string{"-w", "--interval", "1ms"}, []string{"interval: 1ms is less than 1s"}},
		{"of a context that is none", http.NotFound, []string{"--context", "day"}, []string{`context "day" does not exist`}},
	} {
		code, out, errs := runStatus(t, append([]string{"--kubeconfig", serving(t, c.answer), "--context", "night"},
			c.args...)...)
		if code != 3 || out != "" {
			t.Errorf("%s: exit code %d, printed %q", c.name, code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: got %q, want %q", c.name, errs, want)
			}
		}
	}
}

// TestColours are for terminals alone, and what is written is the same without them.
func TestColours(t *testing.T) {
	var plain, coloured bytes.Buffer
	for out, colour := range map[*bytes.Buffer]bool{&plain: false, &coloured: true} {
		if err := writeStatus(screen{Writer: out, colour: colour}, broken(), true); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(coloured.String(), "\x1b[31;1mfailed") || strings.Contains(plain.String(), "\x1b") {
		t.Errorf("with colours: %q", coloured.String())
	}
	without := coloured.String()
	for _, code := range []string{"0", "31;1", "33;1", "36;1", "32;1"} {
		without = strings.ReplaceAll(without, "\x1b["+code+"m", "")
	}
	if without != plain.String() {
		t.Errorf("without colours it is %q, want %q", without, plain.String())
	}
	if s := newScreen(&plain); s.colour || s.terminal {
		t.Error("a buffer is taken for a terminal")
	}
}

// TestWatching goes on without an answer, and ends as the last answer did.
func TestWatching(t *testing.T) {
	for during, stop := range map[string]time.Duration{"a pause": 13 * time.Second, "a question": 16 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stop)
			defer cancel()
			var errs bytes.Buffer
			answers := []error{nil, errors.New("the API server is away"), &exitError{code: 2}}
			began, asked := time.Now(), 0
			err := watchStatus(ctx, 5*time.Second, func(ctx context.Context) error {
				if asked == len(answers) {
					<-ctx.Done()
					return ctx.Err()
				}
				asked++
				return answers[asked-1]
			}, &errs)
			var exit *exitError
			if !errors.As(err, &exit) || exit.code != 2 || asked != 3 || time.Since(began) != stop ||
				errs.String() != "weft: the API server is away\n" {
				t.Errorf("stopped in %s: %d questions in %v: %v, %q", during, asked, time.Since(began), err, errs.String())
			}
		})
	}
}

// FuzzStatusText: whatever is in an answer, nothing in it moves a terminal's cursor.
func FuzzStatusText(f *testing.F) {
	f.Add("l1", "text \x1b]0;title\a", int64(0))
	f.Fuzz(func(t *testing.T, name, text string, number int64) {
		s := broken()
		s.Door, s.Leader.Holder, s.Nodes[0].Name, s.Nodes[1].Host.Holder, s.Configuration.OVN = name, name, name, name, text
		s.Nodes[0].Chassis, s.Nodes[0].System, s.Nodes[0].Version, s.Pools[0].Name = name, text, text, text
		s.Nodes[0].Subnets[0].CIDR, s.LoadBalancers[0].Addresses, s.EgressIPs[0].Node = name, []string{text}, text
		s.Findings = append(s.Findings, api.Finding{Severity: text, Object: name, Text: text, Remedy: text, Reason: name,
			More: int(number)})
		s.Certificates[0].Subject, s.Certificates[0].Expires = text, metav1.NewTime(time.Unix(number%(1<<40), 0))
		var out bytes.Buffer
		if err := writeStatus(screen{Writer: &out}, s, true); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }); i >= 0 {
			t.Errorf("%q", out.String()[i:])
		}
	})
}
