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
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"010.244.0.3"}}, {Addresses: []string{"10.244.0.4"}},
			{Addresses: []string{"127.0.0.1"}},
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

// TestTheAgentChoosesAsTheController does, which has kube-proxy's rules.
func TestTheAgentChoosesAsTheController(t *testing.T) {
	yes, no := true, false
	node := "n1"
	of := func(addr string, node *string, c discoveryv1.EndpointConditions) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: node, Conditions: c}
	}
	leaving := discoveryv1.EndpointConditions{Ready: &no, Terminating: &yes} // it serves as long as nothing else is said
	for name, c := range map[string]struct {
		endpoints []discoveryv1.Endpoint
		publish   bool
		want      string
	}{
		"leaving": {[]discoveryv1.Endpoint{of("10.244.0.3", &node, leaving)}, false, "10.244.0.3 n1"},
		"leaving beside ready": {[]discoveryv1.Endpoint{of("10.244.0.3", &node, leaving),
			of("10.244.0.4", &node, discoveryv1.EndpointConditions{})}, false, "10.244.0.4 n1"},
		"not ready": {[]discoveryv1.Endpoint{of("10.244.0.3", &node, discoveryv1.EndpointConditions{Ready: &no})},
			false, ""},
		"published": {[]discoveryv1.Endpoint{of("10.244.0.3", &node, discoveryv1.EndpointConditions{Ready: &no})},
			true, "10.244.0.3 n1"},
		"with and without its node": {[]discoveryv1.Endpoint{of("10.244.0.3", nil, discoveryv1.EndpointConditions{}),
			of("10.244.0.3", &node, discoveryv1.EndpointConditions{})},
			false, "10.244.0.3 n1"},
	} {
		got := ""
		s := trimmedSlice(t, discoveryv1.AddressTypeIPv4, c.endpoints...)
		port := endpointsKey{s.ports[0].name, s.ports[0].protocol, true}
		for _, e := range serving(behind([]*slice{s}, nil), port, len(c.endpoints), c.publish) {
			got += e.at.Addr().String() + " " + e.node
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
