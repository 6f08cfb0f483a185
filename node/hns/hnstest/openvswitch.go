package hnstest

import (
	"errors"
	"io/fs"
	"net"
	"strings"

	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/ovsdriver"
)

// OpenVSwitch is Open vSwitch, as far as a machine's adapters are concerned: its driver, and lib/wmi.c of Open vSwitch
// 3.7.1.
type OpenVSwitch struct{ state *state }

var errNoSwitch = errors.New("no virtual switch has the extension")

// DriverBuild is what the file of an installed driver says.
func (o *OpenVSwitch) DriverBuild(kind ovsdriver.Kind) (ovsdriver.Build, error) {
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	if !o.state.installed(kind.Extension) {
		return ovsdriver.Build{}, fs.ErrNotExist
	}
	return ovsdriver.Build{Version: o.state.DriverVersion}, nil
}

// CreateWMIPort does what ovs-vswitchd does for a port of type internal: create_wmi_port. A vNIC that Hyper-V calls
// by the port's name is the port's. Where there is none one is made, and then the first adapter whose alias has the
// name anywhere in it is disabled and renamed, whosever it is.
func (o *OpenVSwitch) CreateWMIPort(name string) error {
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	if o.state.NoVMMS {
		return errNoVMMS
	}
	if o.state.adapters.vNIC(name) != nil {
		return nil
	}
	owner := one(o.state.networks, func(n *network) bool { return n.extension })
	if owner == nil {
		return errNoSwitch
	}
	o.state.adapters.add(hostnet.Adapter{Alias: vNICAlias(name), Kind: hostnet.Virtual, MTU: 1500, Up: true,
		MAC: net.HardwareAddr{0, 0x15, 0x5d, 0, 0, byte(o.state.adapters.lastLUID)}}, owner.ID).friendly = name
	like := one(o.state.adapters.list, func(a *adapter) bool {
		return strings.Contains(strings.ToLower(a.Alias), strings.ToLower(name))
	})
	like.disabled, like.Up = true, false
	defer o.state.adapters.notify()
	if like.Alias != name && o.state.adapters.named(name) != nil {
		return errAliasUsed
	}
	like.Alias = name
	return nil
}

// DeleteWMIPort does what ovs-vswitchd does with a port of type internal that goes: delete_wmi_port. The vNIC goes too.
func (o *OpenVSwitch) DeleteWMIPort(name string) {
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	gone := o.state.adapters.vNIC(name)
	if gone == nil || o.state.NoVMMS {
		return
	}
	o.state.adapters.remove(func(a *adapter) bool { return a == gone })
}

// Tunnels says whether the driver finds the port by which a tunnel's packets leave: it knows a vNIC by Hyper-V's
// name (GetNICAlias of Vport.c), and looks for it by the alias (OvsGetRoute of IpHelper.c).
func (o *OpenVSwitch) Tunnels(alias string) bool {
	o.state.mu.Lock()
	defer o.state.mu.Unlock()
	a := o.state.adapters.named(alias)
	return a != nil && a.friendly == alias
}
