package lab

import (
	"fmt"

	"github.com/weftnet/weft/test/lab/machine"
)

// Ports on which the outside host tells who asks: GET /clientip, or a datagram "clientip".
const (
	OutsideHTTPPort = 8080
	OutsideUDPPort  = 8081
)

// outside is a host on the nodes' network that is no part of the cluster: it has no routes to pods or
// Services. The Windows nodes' network is behind its router.
func (c Config) outside(f files) *machine.Spec {
	spec := c.machine(f, Outside)
	spec.Interfaces = []machine.Interface{
		{Name: externalDevice, Bridge: external.bridge, Addresses: c.prefixes(external, outsideNumber), MTU: c.MTU},
	}
	for i, destination := range c.pick(subnet(underlay.v4), subnet(underlay.v6)) {
		spec.Routes = append(spec.Routes, machine.Route{Destination: destination,
			Via: c.addrs(external, routerNumber)[i].String()})
	}
	spec.Components = []machine.Component{{
		Name: "agnhost",
		Command: []string{f.lab("agnhost"), "netexec",
			fmt.Sprintf("--http-port=%d", OutsideHTTPPort), fmt.Sprintf("--udp-port=%d", OutsideUDPPort)},
		Ready: machine.Probe{TCP: hostPort(c.addr(external, outsideNumber), OutsideHTTPPort)},
	}}
	return spec
}

// subnet of a network's addresses of one family, as in [network].
func subnet(format string) string { return fmt.Sprintf(format, 0) }
