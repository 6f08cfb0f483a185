//go:build ansible

package ansible

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/viper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// oddNames of hosts, nodes and devices are what some reader of YAML takes for a boolean, a number, a date or nothing.
var oddNames = []string{"on", "off", "yes", "no", "true", "false", "y", "null", "123", "0123", "0x1f", "0o17", "1e3",
	"1.5", "2026-11-23", "l1"}

// settingsOfHosts writes what the roles write on hosts, of each host to a folder of its own.
const settingsOfHosts = `
- hosts: all
  gather_facts: false
  roles: [weft_common]
  vars_files:
    - %[1]s/ansible/roles/pki/vars/main.yml
    - %[1]s/ansible/roles/ovn_central/vars/main.yml
    - %[1]s/ansible/roles/weft_controller/vars/main.yml
    - %[1]s/ansible/roles/weft_chassis/vars/main.yml
    - %[1]s/ansible/roles/weft_node_linux/vars/main.yml
  vars:
    weft_kubernetes_user: controller
    weft_kubernetes_cluster: {server: "https://192.0.2.1:6443", certificate-authority-data: bm8=}
    weft_gateway_default: "{{ inventory_hostname }}"
    weft_doctor: {stdout: '{"findings": [{"check": "no", "state": "failed", "detail": "yes: no", "remedy": "on # off"}]}'}
  tasks:
    - ansible.builtin.include_tasks: %[1]s/ansible/roles/weft_node_linux/tasks/gateway.yml
      vars: {weft_gateway_interface: "{{ inventory_hostname }}"}
    - ansible.builtin.copy:
        content: "{{ lookup('ansible.builtin.vars', item) | to_nice_json(indent=2) }}"
        dest: "%[2]s/{{ inventory_hostname }}.{{ item }}"
        mode: "0600"
      loop: [weft_node_settings, weft_controller_settings, weft_chassis_settings, weft_southbound_settings, weft_kubernetes_config]
    - ansible.builtin.template:
        src: %[1]s/ansible/roles/{{ item }}
        dest: "%[2]s/{{ inventory_hostname }}.{{ item | basename }}"
        mode: "0600"
      loop: [weft_node_linux/templates/daemonset.yaml.j2, weft_controller/templates/deployment.yaml.j2]
`

func TestNamesThatYAMLTakesForSomethingElse(t *testing.T) {
	dir := t.TempDir()
	inventory := "[weft_central]\nl1\n[weft_linux_nodes]\n"
	for i, name := range oddNames {
		inventory += fmt.Sprintf("%s ansible_host=192.0.2.%d\n", name, i+1)
	}
	inventory += "[weft_windows_nodes]\nw1 " +
		"ansible_host=192.0.2.99\n[all:vars]\nansible_connection=local\nweft_image=123\nweft_etc=/etc/weft\nweft_cni_conf_dir=/on\nweft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n"
	for name, text := range map[string]string{"hosts.ini": inventory, "play.yml": fmt.Sprintf(settingsOfHosts,
		repository(), dir)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("ansible-playbook", "--inventory", filepath.Join(dir, "hosts.ini"), filepath.Join(dir, "play.yml"))
	cmd.Dir = repository()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range oddNames {
		file := func(of string) string { return filepath.Join(dir, name+"."+of) }
		for of, keys := range map[string][]string{"weft_node_settings": {"node-name", "gateway-interface"},
			"weft_controller_settings": {"identity"}, "weft_chassis_settings": {"identity"}} {
			settings := viper.New() // as weft reads them
			settings.SetConfigFile(file(of))
			settings.SetConfigType("yaml")
			if err := settings.ReadInConfig(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, key := range keys {
				if got, ok := settings.Get(key).(string); !ok || got != name {
					t.Errorf("%s: %s of %s is %v, a %[4]T", name, key, of, settings.Get(key))
				}
			}
		}
		if config, err := clientcmd.LoadFromFile(file("weft_kubernetes_config")); err != nil ||
			config.Clusters["kubernetes"].Server != "https://192.0.2.1:6443" {
			t.Errorf("%s: its kubeconfig is %v, %v", name, config, err)
		}
		for _, manifest := range []string{"daemonset.yaml.j2", "deployment.yaml.j2"} {
			text, err := os.ReadFile(file(manifest))
			if err != nil {
				t.Fatal(err)
			}
			converted, err := yaml.YAMLToJSON(text)
			if err != nil {
				t.Fatalf("%s: %v in\n%s", manifest, err, text)
			}
			if !json.Valid(converted) || !strings.Contains(string(converted), `"image":"123"`) {
				t.Errorf("%s has another image: %s", manifest, converted)
			}
		}
	}
}

var (
	expression = regexp.MustCompile(`\{\{.*?\}\}`)
	encoded    = regexp.MustCompile(`to_(nice_)?json(\([^()]*\))? \}\}$`)
	// readAsYAML are variables whose text is read as YAML: a block of text, and not a value of its own.
	readAsYAML = regexp.MustCompile(`(?m)^( +)weft_\w+_findings: \|\n((?:\s*\n|\s+.*\n)+)`)
)

// TestYAMLIsWrittenByAnEncoder: whatever stands in a template of YAML is encoded, and nothing is written by Ansible's
// own encoder of YAML, which leaves 1e3 and 0o17 bare, that Go reads as numbers.
func TestYAMLIsWrittenByAnEncoder(t *testing.T) {
	judged := 0
	err := filepath.WalkDir(filepath.Join(repository(), "ansible"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yml") && !strings.HasSuffix(path, ".j2") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, yaml := string(content), ""
		if strings.Contains(text, "to_yaml") || strings.Contains(text, "to_nice_yaml") {
			t.Errorf("%s writes YAML by Ansible's encoder; to_nice_json is for all readers", path)
		}
		if strings.HasSuffix(path, ".yaml.j2") {
			yaml = text
		}
		for _, block := range readAsYAML.FindAllStringSubmatch(text, -1) {
			yaml += block[2]
		}
		for line := range strings.Lines(yaml) {
			for _, found := range expression.FindAllString(line, -1) {
				judged++
				if !encoded.MatchString(found) && !strings.HasPrefix(strings.TrimSpace(line), "#") &&
					!strings.Contains(line, " # ") {
					t.Errorf("%s: %s is not encoded in %s", path, found, strings.TrimSpace(line))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if judged < 40 {
		t.Errorf("only %d expressions were found", judged)
	}
}
