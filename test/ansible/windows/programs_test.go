//go:build ansible

package windows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	agentService = "weft-node"
	configFile   = `C:\ProgramData\weft\weft.yaml`
	hostFile     = `C:\ProgramData\weft\host.json` // what the host had before the agent made its switch
)

// command runs a program: those of Windows and of Open vSwitch as far as the plays know them, and weft.exe.
func command(m *machine, args map[string]any, check bool) reply {
	argv := texts(args["argv"])
	if len(argv) == 0 {
		m.fail("a command that is no list of words: %v", args)
		return reply{"failed": true}
	}
	if made := text(args["creates"]); made != "" && m.has(made) {
		return reply{"changed": false, "skipped": true}
	}
	if check {
		return reply{"changed": false, "skipped": true}
	}
	program := argv[0][strings.LastIndex(argv[0], `\`)+1:]
	if strings.Contains(argv[0], `\`) && !m.has(argv[0]) {
		return reply{"failed": true, "rc": 2, "msg": "The system cannot find the file specified: " + argv[0]}
	}
	line := strings.Join(argv[1:], " ")
	done := func(output string) reply { return reply{"changed": true, "rc": 0, "stdout": output, "stderr": ""} }
	switch {
	case program == "tasklist.exe":
		for _, process := range m.processes {
			if line == "/FI IMAGENAME eq "+process+" /FO CSV /NH" {
				return done(fmt.Sprintf("%q,\"4711\"", process))
			}
		}
		return done("INFO: No tasks are running which match the specified criteria.")
	case program == "netcfg.exe" && len(argv) == 7 && argv[1] == "-l" && strings.Join(argv[3:6], " ") == "-c s -i":
		return m.installDriver(argv[2], argv[6])
	case program == "netcfg.exe" && len(argv) == 3 && argv[1] == "-u":
		if _, exists := m.drivers[argv[2]]; !exists {
			return reply{"failed": true, "rc": 1, "msg": "no component " + argv[2]}
		}
		m.tell("netcfg %s", line)
		delete(m.drivers, argv[2])
		return done("")
	case program == "ovsdb-tool.exe" && argv[1] == "create":
		if !m.has(argv[3]) {
			return reply{"failed": true, "rc": 1, "msg": "no schema " + argv[3]}
		}
		m.tell("ovsdb-tool %s", line)
		m.write(argv[2], []byte("database"))
		return done("")
	case program == "ovs-vsctl.exe" && strings.HasSuffix(line, "--no-wait init"):
		if s := m.services["ovsdb-server"]; s == nil || !s.Running {
			return reply{"failed": true, "rc": 1, "msg": "database connection failed"}
		}
		return done("")
	case program == "weft.exe":
		return m.runWeft(argv)
	}
	m.fail("unknown program %q", argv)
	return reply{"failed": true, "rc": 1}
}

// installDriver is netcfg -l: the file beside the inf becomes the driver.
func (m *machine) installDriver(inf, component string) reply {
	signer, content := "", ""
	entries, err := os.ReadDir(filepath.Dir(m.local(inf)))
	must(m, err)
	for _, entry := range entries {
		name := entry.Name()
		if strings.EqualFold(name, strings.TrimSuffix(inf[strings.LastIndex(inf, `\`)+1:], ".inf")+".sys") {
			file, err := os.ReadFile(filepath.Join(filepath.Dir(m.local(inf)), name))
			must(m, err)
			signer, content = m.signers[name], string(file)
		}
	}
	switch {
	case content == "" || !m.has(inf):
		return reply{"failed": true, "rc": 1, "msg": "no " + inf}
	case signer == testCertificate && !(m.testSigning && slices.Contains(m.stores["TrustedPublisher"], "THUMB")):
		return reply{"failed": true, "rc": 1, "msg": "0x800b0109: the root certificate is not trusted"}
	}
	m.tell("netcfg -l %s -c s -i %s", inf, component)
	m.drivers[component], m.pending = cmp.Or(m.keepsDriver, content), m.needsRestart
	return reply{"changed": true, "rc": 0, "stdout": "", "stderr": ""}
}

// runWeft is what weft.exe does as far as Windows sees it; on the machine that has Wine it is run, too.
func (m *machine) runWeft(argv []string) reply {
	out, rc := "", 0
	words := strings.Join(argv[1:], " ")
	if m.wine != nil {
		rest := slices.Clone(argv[1:])
		if i := slices.Index(rest, "--ready"); i >= 0 { // no cluster makes it ready here
			rest = slices.Delete(rest, i, i+2)
		}
		out, rc = m.wine.weft(m, append([]string{argv[0]}, rest...)...)
	}
	fail := func(text string) reply {
		return reply{"failed": true, "changed": true, "rc": 1, "stdout": "", "stderr": "weft: " + text,
			"msg": "non-zero return code"}
	}
	switch argv[1] {
	case "doctor":
		if rc > 2 { // it was not asked well
			return reply{"failed": true, "changed": true, "rc": rc, "stdout": "", "stderr": out, "msg": "non-zero return code"}
		}
		report := m.examine(out)
		code := map[string]int{"ok": 0, "failed": 2}
		rc, known := code[report.Result]
		if !known {
			rc = 1
		}
		text, err := json.Marshal(report)
		must(m, err)
		return reply{"changed": true, "rc": rc, "failed": rc != 0, "stdout": string(text), "stderr": ""}
	case "service":
		if now := m.services[agentService]; argv[2] != "start" || now == nil || !now.Running {
			m.tell("weft %s", words)
		}
		if rc != 0 {
			return fail(out)
		}
		return m.weftService(argv, fail)
	case "node":
		if !m.alone {
			m.fail("the connection is cut while weft %s runs", words)
		}
		m.tell("weft %s", words)
		if s := m.services[agentService]; s != nil && s.Running {
			return fail("the agent runs")
		}
		m.lost, m.pass = m.cuts, m.after
		if m.releaseTime > m.limit {
			m.tell("weft %s is killed", words)
			return reply{"failed": true, "msg": "timed out waiting for module completion"}
		}
		if rc != 0 {
			return fail(out)
		}
		if m.wine == nil {
			must(m, os.RemoveAll(m.local(hostFile)))
			if s := m.services["ovsdb-server"]; s == nil || !s.Running {
				return fail("the host has its adapter for itself, but weft's bridges are still in Open vSwitch's database: " +
					"start it and repeat this")
			}
		}
		return reply{"changed": true, "rc": 0, "stdout": out, "stderr": ""}
	}
	m.fail("unknown verb of weft.exe: %q", argv)
	return fail(words)
}

func (m *machine) weftService(argv []string, fail func(string) reply) reply {
	done := reply{"changed": true, "rc": 0, "stdout": "", "stderr": ""}
	switch argv[2] {
	case "install":
		if m.wine != nil {
			m.wine.look(m)
			return done
		}
		quote := func(s string) string {
			if strings.Contains(s, " ") {
				return `"` + s + `"`
			}
			return s
		}
		command := []string{quote(argv[0]), "node", "--service"}
		for _, word := range argv[slices.Index(argv, "--")+1:] {
			command = append(command, quote(word))
		}
		now := m.services[agentService]
		m.services[agentService] = &service{Path: strings.Join(command, " "), Start: "delayed", Dependencies: []string{"hns"},
			Recovery: make([]map[string]any, 3), Running: now != nil && now.Running}
	case "start":
		if !slices.Contains(argv, "--ready") {
			m.fail("nobody waits for the agent: %q", argv)
		}
		if !m.alone {
			m.fail("the connection is cut while the agent starts")
		}
		if s := m.services[agentService]; !s.Running {
			s.Running, m.lost, m.pass = true, m.cuts, m.after
			if m.wine == nil {
				m.write(hostFile, []byte("the host's adapter"))
				config, err := os.ReadFile(m.local(configFile))
				must(m, err)
				m.config = string(config)
			}
		}
		if m.unready != "" {
			return fail("the node is not ready after 5m0s: " + m.unready)
		}
	case "uninstall":
		delete(m.services, agentService)
	default:
		m.fail("unknown verb of weft.exe: %q", argv)
	}
	return done
}

type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

type examination struct {
	Schema   string    `json:"schema"`
	Result   string    `json:"result"`
	Findings []finding `json:"findings"`
}

// notHere are checks whose answer is Wine's, or that of a test without a cluster, and says nothing of a node.
var notHere = []string{
	"api-server", "clock", "node-object", "dns", "disk", "containers-feature", "hyper-v", "containerd", "hns-version",
	"test-signing", "vc-runtime", "ovs-driver",
	"driver-signature", "hns-network", "rsc", "firewall", "ovsdb-server-service", "ovs-vswitchd-service", "ovs-database",
	"ovs-version",
	"ovs-vswitchd", "chassis-settings", "bridges", "ovn-southbound", "chassis-host", "agent", "hns-calls", "cni-pipe",
	"agent-service",
	"cni-configuration", "windows-version", "geneve-port", "mtu", "dns-servers", "other-networks",
	"conntrack-lookup", "conntrack-ftp", "ovs-services-wait", "extension-switches", "packet-monitor",
}

// examine is the doctor's report: its own where weft.exe has run, and what the machine is said to lack.
func (m *machine) examine(out string) examination {
	report := examination{Schema: "weft.net/doctor/v1",
		Findings: []finding{{"configuration", "ok", "the configuration is complete", ""}}}
	if m.wine != nil {
		report = examination{}
		if err := json.Unmarshal([]byte(out), &report); err != nil || report.Schema != "weft.net/doctor/v1" {
			m.fail("the doctor's report cannot be read: %v\n%s", err, out)
		}
		report.Findings = slices.DeleteFunc(report.Findings, func(f finding) bool {
			return slices.Contains(notHere, f.Check)
		})
	}
	if len(m.drivers) == 0 && m.wine == nil {
		report.Findings = append(report.Findings, finding{"ovs-driver", "failed", "the driver OVSExt is not installed",
			"install Open vSwitch for Windows"})
	}
	for check, remedy := range m.unfit {
		report.Findings = append(report.Findings, finding{check, "failed", "it is not well", remedy})
	}
	report.Result = "ok"
	for _, f := range report.Findings {
		if f.State == "failed" {
			report.Result = "failed"
		} else if f.State != "ok" && report.Result == "ok" {
			report.Result = f.State
		}
	}
	return report
}
