//go:build ansible

package windows

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// bench is what the plays of the tests are given on the control node.
type bench struct {
	*plays
	folder   string
	packages map[string]string // checksums of packages by their files
	hosts    map[string]map[string]any
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{plays: newPlays(t), folder: t.TempDir(), packages: map[string]string{}, hosts: map[string]map[string]any{}}
	for _, file := range []string{"binaries/weft.exe", "binaries/weft-cni.exe", "openvswitch.msi"} {
		b.file(file, "content of "+file)
	}
	makeAuthority(t, filepath.Join(b.folder, "pki/tunnel"))
	for _, version := range []string{"3.7.1", "3.7.2"} {
		b.file("openvswitch-"+version+".zip", openVSwitchZip(t, version, "ovsext"))
	}
	b.file("dbosoft.zip", openVSwitchZip(t, "3.7.1", "DBO_OVSE"))
	return b
}

func (b *bench) file(name, content string) string {
	path := filepath.Join(b.folder, name)
	check(b.T, os.MkdirAll(filepath.Dir(path), 0o755))
	check(b.T, os.WriteFile(path, []byte(content), 0o600))
	digest := sha256.Sum256([]byte(content))
	b.packages[name] = hex.EncodeToString(digest[:])
	return path
}

// openVSwitchZip is a zip as Antrea's: one folder with the folders of a build.
func openVSwitchZip(t *testing.T, version, driver string) string {
	t.Helper()
	var content bytes.Buffer
	archive := zip.NewWriter(&content)
	for _, file := range []string{"usr/sbin/ovs-vswitchd.exe", "usr/sbin/ovsdb-server.exe", "usr/bin/ovs-vsctl.exe",
		"usr/bin/ovsdb-tool.exe", "usr/bin/ovs-ofctl.exe",
		"usr/share/openvswitch/vswitch.ovsschema", "driver/" + driver + ".sys", "driver/" + driver + ".cat",
		"driver/" + strings.ToLower(driver) + ".inf", "driver/package.cer"} {
		w, err := archive.Create("openvswitch/" + file)
		check(t, err)
		_, err = w.Write([]byte(version + " " + file))
		check(t, err)
	}
	check(t, archive.Close())
	return content.String()
}

// host adds a Windows host with an Open vSwitch to be installed; settings are its variables.
func (b *bench) host(name string, settings map[string]any) *machine {
	m := b.add(newMachine(name, filepath.Join(b.folder, "hosts", name)))
	check(b.T, os.MkdirAll(m.root, 0o755))
	b.describe(name, settings)
	return m
}

func (b *bench) describe(name string, settings map[string]any) {
	b.hosts[name] = map[string]any{
		"weft_address": "172.30.0.3", "weft_binaries": filepath.Join(b.folder, "binaries"),
		"weft_windows_ovs_package":  filepath.Join(b.folder, "openvswitch-3.7.1.zip"),
		"weft_windows_ovs_checksum": b.packages["openvswitch-3.7.1.zip"],
	}
	maps.Copy(b.hosts[name], settings)
}

// take writes the inventory: it has the hosts of these names, or all.
func (b *bench) take(names ...string) {
	b.Helper()
	hosts := map[string]map[string]any{}
	for name, settings := range b.hosts {
		if len(names) == 0 || slices.Contains(names, name) {
			hosts[name] = settings
		}
	}
	inventory := map[string]any{"all": map[string]any{
		"vars": map[string]any{
			"weft_pki_dir": filepath.Join(b.folder, "pki"), "weft_windows_reboot_timeout": 30,
			"weft_pod_cidrs": []string{"10.244.0.0/16"}, "weft_service_cidrs": []string{"10.96.0.0/16"},
		},
		"children": map[string]any{
			"weft_central": map[string]any{"hosts": map[string]any{
				"c1": map[string]any{"weft_address": "172.30.0.1"}, "c2": map[string]any{"weft_address": "fd30::2"},
			}},
			"weft_windows_nodes": map[string]any{"hosts": hosts, "vars": map[string]any{"ansible_connection": "standin",
				"ansible_shell_type": "powershell"}},
		},
	}}
	text, err := json.Marshal(inventory)
	check(b.T, err)
	b.inventory = b.file("hosts.json", string(text))
}

// withSerial has all hosts of the inventory at work at a time.
var withSerial = []string{"-e", "weft_windows_serial=100%"}

const testCertificate = "WDKTestCert"

// TestInstallOnManyKindsOfHosts installs on each kind of host that the roles tell apart: what is done in which order,
// what is refused before anything is changed, and that a second run, and one that only checks, change nothing.
func TestInstallOnManyKindsOfHosts(t *testing.T) {
	b := newBench(t)
	zip, msi := filepath.Join(b.folder, "openvswitch-3.7.1.zip"), filepath.Join(b.folder, "openvswitch.msi")

	b.host("fresh2022", nil)
	w2025 := b.host("fresh2025", map[string]any{"weft_windows_ovs_package": "https://packages.example/openvswitch.zip"})
	w2025.build, w2025.files, w2025.after = "26100", map[string]string{"https://packages.example/openvswitch.zip": zip}, 1
	b.host("installer", map[string]any{"weft_windows_ovs_package": msi,
		"weft_windows_ovs_checksum": b.packages["openvswitch.msi"]})
	adopted := b.host("adopted", map[string]any{"weft_windows_ovs_package": "", "weft_windows_ovs_checksum": ""})
	adopted.drivers["OVSExt"] = "3.7.1 its own"
	for _, name := range []string{"ovsdb-server", "ovs-vswitchd"} {
		adopted.services[name] = &service{Path: "its own", Start: "auto", Recovery: make([]map[string]any, 1), Running: true}
	}
	foreign := b.host("foreign", nil)
	foreign.services["ovs-vswitchd"] = &service{Path: "its own", Start: "auto", Running: true}
	signedForTests := func(name string, settings map[string]any) *machine {
		m := b.host(name, settings)
		m.signers = map[string]string{"ovsext.sys": testCertificate, "ovsext.cat": testCertificate}
		return m
	}
	signedForTests("testsigned", nil)
	signedForTests("testsignedinstaller", map[string]any{"weft_windows_ovs_package": msi,
		"weft_windows_ovs_checksum": b.packages["openvswitch.msi"]})
	signedForTests("trial", map[string]any{"weft_windows_allow_test_signing": true, "weft_windows_allow_reboot": true})
	signedForTests("secureboot", map[string]any{"weft_windows_allow_test_signing": true,
		"weft_windows_allow_reboot": true}).secureBoot = true
	b.host("unsigned", nil).signers["ovsext.sys"] = ""
	wrong := strings.Repeat("0", 64)
	b.host("wrongsum", map[string]any{"weft_windows_ovs_checksum": wrong})
	b.host("wrongdownload", map[string]any{"weft_windows_ovs_package": "https://packages.example/openvswitch.zip",
		"weft_windows_ovs_checksum": wrong}).files =
		map[string]string{"https://packages.example/openvswitch.zip": zip}
	b.host("nosum", map[string]any{"weft_windows_ovs_checksum": ""})
	dbosoft := map[string]any{"weft_windows_ovs_package": filepath.Join(b.folder, "dbosoft.zip"),
		"weft_windows_ovs_checksum": b.packages["dbosoft.zip"]}
	signed := map[string]string{"DBO_OVSE.sys": "Microsoft Windows Hardware Compatibility Publisher",
		"DBO_OVSE.cat": "Microsoft Windows Hardware Compatibility Publisher"}
	untold := b.host("untold", dbosoft)
	untold.signers = signed
	told := b.host("dbosoft", map[string]any{"weft_windows_ovs_driver": "dbosoft"})
	maps.Copy(b.hosts["dbosoft"], dbosoft)
	told.signers = signed
	delete(b.host("norole", nil).services, managementService)
	b.host("nopackage", map[string]any{"weft_windows_ovs_package": ""})
	b.host("unfit", nil).unfit["containerd"] = "start containerd"
	b.host("old", nil).build = "17763"
	proxied := b.host("proxied", nil)
	proxied.services["kube-proxy"], proxied.processes, proxied.balancers = &service{Path: "kube-proxy.exe", Start: "auto",
		Running: true}, []string{"kube-proxy.exe"}, 7
	b.host("proxypod", nil).processes = []string{"kube-proxy.exe"}
	b.host("mustrestart", nil).needsRestart = true
	b.host("notready", nil).unready = "node-network: the controller has not given it its subnet"

	b.take()
	fresh := []string{"fresh2022", "installer", "adopted", "fresh2025", "trial"}
	t.Run("a check changes nothing", func(t *testing.T) {
		checked := fresh[:3]
		b.take(checked...)
		result := b.play("windows.yml", slices.Concat(withSerial, []string{"--check"})...)
		for _, host := range checked {
			b.succeeded(result, host)
			if story := b.machines[host].changes(); story != "" {
				t.Errorf("%s: a check has changed\n%s", host, story)
			}
		}
		b.take()
	})

	result := b.play("windows.yml", withSerial...)
	for _, host := range fresh {
		b.succeeded(result, host)
		golden(t, host+".story", b.machines[host].changes()+"\n")
	}
	for host, want := range map[string]string{
		"foreign":   "has an Open vSwitch that this role has not installed",
		"wrongsum":  "has the SHA-256 " + b.packages["openvswitch-3.7.1.zip"],
		"nosum":     "64 hexadecimal digits",
		"norole":    "has no service vmms, by which Open vSwitch opens its ports",
		"nopackage": "weft_windows_ovs_package is empty and nopackage has no service ovs-vswitchd",
		"unfit":     "containerd: it is not well; start containerd",
		"old":       "a Windows node of Weft is Windows Server 2022 or Windows Server 2025",
		"proxied":   "set weft_windows_remove_kube_proxy",
		"proxypod":  "exclude Windows nodes from its DaemonSet",
	} {
		b.refused(result, host, want, "")
	}
	const closed = `folder C:\openvswitch, closed to users
folder C:\ProgramData\openvswitch, closed to users`
	const staged = "folder C:\\Program Files\\weft-ovs-package\\unpacked"
	const unpacked = staged + "\nfile C:\\Program Files\\weft-ovs-package\\openvswitch.zip\nC:\\Program " +
		"Files\\weft-ovs-package\\openvswitch.zip is unpacked"
	b.refused(result, "untold", "set weft_windows_ovs_driver to whose driver it is", unpacked)
	b.succeeded(result, "dbosoft")
	if story := told.changes(); !strings.Contains(story, `netcfg -l C:\openvswitch\driver\dbo_ovse.inf -c s -i DBO_OVSE`) {
		t.Errorf("dbosoft's driver:\n%s", story)
	}
	if config, _ := os.ReadFile(told.local(`C:\ProgramData\weft\weft.yaml`)); !strings.Contains(string(config),
		`"ovs-driver": "dbosoft"`) {
		t.Errorf("the agent is told %s", config)
	}
	b.refused(result, "testsigned", "ovsext.cat is signed by WDKTestCert", unpacked)
	b.refused(result, "unsigned", "ovsext.sys is signed by nobody (NotSigned)", unpacked)
	b.refused(result, "wrongdownload", "did not match", staged)
	b.refused(result, "testsignedinstaller", "The package was removed again",
		staged+"\nfile C:\\Program Files\\weft-ovs-package\\openvswitch.msi\n"+closed+
			"\nthe package openvswitch.msi is installed with INSTALLDIR=C:\\openvswitch\n"+
			"the package of Open vSwitch is removed\n"+
			"C:\\Program Files\\weft-ovs-package is removed\nC:\\openvswitch is removed\n"+
			"C:\\ProgramData\\openvswitch is removed")
	if failure := result.failure("secureboot"); !strings.Contains(failure, "Secure Boot is on") ||
		len(b.machines["secureboot"].drivers) > 0 {
		t.Errorf("Secure Boot and test signing: %s\n%s", failure, b.machines["secureboot"].changes())
	}
	if failure := result.failure("mustrestart"); !strings.Contains(failure, "set weft_windows_allow_reboot") ||
		b.machines["mustrestart"].boots != 1 {
		t.Errorf("a restart without leave: %s", failure)
	}
	if failure := result.failure("notready"); !strings.Contains(failure, "node-network: the controller has not given it "+
		"its subnet") {
		t.Errorf("an agent that is not ready: %s", failure)
	}
	if !result.says("fresh2022", "ovs-driver (failed, to be mended by this play)") ||
		!result.says("trial", "is restarted now") {
		t.Error("findings and restarts are not shown")
	}
	for host, m := range b.machines {
		if slices.Contains(fresh, host) && m.has(`C:\Program Files\weft-ovs-package`) {
			t.Errorf("%s: the package is still there", host)
		}
	}
	b.arguments(t)

	t.Run("again nothing is changed", func(t *testing.T) {
		b.take(fresh...)
		result := b.play("windows.yml", withSerial...)
		for _, host := range fresh {
			b.succeeded(result, host)
			if story, changed := b.machines[host].changes(), result.changed(host); story != "" || len(changed) > 0 {
				t.Errorf("%s: %v\n%s", host, changed, story)
			}
		}
	})
	newer := map[string]any{"weft_windows_ovs_package": filepath.Join(b.folder, "openvswitch-3.7.2.zip"),
		"weft_windows_ovs_checksum": b.packages["openvswitch-3.7.2.zip"]}
	t.Run("with leave the rest is done", func(t *testing.T) {
		b.hosts["mustrestart"]["weft_windows_allow_reboot"] = true
		b.hosts["proxied"]["weft_windows_remove_kube_proxy"] = true
		b.machines["mustrestart"].changes()
		maps.Copy(b.hosts["unsigned"], newer)
		b.machines["unsigned"].signers["ovsext.sys"] = b.machines["unsigned"].signers["ovsext.cat"]
		rest := []string{"mustrestart", "proxied", "unsigned"}
		b.take("mustrestart", "proxied", "unsigned", "notready")
		b.machines["notready"].changes()
		result := b.play("windows.yml", withSerial...)
		for _, host := range rest {
			b.succeeded(result, host)
			golden(t, host+".story", b.machines[host].changes()+"\n")
		}
		// it runs, and is asked all the same
		b.refused(result, "notready", "node-network: the controller has not given it its subnet", "")
	})
	t.Run("an upgrade replaces what is another one", func(t *testing.T) {
		maps.Copy(b.hosts["fresh2025"], newer)
		b.file("binaries/weft.exe", "a newer weft.exe")
		b.take("fresh2022", "fresh2025")
		b.refusedUpgrade(t)
		for i := range 2 {
			result := b.upgrade()
			for host, name := range map[string]string{"fresh2022": "agent", "fresh2025": "openvswitch"} {
				b.succeeded(result, host)
				switch story, changed := b.machines[host].changes(), result.changed(host); {
				case i == 0:
					golden(t, "upgrade-"+name+".story", story+"\n")
				case story != "" || len(changed) > 0:
					t.Errorf("%s: a second upgrade changed %v\n%s", host, changed, story)
				}
			}
		}
		for _, host := range []string{"fresh2022", "fresh2025"} {
			if content, _ := os.ReadFile(b.machines[host].local(installedWeft)); string(content) != "a newer weft.exe" {
				t.Errorf("%s has %q", host, content)
			}
		}
		b.succeeded(b.play("verify.yml"), "fresh2025")
		b.machines["fresh2022"].unfit["agent"] = "see its log"
		if failure := b.play("verify.yml").failure("fresh2022"); !strings.Contains(failure,
			"agent: it is not well; see its log") {
			t.Errorf("verify said %q", failure)
		}
		b.machines["fresh2022"].unfit = map[string]string{}
	})
	t.Run("an uninstall leaves nothing", func(t *testing.T) {
		b.take(fresh...)
		for i := range 2 {
			result := b.play("uninstall.yml")
			for _, host := range fresh {
				b.succeeded(result, host)
				story := b.machines[host].changes()
				if i == 1 && (story != "" || len(result.changed(host)) > 0) {
					t.Errorf("%s: a second uninstall changed %v\n%s", host, result.changed(host), story)
				}
				if i == 0 {
					golden(t, "uninstall-"+host+".story", story+"\n")
				}
				b.clean(t, b.machines[host], host == "adopted")
			}
		}
	})
}

// refusedUpgrade: the playbook that installs does not replace an Open vSwitch that is at work.
func (b *bench) refusedUpgrade(t *testing.T) {
	t.Helper()
	result := b.play("windows.yml", "--limit", "fresh2025")
	b.refused(result, "fresh2025", "upgrade it by the playbook upgrade.yml", "")
}

// clean: nothing of weft's is left, and nothing of Open vSwitch that the roles have installed.
func (b *bench) clean(t *testing.T, m *machine, ownOpenVSwitch bool) {
	t.Helper()
	for _, path := range []string{`C:\openvswitch`, `C:\ProgramData\weft`, `C:\Program Files\weft-ovs-package`,
		`C:\Program Files\weft`, `C:\Program Files\containerd\cni\bin\weft-cni.exe`} {
		if m.has(path) {
			t.Errorf("%s: %s is left", m.name, path)
		}
	}
	if len(m.rules) > 0 || len(m.exclusions) > 0 || len(m.stores["Root"])+len(m.stores["TrustedPublisher"]) > 0 ||
		len(m.drivers) > 0 != ownOpenVSwitch || m.testNext {
		t.Errorf("%s: left are rules %v, exclusions %v, certificates %v, driver %v, test signing %v", m.name, m.rules,
			m.exclusions, m.stores, m.drivers, m.testNext)
	}
	services := slices.DeleteFunc(slices.Sorted(maps.Keys(m.services)), func(name string) bool {
		return name == managementService
	})
	if ownOpenVSwitch && !slices.Equal(services, []string{"ovs-vswitchd", "ovsdb-server"}) || !ownOpenVSwitch &&
		len(services) > 0 {
		t.Errorf("%s: services %v", m.name, services)
	}
}

// TestHostsFollowOneAnother: the network of one host at a time is interrupted, and after a failure no other host is
// touched.
func TestHostsFollowOneAnother(t *testing.T) {
	b := newBench(t)
	b.host("a1", nil)
	b.host("a2", nil).unready = "no subnet"
	b.host("a3", nil)
	b.take()
	result := b.play("windows.yml")
	b.succeeded(result, "a1")
	if b.machines["a1"].changes() == "" || !strings.Contains(result.failure("a2"), "no subnet") {
		t.Errorf("a2: %s", result.failure("a2"))
	}
	if story := b.machines["a3"].changes(); story != "" || b.machines["a3"].calls != nil {
		t.Errorf("a3 was touched after a2 had failed:\n%s", story)
	}
}

// TestRealWeftOnWindows has weft.exe itself examine the node, become a service, be replaced and give the adapter back:
// under Wine, over the emulated HNS, with the database of a real ovsdb-server.
func TestRealWeftOnWindows(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"weft", "weft-cni"} {
		program := filepath.Join(b.folder, "binaries", name+".exe")
		check(t, os.Remove(program)) // what stands in for it elsewhere
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/"+name)
		build.Dir, build.Env = b.root, append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	database := newDatabase(t)
	wine, drive := newWineHost(t, b.root, "WEFT_OVS_DATABASE=tcp:127.0.0.1:16640", "WEFT_OVS_OPENFLOW=tcp:127.0.0.1:16653",
		"WEFT_CNI_SOCKET_PRIME=true")
	m := b.add(newMachine("w1", drive))
	m.wine = wine
	m.write(`C:\etc\kubernetes\kubelet.conf`, []byte(kubeconfig))
	m.write(`C:\Program Files\containerd\cni\conf\README`, nil)
	b.describe("w1", nil)

	b.hosts["w1"]["weft_address"] = "172.30.0.9"
	b.take()
	b.refused(b.play("windows.yml"), "w1", `adapter: no adapter holds encap-address 172.30.0.9`, "")
	b.hosts["w1"]["weft_address"] = "172.30.0.3"
	b.hosts["w1"]["weft_node_config"] = map[string]any{"gatway": "shared"}
	b.take()
	if failure := b.play("windows.yml").failure("w1"); !strings.Contains(failure, "Run the doctor:") ||
		!strings.Contains(failure, `key "gatway" is not known`) {
		t.Errorf("a misspelt key: %s", failure)
	}
	delete(b.hosts["w1"], "weft_node_config")
	b.take()
	b.succeeded(b.play("windows.yml"), "w1")
	golden(t, "real.story", m.changes()+"\n")
	content, err := os.ReadFile(m.local(`C:\ProgramData\weft\weft.yaml`))
	check(t, err)
	golden(t, "weft.yaml", string(content))
	if s := m.services[agentService]; s == nil || !s.Running {
		t.Fatalf("the service is %+v", s)
	}
	again := b.play("windows.yml")
	b.succeeded(again, "w1")
	if changed := again.changed("w1"); len(changed) > 0 {
		t.Errorf("a second run changed %v", changed)
	}
	m.changes()

	wine.makeNetwork(t, m)
	database.makeBridges()
	if holds := holder(t); holds == "Ethernet" || holds == "" {
		t.Fatalf("the address is on %q", holds)
	}
	b.succeeded(b.play("uninstall.yml"), "w1")
	golden(t, "real-uninstall.story", m.changes()+"\n")
	if holds := holder(t); holds != "Ethernet" || strings.Contains(wine.state(t), `"weft"`) {
		t.Errorf("the address is on %q\n%s", holds, wine.state(t))
	}
	if bridges := database.bridges(); bridges != "" {
		t.Errorf("bridges %s are left", bridges)
	}
	wine.look(m)
	b.clean(t, m, false)
}
