package windows

import (
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/hostnet"
	"github.com/weftnet/weft/node/platform"
)

// EnsureNeighbours leaves it to Windows to know which routes are there: it refuses one that is.
func (w *Platform) EnsureNeighbours(device string, neighbours []extbridge.Neighbour) error {
	adapters, err := w.host.Adapters()
	if err != nil {
		return fmt.Errorf("list the host's adapters: %w", err)
	}
	adapter, ok := hostnet.Named(adapters, device)
	if !ok {
		return fmt.Errorf("adapter %q: %w", device, platform.ErrNoDevice)
	}
	for _, n := range neighbours {
		if err := w.host.SetNeighbour(adapter, n.Addr, n.MAC); err != nil {
			return fmt.Errorf("set neighbour %v of adapter %s to %v: %w", n.Addr, device, n.MAC, err)
		}
		onLink := netip.IPv6Unspecified()
		if n.Addr.Is4() {
			onLink = netip.IPv4Unspecified()
		}
		if err := w.host.AddRoute(adapter,
			hostnet.Route{Destination: netip.PrefixFrom(n.Addr, n.Addr.BitLen()), NextHop: onLink}); err != nil {
			return fmt.Errorf("add route %v by adapter %s: %w", n.Addr, device, err)
		}
	}
	return nil
}
