package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// tree is the topology of a cluster of both systems.
func tree() api.NetworkTopology {
	pod := func(namespace, name, mac, address string, up bool) api.PortTopology {
		return api.PortTopology{Namespace: namespace, Name: name, MAC: mac, Addresses: []string{address}, Chassis: "l1",
			Up: up}
	}
	return api.NetworkTopology{LoadBalancers: 12,
		Routers: []api.RouterTopology{{Name: "cluster", Ports: []api.RouterPortTopology{
			{Name: "rtoj", MAC: "0a:58:64:40:00:01", Networks: []string{"100.64.0.1/16", "fd98::1/64"}, Switch: "join"}}}},
		Nodes: []api.NodeTopology{
			{Name: "l1", System: "linux", Chassis: "l1", Switch: "l1", LoadBalancers: 11,
				Router: &api.RouterPortTopology{Name: "rtos-l1", MAC: "0a:58:0a:f4:00:01", Networks: []string{"10.244.0.1/24"}},
				Host:   &api.PortTopology{Name: "mgmt-l1", MAC: "0a:58:0a:f4:00:02", Addresses: []string{"10.244.0.2"}, Up: true},
				Gateway: &api.RouterTopology{Name: "gw-l1", Chassis: "l1", LoadBalancers: 12, Ports: []api.RouterPortTopology{
					{Name: "rtoe-l1", MAC: "52:54:00:00:00:01", Networks: []string{"192.0.2.11/24"}, Switch: "ext-l1",
						Network: "external"}}},
				Pods: []api.PortTopology{pod("bank", "web", "0a:58:0a:f4:00:03", "10.244.0.3", true),
					pod("shop", "db\x1b[2J", "", "10.244.0.4", false)}},
			{Name: "w1", System: "windows", Switch: "w1"},
			{Name: "new"},
		}}
}

func TestTopologyIsATree(t *testing.T) {
	var asked *http.Request
	answer := tree()
	kubeconfig := serving(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.NetworkTopologyList{Items: []api.NetworkTopology{answer}})
	})
	run := func(args ...string) (int, string, string) {
		return runCommand(t, append([]string{"topology", "--kubeconfig", kubeconfig, "--context", "night"}, args...)...)
	}
	for name, args := range map[string][]string{"topology": nil, "topology-wide": {"-o", "wide"},
		"topology-yaml": {"-o", "yaml"}} {
		code, out, errs := run(args...)
		if code != 0 || errs != "" || strings.Contains(out, "\x1b") {
			t.Errorf("%s: exit code %d, %q", name, code, errs)
		}
		golden(t, name, out)
	}
	const all = "/apis/observe.weft.net/v1alpha1/networktopologies"
	for want, args := range map[string][]string{
		all: nil,
		"/apis/observe.weft.net/v1alpha1/namespaces/shop/networktopologies": {"-n", "shop"},
		all + "?fieldSelector=spec.nodeName%3Dl1":                           {"--node", "l1"},
		all + "?fieldSelector=spec.nodeName%3Dl1%5C%2Ca%5C%3Db":             {"--node", "l1,a=b"},
	} {
		run(args...)
		if got := asked.URL.String(); got != want {
			t.Errorf("asked for %s, want %s", got, want)
		}
	}
	answer.Unread = []api.Unread{{Source: "OVN_Southbound", Reason: "away"}}
	if code, out, _ := run(); code != 1 || !strings.Contains(out, "not read: OVN_Southbound: away") {
		t.Errorf("exit code %d, %q", code, out)
	}
	answer = api.NetworkTopology{}
	if code, _, errs := run("--node", "l9"); code != 3 || !strings.Contains(errs, `no Node "l9"`) {
		t.Errorf("exit code %d, %q", code, errs)
	}
	if code, _, errs := run("-o", "svg"); code != 3 || !strings.Contains(errs, `output: "svg" is none of`) {
		t.Errorf("exit code %d, %q", code, errs)
	}
	kubeconfig = serving(t, refuse(http.StatusForbidden, "Forbidden", "mallory cannot list it"))
	if code, _, errs := run("-n", "shop"); code != 3 ||
		!strings.Contains(errs, "create rolebinding NAME --namespace=shop --clusterrole=weft-observe-topology") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}
