//go:build ansible

package ansible

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNodesAreGrantedTheirNetworks: before a controller asks for it each node has the label of the network that its
// agent is told, also a node that a --limit leaves out; and one without a gateway is granted none.
func TestNodesAreGrantedTheirNetworks(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	type node struct {
		Metadata struct {
			Name   string            `json:"name"`
			Labels map[string]string `json:"labels,omitempty"`
		} `json:"metadata"`
	}
	var there struct {
		Items []node `json:"items"`
	}
	const label = "weft.net/gateway-network"
	for name, labels := range map[string]map[string]string{
		"l1": nil, "l2": {label: "external"}, "l3": {label: "external"}, "off": {}, "shared": {label: "external"},
		"other": {label: ""}, "w1": nil, "stranger": nil,
	} {
		n := node{}
		n.Metadata.Name, n.Metadata.Labels = name, labels
		there.Items = append(there.Items, n)
	}
	text, err := json.Marshal(there)
	if err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join(dir, "calls")
	kubectl := write("kubectl", "#!/bin/sh\ncase \"$1\" in get) cat "+write("nodes.json", string(text))+
		" ;; *) echo \"$*\" >>"+calls+" ;; esac\n")
	inventory := write("hosts.ini", `[weft_central]
c1
[weft_linux_nodes]
l1 weft_gateway_network=storage
l2
l3 weft_node_config='{"gateway-network": "office"}'
off weft_gateway_network=off
shared weft_gateway=shared
named weft_node_name=other weft_node_config='{"gateway": "routed"}' weft_gateway=none
absent
[weft_windows_nodes]
w1
[all:vars]
ansible_connection=local
weft_pod_cidrs=['10.244.0.0/16']
weft_service_cidrs=['10.96.0.0/16']
weft_kubeconfig=`+dir+`/config
weft_kubectl=`+kubectl+"\n")
	playbook := filepath.Join(repository(), "ansible/playbooks/networks-of-a-test.yml")
	if err := os.WriteFile(playbook, []byte(`---
- hosts: weft_central
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: weft_controller, tasks_from: networks}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(playbook) })
	cmd := exec.Command("ansible-playbook", "--inventory", inventory, "--limit", "c1", playbook)
	cmd.Dir = repository()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	done, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(done)), "\n")
	slices.Sort(got)
	want := []string{
		"label node l1 --overwrite " + label + "=storage",
		"label node l3 --overwrite " + label + "=office",
		"label node off --overwrite " + label + "=off",
		"label node other --overwrite " + label + "=external",
		"label node shared --overwrite " + label + "=",
		"label node w1 --overwrite " + label + "=external",
	}
	if !slices.Equal(got, want) {
		t.Errorf("kubectl was asked\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestNetworksThatNoLabelHasAreRefused before anything is touched.
func TestNetworksThatNoLabelHasAreRefused(t *testing.T) {
	for name, refused := range map[string]bool{"storage": false, "a.b-c_d": false, "-x": true, "x;reboot": true,
		strings.Repeat("n", 64): true} {
		judged := judge(t, "[weft_central]\nc1 ansible_host=192.0.2.1\n[weft_linux_nodes]\nl1 ansible_host=192.0.2.2 "+
			"weft_gateway_network='"+name+"'\n"+
			"[all:vars]\nansible_connection=local\nweft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n")
		if got := strings.Contains(judged, "which no label can have"); got != refused {
			t.Errorf("%q is refused: %t: %s", name, got, judged)
		}
	}
}
