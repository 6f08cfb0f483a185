package hostservice

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestUnservablePortsAndAddresses that the API server admits are no endpoints of the agent's either.
func TestUnservablePortsAndAddresses(t *testing.T) {
	number := func(n int32) *int32 { return &n }
	name := func(text string) *string { return &text }
	object, err := trimSlice(&discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: name("a"), Port: number(65558)}, {Name: name("b"), Port: number(0)},
			{Name: name("c"), Port: number(-1)}, {Name: name("d"), Port: number(65535)}, {Name: name("e")}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"010.244.0.3"}}, {Addresses: []string{"10.244.0.4"}}, {Addresses: []string{"127.0.0.1"}},
			{Addresses: []string{"::ffff:10.244.0.5"}}, {Addresses: []string{"fd00::1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := object.(*slice)
	if len(s.ports) != 1 || s.ports[0].name != "d" || s.ports[0].port != 65535 {
		t.Errorf("ports %v", s.ports)
	}
	if len(s.endpoints) != 1 || s.endpoints[0].addr.String() != "10.244.0.4" {
		t.Errorf("endpoints %v", s.endpoints)
	}
}
