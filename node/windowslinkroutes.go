package node

import (
	"fmt"
	"net/netip"

	"github.com/weftnet/weft/node/hostnet"
)

// EnsureLinkRoutes leaves it to Windows to know which routes are there: it refuses one that is.
func (w *Windows) EnsureLinkRoutes(device string, addresses []netip.Addr) error {
	adapters, err := w.host.Adapters()
	if err != nil {
		return fmt.Errorf("list the host's adapters: %w", err)
	}
	adapter, ok := hostnet.Named(adapters, device)
	if !ok {
		return fmt.Errorf("adapter %q: %w", device, ErrNoDevice)
	}
	for _, addr := range addresses {
		onLink := netip.IPv6Unspecified()
		if addr.Is4() {
			onLink = netip.IPv4Unspecified()
		}
		if err := w.host.AddRoute(adapter, hostnet.Route{Destination: netip.PrefixFrom(addr, addr.BitLen()), NextHop: onLink}); err != nil {
			return fmt.Errorf("add route %v by adapter %s: %w", addr, device, err)
		}
	}
	return nil
}
