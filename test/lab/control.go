package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weftnet/weft/test/lab/machine"
)

const (
	// controlKey is the file name of the key by which Ansible comes to the hosts.
	controlKey = "control"
	// adminUser of a host becomes root by sudo.
	adminUser         = "admin"
	packagesComponent = "packages"
	sshConfig         = "/etc/ssh/ssh_config.d/weftlab.conf"
)

// control is where Ansible runs: a machine in the hosts' network, with an administrator's credentials for
// hosts and cluster in its home directory. It serves the hosts their packages, which have no other way to any.
type control struct{ layout }

func (c control) spec() *machine.Spec {
	f := c.files
	spec := c.newSpec(Control)
	spec.Interfaces = []machine.Interface{c.networkInterface("eth0", management, controlNumber)}
	spec.Routes = c.defaultRoutes(c.addresses.of(management, centralNumber))
	home := f.machine(Control, "home")
	spec.Env = append(spec.Env, "HOME="+home, "PATH="+f.bin+":"+f.path(),
		"ANSIBLE_INVENTORY="+f.inventory(), "ANSIBLE_SSH_CONTROL_PATH_DIR=/run/ansible")
	spec.Files = append(spec.Files,
		machine.File{Path: sshConfig, Content: fmt.Sprintf(`Host *
  User %s
  IdentityFile %s
  IdentitiesOnly yes
  UserKnownHostsFile %s
  StrictHostKeyChecking yes
`, adminUser, f.ssh(controlKey), f.ssh("known_hosts"))},
		machine.File{Path: home + "/.kube/config", Source: f.kubeconfig("admin"), Mode: 0o600},
		machine.File{Path: f.inventory(), Content: c.inventory()})
	address := c.addresses.first(management, controlNumber)
	spec.Components = []machine.Component{{
		Name: packagesComponent,
		Command: []string{"/usr/bin/python3", "-m", "http.server", "--bind", address.String(),
			"--directory=" + f.hosts("apt"), "80"},
		Ready: machine.Probe{TCP: hostPort(address, 80)},
	}}
	return spec
}

// inventory of the hosts for Ansible; JSON is YAML.
func (c control) inventory() string {
	type hostVariables map[string]string
	type group struct {
		Hosts map[string]hostVariables `json:"hosts"`
	}
	groups := map[string]group{"weft_central": {map[string]hostVariables{}},
		"weft_linux_nodes": {map[string]hostVariables{}}}
	for _, h := range c.hosts {
		name := "weft_central"
		if h.isNode() {
			name = "weft_linux_nodes"
		}
		groups[name].Hosts[h.name] = hostVariables{"ansible_host": c.addresses.first(management, h.number).String(),
			"ansible_user": adminUser}
	}
	text, err := json.MarshalIndent(map[string]any{"all": map[string]any{
		"children": groups,
		"vars": map[string]any{
			"weft_pod_cidrs": c.addresses.podRanges(), "weft_service_cidrs": c.addresses.serviceRanges(),
		},
	}}, "", "  ")
	if err != nil { // it holds nothing that JSON cannot say
		panic(err)
	}
	return string(text) + "\n"
}

// writeAccess makes the keys of the control node and of the hosts, and the list by which ssh knows those.
func (c control) writeAccess() error {
	f := c.files
	if err := os.MkdirAll(f.ssh(""), 0o700); err != nil {
		return err
	}
	if err := makeKey(f.ssh(controlKey), controlKey); err != nil {
		return err
	}
	known := ""
	for _, h := range c.hosts {
		if err := makeKey(f.ssh(h.name), h.name); err != nil {
			return err
		}
		public, err := os.ReadFile(f.ssh(h.name + ".pub"))
		if err != nil {
			return err
		}
		names := []string{h.name}
		for _, a := range c.addresses.of(management, h.number) {
			names = append(names, a.String())
		}
		known += strings.Join(names, ",") + " " + string(public)
	}
	return os.WriteFile(f.ssh("known_hosts"), []byte(known), 0o644)
}

func makeKey(path, comment string) error {
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh-keygen of %s: %w: %s", filepath.Base(path), err, out)
	}
	return nil
}
