//go:build ansible

package windows

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// start is what a play says to the agent.
const start = "weft service start --ready 300s"

// adopt has the machine run an Open vSwitch that the roles have not installed, and use it as it is.
func (b *bench) adopt(m *machine) {
	maps.Copy(b.hosts[m.name], map[string]any{"weft_windows_ovs_package": "", "weft_windows_ovs_checksum": ""})
	m.drivers["OVSExt"] = "3.7.1 its own"
	for _, name := range []string{"ovsdb-server", "ovs-vswitchd"} {
		m.services[name] = &service{Path: "its own", Start: "auto", Recovery: make([]map[string]any, 1), Running: true}
	}
}

// install has the hosts of these names installed without an error.
func (b *bench) install(names ...string) {
	b.Helper()
	b.take(names...)
	result := b.play("windows.yml", withSerial...)
	for _, name := range names {
		b.succeeded(result, name)
		b.machines[name].changes()
	}
}

// openVSwitch runs a part of the role that installs Open vSwitch, and no more.
func (b *bench) openVSwitch(part string) outcome {
	b.Helper()
	return b.play("openvswitch.yml", "-e", "part="+part)
}

// like adds a host that is as another one is by now, with variables of its own.
func (b *bench) like(name, other string) *machine {
	b.Helper()
	from := b.machines[other]
	m := b.host(name, maps.Clone(b.hosts[other]))
	check(b.T, copyFolder(from.root, m.root))
	for service, s := range from.services {
		own := *s
		m.services[service] = &own
	}
	for name, store := range from.stores {
		m.stores[name] = slices.Clone(store)
	}
	m.closed = maps.Clone(from.closed)
	m.rules, m.drivers, m.signers = maps.Clone(from.rules), maps.Clone(from.drivers), maps.Clone(from.signers)
	m.exclusions, m.products = slices.Clone(from.exclusions), slices.Clone(from.products)
	m.testSigning, m.testNext, m.config = from.testSigning, from.testNext, from.config
	return m
}

// TestAgentIsNotStartedOnWhatTheDoctorFails: what a role would have to mend stops the play where no role mends it, and
// before the agent is started where a role has not.
func TestAgentIsNotStartedOnWhatTheDoctorFails(t *testing.T) {
	b := newBench(t)
	for _, check := range []string{"ovs-version", "ovs-driver", "driver-signature", "test-signing"} {
		own := b.host("own-"+check, nil)
		b.adopt(own)
		own.unfit[check] = "install Open vSwitch 3.7"
	}
	b.host("placed", nil).unfit["ovs-version"] = "install Open vSwitch 3.7"
	b.take()
	result := b.play("windows.yml", withSerial...)
	for name, m := range b.machines {
		if own := name != "placed"; own {
			b.refused(result, name, "it is not well; install Open vSwitch 3.7", "")
			continue
		}
		if story := m.changes(); !strings.Contains(story, "service ovs-vswitchd:") || strings.Contains(story, start) ||
			!strings.Contains(result.failure(name), "ovs-version: it is not well; install Open vSwitch 3.7") {
			t.Errorf("%s: %s\n%s", name, result.failure(name), story)
		}
	}
	b.machines["placed"].unfit = map[string]string{}
	b.take("placed")
	b.succeeded(b.play("windows.yml"), "placed")
}

// TestConfigurationOfABrokenPlayIsTakenUp: the agent has the keys that are in its file, whichever run wrote them.
func TestConfigurationOfABrokenPlayIsTakenUp(t *testing.T) {
	b := newBench(t)
	m := b.host("h1", nil)
	b.install("h1")
	trust := filepath.Join(b.folder, "pki/tunnel/trust.crt")
	whole, err := os.ReadFile(trust)
	check(t, err)
	check(t, os.Remove(trust))
	b.hosts["h1"]["weft_gateway"] = "shared"
	b.take()
	if failure := b.play("windows.yml").failure("h1"); failure == "" || strings.Contains(m.config, "shared") {
		t.Fatalf("the play was to fail at its certificates: %q, and the agent has\n%s", failure, m.config)
	}
	m.changes()
	check(t, os.WriteFile(trust, whole, 0o600))
	b.succeeded(b.play("windows.yml"), "h1")
	if story := m.changes(); !strings.Contains(m.config, `"gateway": "shared"`) {
		t.Errorf("the agent has\n%s\nafter\n%s", m.config, story)
	}
	again := b.play("windows.yml")
	b.succeeded(again, "h1")
	if story := m.changes(); story != "" || len(again.changed("h1")) > 0 {
		t.Errorf("a third run changed %v\n%s", again.changed("h1"), story)
	}
}

// TestFoldersThatUsersHaveMade: whoever has made a folder before the roles does not tell LocalSystem what to run. The
// agent's folder loses its configuration, and keeps what an agent may have left there; that of Open vSwitch is refused.
func TestFoldersThatUsersHaveMade(t *testing.T) {
	const state, planted = `C:\ProgramData\weft`, "a user's"
	b := newBench(t)
	b.host("state", nil)
	b.host("opened", nil)
	b.install("opened")
	delete(b.machines["opened"].closed, state)
	for _, name := range []string{"state", "opened"} {
		b.machines[name].write(configFile, []byte(planted))
		b.machines[name].write(hostFile, []byte(planted))
	}
	b.host("programs", nil).write(`C:\openvswitch\usr\sbin\version.dll`, []byte(planted))
	record, err := json.Marshal(map[string]any{"checksum": b.packages["openvswitch-3.7.1.zip"], "driver": "upstream",
		"exclusions": []string{}, "certificates": []string{}})
	check(t, err)
	b.host("record", nil).write(`C:\openvswitch\weft-package.json`, record)
	own := b.host("own", nil)
	b.adopt(own)
	own.write(`C:\openvswitch\usr\bin\ovs-ofctl.exe`, nil)

	b.take()
	refused := func(result outcome) {
		t.Helper()
		for _, name := range []string{"programs", "record"} {
			b.refused(result, name, `Users who are not administrators could write in C:\openvswitch of `+name, "")
		}
	}
	checked := b.play("windows.yml", slices.Concat(withSerial, []string{"--check"})...)
	refused(checked)
	for _, name := range []string{"state", "opened", "own"} {
		b.succeeded(checked, name)
		if story := b.machines[name].changes(); story != "" {
			t.Errorf("%s: a check has changed\n%s", name, story)
		}
	}
	result := b.play("windows.yml", withSerial...)
	refused(result)
	b.succeeded(result, "own")
	const closes = "folder " + state + " is closed to users\n" + configFile + " is removed\n"
	follows := map[string]string{"state": `folder C:\Program Files\weft`, "opened": "file " + configFile}
	for name, next := range follows {
		b.succeeded(result, name)
		m := b.machines[name]
		if story := m.changes(); !strings.Contains(story, closes+next+"\n") || strings.Contains(story, hostFile) ||
			!strings.Contains(m.config, "ovs-ofctl") {
			t.Errorf("%s: the agent has\n%s\nafter\n%s", name, m.config, story)
		}
	}
	b.take("state", "opened", "own")
	again := b.play("windows.yml", withSerial...)
	for _, name := range []string{"state", "opened", "own"} {
		b.succeeded(again, name)
		if changed := again.changed(name); len(changed) > 0 {
			t.Errorf("%s: a second run changed %v", name, changed)
		}
	}
}

// TestUninstallTakesNoConfigurationOfAUser: when the agent's folder is gone, every user can make another one.
func TestUninstallTakesNoConfigurationOfAUser(t *testing.T) {
	b := newBench(t)
	m := b.host("h1", nil)
	b.install("h1")
	m.severs = `C:\ProgramData\weft is removed`
	if result := b.play("uninstall.yml"); result.Stats["h1"].Unreachable == 0 {
		t.Fatalf("the connection was to be lost, and it said %q after\n%s", result.failure("h1"), m.changes())
	}
	m.changes()
	m.lost = 0 // by the time of the next run the host answers again
	m.write(configFile, []byte("a user's"))
	m.write(hostFile, []byte("a user's"))
	b.succeeded(b.play("uninstall.yml"), "h1")
	if story := m.changes(); strings.Contains(story, "weft node release") {
		t.Errorf("weft.exe was given a user's configuration:\n%s", story)
	}
	b.clean(t, m, false)
}

// TestFolderIsClosedAsTheAgentClosesIt compares the access list of folder.ps1 with that of node.SecureFolder.
func TestFolderIsClosedAsTheAgentClosesIt(t *testing.T) {
	var lists []string
	for path, pattern := range map[string]string{
		"../../../node/private_windows.go":                    `folderAccess += "([^"]+)"`,
		"../../../ansible/roles/ovs_windows/files/folder.ps1": `SetSecurityDescriptorSddlForm\('([^']+)'`,
	} {
		content, err := os.ReadFile(path)
		check(t, err)
		found := regexp.MustCompile(pattern).FindStringSubmatch(string(content))
		if found == nil {
			t.Fatalf("%s has no access list", path)
		}
		lists = append(lists, found[1])
	}
	if lists[0] != lists[1] {
		t.Errorf("%q", lists)
	}
}

// TestSlowReleaseIsWaitedFor: HNS, Open vSwitch and Windows may each let the release wait, for some 400 s together.
func TestSlowReleaseIsWaitedFor(t *testing.T) {
	b := newBench(t)
	m := b.host("h1", nil)
	b.install("h1")
	m.releaseTime = 420
	b.succeeded(b.play("uninstall.yml"), "h1")
	b.clean(t, m, false)
}

// wants has the host get a package of the bench.
func (b *bench) wants(name, file string, more map[string]any) {
	maps.Copy(b.hosts[name], map[string]any{"weft_windows_ovs_package": filepath.Join(b.folder, file),
		"weft_windows_ovs_checksum": b.packages[file]})
	maps.Copy(b.hosts[name], more)
}

// works: Open vSwitch runs with this driver alone, and the agent, where there is one, over it.
func (m *machine) works(t *testing.T, service, driver string) {
	t.Helper()
	for _, name := range []string{"ovsdb-server", "ovs-vswitchd"} {
		if s := m.services[name]; s == nil || !s.Running {
			t.Errorf("%s: the service %s does not run: %+v", m.name, name, s)
		}
	}
	if s := m.services[agentService]; s != nil && !s.Running {
		t.Errorf("%s: the agent does not run", m.name)
	}
	if len(m.drivers) != 1 || !strings.HasPrefix(m.drivers[service], driver) {
		t.Errorf("%s: the drivers are %q", m.name, m.drivers)
	}
}

// upgrade does what upgrade.yml does for Windows nodes.
func (b *bench) upgrade() outcome {
	b.Helper()
	return b.play("upgrade.yml", "--limit", "weft_windows_nodes")
}

// TestUpgradeOfOpenVSwitchThatBreaksOffGoesOn: wherever the connection is lost, the next run ends as the one that was
// broken off would have, be it with the new package or with the one of before.
func TestUpgradeOfOpenVSwitchThatBreaksOffGoesOn(t *testing.T) {
	b := newBench(t)
	steps := map[string]string{"release": "weft node release", "driver": "netcfg -u", "placed": "files from",
		"new": "netcfg -l", "back": `C:\openvswitch is removed`, "off": "netcfg -u"}
	b.host("installed", nil)
	b.install("installed")
	var names []string
	for name, step := range steps {
		b.like(name, "installed")
		b.wants(name, "openvswitch-3.7.2.zip", nil)
		b.machines[name].severs = step
		names = append(names, name)
	}
	b.take(names...)
	result := b.upgrade()
	for _, name := range names {
		if result.Stats[name].Unreachable == 0 {
			t.Errorf("%s: the connection was to be lost, and it said %q after\n%s", name, result.failure(name),
				b.machines[name].changes())
		}
		b.machines[name].changes()
		b.machines[name].lost = 0 // by the time of the next run the host answers again
	}
	b.wants("back", "openvswitch-3.7.1.zip", nil)
	b.take(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "off" })...)
	result = b.upgrade()
	b.take("off")
	b.succeeded(b.play("uninstall.yml"), "off")
	b.clean(t, b.machines["off"], false)
	for _, name := range names {
		m := b.machines[name]
		switch name {
		case "off":
			continue
		case "back":
			m.works(t, "OVSExt", "3.7.1")
		default:
			m.works(t, "OVSExt", "3.7.2")
		}
		b.succeeded(result, name)
	}
}

// TestPackageIsLookedAtBeforeTheNetworkIsTaken: a package that is refused costs the host nothing, and one that can only
// be looked into when it is installed is followed by whichever comes next.
func TestPackageIsLookedAtBeforeTheNetworkIsTaken(t *testing.T) {
	b := newBench(t)
	b.host("zip", nil)
	b.install("zip")
	b.like("url", "zip")
	b.like("msi", "zip")
	testSigned := map[string]string{"ovsext.sys": testCertificate, "ovsext.cat": testCertificate}
	b.wants("zip", "openvswitch-3.7.2.zip", nil)
	b.machines["zip"].signers = testSigned
	b.wants("url", "openvswitch-3.7.2.zip",
		map[string]any{"weft_windows_ovs_package": "https://packages.example/gone.zip"})
	b.wants("msi", "openvswitch.msi", nil)
	signed := b.machines["msi"].signers
	b.machines["msi"].signers = testSigned
	b.take()
	result := b.upgrade()
	for name, words := range map[string]string{"zip": "ovsext.cat is signed by WDKTestCert", "url": "404"} {
		if failure, story := result.failure(name), b.machines[name].changes(); !strings.Contains(failure, words) ||
			strings.Contains(story, "release") {
			t.Errorf("%s: %s\n%s", name, failure, story)
		}
		b.machines[name].works(t, "OVSExt", "3.7.1")
	}
	if failure := result.failure("msi"); !strings.Contains(failure, "The package was removed again") {
		t.Errorf("msi: %s", failure)
	}
	b.machines["msi"].signers = signed
	b.wants("msi", "openvswitch-3.7.1.zip", nil)
	b.take("msi")
	b.succeeded(b.upgrade(), "msi")
	b.machines["msi"].works(t, "OVSExt", "3.7.1")
}

// TestInstallerThatIsBrokenOffIsFinished: by a restart that nobody has given leave for, or by a lost connection.
func TestInstallerThatIsBrokenOffIsFinished(t *testing.T) {
	b := newBench(t)
	names := []string{"restart", "lost", "refused", "off"}
	for _, name := range names {
		m := b.host(name, nil)
		b.wants(name, "openvswitch.msi", nil)
		m.needsRestart = true
		if name != "restart" {
			m.severs = "the package openvswitch.msi is installed"
		}
	}
	b.take()
	result := b.openVSwitch("main")
	if failure := result.failure("restart"); !strings.Contains(failure, "set weft_windows_allow_reboot") {
		t.Errorf("restart: %s", failure)
	}
	b.take("off")
	b.succeeded(b.openVSwitch("uninstall"), "off")
	b.clean(t, b.machines["off"], false)
	b.hosts["lost"]["weft_windows_allow_reboot"] = true
	b.take("restart", "lost", "refused")
	result = b.openVSwitch("main")
	b.succeeded(result, "lost")
	b.machines["lost"].works(t, "OVSExt", "3.7.1")
	if m := b.machines["lost"]; m.boots != 2 {
		t.Errorf("lost: it was not restarted, though the installer waits for it")
	}
	for _, name := range []string{"restart", "refused"} {
		if failure := result.failure(name); !strings.Contains(failure, "set weft_windows_allow_reboot") {
			t.Errorf("%s: it has not been restarted, and the play says %q", name, failure)
		}
		b.machines[name].restart()
	}
	b.take("restart", "refused")
	result = b.openVSwitch("main")
	for _, name := range []string{"restart", "refused"} {
		b.succeeded(result, name)
		b.machines[name].works(t, "OVSExt", "3.7.1")
	}
}

// TestTestSigningIsThatOfTheNextStart: what this Windows was started with does not say how it starts next.
func TestTestSigningIsThatOfTheNextStart(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"upgraded", "again", "untouched"} {
		m := b.host(name, map[string]any{"weft_windows_allow_test_signing": true,
			"weft_windows_allow_reboot": name != "untouched"})
		m.signers = map[string]string{"ovsext.sys": testCertificate, "ovsext.cat": testCertificate}
	}
	b.take()
	result := b.openVSwitch("main")
	b.succeeded(result, "upgraded")
	b.wants("upgraded", "openvswitch-3.7.2.zip", nil)
	b.take("upgraded")
	b.succeeded(b.openVSwitch("upgrade"), "upgraded")
	if m := b.machines["upgraded"]; !m.testSigning || !m.testNext {
		t.Errorf("after an upgrade Windows starts without test signing:\n%s", m.changes())
	}
	delete(b.hosts["untouched"], "weft_windows_allow_test_signing") // what was switched on is written down
	b.take("again", "untouched")
	result = b.openVSwitch("uninstall")
	for _, name := range []string{"again", "untouched"} {
		b.succeeded(result, name)
		b.clean(t, b.machines[name], false)
	}
	b.take("again")
	b.succeeded(b.openVSwitch("main"), "again")
	if m := b.machines["again"]; !m.testNext {
		t.Errorf("taken off and installed without a restart between, Windows starts without test signing")
	}
}

// TestWhatWasWrittenDownIsTakenOff: other variables than those of the installation take off what it has brought.
func TestWhatWasWrittenDownIsTakenOff(t *testing.T) {
	b := newBench(t)
	trial := map[string]any{"weft_windows_allow_test_signing": true, "weft_windows_allow_reboot": true}
	b.host("dbosoft", trial).signers = map[string]string{"ovsext.sys": testCertificate, "ovsext.cat": testCertificate}
	b.host("former", nil)
	b.take("dbosoft", "former")
	b.openVSwitch("main")
	b.like("msi", "dbosoft")
	const signer = "Microsoft Windows Hardware Compatibility Publisher"
	b.machines["dbosoft"].signers = map[string]string{"DBO_OVSE.sys": signer, "DBO_OVSE.cat": signer}
	b.wants("dbosoft", "dbosoft.zip",
		map[string]any{"weft_windows_ovs_driver": "dbosoft", "weft_windows_allow_test_signing": false})
	b.machines["msi"].signers = map[string]string{"ovsext.sys": signer, "ovsext.cat": signer}
	b.wants("msi", "openvswitch.msi", nil)
	former := b.machines["former"] // what release 1.0.0 has written down
	check(t, os.Remove(former.local(`C:\openvswitch\weft-package.json`)))
	former.write(`C:\openvswitch\weft-package.sha256`, []byte(b.packages["openvswitch-3.7.1.zip"]))
	b.wants("former", "openvswitch-3.7.2.zip", nil)
	b.take()
	result := b.openVSwitch("upgrade")
	exclusions := map[string]string{"dbosoft": `C:\openvswitch\usr\sbin\ovsdb-server.exe`,
		"msi": `C:\openvswitch\bin\ovsdb-server.exe`, "former": `C:\openvswitch\usr\sbin\ovsdb-server.exe`}
	for name, exclusion := range exclusions {
		m := b.machines[name]
		b.succeeded(result, name)
		if !slices.Equal(m.exclusions, []string{exclusion}) || len(m.stores["Root"])+len(m.stores["TrustedPublisher"]) > 0 ||
			m.testNext {
			t.Errorf("%s: exclusions %q, certificates %v, test signing %v", name, m.exclusions, m.stores, m.testNext)
		}
	}
	b.machines["dbosoft"].works(t, "DBO_OVSE", "3.7.1")
	b.machines["msi"].works(t, "OVSExt", "3.7.1")
	former.works(t, "OVSExt", "3.7.2")
}

// TestNoDriverButThePackages: the driver that stops the machine, and one that another hand has brought, get no agent,
// be there daemons of its own or not.
func TestNoDriverButThePackages(t *testing.T) {
	b := newBench(t)
	const antrea = "3.0.5 of Antrea's"
	b.host("container", nil).drivers["OVSExt"] = antrea
	b.host("containeradopted", map[string]any{"weft_windows_ovs_package": ""}).drivers["OVSExt"] = antrea
	adopted := b.host("adopted", nil)
	b.adopt(adopted)
	adopted.drivers["OVSExt"] = antrea
	b.file("openvswitch-3.0.5.zip", openVSwitchZip(t, "3.0.5", "ovsext"))
	b.host("old", nil)
	b.wants("old", "openvswitch-3.0.5.zip", nil)
	b.host("kept", nil).keepsDriver = antrea
	b.host("replaced", nil)
	b.take()
	result := b.openVSwitch("main")
	b.refused(result, "container", "has a driver OVSExt that this role has not installed", "")
	b.refused(result, "containeradopted", "has no service ovs-vswitchd", "")
	b.refused(result, "adopted", "it stops the machine (blue screen)", "")
	for name, words := range map[string]string{"old": "is 3.0.5: before 3.6 it stops the machine",
		"kept": "and not the driver of"} {
		if failure, story := result.failure(name), b.machines[name].changes(); !strings.Contains(failure, words) ||
			strings.Contains(story, "service ovs-vswitchd") || name == "old" && strings.Contains(story, "netcfg") {
			t.Errorf("%s: %s\n%s", name, failure, story)
		}
	}
	b.succeeded(result, "replaced")
	m := b.machines["replaced"]
	m.changes()
	m.drivers["OVSExt"] = antrea
	b.take("replaced")
	b.refused(b.openVSwitch("main"), "replaced", "or its driver of another package", "")
	b.succeeded(b.openVSwitch("upgrade"), "replaced")
	m.works(t, "OVSExt", "3.7.1")
}
