package main

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weftnet/weft/connectivity"
)

// faulty is the report of a network that loses datagrams on their way to w1, and starts no pod on w2.
func faulty() *connectivity.Report {
	l1 := connectivity.End{Pod: "client-0", Node: "l1", System: "linux"}
	server := connectivity.End{Pod: "server-1", Node: "w1", System: "windows"}
	idle := connectivity.End{Pod: "client-2", Node: "w2", System: "windows"}
	ask := func(way connectivity.Way, to connectivity.End, target string, attempts int, err string) connectivity.Result {
		r := connectivity.Result{Way: way, From: l1, To: to, Family: corev1.IPv4Protocol, Target: target, Attempts: attempts,
			State: connectivity.Passed, Error: err}
		if attempts == 3 {
			r.State = connectivity.Failed
		}
		return r
	}
	service := connectivity.End{Service: "server-1", Node: "w1", System: "windows"}
	host := connectivity.End{Node: "w1", System: "windows"}
	return &connectivity.Report{
		Schema: connectivity.Schema, Version: "1.2.0", Time: threeAM, Namespace: "weft-connectivity-x7k2pq",
		Nodes: []connectivity.Node{{Name: "l1", System: "linux"}, {Name: "w1", System: "windows"},
			{Name: "w2", System: "windows"}},
		Families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, Result: connectivity.Failed,
		Counts: map[connectivity.State]int{connectivity.Passed: 3, connectivity.Failed: 2, connectivity.NotAsked: 1},
		Results: []connectivity.Result{
			{Way: connectivity.PodStarts, To: idle, State: connectivity.Failed,
				Error: "FailedCreatePodSandBox: red \x1b[31m and\nanother line"},
			{Way: connectivity.APIServerToPod, To: idle, State: connectivity.NotAsked, Error: "client-2 has not started"},
			ask(connectivity.PodToOtherSystem, server, "10.244.3.4:8080/TCP", 1, ""),
			ask(connectivity.PodToOtherSystem, server, "10.244.3.4:8081/UDP", 3, "i/o timeout"),
			ask(connectivity.PodToService, service, "10.96.0.7:80/TCP", 2, "connection refused"),
			ask(connectivity.PodToHost, host, "192.0.2.31:10250/TCP", 1, ""),
		},
		LeftOut: []connectivity.LeftOut{{Way: connectivity.PodToOutside, Reason: "no server outside is named"}},
	}
}

// TestConnectivityIsTold in each form.
func TestConnectivityIsTold(t *testing.T) {
	well := faulty()
	well.Result, well.Results, well.LeftOut = connectivity.Passed, well.Results[2:3], nil
	well.Counts = map[connectivity.State]int{connectivity.Passed: 1}
	for name, r := range map[string]*connectivity.Report{"well": well, "faulty": faulty()} {
		for form, write := range connectivityForms {
			t.Run(name+" as "+form, func(t *testing.T) {
				var out bytes.Buffer
				if err := write(screen{Writer: &out}, r); err != nil {
					t.Fatal(err)
				}
				golden(t, "connectivity-"+name+"-"+form, out.String())
			})
		}
	}
	var out bytes.Buffer
	if err := writeConnectivity(screen{Writer: &out, colour: true}, faulty()); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "\x1b[31;1mFailed\x1b[0m") || strings.Contains(text, "red \x1b") {
		t.Errorf("on a terminal it is %q", text)
	}
}

// runConnectivity gives the exit code and all that was printed.
func runConnectivity(t *testing.T, args ...string) (code int, printed string) {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand()
	root.SetArgs(append([]string{"connectivity"}, args...))
	root.SetOut(&out)
	root.SetErr(&out)
	cmd, err := root.ExecuteContextC(t.Context())
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
		out.WriteString(exit.Error())
	} else if err != nil {
		t.Fatalf("%v has no exit code", err)
	}
	checkExit(t, cmd, code)
	return code, out.String()
}

// TestConnectivityIsNotTested: the error names the key, or what the API server says.
func TestConnectivityIsNotTested(t *testing.T) {
	kubeconfig := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
			"message": "User \"mallory\" cannot list nodes"}`))
	})
	for args, want := range map[string]string{
		"":                                   `list nodes: User "mallory" cannot list nodes`,
		"--context day":                      `context "day" does not exist`,
		"-o xml":                             `output: "xml" is none of`,
		"--max-nodes 0 --outside nowhere":    "max-nodes: 0 is less than 1",
		"--outside nowhere":                  "outside: address nowhere: missing port",
		"--host-port 0":                      "host-port: 0 is no port",
		"--start-timeout soon":               `invalid argument "soon" for "--start-timeout"`,
		"now":                                `unknown command "now"`,
		"--start-timeout 0s --max-nodes=one": `invalid argument "one" for "--max-nodes"`,
	} {
		code, printed := runConnectivity(t, append([]string{"test", "--kubeconfig", kubeconfig, "--context", "night"},
			strings.Fields(args)...)...)
		if code != 3 || !strings.Contains(printed, want) {
			t.Errorf("%q: exit code %d, want 3; there is no %q in:\n%s", args, code, want, printed)
		}
	}
	if code, printed := runConnectivity(t, "tset"); code != 3 || !strings.Contains(printed, "which has test") {
		t.Errorf("a verb that is none: exit code %d: %s", code, printed)
	}
}

// TestConnectivityOptions: what the keys say.
func TestConnectivityOptions(t *testing.T) {
	read := func(args ...string) connectivity.Options {
		t.Helper()
		cmd := connectivityTestCommand()
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		s, err := loadSettings(cmd)
		if err != nil {
			t.Fatal(err)
		}
		o, err := connectivityOptions(s)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := read(); o.MaxNodes != 8 || !o.HostNetwork || o.WindowsImage != o.Image || o.StartTimeout != 10*time.Minute {
		t.Errorf("by default they are %+v", o)
	}
	o := read("--nodes", "l1,w1", "--windows-image", "other", "--outside", "203.0.113.7:80", "--host-network=false",
		"--keep")
	if len(o.Nodes) != 2 || o.WindowsImage != "other" || o.Outside == "" || o.HostNetwork || !o.Keep {
		t.Errorf("they are %+v", o)
	}
}
