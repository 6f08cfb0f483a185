package hns

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// unnamed is the management vNIC as HNS makes it.
const unnamed = "vEth-Ethernet"

// powershell runs a command as the agent has powershell.exe run it.
func (m *machine) powershell(command string) (string, error) {
	reply := m.service.runPowerShell(m.plane.Host(), failFast+command)
	if reply.Status != 0 {
		return "", fmt.Errorf("%d: %s", reply.Status, *reply.Err)
	}
	return *reply.Out, nil
}

func (m *machine) mustPowershell(command, want string) {
	m.t.Helper()
	if out, err := m.powershell(command); err != nil || out != want {
		m.t.Fatalf("%s: %q, %v", command, out, err)
	}
}

const vmAdapter = "Get-VMNetworkAdapter -ManagementOS -SwitchName 'weft' | Where-Object MacAddress -eq '00155D010203'"

// name gives the management vNIC the name of the bridge, as the agent does.
func (m *machine) name() {
	m.t.Helper()
	m.mustPowershell("("+vmAdapter+").Name", "Ethernet")
	m.mustPowershell(vmAdapter+" | Rename-VMNetworkAdapter -NewName '"+bridge+"'", "")
	m.mustPowershell("("+vmAdapter+").Name", bridge)
	renamed, err := netlink.LinkByName(ManagementDevice(bridge))
	m.check(err)
	m.mustPowershell(fmt.Sprintf("Get-NetAdapter -InterfaceIndex %d | Rename-NetAdapter -NewName '%s'",
		renamed.Attrs().Index, bridge), "")
}

func TestPowerShellRenamesTheHostsAdapter(t *testing.T) {
	m := newMachine(t)
	m.unnamedNetwork()
	m.check(m.has(unnamed, hostV4, hostV6))
	m.name()
	m.check(m.has(bridge, hostV4, hostV6))
	m.start(Config{StateFile: m.state})
	m.check(m.has(bridge, hostV4, hostV6))
	if m.exists(unnamed) || m.exists(ManagementDevice(bridge)) {
		t.Error("a former name is still there")
	}
	var state State
	if err := json.Unmarshal([]byte(control(t, m.service, "state")), &state); err != nil ||
		state.Networks[0].VNIC != (ManagementVNIC{bridge, bridge}) {
		t.Errorf("the state is %+v, %v", state.Networks, err)
	}
}

func TestPowerShellRemovesTheSwitch(t *testing.T) {
	m := newMachine(t)
	m.network()
	m.mustPowershell("Set-NetAdapterBinding -Name 'Ethernet' -ComponentID vms_pp -Enabled $false", "")
	m.mustPowershell("Get-VMSwitch | Where-Object Name -eq 'other' | Remove-VMSwitch -Force", "")
	m.check(m.has(bridge, hostV4, hostV6))
	m.mustPowershell("Get-VMSwitch | Where-Object Name -eq 'weft' | Remove-VMSwitch -Force", "")
	m.mustPowershell("ipconfig /renew", "")
	m.check(m.has("Ethernet", hostV4, hostV6))
	if m.exists(bridge) {
		t.Error("the switch's vNIC is still there")
	}
	if out, err := m.powershell(
		"Set-NetAdapterBinding -Name 'Ethernet 9' -ComponentID vms_pp -Enabled $false"); err == nil {
		t.Errorf("an adapter that is not there: %q", out)
	}
}

// Hyper-V lists the switches that have an extension enabled.
func TestPowerShellListsExtensions(t *testing.T) {
	const list = "Get-VMSwitch | Get-VMSwitchExtension | Where-Object Name -eq 'Open vSwitch Extension' | Where-Object " +
		"Enabled -eq $true | ForEach-Object SwitchName"
	m := newMachine(t)
	weft := m.unnamedNetwork()
	m.mustPowershell(list, "")
	m.enableExtension(weft)
	m.mustPowershell(list, "weft")
	m.enableExtension(must(t, m.service, "HcnCreateNetwork", "", 0, `{"Name":"lab","Type":"Private"}`))
	m.mustPowershell(list, "weft\r\nlab")
	m.mustPowershell("Get-VMSwitch | Where-Object Name -eq 'weft' | Remove-VMSwitch -Force", "")
	m.mustPowershell(list, "lab")
}

func TestWhatPowerShellRefuses(t *testing.T) {
	m := newMachine(t)
	m.unnamedNetwork()
	adapter, err := netlink.LinkByName("Ethernet")
	m.check(err)
	rename := fmt.Sprintf("Get-NetAdapter -InterfaceIndex %d | Rename-NetAdapter -NewName 'Ethernet'", m.index(unnamed))
	for command, want := range map[string]string{
		"Format-Volume -DriveLetter C": "'Format-Volume' is not recognized",
		"Rename-NetAdapter":            "'Rename-NetAdapter' is not recognized",
		rename:                         "already existed",
		"Get-NetAdapter -InterfaceIndex 4711 | Rename-NetAdapter -NewName 'x'": "4711",
		fmt.Sprintf("Get-NetAdapter -InterfaceIndex %d | Rename-NetAdapter -NewName 'x'",
			adapter.Attrs().Index): "InterfaceIndex",
		"(Get-VMNetworkAdapter -ManagementOS -SwitchName 'other' | " +
			"Where-Object MacAddress -eq '00155D010203').Name": `"other"`,
		"Enable-NetAdapter -Name 'nobody' -Confirm:$false":                                          "nobody",
		"(Get-VMSwitch -Name 'it''s another').SoftwareRscEnabled":                                   `"it's another"`,
		vmAdapter + " | Rename-VMNetworkAdapter -NewName 'a'; Rename-VMNetworkAdapter -NewName 'b'": "not recognized",
	} {
		if out, err := m.powershell(command); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", command, out, err)
		}
	}
	m.mustPowershell("(Get-VMNetworkAdapter -ManagementOS -SwitchName 'weft' | Where-Object MacAddress -eq "+
		"'000000000000').Name", "")
	m.mustPowershell("(Get-VMSwitch -Name 'weft').SoftwareRscEnabled", "False")
	m.mustPowershell("Set-VMSwitch -Name 'weft' -EnableSoftwareRsc $true", "")
	m.mustPowershell("(Get-VMSwitch -Name 'weft').SoftwareRscEnabled", "True")
	control(t, m.service, "fault", "no-vmms")
	if out, err := m.powershell("(" + vmAdapter + ").Name"); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("without vmms: %q, %v", out, err)
	}
	if reply := m.service.runPowerShell(m.plane.Host(), "("+vmAdapter+").Name"); reply.Status != 0 {
		t.Errorf("without $ErrorActionPreference PowerShell goes on: %+v", reply)
	}
}

func (m *machine) index(device string) int {
	m.t.Helper()
	link, err := netlink.LinkByName(device)
	m.check(err)
	return link.Attrs().Index
}
