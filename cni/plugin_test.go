package cni_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/weftnet/weft/cni"
)

// agent answers as it is told and remembers what it was asked.
type agent struct {
	mu     sync.Mutex
	calls  []*cni.Call
	verbs  []cni.Verb
	codes  []uint
	result *types100.Result
	err    error
}

func (a *agent) note(call *cni.Call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, call)
	return a.err
}

func (a *agent) Add(_ context.Context, call *cni.Call) (*types100.Result, error) {
	return a.result, a.note(call)
}
func (a *agent) Del(_ context.Context, call *cni.Call) error   { return a.note(call) }
func (a *agent) Check(_ context.Context, call *cni.Call) error { return a.note(call) }
func (a *agent) Status(context.Context) error                  { return a.note(nil) }
func (a *agent) GC(_ context.Context, network string, valid map[cni.Attachment]bool) error {
	return a.note(&cni.Call{Config: cni.NetworkConfig{Network: network, Valid: valid}})
}

func (a *agent) observe(verb cni.Verb, code uint, _ time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verbs, a.codes = append(a.verbs, verb), append(a.codes, code)
}

func serve(t *testing.T, a *agent) (socket string) {
	socket = testSocket(t)
	listener, err := cni.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	prime(t, socket)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- cni.Serve(ctx, listener, a, a.observe) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("server ended with %v", err)
		}
	})
	return socket
}

// run is one call of the plugin as the container runtime makes it, with its exit error and output.
func run(t *testing.T, leftover bool, command, config string) (string, *types.Error) {
	t.Helper()
	for key, value := range map[string]string{
		"CNI_COMMAND": command, "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/none", "CNI_IFNAME": "eth0",
		"CNI_ARGS": podArgs, "CNI_PATH": "/opt/cni/bin",
	} {
		t.Setenv(key, value)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString(config); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	stdin := os.Stdin
	os.Stdin = reader
	defer func() { os.Stdin = stdin; reader.Close() }()
	var stdout bytes.Buffer
	plugin := &cni.Plugin{Dial: cni.Dial, Leftover: func(cni.Attachment) bool { return leftover }, Stdout: &stdout}
	failure := skel.PluginMainFuncsWithError(plugin.Funcs(), cni.Versions, "")
	return stdout.String(), failure
}

func config(version, socket, more string) string {
	return `{"cniVersion":"` + version + `","name":"weft","type":"weft-cni","socket":` + strconv.Quote(socket) + more + `}`
}

func TestAddPrintsTheResultInTheVersionAsked(t *testing.T) {
	_, address, _ := net.ParseCIDR("10.244.1.0/24")
	address.IP = net.IPv4(10, 244, 1, 3)
	index := 0
	a := &agent{result: &types100.Result{
		CNIVersion: "1.1.0",
		Interfaces: []*types100.Interface{{Name: "eth0", Mac: "0a:58:0a:f4:01:03", Sandbox: "/run/netns/none"}},
		IPs:        []*types100.IPConfig{{Interface: &index, Address: *address, Gateway: net.IPv4(10, 244, 1, 1)}},
	}}
	socket := serve(t, a)
	for _, version := range []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		stdout, failure := run(t, false, "ADD", config(version, socket, ""))
		if failure != nil {
			t.Fatalf("%s: %v", version, failure)
		}
		var printed struct {
			CNIVersion string `json:"cniVersion"`
			IP4        struct {
				IP string `json:"ip"`
			} `json:"ip4"`
			IPs []struct {
				Address string `json:"address"`
			} `json:"ips"`
		}
		if err := json.Unmarshal([]byte(stdout), &printed); err != nil {
			t.Fatalf("%s printed %q: %v", version, stdout, err)
		}
		got := printed.IP4.IP
		if len(printed.IPs) == 1 {
			got = printed.IPs[0].Address
		}
		if printed.CNIVersion != version || got != "10.244.1.3/24" {
			t.Errorf("%s: printed %s", version, stdout)
		}
	}
	if call := a.calls[0]; call.Pod != (cni.Pod{Namespace: "shop", Name: "web-0", UID: "u-1"}) ||
		call.Attachment.ContainerID != "c1" {
		t.Errorf("agent was asked %+v", call)
	}
}

func TestPluginPassesTheAgentsErrorOn(t *testing.T) {
	a := &agent{err: cni.TryAgain("no address yet", "the controller is away")}
	socket := serve(t, a)
	stdout, failure := run(t, false, "ADD", config("1.0.0", socket, ""))
	if failure == nil || failure.Code != types.ErrTryAgainLater || failure.Msg != "no address yet" ||
		failure.Details != "the controller is away" {
		t.Errorf("got %+v", failure)
	}
	if stdout != "" {
		t.Errorf("printed %q beside the error", stdout)
	}
	if len(a.codes) != 1 || a.codes[0] != types.ErrTryAgainLater || a.verbs[0] != cni.Add {
		t.Errorf("observed %v %v", a.verbs, a.codes)
	}
}

func TestPluginWithoutAgent(t *testing.T) {
	nobody := testSocket(t)
	for _, test := range []struct {
		command  string
		leftover bool
		code     uint // 0: success
	}{
		{"ADD", false, types.ErrTryAgainLater},
		{"CHECK", false, types.ErrTryAgainLater},
		{"DEL", true, types.ErrTryAgainLater},
		{"DEL", false, 0},
		{"GC", false, types.ErrTryAgainLater},
		{"STATUS", false, cni.ErrNotAvailable},
	} {
		_, failure := run(t, test.leftover, test.command, config("1.1.0", nobody, `,"prevResult":`+previous))
		if code := codeOf(failure); code != test.code {
			t.Errorf("%s (leftover %v): %v, want code %d", test.command, test.leftover, failure, test.code)
		}
	}
}

func codeOf(e *types.Error) uint {
	if e == nil {
		return 0
	}
	return e.Code
}

func TestPluginRefusesWhatTheSpecificationRefuses(t *testing.T) {
	socket := serve(t, &agent{})
	for _, test := range []struct {
		name, command, config string
		code                  uint
	}{
		{"no JSON", "ADD", "nonsense", types.ErrDecodingFailure},
		{"no name", "ADD", `{"cniVersion":"1.0.0"}`, types.ErrInvalidNetworkConfig},
		{"future version", "ADD", config("2.0.0", socket, ""), types.ErrIncompatibleCNIVersion},
		{"CHECK before 0.4.0", "CHECK", config("0.3.1", socket, ""), types.ErrIncompatibleCNIVersion},
		{"GC before 1.1.0", "GC", config("1.0.0", socket, ""), types.ErrIncompatibleCNIVersion},
		{"unknown verb", "MOVE", config("1.0.0", socket, ""), types.ErrInvalidEnvironmentVariables},
		{"unknown field", "ADD", config("1.0.0", socket, `,"colour":"red"`), types.ErrUnsupportedField},
	} {
		if _, failure := run(t, false, test.command, test.config); codeOf(failure) != test.code {
			t.Errorf("%s: %v, want code %d", test.name, failure, test.code)
		}
	}
}
