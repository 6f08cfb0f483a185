package cni_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/weftnet/weft/cni"
)

const (
	podArgs  = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-1"
	previous = `{"interfaces":[{"name":"eth0","mac":"0a:58:0a:f4:01:03","sandbox":"/run/netns/a"}],"ips":[{"address":"10.244.1.3/24","interface":0}]}`
)

func body(args, config string) string {
	return `{"containerID":"c1","netns":"/run/netns/a","ifName":"eth0","args":"` + args + `","config":` + config + `}`
}

func TestParseRequestReadsEveryField(t *testing.T) {
	call, err := cni.ParseRequest(cni.Add, []byte(body(podArgs,
		`{"cniVersion":"1.1.0","name":"weft","type":"weft-cni","cni.dev/attachments":[],"dns":{"domain":"d"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	want := &cni.Call{
		Attachment: cni.Attachment{ContainerID: "c1", IfName: "eth0"},
		Netns:      "/run/netns/a",
		Pod:        cni.Pod{Namespace: "shop", Name: "web-0", UID: "u-1"},
		Config:     cni.NetworkConfig{CNIVersion: "1.1.0", Network: "weft", DNS: types.DNS{Domain: "d"}},
	}
	if diff := cmp.Diff(want, call); diff != "" {
		t.Error(diff)
	}
}

func TestParseRequestNamesTheField(t *testing.T) {
	const config = `{"cniVersion":"1.0.0","name":"weft","type":"weft-cni"}`
	for _, test := range []struct {
		name string
		verb cni.Verb
		body string
		code uint
		says string
	}{
		{"no JSON", cni.Add, "nonsense", types.ErrDecodingFailure, "request"},
		{"two requests", cni.Add, body(podArgs, config) + "{}", types.ErrDecodingFailure, "more follows"},
		{"unknown field", cni.Add, `{"colour":"red","config":{}}`, types.ErrDecodingFailure, "colour"},
		{"no configuration", cni.Status, `{}`, types.ErrDecodingFailure, "network configuration"},
		{"configuration without name", cni.Status, `{"config":{}}`, types.ErrInvalidNetworkConfig, `"name"`},
		{"misspelt configuration", cni.Add, body(podArgs, `{"name":"weft","mtuu":1400}`), types.ErrUnsupportedField,
			`"mtuu" with value 1400`},
		{"IPAM", cni.Add, body(podArgs, `{"name":"weft","ipam":{"type":"host-local"}}`), types.ErrUnsupportedField, `"ipam"`},
		{"not first in its list", cni.Add, body(podArgs, `{"cniVersion":"1.0.0","name":"weft","prevResult":`+previous+`}`),
			types.ErrInvalidNetworkConfig, `"prevResult"`},
		{"runtimeConfig of another type", cni.Add, body(podArgs, `{"name":"weft","runtimeConfig":{"dns":[]}}`),
			types.ErrDecodingFailure, `"runtimeConfig"`},
		{"a name as DNS server", cni.Add,
			body(podArgs, `{"name":"weft","runtimeConfig":{"dns":{"servers":["dns.example"]}}}`), types.ErrInvalidNetworkConfig,
			`dns.servers" has "dns.example"`},
		{"two search suffixes in one", cni.Add, body(podArgs, `{"name":"weft","runtimeConfig":{"dns":{"searches":["a b"]}}}`),
			types.ErrInvalidNetworkConfig, `dns.searches" has "a b"`},
		{"no container ID", cni.Del, `{"ifName":"eth0","config":` + config + `}`, types.ErrInvalidEnvironmentVariables,
			"CNI_CONTAINERID"},
		{"no interface", cni.Del, `{"containerID":"c1","config":` + config + `}`, types.ErrInvalidEnvironmentVariables,
			"CNI_IFNAME"},
		{"path as interface", cni.Add, `{"containerID":"c1","ifName":"a/b","config":` + config + `}`,
			types.ErrInvalidEnvironmentVariables, "CNI_IFNAME"},
		{"no netns", cni.Add, `{"containerID":"c1","ifName":"eth0","args":"` + podArgs + `","config":` + config + `}`,
			types.ErrInvalidEnvironmentVariables, "CNI_NETNS"},
		{"no pod", cni.Add, body("", config), types.ErrInvalidEnvironmentVariables, "K8S_POD_"},
		{"no UID", cni.Add, body("K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0", config), types.ErrInvalidEnvironmentVariables,
			"K8S_POD_UID"},
		{"argument without value", cni.Add, body("K8S_POD_NAME", config), types.ErrInvalidEnvironmentVariables,
			"K8S_POD_NAME"},
		{"argument twice", cni.Add, body("K8S_POD_NAME=a;K8S_POD_NAME=b", config), types.ErrInvalidEnvironmentVariables,
			"K8S_POD_NAME"},
		{"unknown argument", cni.Add, body("K8S_POD_NAMESPACE=n;K8S_POD_NAME=p;K8S_POD_UID=u;IP=1.2.3.4", config),
			types.ErrInvalidEnvironmentVariables, "IP is not known"},
		{"CHECK without result", cni.Check, body(podArgs, config), types.ErrInvalidNetworkConfig, `"prevResult"`},
		{"CHECK with a strange result", cni.Check, body(podArgs, `{"cniVersion":"1.0.0","name":"weft","prevResult":[]}`),
			types.ErrDecodingFailure, `"prevResult"`},
		{"GC without list", cni.GC, `{"config":{"cniVersion":"1.1.0","name":"weft"}}`, types.ErrInvalidNetworkConfig,
			`"cni.dev/valid-attachments"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := cni.ParseRequest(test.verb, []byte(test.body))
			var failure *types.Error
			if !errors.As(err, &failure) {
				t.Fatalf("%v is not an error of the specification", err)
			}
			if failure.Code != test.code || !strings.Contains(failure.Msg, test.says) {
				t.Errorf("code %d %q, want code %d and %q", failure.Code, failure.Msg, test.code, test.says)
			}
		})
	}
}

func TestParseRequestKeepsPreviousResultOfEachVersion(t *testing.T) {
	for version, result := range map[string]string{
		"0.4.0": `{"interfaces":[{"name":"eth0"}],"ips":[{"version":"4","address":"10.244.1.3/24","interface":0}]}`,
		"1.0.0": previous, "1.1.0": previous,
	} {
		call, err := cni.ParseRequest(cni.Check,
			[]byte(body(podArgs, `{"cniVersion":"`+version+`","name":"weft","prevResult":`+result+`}`)))
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if got := call.Config.Previous.IPs[0].Address.String(); got != "10.244.1.3/24" {
			t.Errorf("%s: address %s", version, got)
		}
	}
}

// What the runtime says of the pod is preferred to what the network's configuration says of all.
func TestParseRequestReadsTheRuntimesCapabilities(t *testing.T) {
	const config = `{"cniVersion":"1.0.0","name":"weft","dns":{"domain":"d","nameservers":["192.0.2.1"]},"runtimeConfig":{
		"dns":{"servers":["10.96.0.10","fd00::a"],"searches":["shop.svc.cluster.local","cluster.local"],"options":["ndots:5"]},
		"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}],
		"other":{}}}`
	call, err := cni.ParseRequest(cni.Add, []byte(body(podArgs, config)))
	if err != nil {
		t.Fatal(err)
	}
	want := cni.NetworkConfig{
		CNIVersion: "1.0.0", Network: "weft",
		DNS: types.DNS{
			Domain: "d", Nameservers: []string{"10.96.0.10", "fd00::a"},
			Search: []string{"shop.svc.cluster.local", "cluster.local"}, Options: []string{"ndots:5"},
		},
	}
	if diff := cmp.Diff(want, call.Config); diff != "" {
		t.Error(diff)
	}
	if _, err := cni.ParseRequest(cni.Del,
		[]byte(body(podArgs, `{"name":"weft","runtimeConfig":{"dns":[]}}`))); err != nil {
		t.Errorf("a DEL failed for what it does not need: %v", err)
	}
}

func TestParseRequestOfGCKnowsWhatIsValid(t *testing.T) {
	call, err := cni.ParseRequest(cni.GC,
		[]byte(`{"config":{"cniVersion":"1.1.0","name":"weft","cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[cni.Attachment]bool{{ContainerID: "c1", IfName: "eth0"}: true}
	if diff := cmp.Diff(want, call.Config.Valid); diff != "" {
		t.Error(diff)
	}
}

// Whatever a peer sends, the parser answers with a call or with an error of the specification,
// and a call has what its verb needs.
func FuzzParseRequest(f *testing.F) {
	for _, verb := range []cni.Verb{cni.Add, cni.Check, cni.Del, cni.GC, cni.Status} {
		f.Add(string(verb), []byte(body(podArgs, `{"cniVersion":"1.1.0","name":"weft","prevResult":`+previous+
			`,"cni.dev/valid-attachments":null}`)))
		f.Add(string(verb), []byte(
			body(podArgs, `{"name":"weft","runtimeConfig":{"dns":{"servers":["192.0.2.1"],"searches":["a"]}}}`)))
		f.Add(string(verb), []byte(body("a=b;=;;", `{"name":"weft","ipam":{}}`)))
	}
	f.Fuzz(func(t *testing.T, verb string, text []byte) {
		call, err := cni.ParseRequest(cni.Verb(verb), text)
		if err != nil {
			var failure *types.Error
			if !errors.As(err, &failure) || failure.Code == 0 || failure.Msg == "" {
				t.Fatalf("error %#v has no code of the specification", err)
			}
			return
		}
		switch cni.Verb(verb) {
		case cni.Add, cni.Check:
			if call.Netns == "" || call.Pod.UID == "" || call.Attachment.ContainerID == "" || call.Attachment.IfName == "" {
				t.Fatalf("%s accepted %+v", verb, call)
			}
		case cni.GC:
			if call.Config.Valid == nil {
				t.Fatal("GC accepted a request without a list: it would remove every pod's interface")
			}
		}
		if name := cni.HostInterface(call.Attachment); !cni.IsHostInterface(name) || len(name) > 15 {
			t.Fatalf("host interface %q", name)
		}
	})
}
