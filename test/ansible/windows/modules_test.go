//go:build ansible

package windows

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// modules are those that the roles use, each with what it changes of the machine. In check mode they change nothing and
// say what they would.
var modules = map[string]func(m *machine, args map[string]any, check bool) reply{}

func init() {
	maps.Copy(modules, map[string]func(*machine, map[string]any, bool) reply{
		"ping":                  func(*machine, map[string]any, bool) reply { return reply{"ping": "pong"} },
		"win_ping":              func(*machine, map[string]any, bool) reply { return reply{"ping": "pong"} },
		"async_status":          asyncStatus,
		"win_reg_stat":          registry,
		"win_service_info":      serviceInfo,
		"win_service":           setService,
		"win_firewall_rule":     firewallRule,
		"win_certificate_store": certificateStore,
		"win_powershell":        script,
		"win_package":           installer,
	})
	maps.Copy(modules, fileModules)
}

func asyncStatus(m *machine, args map[string]any, _ bool) reply {
	result, known := m.jobs[text(args["jid"])]
	if !known {
		return reply{"failed": true, "msg": "could not find job"}
	}
	return result
}

// registry answers what the plays read there.
func registry(m *machine, args map[string]any, _ bool) reply {
	value := func(v any) map[string]any { return map[string]any{"value": v, "raw_value": v, "type": "REG_SZ"} }
	switch key := text(args["path"]); key {
	case `HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion`:
		return reply{"changed": false, "exists": true, "properties": map[string]any{
			"CurrentBuildNumber": value(m.build), "ProductName": value("Windows Server"),
			"InstallationType": value("Server Core"), "EditionID": value("ServerDatacenter"),
		}}
	case `HKLM:\SYSTEM\CurrentControlSet\Services\OVSExt`, `HKLM:\SYSTEM\CurrentControlSet\Services\DBO_OVSE`:
		_, exists := m.drivers[key[strings.LastIndex(key, `\`)+1:]]
		return reply{"changed": false, "exists": exists}
	case `HKLM:\SYSTEM\CurrentControlSet\Control\Session Manager`:
		return reply{"changed": false, "exists": len(m.renames) > 0, "value": m.renames, "type": "REG_MULTI_SZ"}
	case `HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Component Based Servicing\RebootPending`:
		return reply{"changed": false, "exists": m.pending}
	case `HKLM:\SYSTEM\CurrentControlSet\Control\SecureBoot\State`:
		return reply{"changed": false, "exists": m.secureBoot, "value": 1}
	case `HKLM:\SYSTEM\CurrentControlSet\Control`:
		options := " NOEXECUTE=OPTOUT"
		if m.testSigning {
			options += "  TESTSIGNING"
		}
		return reply{"changed": false, "exists": true, "value": options}
	default:
		m.fail("unknown key of the registry %s", key)
		return reply{"failed": true}
	}
}

func serviceInfo(m *machine, args map[string]any, _ bool) reply {
	name := text(args["name"])
	if name == agentService && m.wine != nil {
		m.wine.look(m)
	}
	s, exists := m.services[name]
	if !exists {
		return reply{"changed": false, "exists": false, "services": []any{}}
	}
	state := "stopped"
	if s.Running {
		state = "started"
	}
	return reply{"changed": false, "exists": true, "services": []any{map[string]any{
		"name": name, "path": s.Path, "start_mode": s.Start, "state": state, "dependencies": s.Dependencies,
		"failure_actions": s.Recovery,
	}}}
}

func setService(m *machine, args map[string]any, check bool) reply {
	name := text(args["name"])
	if name == agentService && m.wine != nil {
		m.wine.look(m)
	}
	now, exists := m.services[name]
	state := text(args["state"])
	if state == "absent" {
		if exists && !check {
			m.tell("service %s is removed", name)
			delete(m.services, name)
			if name == "kube-proxy" {
				m.processes = slices.DeleteFunc(m.processes, func(p string) bool { return p == "kube-proxy.exe" })
			}
		}
		return reply{"changed": exists}
	}
	want := service{}
	if exists {
		want = *now
	}
	if !exists && args["path"] == nil {
		if check {
			return reply{"changed": true} // what the service comes with was not installed either
		}
		return reply{"failed": true, "msg": "Service '" + name + "' is not installed, need to set 'path' to create a " +
			"new service"}
	}
	want.Path = cmp.Or(text(args["path"]), want.Path)
	want.Start = cmp.Or(text(args["start_mode"]), want.Start)
	if args["dependencies"] != nil {
		want.Dependencies = texts(args["dependencies"])
	}
	if list, ok := args["failure_actions"].([]any); ok {
		want.Recovery = nil
		for _, action := range list {
			want.Recovery = append(want.Recovery, action.(map[string]any))
		}
	}
	switch state {
	case "started":
		for _, needed := range want.Dependencies {
			if m.services[needed] == nil && !check && needed != "hns" {
				return reply{"failed": true, "msg": "Failed to start service '" + name + "': the dependency service " + needed +
					" does not exist"}
			}
		}
		want.Running = true
	case "stopped":
		want.Running = false
	}
	if exists && reflect.DeepEqual(want, *now) {
		return reply{"changed": false}
	}
	if check {
		return reply{"changed": true}
	}
	switch {
	case !exists:
		m.tell("service %s: %s", name, want.Path)
	case want.Running && !now.Running:
		m.tell("service %s is started", name)
	case now.Running && !want.Running:
		m.tell("service %s is stopped", name)
	default:
		m.tell("service %s is changed", name)
	}
	if name == agentService && m.wine != nil && !want.Running {
		m.wine.weft(m, "service", "stop")
	}
	m.services[name] = &want
	return reply{"changed": true}
}

func firewallRule(m *machine, args map[string]any, check bool) reply {
	name := text(args["name"])
	_, exists := m.rules[name]
	if text(args["state"]) == "absent" {
		if exists && !check {
			m.tell("firewall rule %q is removed", name)
			delete(m.rules, name)
		}
		return reply{"changed": exists}
	}
	if exists && reflect.DeepEqual(m.rules[name], args) {
		return reply{"changed": false}
	}
	if !check {
		m.tell("firewall rule %q: %s %s from %s", name, args["protocol"], args["localport"], args["remoteip"])
		m.rules[name] = args
	}
	return reply{"changed": true}
}

func certificateStore(m *machine, args map[string]any, check bool) reply {
	store, name := text(args["store_name"]), cmp.Or(text(args["thumbprint"]), "THUMB")
	present := slices.Contains(m.stores[store], name)
	want := text(args["state"]) == "present"
	if want && !check && !m.has(text(args["path"])) {
		return reply{"failed": true, "msg": "no certificate " + text(args["path"])}
	}
	if present == want {
		return reply{"changed": false}
	}
	if !check {
		m.tell("certificate of the driver in %s: %s", store, args["state"])
		m.stores[store] = slices.DeleteFunc(m.stores[store], func(s string) bool { return s == name })
		if want {
			m.stores[store] = append(m.stores[store], name)
		}
	}
	return reply{"changed": true}
}

// script knows the roles' own ones by their first line.
func script(m *machine, args map[string]any, check bool) reply {
	parameters, _ := args["parameters"].(map[string]any)
	name, _, _ := strings.Cut(strings.TrimPrefix(text(args["script"]), "# "), ":")
	switch name {
	case "signature.ps1":
		return reply{"changed": false, "result": m.signatures(text(parameters["Folder"]), text(parameters["Driver"]))}
	case "defender.ps1":
		want := texts(parameters["Program"])
		present := text(parameters["State"]) == "present"
		changed := false
		for _, program := range want {
			if slices.Contains(m.exclusions, program) == present {
				continue
			}
			changed = true
			if check {
				continue
			}
			m.tell("Defender's exclusion of %s: %s", program, parameters["State"])
			m.exclusions = slices.DeleteFunc(m.exclusions, func(s string) bool { return s == program })
			if present {
				m.exclusions = append(m.exclusions, program)
			}
		}
		return reply{"changed": changed}
	case "folder.ps1":
		return m.closeFolder(text(parameters["Folder"]), check)
	case "driver.ps1":
		content, exists := m.drivers[text(parameters["Service"])]
		if !exists {
			return reply{"changed": false, "result": map[string]any{"exists": false, "path": "", "version": "", "checksum": ""}}
		}
		return reply{"changed": false, "result": fileFacts(content, map[string]any{"exists": true,
			"path": `C:\Windows\System32\drivers\` + text(parameters["Driver"]) + ".sys"})}
	case "test-signing.ps1":
		state := text(parameters["State"])
		changed := m.testNext != (state == "on")
		if check || !changed {
			return reply{"changed": false}
		}
		m.tell("bcdedit /set testsigning %s", state)
		m.testNext = state == "on"
		return reply{"changed": true}
	case "load-balancers.ps1":
		changed := m.balancers > 0
		if changed && !check {
			m.tell("%d load balancers are removed from HNS", m.balancers)
			m.balancers = 0
		}
		return reply{"changed": changed}
	}
	m.fail("unknown script %q", name)
	return reply{"failed": true}
}

// signatures are those of the driver's files in a folder.
func (m *machine) signatures(folder, driver string) []map[string]any {
	found := []map[string]any{}
	entries, err := os.ReadDir(m.local(folder))
	must(m, err)
	for _, entry := range entries {
		name := entry.Name()
		signer, asked := m.signers[name]
		if !asked || !slices.Contains([]string{driver + ".sys", driver + ".cat"}, strings.ToLower(name)) {
			continue
		}
		status := "Valid"
		switch signer {
		case "":
			status = "NotSigned"
		case "WDKTestCert":
			status = "UnknownError" // "a certificate chain … terminated in a root certificate which is not trusted"
			if slices.Contains(m.stores["Root"], "THUMB") {
				status = "Valid"
			}
		}
		content, err := os.ReadFile(filepath.Join(m.local(folder), name))
		must(m, err)
		found = append(found, fileFacts(string(content), map[string]any{"name": name, "status": status, "signer": signer,
			"thumbprint": "THUMB"}))
	}
	return found
}

// fileFacts adds a file's version, by which its content begins here, and its checksum.
func fileFacts(content string, facts map[string]any) map[string]any {
	digest := sha256.Sum256([]byte(content))
	facts["version"], _, _ = strings.Cut(content, " ")
	facts["checksum"] = hex.EncodeToString(digest[:])
	return facts
}

var installerFiles = []string{`bin\ovs-vsctl.exe`, `bin\ovsdb-tool.exe`, `driver\ovsext.sys`, `driver\ovsext.cat`,
	`driver\ovsext.inf`, `conf\conf.db`, `conf\vswitch.ovsschema`}

// installer is msiexec with the package of Open vSwitch's own build.
func installer(m *machine, args map[string]any, check bool) reply {
	const product = "{0DF60ED5-6C22-49A0-913E-77412D35C400}"
	installed := slices.Contains(m.products, product)
	if text(args["state"]) == "absent" {
		if id := text(args["product_id"]); id != product {
			m.fail("unknown product %s", id)
		}
		if installed && !check {
			m.tell("the package of Open vSwitch is removed")
			m.products = nil
			delete(m.drivers, "OVSExt")
			delete(m.services, "ovs-vswitchd")
			delete(m.services, "ovsdb-server")
			for _, file := range installerFiles { // what others have put there stays
				must(m, os.Remove(m.local(`C:\openvswitch\`+file)))
			}
		}
		return reply{"changed": installed, "reboot_required": false, "rc": 0}
	}
	if installed {
		return reply{"changed": false, "reboot_required": false, "rc": 0}
	}
	if check {
		return reply{"changed": true}
	}
	if !m.has(text(args["path"])) {
		return reply{"failed": true, "msg": "no file " + text(args["path"])}
	}
	arguments := texts(args["arguments"])
	m.tell("the package %s is installed with %s", path.Base(strings.ReplaceAll(text(args["path"]), `\`, "/")),
		strings.Join(arguments, " "))
	folder, named := strings.CutPrefix(strings.Join(arguments, " "), "INSTALLDIR=")
	if !named {
		m.fail("where is the package installed? %v", arguments)
	}
	for _, file := range installerFiles {
		m.write(folder+`\`+file, []byte("3.7.1 "+file))
	}
	recovery := []map[string]any{{"type": "restart", "delay_ms": 1000.}}
	m.services["ovsdb-server"] = &service{Path: folder + `\bin\ovsdb-server.exe --service`, Start: "auto",
		Dependencies: []string{"vmms"}, Recovery: recovery, Running: true}
	m.services["ovs-vswitchd"] = &service{Path: folder + `\bin\ovs-vswitchd.exe --service`, Start: "auto",
		Dependencies: []string{"ovsdb-server"}, Recovery: recovery, Running: true}
	m.products, m.drivers["OVSExt"] = []string{product}, `3.7.1 driver\ovsext.sys`
	if m.needsRestart {
		m.renames = []string{`\??\C:\openvswitch\bin\ovs-vswitchd.exe.new`, `\??\C:\openvswitch\bin\ovs-vswitchd.exe`}
	}
	return reply{"changed": true, "reboot_required": m.needsRestart, "rc": 0}
}
