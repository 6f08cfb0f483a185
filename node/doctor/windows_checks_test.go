package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
)

// fakeWindows answers what its fields say.
type fakeWindows struct {
	version   windowsVersion
	services  map[string]service
	broken    error // of the service manager
	libraries map[string]bool
	modules   []string // of PowerShell
	driver    *driver
	dbosoft   *driver // one more, of that kind
	integrity codeIntegrity
	secure    *bool // nil: no UEFI
	firewall  firewall
	adapters  []hostnet.Adapter
	rsc       bool
	vNIC      string   // Hyper-V's name of the host's adapter
	switches  []string // that have the extension enabled
	pipes     map[string]error
	pktmon    error
}

func (f fakeWindows) PacketMonitor(context.Context) error { return f.pktmon }

func (f fakeWindows) WindowsVersion() (windowsVersion, error) { return f.version, f.broken }

func (f fakeWindows) Service(name string) (service, error) {
	s, ok := f.services[name]
	if f.broken == nil && !ok {
		return service{}, errAbsent
	}
	return s, f.broken
}

func (f fakeWindows) Module(name string) error {
	if !slices.Contains(f.modules, name) {
		return errAbsent
	}
	return nil
}

func (f fakeWindows) Library(name string) error {
	if !f.libraries[name] {
		return errAbsent
	}
	return nil
}

func (f fakeWindows) Driver(kind ovsdriver.Kind) (driver, error) {
	installed := f.driver
	if kind.Service == "DBO_OVSE" {
		installed = f.dbosoft
	}
	if installed == nil {
		return driver{}, errAbsent
	}
	return *installed, f.broken
}

func (f fakeWindows) CodeIntegrity() (codeIntegrity, error) { return f.integrity, f.broken }

func (f fakeWindows) SecureBoot() (bool, error) {
	if f.secure == nil {
		return false, errAbsent
	}
	return *f.secure, nil
}

func (f fakeWindows) Firewall() (firewall, error)                       { return f.firewall, f.broken }
func (f fakeWindows) Adapters() ([]hostnet.Adapter, error)              { return f.adapters, f.broken }
func (f fakeWindows) SoftwareRSC(context.Context, string) (bool, error) { return f.rsc, f.broken }

func (f fakeWindows) VMAdapter(context.Context, string, net.HardwareAddr) (string, error) {
	if f.vNIC == "" {
		return "", errBroken
	}
	return f.vNIC, nil
}

func (f fakeWindows) ExtensionSwitches(_ context.Context, extension string) ([]string, error) {
	if extension != "Open vSwitch Extension" {
		return nil, f.broken
	}
	return slices.Clone(f.switches), f.broken
}

func (f fakeWindows) Pipe(_ context.Context, name string) error {
	if err, ok := f.pipes[name]; ok {
		return err
	}
	return errAbsent
}

func TestWindowsVersion(t *testing.T) {
	for _, c := range []struct {
		version windowsVersion
		states  string
		words   string
	}{
		{windowsVersion{"Windows Server 2022 Datacenter", 20348, 2340, true}, "ok", "20348.2340"},
		{windowsVersion{"Windows Server 2025 Standard", 26100, 1, true}, "ok", "2025"},
		{windowsVersion{"Windows Server 2022 Datacenter", 20348, 2582, true}, "warning", "KB5044281"},
		{windowsVersion{"Windows Server 2022 Datacenter", 20348, 2762, true}, "ok", ""},
		{windowsVersion{"Windows Server 2019", 17763, 1, true}, "warning", "newer releases"},
		{windowsVersion{"Windows Server 2016", 14393, 1, true}, "failed", "older"},
		{windowsVersion{"Windows 11", 26100, 1, false}, "warning", "no server"},
		{windowsVersion{"Windows Server vNext", 29000, 1, true}, "warning", "does not know"},
	} {
		expect(t, checkWindowsVersion(fakeWindows{version: c.version}), c.states, c.words)
	}
	expect(t, checkWindowsVersion(fakeWindows{broken: errBroken}), "unknown")
}

func TestContainersFeature(t *testing.T) {
	libraries := map[string]bool{"computenetwork.dll": true, "vmcompute.dll": true}
	services := map[string]service{"hns": {State: "stopped", Start: "manual"}, "vmcompute": {State: "running",
		Start: "manual"}}
	for _, c := range []struct {
		name   string
		host   fakeWindows
		states string
		words  string
	}{
		{"there", fakeWindows{libraries: libraries, services: services}, "ok", "hns stopped, vmcompute running"},
		{"no libraries", fakeWindows{services: services}, "failed", "computenetwork.dll"},
		{"no services", fakeWindows{libraries: libraries}, "failed", "Install-WindowsFeature"},
		{"disabled", fakeWindows{libraries: libraries, services: map[string]service{"hns": {Start: "disabled"}}}, "failed",
			"Set-Service hns"},
		{"no rights", fakeWindows{libraries: libraries, broken: errBroken}, "unknown", "broken"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkContainers(c.host, c.host), c.states, c.words) })
	}
	vmms := func(s service, modules ...string) fakeWindows {
		return fakeWindows{services: map[string]service{"vmms": s}, modules: modules}
	}
	hyperV := func(f fakeWindows) []Finding { return checkHyperV(f, f) }
	expect(t, hyperV(vmms(service{State: "running", Start: "automatic"}, "Hyper-V")), "ok")
	expect(t, hyperV(vmms(service{State: "running", Start: "automatic"})), "failed",
		"Install-WindowsFeature Hyper-V-PowerShell")
	expect(t, hyperV(vmms(service{State: "stopped", Start: "automatic"}, "Hyper-V")), "failed", "Start-Service vmms")
	expect(t, hyperV(vmms(service{State: "stopped", Start: "disabled"}, "Hyper-V")), "failed", "Set-Service vmms")
	expect(t, hyperV(fakeWindows{}), "failed", "not installed", "Microsoft-Hyper-V-Online")
	expect(t, hyperV(fakeWindows{broken: errBroken}), "unknown", "broken")
}

func TestServices(t *testing.T) {
	good := service{State: "running", Start: "automatic", Restarts: 3, RecoversFromErrors: true}
	with := func(change func(*service)) fakeWindows {
		s := good
		change(&s)
		return fakeWindows{services: map[string]service{"weft": s}}
	}
	for _, c := range []struct {
		name          string
		host          fakeWindows
		agent, daemon string
		words         string
	}{
		{"good", with(func(*service) {}), "ok", "ok", "running"},
		{"absent", fakeWindows{}, "warning", "unknown", "service install"},
		{"stopped", with(func(s *service) { s.State = "stopped" }), "failed", "failed", "Start-Service"},
		{"manual", with(func(s *service) { s.Start = "manual" }), "failed", "warning", "reboot"},
		{"no recovery", with(func(s *service) { s.Restarts = 0 }), "warning", "ok", "crash"},
		{"crashes only", with(func(s *service) { s.RecoversFromErrors = false }), "warning", "ok", "failureflag"},
		{"no rights", fakeWindows{broken: errBroken}, "unknown", "unknown", "administrator"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkAgentService(c.host, "weft"), c.agent, c.words)
			expect(t, checkDaemon(c.host, "weft", false), c.daemon)
			expect(t, checkDaemon(c.host, "weft", true), strings.ReplaceAll(c.daemon, "failed", "warning"))
		})
	}
}

func TestPipes(t *testing.T) {
	host := fakeWindows{pipes: map[string]error{"served": nil, "refused": errBroken}}
	expect(t, checkPipe(t.Context(), host, "p", "served", "x", true), "ok")
	expect(t, checkPipe(t.Context(), host, "p", "none", "x", true), "failed")
	expect(t, checkPipe(t.Context(), host, "p", "none", "x", false), "warning")
	expect(t, checkPipe(t.Context(), host, "p", "refused", "x", true), "unknown")
}

func TestPacketMonitor(t *testing.T) {
	expect(t, checkPacketMonitor(t.Context(), fakeWindows{}), "ok")
	expect(t, checkPacketMonitor(t.Context(), fakeWindows{pktmon: errAbsent}), "warning", "Windows Server 2022")
	expect(t, checkPacketMonitor(t.Context(), fakeWindows{pktmon: errBroken}), "warning", "broken", "pktmon etl2pcap help")
}

func TestFreeGenevePort(t *testing.T) {
	expect(t, checkFreeGenevePort(func(int) error { return nil }), "ok", "6081")
	taken := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", wsaEADDRINUSE)}
	expect(t, checkFreeGenevePort(func(int) error { return taken }), "warning", "Get-NetUDPEndpoint")
	expect(t, checkFreeGenevePort(func(int) error { return errBroken }), "unknown", "Get-NetUDPEndpoint")
}

// sound is how a driver is built that is fit for OVN.
var sound = ovsdriver.Build{Version: ovsdriver.Version{Major: 3, Minor: 7}}

func TestDriver(t *testing.T) {
	microsoft := driver{Path: "p", Loaded: true, Build: sound,
		Signer: "Microsoft Windows Hardware Compatibility Publisher"}
	tester := driver{Path: "p", Build: sound, Signer: "WDKTestCert builder"}
	loaded := tester
	loaded.Loaded = true
	attested := microsoft
	attested.Loaded = false
	forged := microsoft
	forged.Loaded, forged.Refused = false, errBroken
	unreadable := driver{Path: "p", Loaded: true, Build: sound, SignatureUnknown: errBroken}
	enforced, testSigned := codeIntegrity{Enforced: true}, codeIntegrity{Enforced: true, TestSigning: true}
	for _, c := range []struct {
		name              string
		host              fakeWindows
		driver, signature string
		boot              string
		words             string
	}{
		{"none", fakeWindows{integrity: enforced}, "failed", "unknown", "ok", "no driver"},
		{"production", fakeWindows{driver: &microsoft, integrity: enforced}, "ok", "ok", "ok", "signed by Microsoft"},
		{"attested only", fakeWindows{driver: &attested, integrity: enforced}, "failed", "unknown", "ok", "HLK"},
		{"test, not allowed", fakeWindows{driver: &tester, integrity: enforced}, "failed", "failed", "ok",
			"test signing is off"},
		{"test, Secure Boot", fakeWindows{driver: &tester, integrity: enforced, secure: pointer(true)}, "failed", "failed",
			"ok", "Secure Boot does not let"},
		{"test, allowed", fakeWindows{driver: &loaded, integrity: testSigned, secure: pointer(false)}, "ok", "warning",
			"warning", "WDKTestCert"},
		{"test, loaded all the same", fakeWindows{driver: &loaded, integrity: enforced}, "ok", "warning", "ok",
			"all the same"},
		{"nothing enforced", fakeWindows{driver: &loaded}, "ok", "warning", "warning", "not by Microsoft"},
		{"forged", fakeWindows{driver: &forged, integrity: enforced}, "failed", "failed", "ok", "will not load"},
		{"unreadable", fakeWindows{driver: &unreadable, integrity: enforced}, "ok", "unknown", "ok",
			"Get-AuthenticodeSignature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkDriver(c.host, ""), c.driver)
			expect(t, checkDriverSignature(c.host, c.host, ""), c.signature, c.words)
			expect(t, checkBoot(c.host), c.boot)
		})
	}
	expect(t, checkBoot(fakeWindows{broken: errBroken}), "unknown", "bcdedit")
}

// The version of a driver and how it was built count, whatever ovs-vswitchd beside it is.
func TestBuildOfTheDriver(t *testing.T) {
	for _, c := range []struct {
		build         ovsdriver.Build
		loaded        bool
		states, words string
	}{
		{ovsdriver.Build{Version: ovsdriver.Version{Major: 3, Minor: 0}}, true, "failed", "netcfg -u OVSExt"},
		{ovsdriver.Build{Version: ovsdriver.Version{Major: 3, Minor: 5}}, true, "failed", "Open vSwitch 3.5: it stops"},
		{ovsdriver.Build{Version: ovsdriver.Version{Major: 3, Minor: 5}}, false, "failed", "blue screen"},
		{ovsdriver.Build{Version: ovsdriver.FirstSound}, true, "ok", "upstream 3.6"},
		{ovsdriver.Build{Version: ovsdriver.Version{Major: 3, Minor: 7}, Debug: true}, true, "warning", "debug build"},
		{ovsdriver.Build{}, true, "unknown", "does not say of which Open vSwitch"},
	} {
		installed := driver{Path: "p", Loaded: c.loaded, Build: c.build}
		expect(t, checkDriver(fakeWindows{driver: &installed}, ""), c.states, c.words)
	}
}

// fakeHNS is an HNS with networks of one switch.
type fakeHNS struct {
	version    hns.Version
	networks   []hns.Network
	extensions []hns.Extension
	err        error
	switchErr  error
}

func (f fakeHNS) Version(context.Context) (hns.Version, error)    { return f.version, f.err }
func (f fakeHNS) Networks(context.Context) ([]hns.Network, error) { return f.networks, f.err }
func (f fakeHNS) Switch(context.Context, hns.Network) (hns.Switch, error) {
	return hns.Switch{Extensions: f.extensions}, f.switchErr
}

func TestHNSVersion(t *testing.T) {
	for _, c := range []struct {
		service fakeHNS
		states  string
		words   string
	}{
		{fakeHNS{version: hns.Version{Major: 15, Minor: 2}}, "ok", "15.2"},
		{fakeHNS{version: hns.Version{Major: 9, Minor: 3}}, "warning", "dual stack"},
		{fakeHNS{version: hns.Version{Major: 7, Minor: 2}}, "failed", "second API"},
		{fakeHNS{err: fmt.Errorf("%w: no library", errAbsent)}, "failed", "Install-WindowsFeature"},
		{fakeHNS{err: &hns.HungError{Operation: "Version"}}, "failed", "Restart-Service"},
		{fakeHNS{err: context.DeadlineExceeded}, "failed", "Restart-Service"},
		{fakeHNS{err: errBroken}, "failed", "does not answer"},
	} {
		expect(t, checkHNS(t.Context(), c.service), c.states, c.words)
	}
}

func TestHNSNetwork(t *testing.T) {
	config := Config{HNSNetwork: "weft"}
	weft := []hns.Network{{Name: "weft", Type: hns.Transparent, Adapter: "Ethernet"}}
	enabled := []hns.Extension{{ID: "{583cc151-73ec-4a6a-8b47-578297ad7623}", Enabled: true}}
	disabled := []hns.Extension{{ID: ovsdriver.Kinds[0].Extension}}
	dbosoft := []hns.Extension{{ID: "63e968d9-754e-4704-a5ce-6e3bf7ddf59b", Enabled: true}}
	for _, c := range []struct {
		name    string
		service fakeHNS
		running bool
		states  string
		words   string
	}{
		{"before", fakeHNS{}, false, "ok", "the agent makes it"},
		{"lost", fakeHNS{}, true, "failed", "no HNS network weft"},
		{"another's", fakeHNS{networks: []hns.Network{{Name: "weft", Type: "L2Bridge"}}}, false, "failed", "L2Bridge"},
		{"well", fakeHNS{networks: weft, extensions: enabled}, true, "ok ok", "enabled"},
		{"another driver", fakeHNS{networks: weft, extensions: dbosoft}, true, "ok ok",
			"dbosoft Open vSwitch Extension is enabled"},
		{"two drivers", fakeHNS{networks: weft, extensions: append(dbosoft, enabled...)}, true, "ok failed", "ovs-driver"},
		{"no driver", fakeHNS{networks: weft}, true, "ok failed", "netcfg"},
		{"disabled", fakeHNS{networks: weft, extensions: disabled}, true, "ok failed", "no network"},
		{"after a reboot", fakeHNS{networks: weft, extensions: disabled}, false, "ok warning", "reboot"},
		{"silent switch", fakeHNS{networks: weft, switchErr: errBroken}, true, "ok unknown", "broken"},
		{"HNS that hangs", fakeHNS{err: &hns.HungError{Operation: "Networks"}}, true, "failed", "Restart-Service"},
		{"silent HNS", fakeHNS{err: errBroken}, true, "unknown", "broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkHNSNetwork(t.Context(), c.service, config, c.running), c.states, c.words)
		})
	}
}

// The extension is on one switch: another one that has it is named, whoever made it, and before weft's is there, too.
func TestExtensionSwitches(t *testing.T) {
	loaded := driver{Path: "p", Loaded: true, Build: sound}
	for _, c := range []struct {
		name, states, words string
		driver, dbosoft     *driver
		switches            []string
		broken              error
	}{
		{"none", "ok", "no other", &loaded, nil, nil, nil},
		{"weft's", "ok", "no other", &loaded, nil, []string{"weft"}, nil},
		{"two", "failed", "Disable-VMSwitchExtension -VMSwitchName 'lab' -Name 'Open vSwitch Extension'", &loaded, nil,
			[]string{"weft", "lab"}, nil},
		{"another's alone", "failed", "antrea-hnsnetwork", &loaded, nil, []string{"antrea-hnsnetwork"}, nil},
		{"three", "failed", "virtual switch a, b, which", &loaded, nil, []string{"b", "weft", "a"}, nil},
		{"another driver's", "ok", "", nil, &loaded, []string{"weft", "lab"}, nil},
		{"no driver", "unknown", "no driver", nil, nil, []string{"lab"}, nil},
		{"two drivers", "unknown", "", &loaded, &loaded, nil, nil},
		{"no answer", "unknown", "", &loaded, nil, nil, errBroken},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := fakeWindows{driver: c.driver, dbosoft: c.dbosoft, switches: c.switches, broken: c.broken}
			expect(t, checkExtensionSwitches(t.Context(), host, host, Config{HNSNetwork: "weft"}), c.states, c.words)
		})
	}
}

func nic(alias string, kind hostnet.Kind, addresses ...string) hostnet.Adapter {
	a := hostnet.Adapter{Alias: alias, Description: alias + " driver", Kind: kind, Up: true, MTU: 1500,
		MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	for _, text := range addresses {
		a.Addresses = append(a.Addresses, hostnet.Address{Prefix: netip.MustParsePrefix(text), Usable: true})
	}
	return a
}

func TestAdapter(t *testing.T) {
	const held = "192.0.2.11/24"
	down := nic("Ethernet", hostnet.Physical, held)
	down.Up = false
	other := nic("Ethernet 2", hostnet.Physical, held)
	other.MAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	weft := fakeHNS{networks: []hns.Network{{Name: "weft", Type: hns.Transparent, Adapter: "Ethernet"}}}
	for _, c := range []struct {
		name     string
		adapters []hostnet.Adapter
		service  fakeHNS
		adapter  string
		states   string
		words    string
		mtu      string
	}{
		{"by its address", []hostnet.Adapter{nic("Ethernet", hostnet.Physical, held)}, fakeHNS{}, "", "ok", "Ethernet", "ok"},
		{"by its name", []hostnet.Adapter{nic("Ethernet", hostnet.Physical, held)}, fakeHNS{}, "ethernet", "ok", "192.0.2.11",
			"ok"},
		{"below the switch", []hostnet.Adapter{nic("Ethernet", hostnet.Physical), nic("vEthernet (Ethernet)", hostnet.Virtual,
			held)}, weft, "", "ok", "is on vEthernet (Ethernet)", "ok"},
		{"address lost", []hostnet.Adapter{nic("Ethernet", hostnet.Physical)}, weft, "", "failed",
			"no adapter of the host holds", "ok"},
		{"nobody's address", []hostnet.Adapter{nic("Ethernet", hostnet.Physical, "192.0.2.99/24")}, fakeHNS{}, "", "failed",
			"there are: Ethernet [192.0.2.99/24]", "unknown"},
		{"unknown name", []hostnet.Adapter{nic("Ethernet", hostnet.Physical, held)}, fakeHNS{}, "nosuch", "failed",
			`no adapter "nosuch"`, "unknown"},
		{"none", nil, fakeHNS{}, "nosuch", "failed", "there are: none", "unknown"},
		{"a team", []hostnet.Adapter{nic("Team", hostnet.Team, held)}, fakeHNS{}, "", "failed", "Remove-NetLbfoTeam", "ok"},
		{"another switch's", []hostnet.Adapter{nic("vEthernet (nat)", hostnet.Virtual, held)}, fakeHNS{}, "", "failed",
			"not a physical one", "ok"},
		{"down", []hostnet.Adapter{down}, fakeHNS{}, "", "failed", "is down", "ok"},
		{"two", []hostnet.Adapter{nic("Ethernet", hostnet.Physical), other}, fakeHNS{}, "Ethernet", "failed",
			"on adapter Ethernet 2", "ok"},
		{"below a silent HNS", []hostnet.Adapter{nic("Ethernet", hostnet.Physical),
			nic("vEthernet (Ethernet)", hostnet.Virtual, held)}, fakeHNS{err: errBroken}, "", "unknown", "only HNS knows", "ok"},
		{"HNS is silent", []hostnet.Adapter{nic("Ethernet", hostnet.Physical, held)}, fakeHNS{err: errBroken}, "", "ok", "",
			"ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := Config{EncapAddress: netip.MustParseAddr("192.0.2.11"), Adapter: c.adapter, HNSNetwork: "weft"}
			host := fakeWindows{adapters: c.adapters}
			expect(t, checkAdapter(t.Context(), host, c.service, config), c.states, c.words)
			expect(t, checkAdapterMTU(t.Context(), host, c.service, config), c.mtu)
		})
	}
	found := fakeWindows{adapters: []hostnet.Adapter{nic("Ethernet", hostnet.Physical, held)}}
	expect(t, checkAdapter(t.Context(), found, fakeHNS{}, Config{Adapter: "Ethernet"}), "unknown",
		"encap-address is not set")
	expect(t, checkAdapter(t.Context(), fakeWindows{broken: errBroken}, fakeHNS{}, Config{}), "unknown")
	expect(t, checkAdapter(t.Context(), fakeWindows{adapters: []hostnet.Adapter{nic("Ethernet", hostnet.Physical)}},
		fakeHNS{}, Config{}), "failed", "neither adapter nor encap-address")
}

func TestRuntime(t *testing.T) {
	expect(t, checkRuntime(fakeWindows{libraries: map[string]bool{"vcruntime140.dll": true}}), "ok")
	expect(t, checkRuntime(fakeWindows{}), "warning", "Visual C++ Redistributable")
}

func TestAdapterNames(t *testing.T) {
	own := []hostnet.Adapter{nic("Ethernet", hostnet.Physical), nic("weft-uplink", hostnet.Virtual),
		nic("vEthernet (weft-mp0)", hostnet.Virtual), nic("br-int", hostnet.Virtual)}
	expect(t, checkAdapterNames(fakeWindows{adapters: own}), "ok")
	expect(t, checkAdapterNames(fakeWindows{adapters: append(own, nic("Weft-Uplink 2", hostnet.Physical))}), "failed",
		"Rename-NetAdapter -Name 'Weft-Uplink 2'")
	expect(t, checkAdapterNames(fakeWindows{adapters: append(own, nic("br-int", hostnet.Physical))}), "failed",
		"contains br-int")
	expect(t, checkAdapterNames(fakeWindows{broken: errBroken}), "unknown")
}

func TestUplinkName(t *testing.T) {
	physical, named := nic("Ethernet", hostnet.Physical), nic("weft-uplink", hostnet.Virtual, "192.0.2.11/24")
	former := nic("vEthernet (Ethernet)", hostnet.Virtual, "192.0.2.11/24")
	weft := fakeHNS{networks: []hns.Network{{Name: "weft", Type: hns.Transparent, Adapter: "Ethernet"}}}
	for _, c := range []struct {
		name    string
		host    *hostnet.Adapter
		vNIC    string
		service fakeHNS
		running bool
		states  string
		words   string
	}{
		{"both", &named, "weft-uplink", weft, true, "ok", ""},
		{"Hyper-V's is another", &named, "Ethernet", weft, true, "failed",
			`calls the host's adapter on the switch "Ethernet"`},
		{"the alias is another", &former, "weft-uplink", weft, true, "failed", `Windows "vEthernet (Ethernet)"`},
		{"the agent does not run", &named, "Ethernet", weft, false, "warning", "start the agent"},
		{"Hyper-V is silent", &named, "", weft, true, "unknown", "Get-VMNetworkAdapter -ManagementOS -SwitchName weft"},
		{"no network yet", nil, "", fakeHNS{}, false, "ok", "yet"},
		{"no vNIC", nil, "", weft, true, "unknown", "not found"},
		{"no HNS", nil, "", fakeHNS{err: errAbsent}, false, "ok", "yet"},
		{"silent HNS", nil, "", fakeHNS{err: errBroken}, false, "unknown", "broken"},
		{"HNS does not name the adapter below", &named, "Ethernet", fakeHNS{networks: []hns.Network{{Name: "weft"}}}, true,
			"failed", "Ethernet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := fakeWindows{adapters: []hostnet.Adapter{physical}, vNIC: c.vNIC}
			if c.host != nil {
				host.adapters = append(host.adapters, *c.host)
			}
			config := Config{HNSNetwork: "weft", EncapAddress: netip.MustParseAddr("192.0.2.11")}
			expect(t, checkUplinkName(t.Context(), host, c.service, config, c.running), c.states, c.words)
		})
	}
	expect(t, checkUplinkName(t.Context(), fakeWindows{broken: errBroken}, weft, Config{HNSNetwork: "weft"}, true),
		"unknown")
}

func TestMTU(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("fd00::11")
	for _, c := range []struct {
		actual, configured int
		address            netip.Addr
		states             string
		words              string
	}{
		{1500, 0, v4, "ok", "pods get 1442"},
		{1500, 0, v6, "ok", "pods get 1422"},
		{1500, 0, v6, "ok", "`ping -l 1452`"},
		{9000, 1500, v4, "ok", "pods get 1442"},
		{1500, 9000, v4, "failed", "uplink-mtu is 9000"},
		{1338, 0, v4, "ok", "1280"},
		{1337, 0, v4, "failed", "1279"},
		{1350, 0, v6, "failed", "1272"},
	} {
		expect(t, assessMTU("eth0", c.actual, Config{EncapAddress: c.address, UplinkMTU: c.configured}), c.states, c.words)
	}
}

func TestOtherNetworks(t *testing.T) {
	host := fakeWindows{adapters: []hostnet.Adapter{nic("Ethernet", hostnet.Physical, "192.0.2.11/24")}}
	config := Config{EncapAddress: netip.MustParseAddr("192.0.2.11"), HNSNetwork: "weft"}
	for _, c := range []struct {
		name     string
		networks []hns.Network
		states   string
		words    string
	}{
		{"none", nil, "ok", ""},
		{"ours and docker's", []hns.Network{{Name: "weft", Type: hns.Transparent, Adapter: "Ethernet"},
			{Name: "nat", Type: "NAT"}}, "ok", ""},
		{"flannel's", []hns.Network{{Name: "cbr0", Type: "Overlay", Adapter: "Ethernet"}}, "failed", "cbr0 (Overlay)"},
		{"on another adapter", []hns.Network{{Name: "cbr0", Type: "L2Bridge", Adapter: "Ethernet 2"}}, "ok", ""},
		{"on who knows which", []hns.Network{{Name: "x", Type: "L2Bridge"}}, "unknown", "x (L2Bridge)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkForeignNetworks(t.Context(), host, fakeHNS{networks: c.networks}, config), c.states, c.words)
		})
	}
}

func TestRSCAndResolvers(t *testing.T) {
	weft := fakeHNS{networks: []hns.Network{{Name: "weft"}}}
	config := Config{HNSNetwork: "weft"}
	expect(t, checkRSC(t.Context(), fakeWindows{rsc: true}, weft, config), "ok")
	expect(t, checkRSC(t.Context(), fakeWindows{}, weft, config), "warning", "EnableSoftwareRsc")
	expect(t, checkRSC(t.Context(), fakeWindows{broken: errBroken}, weft, config), "unknown")
	expect(t, checkRSC(t.Context(), fakeWindows{}, fakeHNS{}, config), "ok")
	expect(t, checkRSC(t.Context(), fakeWindows{}, fakeHNS{err: errAbsent}, config), "ok")
	expect(t, checkRSC(t.Context(), fakeWindows{rsc: true}, fakeHNS{err: errBroken}, config), "unknown")

	served := nic("Ethernet", hostnet.Physical)
	served.DNS.Servers = []netip.Addr{netip.MustParseAddr("192.0.2.53")}
	invented := nic("Ethernet", hostnet.Physical)
	invented.DNS.Servers = []netip.Addr{netip.MustParseAddr("fec0:0:0:ffff::1")}
	expect(t, checkResolvers(fakeWindows{adapters: []hostnet.Adapter{served}}), "ok", "192.0.2.53 (Ethernet)")
	expect(t, checkResolvers(fakeWindows{adapters: []hostnet.Adapter{invented}}), "warning")
	expect(t, checkResolvers(fakeWindows{broken: errBroken}), "unknown")
}

// TestEveryCheckRunsOnAnEmptyWindows: no check may rely on what another one has found.
func TestEveryCheckRunsOnAnEmptyWindows(t *testing.T) {
	checks := windowsChecks(Config{Hosted: true}, readers{
		api: fakeAPI{}, vswitch: fakeVswitch{err: errBroken}, openFlow: func(context.Context) error { return errBroken },
		daemons: fakeControl{}, agent: fakeAgent{err: errNotRunning}, metrics: fakeMetrics{err: errNotRunning},
		files: osFiles{}, disk: fakeDisk{err: errBroken}, names: fakeNames{},
		conflist: brokenFS{}, listen: func(string) error { return errBroken },
	}, fakeWindows{broken: errBroken, pktmon: errBroken}, fakeHNS{err: errBroken})
	seen := map[subject]bool{}
	for _, c := range checks {
		if seen[c.name] {
			t.Errorf("two checks are called %s", c.name)
		}
		seen[c.name] = true
	}
	for _, f := range runChecks(t.Context(), patience, checks) {
		if f.State == OK && f.Check != "configuration" && f.Check != "ovn-southbound" && f.Check != "geneve-port" {
			t.Errorf("%s is ok although nothing can be read: %s", f.Check, f.Detail)
		}
	}
}

// The driver is found by its kind, or as the only one that is there.
func TestDriverKinds(t *testing.T) {
	own := driver{Path: `C:\Windows\System32\drivers\OVSExt.sys`, Loaded: true, Build: sound}
	other := driver{Path: `C:\Windows\System32\drivers\DBO_OVSE.sys`, Loaded: true, Build: sound}
	expect(t, checkDriver(fakeWindows{}, ""), "failed", "netcfg -l ovsext.inf -c s -i OVSExt", "ovs-driver")
	expect(t, checkDriver(fakeWindows{}, "dbosoft"), "failed", "netcfg -l dbo_ovse.inf -c s -i DBO_OVSE")
	expect(t, checkDriver(fakeWindows{dbosoft: &other}, ""), "ok", "DBO_OVSE.sys (dbosoft 3.7)")
	expect(t, checkDriver(fakeWindows{driver: &own, dbosoft: &other}, ""), "failed", "ovs-driver")
	expect(t, checkDriver(fakeWindows{driver: &own, dbosoft: &other}, "dbosoft"), "ok", "DBO_OVSE.sys (dbosoft 3.7)")
	expect(t, checkDriver(fakeWindows{driver: &own}, "dbosoft"), "failed", "DBO_OVSE is not installed")
	expect(t, checkDriver(fakeWindows{driver: &own, broken: errBroken}, ""), "unknown", "broken")
}
