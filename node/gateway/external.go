package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/platform"
)

// External is the node's bridge to the outside, as its flows have to know it.
type External struct {
	// Bridge is its name, and that of the host's own interface on it.
	Bridge string
	// Uplink is the device by which it leads outside; empty while it has none, or more than one.
	Uplink string
	// Host is what the host has on the bridge.
	Host platform.HostInterface
	// Gateway is the node's gateway router, as its facts have it.
	Gateway contract.Gateway
	// incomplete says why the gateway lacks next hops; nil if it lacks none.
	incomplete error
}

// errNoGateway: the node has no gateway router of its own.
var errNoGateway = errors.New("the node has no gateway of its own")

// Facts is the node's gateway router as the controller is to know it; nil where the node has none. It fails as long as
// the router must not be made.
func (g *Gateway) Facts() (*contract.Gateway, error) {
	external, err := g.external()
	if errors.Is(err, errNoGateway) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	g.Health.Note(health.NextHops, nextHopMissing, external.incomplete)
	if err := g.flows.ready(external); err != nil {
		return nil, err
	}
	return &external.Gateway, nil
}

// external describes the bridge to the outside as it is now; errNoGateway where there must be none. It
// asks the system, and changes nothing.
func (g *Gateway) external() (External, error) {
	if !g.Config.OwnGateway() {
		return External{}, errNoGateway
	}
	if err := g.UplinkReady(); err != nil {
		return External{}, err
	}
	uplink := g.uplink.get()
	e := External{Bridge: cmp.Or(uplink.Host, g.Config.GatewayBridge),
		Uplink: cmp.Or(uplink.Adapter, g.Config.GatewayInterface)}
	if e.Uplink == "" {
		e.Uplink = g.Database.OnlyDevice(e.Bridge)
	}
	var err error
	if e.Host, err = g.Platform.HostInterface(e.Bridge); err != nil {
		return External{}, fmt.Errorf("the bridge to the outside: %w", err)
	}
	if e.Gateway, err = gatewayOf(g.Config, e.Bridge, e.Host); err != nil {
		return External{}, err
	}
	e.Gateway.NextHops, e.incomplete = nextHops(g.Config, e.Bridge, e.Host, e.Gateway.Addresses)
	return e, nil
}

// gatewayOf is the gateway router, except for its next hops, of a node whose host has so much on the bridge to
// the outside.
func gatewayOf(c nodeconfig.Config, bridge string, host platform.HostInterface) (contract.Gateway, error) {
	gateway := contract.Gateway{Network: c.GatewayNetwork, Addresses: c.GatewayAddresses,
		Routed: c.GatewayMode() == nodeconfig.GatewayRouted}
	if c.HostGateway() {
		gateway.HostAddresses, gateway.Addresses, gateway.MAC = true, mainAddresses(host.Addresses), host.MAC.String()
		if len(gateway.Addresses) == 0 || len(host.MAC) == 0 {
			return gateway, fmt.Errorf("the host has no usable address on bridge %s, and its gateway needs one; give it "+
				"one there, or set gateway-addresses", bridge)
		}
	} else {
		gateway.MAC = contract.MAC(contract.Addrs(gateway.Addresses)...).String()
	}
	return gateway, nil
}

// mainAddresses are the first of each family.
func mainAddresses(addresses []netip.Prefix) []netip.Prefix {
	found := []netip.Prefix{}
	for _, p := range addresses {
		if !slices.ContainsFunc(found, func(q netip.Prefix) bool { return q.Addr().Is4() == p.Addr().Is4() }) {
			found = append(found, p)
		}
	}
	return found
}

// nextHops are those of the key, or of the host's default routes, as far as the gateway's addresses
// reach them; the error says what is missing.
func nextHops(
	c nodeconfig.Config, bridge string, host platform.HostInterface, addresses []netip.Prefix,
) ([]netip.Addr, error) {
	candidates, source := c.GatewayNextHops, "gateway-next-hops:"
	if len(candidates) == 0 {
		candidates, source = slices.DeleteFunc(slices.Clone(host.NextHops), func(hop netip.Addr) bool {
			return !slices.ContainsFunc(addresses, func(p netip.Prefix) bool { return p.Addr().Is4() == hop.Is4() })
		}), "gateway-next-hops: of the host's default routes"
	}
	good, errs := []netip.Addr{}, []error{}
	for _, hop := range candidates {
		if nodeconfig.OnLink(addresses, hop) {
			good = append(good, hop)
			continue
		}
		errs = append(errs, fmt.Errorf("%s %v is no neighbour in the subnets of the gateway's addresses %v, and is not "+
			"used; set the key to routers there", source, hop, addresses))
	}
	for _, p := range addresses {
		if slices.ContainsFunc(candidates, func(hop netip.Addr) bool { return hop.Is4() == p.Addr().Is4() }) {
			continue
		}
		family := "IPv6"
		if p.Addr().Is4() {
			family = "IPv4"
		}
		if len(c.GatewayNextHops) == 0 {
			errs = append(errs, fmt.Errorf("gateway-next-hops: is empty, and the host has no default route of %s by %s: pods "+
				"reach no further than %v; add the route, or set the key", family, bridge, p.Masked()))
		}
	}
	return good, errors.Join(errs...)
}
