package hns

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// powerShell is PowerShell as far as the agent uses it: powershell.exe (dll/powershell.c) sends its command here. What
// is not in the table is an unknown command, and not one that succeeds.
type powerShell struct{ system *system }

// powerShellFunction is how powershell.exe calls.
const powerShellFunction = "PowerShell"

// failFast begins each of the agent's commands: without it PowerShell goes on after an error.
const failFast = "$ErrorActionPreference='Stop'; "

// literal is a string in PowerShell's quotes.
const literal = `'((?:[^']|'')*)'`

const ofVMAdapter = `Get-VMNetworkAdapter -ManagementOS -SwitchName ` + literal + ` \| Where-Object MacAddress -eq ` +
	literal

var cmdlets = []struct {
	form *regexp.Regexp
	run  func(p *powerShell, host Host, args []string) (string, error)
}{
	{form(`\(` + ofVMAdapter + `\)\.Name`), (*powerShell).vmAdapterName},
	{form(ofVMAdapter + ` \| Rename-VMNetworkAdapter -NewName ` + literal), (*powerShell).renameVMAdapter},
	{form(`Get-NetAdapter -InterfaceIndex (\d+) \| Rename-NetAdapter -NewName ` + literal), (*powerShell).renameAdapter},
	{form(`Enable-NetAdapter -Name ` + literal + ` -Confirm:\$false`), (*powerShell).enableAdapter},
	{form(`Set-NetAdapterBinding -Name ` + literal + ` -ComponentID vms_pp -Enabled \$false`), (*powerShell).unbind},
	{form(`Get-VMSwitch \| Where-Object Name -eq ` + literal + ` \| Remove-VMSwitch -Force`), (*powerShell).removeSwitch},
	{form(`ipconfig /renew`), func(*powerShell, Host, []string) (string, error) { return "", nil }}, // no DHCP here
	{form(`\(Get-VMSwitch -Name ` + literal + `\)\.SoftwareRscEnabled`), (*powerShell).softwareRSC},
	{form(`Get-VMSwitch \| Get-VMSwitchExtension \| Where-Object Name -eq ` + literal + ` \| Where-Object Enabled -eq ` +
		`\$true \| ForEach-Object SwitchName`), (*powerShell).extensionSwitches},
	{form(`Set-VMSwitch -Name ` + literal + ` -EnableSoftwareRsc \$true`), (*powerShell).enableSoftwareRSC},
}

func form(text string) *regexp.Regexp { return regexp.MustCompile(`^` + text + `$`) }

// run returns what a command prints.
func (p *powerShell) run(host Host, command string) (string, error) {
	command, stops := strings.CutPrefix(command, failFast)
	for _, c := range cmdlets {
		args := c.form.FindStringSubmatch(command)
		if args == nil {
			continue
		}
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "''", "'")
		}
		out, err := c.run(p, host, args[1:])
		if err != nil && !stops {
			return err.Error(), nil
		}
		return out, err
	}
	word, _, _ := strings.Cut(strings.TrimLeft(command, "("), " ")
	return "", fmt.Errorf("the term '%s' is not recognized as the name of a cmdlet, function, script file, or "+
		"operable program", word)
}

// managed returns the network of that name, if Hyper-V's management can tell of it. The system is locked.
func (p *powerShell) managed(virtualSwitch string) (*Network, error) {
	if p.system.faults.noVMMS {
		return nil, fmt.Errorf("Hyper-V encountered an error trying to access an object on this computer: the Virtual " +
			"Machine Management service is not running")
	}
	for _, n := range p.system.objects.Networks {
		if n.Name == virtualSwitch && n.Adapter != "" {
			return n, nil
		}
	}
	return nil, fmt.Errorf("Hyper-V was unable to find a virtual switch with name %q", virtualSwitch)
}

// vmAdapter returns the network whose management vNIC has the MAC, nil where it has another. The system is locked.
func (p *powerShell) vmAdapter(virtualSwitch, mac string) (*Network, error) {
	n, err := p.managed(virtualSwitch)
	if err != nil || !strings.EqualFold(strings.ReplaceAll(n.Host.MAC, ":", ""), mac) {
		return nil, err
	}
	return n, nil
}

func (p *powerShell) vmAdapterName(_ Host, args []string) (string, error) {
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	n, err := p.vmAdapter(args[0], args[1])
	if n == nil {
		return "", err
	}
	return n.VNIC.Name, nil
}

func (p *powerShell) renameVMAdapter(_ Host, args []string) (string, error) {
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	n, err := p.vmAdapter(args[0], args[1])
	if n == nil {
		return "", err // nothing comes through the pipe
	}
	n.VNIC = ManagementVNIC{Name: args[2], Device: ManagementDevice(args[2])}
	p.system.keep()
	return "", nil
}

// renameAdapter renames a switch's management vNIC, and no other.
func (p *powerShell) renameAdapter(host Host, args []string) (string, error) {
	if host == nil {
		return "", Win32NotSupported
	}
	index, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	list, err := host.Interfaces()
	if err != nil {
		return "", err
	}
	from := ""
	for _, i := range list {
		if i.Name == args[1] && i.Index != index {
			return "", fmt.Errorf("{Object Exists} An attempt was made to create an object and the object name already existed")
		}
		if i.Index == index {
			from = i.Name
		}
	}
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	for _, n := range p.system.objects.Networks {
		if n.Adapter != "" && n.VNIC.Device == from && len(args[1]) <= maxAlias {
			n.VNIC.Device = args[1]
			p.system.keep()
			return "", nil
		}
	}
	return "", fmt.Errorf("no MSFT_NetAdapter objects found with property 'InterfaceIndex' equal to '%d'", index)
}

func (p *powerShell) enableAdapter(host Host, args []string) (string, error) {
	if host == nil {
		return "", Win32NotSupported
	}
	list, err := host.Interfaces()
	if err != nil {
		return "", err
	}
	for _, i := range list {
		if i.Name == args[0] {
			return "", host.SetUp(i.Index)
		}
	}
	return "", fmt.Errorf("no MSFT_NetAdapter objects found with property 'Name' equal to '%s'", args[0])
}

// unbind: a switch keeps its adapter whatever the adapter is bound to, as far as the emulator goes.
func (p *powerShell) unbind(_ Host, args []string) (string, error) {
	if _, _, err := p.system.plane.Adapter(args[0]); err != nil {
		return "", fmt.Errorf("no MSFT_NetAdapterBindingSettingData objects found with property 'Name' equal to '%s'",
			args[0])
	}
	return "", nil
}

// removeSwitch: the adapter is the host's again, and HNS keeps a network that has no switch.
func (p *powerShell) removeSwitch(_ Host, args []string) (string, error) {
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	if p.system.faults.noVMMS {
		_, err := p.managed(args[0])
		return "", err
	}
	for _, n := range p.system.objects.Networks {
		if n.Name == args[0] {
			n.Adapter, n.VNIC = "", ManagementVNIC{}
		}
	}
	p.system.keep()
	return "", nil
}

func (p *powerShell) softwareRSC(_ Host, args []string) (string, error) {
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	n, err := p.managed(args[0])
	if err != nil {
		return "", err
	}
	if n.RSC {
		return "True", nil
	}
	return "False", nil
}

// extensionSwitches are those that have the extension enabled, one per line.
func (p *powerShell) extensionSwitches(_ Host, args []string) (string, error) {
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	if p.system.faults.noVMMS {
		_, err := p.managed("")
		return "", err
	}
	var names []string
	for _, n := range p.system.objects.Networks {
		gone := n.Adapter == "" && slices.Contains(external, n.Type)
		if !gone && slices.ContainsFunc(n.Extensions, func(e Extension) bool { return e.IsEnabled && e.Name == args[0] }) {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, "\r\n"), nil
}

func (p *powerShell) enableSoftwareRSC(_ Host, args []string) (string, error) {
	p.system.mu.Lock()
	defer p.system.mu.Unlock()
	n, err := p.managed(args[0])
	if err != nil {
		return "", err
	}
	n.RSC = true
	p.system.keep()
	return "", nil
}
