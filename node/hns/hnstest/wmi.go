package hnstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
)

// Hyper-V's management, and what Open vSwitch does with it: lib/wmi.c of Open vSwitch 3.7.1.

var (
	errNoVMMS    = errors.New("the Hyper-V Virtual Machine Management service is not running")
	errNoSwitch  = errors.New("no virtual switch has the extension")
	errAliasUsed = errors.New("the name already exists")
)

// vNICAlias is the alias that Windows gives to a vNIC that Hyper-V calls by a name.
func vNICAlias(friendly string) string { return hostnet.VirtualPrefix + " (" + friendly + ")" }

// Set changes what the machine does wrong while an agent is at work on it.
func (m *Machine) Set(change func(*Machine)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
	m.notify()
}

// CreateWMIPort does what ovs-vswitchd does for a port of type internal: create_wmi_port. A vNIC that Hyper-V calls
// by the port's name is the port's. Where there is none one is made, and then the first adapter whose alias has the
// name anywhere in it is disabled and renamed, whosever it is.
func (m *Machine) CreateWMIPort(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.NoVMMS {
		return errNoVMMS
	}
	if m.vNIC(name) != nil {
		return nil
	}
	owner := one(m.networks, func(n *network) bool { return n.extension })
	if owner == nil {
		return errNoSwitch
	}
	m.addAdapter(hostnet.Adapter{Alias: vNICAlias(name), Kind: hostnet.Virtual, MTU: 1500, Up: true,
		MAC: net.HardwareAddr{0, 0x15, 0x5d, 0, 0, byte(m.lastLUID)}}, owner.ID).friendly = name
	like := one(m.adapters, func(a *adapter) bool {
		return strings.Contains(strings.ToLower(a.Alias), strings.ToLower(name))
	})
	like.disabled, like.Up = true, false
	defer m.notify()
	if like.Alias != name && m.adapter(name) != nil {
		return errAliasUsed
	}
	like.Alias = name
	return nil
}

// DeleteWMIPort does what ovs-vswitchd does with a port of type internal that goes: delete_wmi_port. The vNIC goes too.
func (m *Machine) DeleteWMIPort(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := m.vNIC(name)
	if gone == nil || m.NoVMMS {
		return
	}
	m.adapters = slices.DeleteFunc(m.adapters, func(a *adapter) bool { return a == gone })
	m.notify()
}

func (m *Machine) vNIC(friendly string) *adapter {
	return one(m.adapters, func(a *adapter) bool { return a.friendly == friendly && friendly != "" })
}

// Tunnels says whether the driver finds the port by which a tunnel's packets leave: it knows a vNIC by Hyper-V's
// name (GetNICAlias of Vport.c), and looks for it by the alias (OvsGetRoute of IpHelper.c).
func (m *Machine) Tunnels(alias string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.adapter(alias)
	return a != nil && a.friendly == alias
}

// hostVNIC finds the host's adapter on a network's switch.
func (m *Machine) hostVNIC(virtualSwitch string, mac net.HardwareAddr) (*adapter, error) {
	if m.NoVMMS {
		return nil, errNoVMMS
	}
	found := one(m.adapters, func(a *adapter) bool {
		return a.friendly != "" && slices.Equal(a.MAC, mac) && slices.ContainsFunc(m.networks, func(n *network) bool {
			return n.Name == virtualSwitch && hns.SameID(n.ID, a.owner)
		})
	})
	if found == nil {
		return nil, fmt.Errorf("switch %s has no adapter with MAC %v", virtualSwitch, mac)
	}
	return found, nil
}

func (m *Machine) VMAdapter(_ context.Context, virtualSwitch string, mac net.HardwareAddr) (string, error) {
	if err := m.suffer("VMAdapter"); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.hostVNIC(virtualSwitch, mac)
	if err != nil {
		return "", err
	}
	return found.friendly, nil
}

func (m *Machine) RenameVMAdapter(_ context.Context, virtualSwitch string, mac net.HardwareAddr, name string) error {
	if err := m.suffer("RenameVMAdapter"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.hostVNIC(virtualSwitch, mac)
	if err != nil {
		return err
	}
	found.friendly, found.Alias = name, vNICAlias(name)
	m.notify()
	return nil
}

func (m *Machine) Rename(a hostnet.Adapter, alias string) error {
	m.mu.Lock()
	taken := m.adapter(alias)
	m.mu.Unlock()
	if taken != nil && taken.LUID != a.LUID {
		return errAliasUsed
	}
	return m.change("Rename", a, func(own *adapter) { own.Alias = alias })
}

func (m *Machine) Reclaim(_ context.Context, virtualSwitch, adapter string, _ bool) error {
	m.mu.Lock()
	m.calls = append(m.calls, "Reclaim")
	m.mu.Unlock()
	if err := m.suffer("Reclaim"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.NoVMMS {
		return errNoVMMS
	}
	for _, n := range slices.Concat(m.left, m.networks) {
		if n.Name == virtualSwitch && n.Adapter == adapter && !n.switchless {
			m.removeSwitch(n)
			n.switchless, n.extension = true, false
		}
	}
	m.left = nil
	m.notify()
	return nil
}
