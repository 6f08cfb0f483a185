package windows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/weftnet/weft/node/hns"
	"github.com/weftnet/weft/node/hostnet"
)

// checkNames refuses adapters that Open vSwitch would take for one of its own.
func checkNames(adapters []hostnet.Adapter) error {
	if a, name, ok := hostnet.Mistakable(adapters); ok {
		return fmt.Errorf("adapter: the name of adapter %q contains %q, by which Open vSwitch looks for an adapter of its "+
			"own: it may disable and rename this one; give it another name (Rename-NetAdapter -Name '%s' -NewName NAME)",
			a.Alias, name, a.Alias)
	}
	return nil
}

// ensureName: the host's vNIC is called [hostnet.HostAdapter], by Hyper-V and as its alias. A network that has been in
// order under another name, as former versions left it, gets over: the bridge follows the alias. Hyper-V is asked once
// per process, since an administrator or HNS may have changed its name alone: an ovs-vswitchd that starts then finds no
// vNIC of the bridge's, makes one, and disables the host's for its alias. A network that has been in order does not
// wait for a Hyper-V that is silent.
func (u *sharing) ensureName(
	ctx context.Context, network hns.Network, host hostnet.Adapter, saved *HostSettings,
) (hostnet.Adapter, error) {
	known := host.Alias == hostnet.HostAdapter && saved != nil && saved.Host == hostnet.HostAdapter &&
		hns.SameID(saved.Network, network.ID)
	if known && (hns.SameID(u.names.network, network.ID) || time.Now().Before(u.names.at)) {
		return host, nil
	}
	named, err := u.rename(ctx, network, host)
	if known && errors.Is(err, errHyperVSilent) {
		slog.WarnContext(ctx, "it is not known what Hyper-V calls the host's adapter on the virtual switch; where that is "+
			"another name, Open vSwitch may disable this adapter when it starts", "adapter", host.Alias, "error", err)
		u.names.at = time.Now().Add(namePeriod)
		return host, nil
	}
	if err != nil {
		return host, fmt.Errorf("the host's own adapter %q on HNS network %s cannot be named %s, by which Open vSwitch "+
			"has to find it; see that Hyper-V's management is installed and runs (Install-WindowsFeature Hyper-V, "+
			"Hyper-V-PowerShell; Get-Service vmms): %w",
			host.Alias, network.Name, hostnet.HostAdapter, err)
	}
	u.names.network = network.ID
	return named, nil
}

// uplinkNames says when Hyper-V has to be asked for its name of the host's adapter.
type uplinkNames struct {
	network string    // it has answered for this one
	at      time.Time // not before
}

// due says whether a Hyper-V that was silent is to be asked again.
func (n *uplinkNames) due(network string) bool {
	return !n.at.IsZero() && !hns.SameID(n.network, network) && !time.Now().Before(n.at)
}

// namePeriod is how often a Hyper-V that is silent is asked: PowerShell takes seconds, or a minute.
const namePeriod = 5 * time.Minute

var errHyperVSilent = errors.New("Hyper-V does not tell the name of the host's adapter")

func (u *sharing) rename(ctx context.Context, network hns.Network, host hostnet.Adapter) (hostnet.Adapter, error) {
	adapters, err := u.host.Adapters()
	if err != nil {
		return host, fmt.Errorf("list the host's adapters: %w", err)
	}
	if err := checkNames(adapters); err != nil {
		return host, err
	}
	name, err := u.host.VMAdapter(ctx, network.Name, host.MAC)
	if err != nil {
		return host, fmt.Errorf("%w: %w", errHyperVSilent, err)
	}
	if name != hostnet.HostAdapter {
		slog.InfoContext(ctx, "the host's adapter on the virtual switch is renamed", "network", network.Name, "from", name,
			"to", hostnet.HostAdapter)
		if err := u.host.RenameVMAdapter(ctx, network.Name, host.MAC, hostnet.HostAdapter); err != nil {
			return host, err
		}
		if name, err = u.host.VMAdapter(ctx, network.Name, host.MAC); err != nil {
			return host, err
		}
		if name != hostnet.HostAdapter {
			return host, fmt.Errorf("Hyper-V took the name and calls it %q", name)
		}
	}
	if host, err = u.hostVNIC(network, host.MAC); err != nil || host.Alias == hostnet.HostAdapter {
		return host, err
	}
	if err := u.host.Rename(host, hostnet.HostAdapter); err != nil {
		return host, err
	}
	if host, err = u.hostVNIC(network, host.MAC); err == nil && host.Alias != hostnet.HostAdapter {
		err = fmt.Errorf("the alias was set, and Windows calls it %q", host.Alias)
	}
	return host, err
}

// hostVNIC is the host's adapter on the network's switch as it is now.
func (u *sharing) hostVNIC(network hns.Network, mac net.HardwareAddr) (hostnet.Adapter, error) {
	adapters, err := u.host.Adapters()
	if err != nil {
		return hostnet.Adapter{}, fmt.Errorf("list the host's adapters: %w", err)
	}
	host, ok := hostnet.Management(adapters, network.Adapter, mac)
	if !ok {
		return host, fmt.Errorf("it went away: %w", errNoHostAdapter)
	}
	return host, nil
}
