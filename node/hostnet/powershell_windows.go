package hostnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// commandTime bounds a command of PowerShell's, which takes seconds to start.
const commandTime = time.Minute

// powershell is the last resort, for what Windows has no call for. Its exit status proves nothing:
// whoever calls it reads the state back.
func powershell(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	output, err := exec.CommandContext(ctx, "powershell.exe", "-NoProfile", "-NonInteractive", "-Command",
		"$ErrorActionPreference='Stop'; "+command).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return text, fmt.Errorf("powershell %s: %w: %s", command, err, text)
	}
	return text, nil
}

// quotes are PowerShell's, to which the typographic ones are the same, each doubled.
var quotes = strings.NewReplacer("'", "''", "‘", "‘‘", "’", "’’", "‚", "‚‚", "‛", "‛‛")

// quote makes a literal string of PowerShell's (about_Quoting_Rules, and CharTraits.cs: IsSingleQuote).
func quote(text string) string { return "'" + quotes.Replace(text) + "'" }

func (Native) SoftwareRSC(ctx context.Context, virtualSwitch string) (bool, error) {
	command := "(Get-VMSwitch -Name " + quote(virtualSwitch) + ").SoftwareRscEnabled"
	said, err := powershell(ctx, command)
	if err != nil {
		return false, err
	}
	switch {
	case strings.EqualFold(said, "True"):
		return true, nil
	case strings.EqualFold(said, "False"):
		return false, nil
	}
	return false, fmt.Errorf("powershell %s: the answer %q is neither True nor False (is the feature Hyper-V-PowerShell "+
		"installed?)", command, said)
}

func (Native) EnableSoftwareRSC(ctx context.Context, virtualSwitch string) error {
	_, err := powershell(ctx, "Set-VMSwitch -Name "+quote(virtualSwitch)+" -EnableSoftwareRsc $true")
	return err
}

func (Native) EnableNamed(alias string) error {
	_, err := powershell(context.Background(), "Enable-NetAdapter -Name "+quote(alias)+" -Confirm:$false")
	return err
}

// SetMAC sets the driver's parameter NetworkAddress, for which Windows restarts the adapter.
func (Native) SetMAC(a Adapter, mac net.HardwareAddr) error {
	_, err := powershell(context.Background(), "Set-NetAdapterAdvancedProperty -Name "+quote(a.Alias)+
		" -RegistryKeyword NetworkAddress -RegistryValue "+digits(mac))
	return err
}

// Rename tells the adapter by its number: a name may have characters that PowerShell takes for wildcards.
func (Native) Rename(a Adapter, alias string) error {
	_, err := powershell(context.Background(), fmt.Sprintf("Get-NetAdapter -InterfaceIndex %d | Rename-NetAdapter "+
		"-NewName %s", a.Index, quote(alias)))
	return err
}

// ExtensionSwitches are the virtual switches on which the extension of that name is enabled, those that HNS does not
// know among them.
func (Native) ExtensionSwitches(ctx context.Context, extension string) ([]string, error) {
	said, err := powershell(ctx, "Get-VMSwitch | Get-VMSwitchExtension | Where-Object Name -eq "+quote(extension)+
		" | Where-Object Enabled -eq $true | ForEach-Object SwitchName")
	return slices.DeleteFunc(strings.Split(strings.ReplaceAll(said, "\r\n", "\n"), "\n"),
		func(name string) bool { return name == "" }), err
}

// vmAdapter finds the host's adapter on a virtual switch, as Hyper-V has it: by its MAC address, in digits alone.
func vmAdapter(virtualSwitch string, mac net.HardwareAddr) string {
	return "Get-VMNetworkAdapter -ManagementOS -SwitchName " + quote(virtualSwitch) + " | Where-Object MacAddress -eq " +
		quote(digits(mac))
}

func digits(mac net.HardwareAddr) string {
	return strings.ToUpper(strings.ReplaceAll(mac.String(), ":", ""))
}

func (Native) VMAdapter(ctx context.Context, virtualSwitch string, mac net.HardwareAddr) (string, error) {
	name, err := powershell(ctx, "("+vmAdapter(virtualSwitch, mac)+").Name")
	if err == nil && name == "" {
		err = fmt.Errorf("virtual switch %s has no adapter of the host's with MAC %v, or PowerShell does not tell",
			virtualSwitch, mac)
	}
	return name, err
}

func (Native) RenameVMAdapter(ctx context.Context, virtualSwitch string, mac net.HardwareAddr, name string) error {
	_, err := powershell(ctx, vmAdapter(virtualSwitch, mac)+" | Rename-VMNetworkAdapter -NewName "+quote(name))
	return err
}

// Reclaim does what Antrea has its users do where HNS has left a switch (Clean-AntreaNetwork.ps1): the adapter is bound
// to the switch's protocol no more, the switch goes, and DHCP is asked again.
func (Native) Reclaim(ctx context.Context, virtualSwitch, adapter string, dhcp bool) error {
	commands := []string{
		"Set-NetAdapterBinding -Name " + quote(adapter) + " -ComponentID vms_pp -Enabled $false",
		"Get-VMSwitch | Where-Object Name -eq " + quote(virtualSwitch) + " | Remove-VMSwitch -Force",
	}
	if dhcp {
		commands = append(commands, "ipconfig /renew")
	}
	var errs []error
	for _, command := range commands { // each may be enough
		_, err := powershell(ctx, command)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
