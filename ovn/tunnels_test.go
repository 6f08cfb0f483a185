package ovn

import (
	"maps"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/ovntest"
)

// vips are what all of a Service's load balancers have, by address and port.
func (s *scene) vips(name string) map[string]string {
	all := map[string]string{}
	for _, r := range s.c.changeOf(northbound.ServiceOwner("default/" + name)).Rows {
		if row, ok := r.Model.(*nb.LoadBalancer); ok {
			maps.Copy(all, row.Vips)
		}
	}
	return all
}

// TestServicesHaveNoTunnels: an endpoint that is a host's tunnels is served to nobody, and told. A pod's is.
func TestServicesHaveNoTunnels(t *testing.T) {
	s := newScene(t, nil)
	n1 := s.node("n1", "10.244.1.0/24")
	n1.Facts = ovntest.Facts(1, false)
	s.do(n1)
	web := s.outward("web", 1, 30080, "198.51.100.1")
	web.Ports[0].Protocol, web.NodePorts[0].Protocol = "udp", "udp"
	slice := s.slice("web", "web", []objects.ServicePort{{Name: "http", Protocol: "udp", Port: contract.TunnelPort}},
		ready("192.0.2.1", "n1"), ready("198.51.100.9", ""), ready("10.244.1.9", "n1"))
	s.do(web, slice)
	for at, backends := range s.vips("web") {
		s.want(at, backends, "10.244.1.9:6081")
	}
	s.wantMessage("Service default/web", "EndpointAtTunnelPort", "EndpointSlice web", "192.0.2.1", "UDP 6081",
		"another port")
	other := *slice
	other.Ports = []objects.ServicePort{{Name: "http", Protocol: "udp", Port: contract.TunnelPort + 1}}
	s.do(&other)
	for at, backends := range s.vips("web") {
		s.want(at, backends, "10.244.1.9:6082,192.0.2.1:6082,198.51.100.9:6082")
	}
	s.wantReasons()
}
