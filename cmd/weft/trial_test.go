package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/weftnet/weft/node/ovsdriver"
)

// section is what docs/windows.md has below a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/windows.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/windows.md has no section %q", heading)
	}
	if next := nextHeading.FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	return rest
}

// nextHeading is where a section ends. A single # begins a comment of PowerShell's.
var nextHeading = regexp.MustCompile(`\n##+ `)

// program is one of Open vSwitch's.
var program = regexp.MustCompile(`\b(?:ovs|ovsdb)-[a-z]+\.exe`)

// TestTheTrialsPrograms: those of Open vSwitch that the first trial and the way back use are in the list of what a
// build has to have, and their folders are in the path that the trial sets.
func TestTheTrialsPrograms(t *testing.T) {
	listed := program.FindAllString(section(t, "### Build"), -1)
	trial := section(t, "### A first trial, step by step")
	used := program.FindAllString(trial+section(t, "### If the host stays without its network"), -1)
	if len(used) < 10 {
		t.Fatalf("the trial uses only %q", used)
	}
	for _, name := range used {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is not in the list of what is needed", name)
		}
	}
	path := ""
	for line := range strings.Lines(trial) {
		if strings.HasPrefix(line, "[Environment]::SetEnvironmentVariable('Path'") {
			path = line
		}
	}
	for _, folder := range []string{`C:\Program Files\weft`, `C:\openvswitch\usr\bin`, `C:\openvswitch\usr\sbin`} {
		if !strings.Contains(path, ";"+folder) {
			t.Errorf("the path has no %s: %s", folder, path)
		}
	}
}

// roleVariables are those of an Ansible role, with the values of a zip of Open vSwitch and of ordinary settings.
func roleVariables(t *testing.T, role string, into any) {
	t.Helper()
	text, err := os.ReadFile("../../ansible/roles/" + role + "/vars/main.yml")
	if err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("{{ weft_windows_ovs_sbin }}", `C:\openvswitch\usr\sbin`,
		"{{ weft_windows_ovs_database }}", `C:\openvswitch\etc\openvswitch\conf.db`,
		"{{ weft_windows_tunnel_port }}", "16642").Replace(string(text))
	if err := yaml.Unmarshal([]byte(filled), into); err != nil {
		t.Fatal(err)
	}
}

// TestTheTrialIsTheRoles: Open vSwitch's services, how they are started again, and the firewall's rules are those that
// the roles make.
func TestTheTrialIsTheRoles(t *testing.T) {
	trial := strings.Join(strings.Fields(section(t, "### A first trial, step by step")), " ")
	var ovs struct {
		Commands map[string]string `json:"weft_windows_ovs_commands"`
		Recovery []struct {
			Type  string `json:"type"`
			Delay int    `json:"delay_ms"`
		} `json:"weft_windows_ovs_recovery"`
		Drivers map[string]struct{ Component, File string } `json:"weft_windows_ovs_drivers"`
	}
	roleVariables(t, "ovs_windows", &ovs)
	var agent struct {
		Rules []struct {
			Name, Protocol string
			Port           any
		} `json:"weft_windows_firewall_rules"`
	}
	roleVariables(t, "weft_node_windows", &agent)
	var actions []string
	for _, r := range ovs.Recovery {
		actions = append(actions, fmt.Sprintf("%s/%d", r.Type, r.Delay))
	}
	var want []string
	for name, command := range ovs.Commands {
		want = append(want, "New-Service "+name+" ", "-BinaryPathName '"+command+"'",
			"sc.exe failure "+name+" reset= 86400 actions= "+strings.Join(actions, "/"))
	}
	driver := ovs.Drivers["upstream"]
	want = append(want, `netcfg.exe -l C:\openvswitch\driver\`+driver.File+".inf -c s -i "+driver.Component,
		"netcfg.exe -u "+driver.Component)
	for _, r := range agent.Rules {
		want = append(want, fmt.Sprintf("-DisplayName '%s' -Direction Inbound -Action Allow -Protocol %s -LocalPort %v",
			r.Name, strings.ToUpper(r.Protocol), r.Port))
	}
	if len(want) != 3*2+2+3 {
		t.Fatalf("the roles have %q", want)
	}
	for _, words := range want {
		if !strings.Contains(trial, words) {
			t.Errorf("the trial has not what the role does: %s", words)
		}
	}
}

// TestTheRoleRefusesWhatTheAgentRefuses: the oldest driver is the same for both.
func TestTheRoleRefusesWhatTheAgentRefuses(t *testing.T) {
	var ovs struct {
		Oldest string `json:"weft_windows_ovs_oldest"`
	}
	roleVariables(t, "ovs_windows", &ovs)
	if want := ovsdriver.FirstSound.String(); ovs.Oldest != want {
		t.Errorf("the role refuses drivers before %q, and the agent those before %s", ovs.Oldest, want)
	}
}

// TestTheTrialIsUndone: what keeps the service from starting while the host gets its network back is taken back where
// the agent is to go on.
func TestTheTrialIsUndone(t *testing.T) {
	for _, heading := range []string{"### A first trial, step by step", "### If the host stays without its network"} {
		text := strings.Join(strings.Fields(section(t, heading)), " ")
		off := strings.Index(text, "Set-Service weft-node -StartupType Disabled")
		on := strings.Index(text, "sc.exe config weft-node start= delayed-auto")
		if off < 0 || on < off {
			t.Errorf("%s: the service is switched off at %d and on at %d", heading, off, on)
		}
	}
}

// TestTheTrialsEndLeavesNothing: what the trial changes of Windows is changed back at its end.
func TestTheTrialsEndLeavesNothing(t *testing.T) {
	steps, end, found := strings.Cut(section(t, "### A first trial, step by step"), "\nTo end the trial ")
	if !found {
		t.Fatal("the trial has no end")
	}
	const folders = `;C:\Program Files\weft;C:\openvswitch\usr\bin;C:\openvswitch\usr\sbin`
	const trust = `Cert:\LocalMachine\TrustedPublisher, Cert:\LocalMachine\Root | ? Thumbprint -eq $thumbprint | Remove-Item`
	for _, c := range []struct{ change, back string }{
		{`"$path` + folders + `"`, ".Replace('" + folders + "', '')"},
		{`package.cer -CertStoreLocation Cert:\LocalMachine\TrustedPublisher`, trust},
		{`package.cer -CertStoreLocation Cert:\LocalMachine\Root`, trust},
		{"bcdedit.exe /set testsigning on", "bcdedit.exe /set testsigning off"},
		{"netcfg.exe -l ", "netcfg.exe -u "},
		{"New-NetFirewallRule -DisplayName 'weft ", "Get-NetFirewallRule -DisplayName 'weft *' | Remove-NetFirewallRule"},
		{"Add-MpPreference -ExclusionProcess C:", "Remove-MpPreference -ExclusionProcess C:"},
		{"Disable-NetAdapterChecksumOffload -Name Ethernet", "Enable-NetAdapterChecksumOffload -Name Ethernet"},
		{"New-Service ovsdb-server ", "sc.exe delete ovsdb-server"},
		{"New-Service ovs-vswitchd ", "sc.exe delete ovs-vswitchd"},
		{"weft.exe service install ", "weft.exe service uninstall"},
	} {
		if !strings.Contains(steps, c.change) || !strings.Contains(end, c.back) {
			t.Errorf("%q is to be in a step, and %q at the end", c.change, c.back)
		}
	}
}

// powershell is a block of commands.
var powershell = regexp.MustCompile("(?s)```powershell\n(.*?)```")

// TestEachStepOfTheTrialHasCommands: a step that has none in its table's row or its section has a block of them.
func TestEachStepOfTheTrialHasCommands(t *testing.T) {
	trial := section(t, "### A first trial, step by step")
	for step, of := range map[int]string{1: "## 1. Windows", 2: "## 2. containerd and kubelet", 3: "", 4: "", 5: "", 6: "",
		7: "", 8: "", 9: ""} {
		text := trial
		if of != "" {
			text = section(t, of)
		}
		begin := strings.Index(text, fmt.Sprintf("**Step %d", step))
		switch {
		case of != "" && powershell.MatchString(text):
		case of == "" && begin >= 0 && strings.Contains(strings.Split(text[begin:], "\n**")[0], "```"):
		case strings.Contains(text, fmt.Sprintf("\n| %d | `Restart-Computer` |", step)):
		default:
			t.Errorf("step %d has no commands", step)
		}
	}
}
