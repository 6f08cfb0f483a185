package hnstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
)

// HyperV is Hyper-V's management: what [hostnet.Host] has to do with virtual switches.
type HyperV struct {
	state *state
	calls *calls
}

var (
	errNoVMMS    = errors.New("the Hyper-V Virtual Machine Management service is not running")
	errAliasUsed = errors.New("the name already exists")
)

// vNICAlias is the alias that Windows gives to a vNIC that Hyper-V calls by a name.
func vNICAlias(friendly string) string { return hostnet.VirtualPrefix + " (" + friendly + ")" }

// hostVNIC finds the host's adapter on a network's switch.
func (h *HyperV) hostVNIC(virtualSwitch string, mac net.HardwareAddr) (*adapter, error) {
	if h.state.NoVMMS {
		return nil, errNoVMMS
	}
	found := one(h.state.adapters.list, func(a *adapter) bool {
		return a.friendly != "" && slices.Equal(a.MAC, mac) && slices.ContainsFunc(h.state.networks, func(n *network) bool {
			return n.Name == virtualSwitch && hns.SameID(n.ID, a.owner)
		})
	})
	if found == nil {
		return nil, fmt.Errorf("switch %s has no adapter with MAC %v", virtualSwitch, mac)
	}
	return found, nil
}

func (h *HyperV) VMAdapter(_ context.Context, virtualSwitch string, mac net.HardwareAddr) (string, error) {
	if err := h.calls.suffer("VMAdapter"); err != nil {
		return "", err
	}
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	found, err := h.hostVNIC(virtualSwitch, mac)
	if err != nil {
		return "", err
	}
	return found.friendly, nil
}

func (h *HyperV) RenameVMAdapter(_ context.Context, virtualSwitch string, mac net.HardwareAddr, name string) error {
	if err := h.calls.suffer("RenameVMAdapter"); err != nil {
		return err
	}
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	found, err := h.hostVNIC(virtualSwitch, mac)
	if err != nil {
		return err
	}
	found.friendly, found.Alias = name, vNICAlias(name)
	h.state.adapters.notify()
	return nil
}

func (h *HyperV) Reclaim(_ context.Context, virtualSwitch, adapter string, _ bool) error {
	if err := h.calls.begin("Reclaim"); err != nil {
		return err
	}
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	if h.state.NoVMMS {
		return errNoVMMS
	}
	for _, n := range slices.Concat(h.state.left, h.state.networks) {
		if n.Name == virtualSwitch && n.Adapter == adapter && !n.switchless {
			h.state.removeSwitch(n)
			n.switchless, n.extension = true, false
		}
	}
	h.state.left = nil
	h.state.adapters.notify()
	return nil
}

func (h *HyperV) SoftwareRSC(context.Context, string) (bool, error) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.RSC, nil
}

// EnableSoftwareRSC returns success and does nothing, as a PowerShell without the module may.
func (h *HyperV) EnableSoftwareRSC(context.Context, string) error { return nil }
