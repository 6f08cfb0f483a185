//go:build ansible

package ansible

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/ovn"
)

func TestTableOfVariablesIsThatOfTheRoles(t *testing.T) {
	if out, err := exec.Command("python3", "../../ansible/docs.py", "--check").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRangesThatCannotWorkAreNamed(t *testing.T) {
	const hosts = `"hosts": {"c1": "192.0.2.11"}`
	for _, test := range []struct{ name, asked, want string }{
		{"all is well", `{"ranges": {"weft_pod_cidrs": ["10.244.0.0/16", "fd00:10:244::/48"], "weft_service_cidrs": ["10.96.0.0/16"]}, ` + hosts + `}`, ""},
		{"no range", `{"ranges": {"weft_pod_cidrs": ["10.244.0.0/33"]}, ` + hosts + `}`,
			"weft_pod_cidrs has 10.244.0.0/33: '10.244.0.0/33' does not appear to be an IPv4 or IPv6 network; write it as " +
				"10.244.0.0/16 or fd00:10:244::/48"},
		{"host bits", `{"ranges": {"weft_pod_cidrs": ["10.244.1.0/16"]}, ` + hosts + `}`,
			"weft_pod_cidrs has 10.244.1.0/16: 10.244.1.0/16 has host bits set; write it as 10.244.0.0/16 or fd00:10:244::/48"},
		{"overlap", `{"ranges": {"weft_pod_cidrs": ["10.96.0.0/12"], "weft_service_cidrs": ["10.96.0.0/16"]}, ` + hosts + `}`,
			"weft_pod_cidrs 10.96.0.0/12 overlaps with weft_service_cidrs 10.96.0.0/16: choose ranges that are disjoint"},
		{"one family twice", `{"ranges": {"weft_pod_cidrs": ["10.244.0.0/16", "10.245.0.0/16"]}, ` + hosts + `}`,
			"weft_pod_cidrs has two ranges of one address family, 10.244.0.0/16 and 10.245.0.0/16: give one of IPv4 and " +
				"one of IPv6"},
		{"host in a range", `{"ranges": {"weft_pod_cidrs": ["192.0.2.0/24"]}, ` + hosts + `}`,
			"host c1 has the address 192.0.2.11, which is in weft_pod_cidrs 192.0.2.0/24: choose another range"},
		{"host without address", `{"ranges": {}, "hosts": {"c1": "c1.example"}}`,
			"host c1 is reached at c1.example, which is no address: set weft_address for it to the one at which other hosts " +
				"reach it"},
		{"two hosts of one address", `{"ranges": {}, "hosts": {"c2": "192.0.2.12", "c3": "192.0.2.13", "c4": "192.0.2.12"}}`,
			"hosts c2 and c4 have one address, 192.0.2.12: give each its own by weft_address, or name a host once"},
		{"one address in two ways", `{"ranges": {}, "hosts": {"c2": "fd00::12", "l1": "fd00:0::12"}}`,
			"hosts c2 and l1 have one address, fd00::12: give each its own by weft_address, or name a host once"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := exec.Command("python3", "../../ansible/roles/weft_common/files/ranges.py", test.asked).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != test.want {
				t.Errorf("ranges.py says %q (%v), want %q", got, err, test.want)
			}
		})
	}
}

// judge is what the playbooks say of an inventory before anything is touched.
func judge(t *testing.T, inventory string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "hosts.ini")
	if err := os.WriteFile(name, []byte(inventory), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ansible-playbook", "--inventory", name, "ansible/playbooks/check.yml")
	cmd.Dir = repository()
	out, _ := cmd.CombinedOutput() // this machine may be none of those that are known to work
	_, judged, found := strings.Cut(string(out), "Refuse what cannot work")
	if !found {
		t.Fatalf("nothing was judged:\n%s", out)
	}
	return strings.Join(strings.Fields(judged), " ")
}

// TestASilentHostStopsEverything, a Windows host like any other: nobody is asked for more, and it is named.
func TestASilentHostStopsEverything(t *testing.T) {
	const silent = " ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1"
	for _, test := range []struct{ name, linux, windows, limit, want string }{
		{"a Linux host", silent, " ansible_connection=local", "all", "l1 cannot be reached, as it says above: mend that, " +
			"or leave it out (--limit 'all,!l1')"},
		{"a Windows host", " ansible_connection=local", silent + " ansible_shell_type=powershell", "all",
			"w1 cannot be reached, as it says above: mend that, or leave it out (--limit 'all,!w1')"},
		{"both", silent, silent + " ansible_shell_type=powershell", "all", "(--limit 'all,!l1,!w1')"},
		{"a Windows host that is left out", " ansible_connection=local", silent, "all,!w1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "hosts.ini")
			inventory := "[weft_central]\nc1 ansible_host=192.0.2.1 ansible_connection=local\n[weft_linux_nodes]\nl1" +
				test.linux + "\n[weft_windows_nodes]\nw1" + test.windows +
				"\n[all:vars]\nweft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n"
			if err := os.WriteFile(name, []byte(inventory), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("ansible-playbook", "--inventory", name, "--limit", test.limit, "ansible/playbooks/site.yml")
			cmd.Dir, cmd.Env = repository(), append(os.Environ(), "ANSIBLE_NOCOLOR=1")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.want) {
				t.Errorf("there is no %q (%v) in:\n%s", test.want, err, out)
			}
			if judged := strings.Contains(string(out), "Refuse what cannot work"); judged != (test.want == "") {
				t.Errorf("it went on: %t:\n%s", judged, out)
			}
		})
	}
}

// TestAHostThatIsNotWellStopsAnUpgrade, before anything is upgraded: its ovn-controller would be older than the
// databases.
func TestAHostThatIsNotWellStopsAnUpgrade(t *testing.T) {
	upgrade, err := os.ReadFile(filepath.Join(repository(), "ansible/playbooks/upgrade.yml"))
	if err != nil {
		t.Fatal(err)
	}
	imported := regexp.MustCompile(`import_playbook: (\S+)`).FindAllStringSubmatch(string(upgrade), -1)
	if i := slices.IndexFunc(imported, func(m []string) bool { return m[1] == "verify.yml" }); i < 0 ||
		i+1 == len(imported) || imported[i+1][1] != "allwell.yml" {
		t.Errorf("upgrade.yml imports %q: allwell.yml is to follow verify.yml", imported)
	}
	for _, test := range []struct{ name, limit, want string }{
		{"all hosts", "all", "something is wrong at l1, as it says above"},
		{"without the host", "all,!l1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"hosts.ini": "[weft_central]\nc1\n[weft_linux_nodes]\nl1\nl2\n[all:vars]\nansible_connection=local\n",
				"upgrade.yml": fmt.Sprintf(`
- {hosts: all, gather_facts: false, tasks: [{name: Look, ansible.builtin.assert: {that: "inventory_hostname != 'l1'"}}]}
- ansible.builtin.import_playbook: %s/ansible/playbooks/allwell.yml
- {hosts: all, gather_facts: false, tasks: [{name: Touch the databases, ansible.builtin.debug: {msg: touched}}]}
`, repository()),
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("ansible-playbook", "--inventory", filepath.Join(dir, "hosts.ini"), "--limit", test.limit,
				filepath.Join(dir, "upgrade.yml"))
			cmd.Dir, cmd.Env = repository(), append(os.Environ(), "ANSIBLE_NOCOLOR=1")
			out, err := cmd.CombinedOutput()
			if wellWanted := test.want == ""; wellWanted != (err == nil) || !strings.Contains(string(out), test.want) ||
				wellWanted != strings.Contains(string(out), "touched") {
				t.Errorf("there is no %q, or the end is wrong (%v):\n%s", test.want, err, out)
			}
		})
	}
}

// TestTheLeastKubernetes is the controller's, and what the API server says counts.
func TestTheLeastKubernetes(t *testing.T) {
	for _, test := range []struct{ version, want string }{
		{"v" + ovn.MinimumKubernetes + ".0", ""},
		{"v1.35.4-eks-1", ""},
		{"v1.30.9", "the API server is Kubernetes 1.30.9: Weft needs " + ovn.MinimumKubernetes +
			" or later; upgrade Kubernetes"},
		{"v1.9.11", "the API server is Kubernetes 1.9.11: Weft needs"},
	} {
		t.Run(test.version, func(t *testing.T) {
			judged := judge(t, clusterSays(t, "*version*) echo '{\"serverVersion\": {\"gitVersion\": \""+test.version+
				"\"}}' ;;"))
			if test.want == "" && strings.Contains(judged, "the API server is") || !strings.Contains(judged, test.want) {
				t.Errorf("want %q: %s", test.want, judged)
			}
		})
	}
}

// clusterSays is an inventory whose kubectl is an administrator's, knows the node l1, and answers further questions by
// the branches of a shell's case.
func clusterSays(t *testing.T, branches string) string {
	t.Helper()
	dir := t.TempDir()
	kubectl := "#!/bin/sh\ncase \"$*\" in " + branches +
		" *version*) echo '{\"serverVersion\": {\"gitVersion\": \"v1.35.4\"}}' ;; *can-i*) echo yes ;; *) echo l1 ;; esac\n"
	for name, text := range map[string]string{"kubectl": kubectl, "config": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return "[weft_central]\nl1 " +
		"ansible_host=192.0.2.1\n[weft_linux_nodes]\nl1\n[all:vars]\nansible_connection=local\nweft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n" +
		"weft_kubectl=" + dir + "/kubectl\nweft_kubeconfig=" + dir + "/config\n"
}

// TestAClusterWithoutFrontProxy is told before anything is touched, unless there must be no door.
func TestAClusterWithoutFrontProxy(t *testing.T) {
	const refusal = "the API server has no front proxy"
	for _, test := range []struct {
		name, proxy, more string
		refused           bool
	}{
		{"none", "", "", true},
		{"one", "a certificate", "", false},
		{"none, and no door", "", "weft_observe=False\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			judged := judge(t, clusterSays(t, "*extension-apiserver-authentication*) printf '"+test.proxy+"' ;;")+test.more)
			if strings.Contains(judged, refusal) != test.refused {
				t.Errorf("refused %t, want %t: %s", !test.refused, test.refused, judged)
			}
		})
	}
}

// TestWordsAreNoSwitches: Ansible takes the word "false" for true, so that weft_plaintext=false in an INI file would be
// plain TCP.
func TestWordsAreNoSwitches(t *testing.T) {
	for _, test := range []struct{ set, want string }{
		{"weft_plaintext=false", `weft_plaintext is the word false, which would count as true`},
		{"weft_firewall=no", `weft_firewall is the word no, which would count as true`},
		{"weft_windows_allow_reboot=off", `weft_windows_allow_reboot is the word off,`},
		{"weft_plaintext=False", ""},
		{"weft_plaintext=true", ""},
	} {
		t.Run(test.set, func(t *testing.T) {
			judged := judge(t, clusterSays(t, "*extension-apiserver-authentication*) echo certificate ;;")+test.set+"\n")
			if strings.Contains(judged, "is the word") != (test.want != "") || !strings.Contains(judged, test.want) {
				t.Errorf("want %q: %s", test.want, judged)
			}
		})
	}
}

// TestDistributionsThatAreNamedAreTaken: docs/versions.md says of each distribution which OVN it has. It names those to
// install on that the roles take, and no others.
func TestDistributionsThatAreNamedAreTaken(t *testing.T) {
	text, err := os.ReadFile("../../ansible/roles/weft_common/defaults/main.yml")
	if err != nil {
		t.Fatal(err)
	}
	var defaults struct {
		Distributions map[string][]string `json:"weft_distributions"`
		Minimum       string              `json:"weft_ovn_minimum_version"`
	}
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // OVN by distribution
	for _, row := range regexp.MustCompile(`(?m)^\| (\d\d\.\d\d) \| (\S+ [0-9.]+)`).FindAllStringSubmatch(string(page), -1) {
		rows[row[2]] = row[1]
	}
	install := func(release string) bool {
		return strings.Contains(string(page), "| "+release+" | central host, node |")
	}
	for distribution, versions := range defaults.Distributions {
		for _, version := range versions {
			release := distribution + " " + version
			if had := rows[release]; had < defaults.Minimum {
				t.Errorf("weft_distributions has %s, whose OVN is %q by docs/versions.md, and %s is the least", release, had,
					defaults.Minimum)
			}
			if !install(release) {
				t.Errorf("weft_distributions has %s, and docs/versions.md does not name it as one to install on", release)
			}
			delete(rows, release)
		}
	}
	for refused := range rows {
		if install(refused) {
			t.Errorf("docs/versions.md names %s as one to install on, and weft_distributions does not have it", refused)
		}
	}
}

// TestPodsAreAllAlike: what a DaemonSet's or a Deployment's pods have is the same on all hosts, or it is refused.
func TestPodsAreAllAlike(t *testing.T) {
	for _, test := range []struct{ name, l1, l2, want string }{
		{"all is well", "", "", ""},
		{"the same", `weft_node_config='{"metrics-address": "127.0.0.1:9500"}'`,
			`weft_node_config='{"metrics-address": "127.0.0.1:9500", "cni-log": "a"}'`, ""},
		{"metrics of the agent", `weft_node_config='{"metrics-address": "127.0.0.1:9500"}'`,
			`weft_node_config='{"cni-log": "a"}'`, "metrics-address of weft_node_config differs between hosts: a " +
				"DaemonSet's pods"},
		{"each host's own address", `weft_node_config='{"metrics-address": "{{ ansible_host }}:9471"}'`,
			`weft_node_config='{"metrics-address": "{{ ansible_host }}:9471"}'`, "metrics-address of weft_node_config differs"},
		{"metrics of the controller", "", `weft_controller_config='{"metrics-address": "127.0.0.1:9500"}'`,
			"metrics-address of weft_controller_config differs between hosts: a Deployment's pods"},
		{"a folder, on the first host", "weft_cni_conf_dir=/etc/cni", "",
			"weft_cni_conf_dir differs between hosts: a DaemonSet's pods"},
		{"a file, on the last host", "", "weft_node_kubeconfig=/etc/kubelet.conf",
			"weft_node_kubeconfig differs between hosts: a DaemonSet's pods"},
	} {
		t.Run(test.name, func(t *testing.T) {
			judged := judge(t, "[weft_central]\nl1 ansible_host=192.0.2.1 "+test.l1+"\n[weft_linux_nodes]\nl1\nl2 "+
				"ansible_host=192.0.2.2 "+test.l2+"\n[weft_controllers]\nl1\nl2\n"+
				"[all:vars]\nansible_connection=local\nweft_image=registry.example/weft:1\nweft_pod_cidrs=['10.244.0.0/16']\nweft_service_cidrs=['10.96.0.0/16']\n")
			switch {
			case test.want == "" && strings.Contains(judged, "differs between hosts"):
				t.Errorf("refused: %s", judged)
			case !strings.Contains(judged, test.want):
				t.Errorf("there is no %q in: %s", test.want, judged)
			}
		})
	}
}

func TestVariablesThatNothingReadsAreNamed(t *testing.T) {
	out, err := exec.Command("python3", "../../ansible/roles/weft_common/files/names.py",
		`["weft_pod_cidrs", "weft_windows_serial", "weft_pod_cidr", "weft_zzz"]`).CombinedOutput()
	const want = "variable weft_pod_cidr is none of Weft's (did you mean weft_pod_cidrs?): ansible/README.md lists " +
		"them; correct it, or give one of your own another prefix\n" +
		"variable weft_zzz is none of Weft's: ansible/README.md lists them; correct it, or give one of your own another " +
		"prefix\n"
	if err != nil || string(out) != want {
		t.Errorf("names.py says %q (%v), want %q", out, err, want)
	}
}
