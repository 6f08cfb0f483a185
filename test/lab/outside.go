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
type outside struct{ layout }

func (o outside) spec() *machine.Spec {
	spec := o.newSpec(Outside)
	spec.Interfaces = []machine.Interface{o.networkInterface(externalDevice, external, outsideNumber)}
	for i, destination := range o.addresses.pick(subnet(underlay.v4), subnet(underlay.v6)) {
		spec.Routes = append(spec.Routes, machine.Route{Destination: destination,
			Via: o.addresses.of(external, routerNumber)[i].String()})
	}
	spec.Components = []machine.Component{{
		Name: "agnhost",
		Command: []string{o.files.lab("agnhost"), "netexec",
			fmt.Sprintf("--http-port=%d", OutsideHTTPPort), fmt.Sprintf("--udp-port=%d", OutsideUDPPort)},
		Ready: machine.Probe{TCP: hostPort(o.addresses.first(external, outsideNumber), OutsideHTTPPort)},
	}}
	return spec
}

// subnet of a network's addresses of one family, as in [network].
func subnet(format string) string { return fmt.Sprintf(format, 0) }
