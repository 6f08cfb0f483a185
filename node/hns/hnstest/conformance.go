package hnstest

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/weftnet/weft/node/hns"
)

// Subject is a model of HNS with nothing in it, for [Conformance].
type Subject struct {
	Service hns.Service
	// Adapter is a physical adapter's name.
	Adapter string
	// Namespaces are two of pods that have not started.
	Namespaces [2]string
}

// errAny stands for a refusal that [hns.Service] has no error for.
var errAny = errors.New("any error")

// nobody's GUID.
const nobody = "99999999-9999-9999-9999-999999999999"

// Conformance holds a model to what the agent relies on: what HNS refuses, with which error, and what an endpoint and a
// network look like through their lives. All models run it, so that none is kinder than the others.
func Conformance(t *testing.T, s Subject) {
	t.Helper()
	refused := func(what string, want error, call func() error) {
		t.Helper()
		if err := call(); err == nil || want != errAny && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	network := s.network(t, refused)
	endpoint := s.endpoint(t, network, refused)
	s.attachment(t, endpoint, refused)
	if err := s.Service.DeleteNetwork(network); err != nil {
		t.Errorf("delete the network: %v", err)
	}
	if left := must(t, s.Service.Networks); len(left) > 0 {
		t.Errorf("networks are left: %+v", left)
	}
	if left := must(t, s.Service.Endpoints); len(left) > 0 {
		t.Errorf("the network's endpoints are left: %+v", left)
	}
}

func (s Subject) network(t *testing.T, refused func(string, error, func() error)) (id string) {
	t.Helper()
	want := hns.Network{Name: "weft", Type: hns.Transparent, Adapter: s.Adapter, Subnets: []hns.Subnet{
		{Prefix: netip.MustParsePrefix("10.244.1.0/24"), Gateway: netip.MustParseAddr("10.244.1.1")},
	}}
	create := func(change func(*hns.Network)) func() error {
		return func() error {
			n := want
			change(&n)
			_, err := s.Service.CreateNetwork(n)
			return err
		}
	}
	refused("a network on no adapter", errAny, create(func(n *hns.Network) { n.Adapter = "Wi-Fi" }))
	made, err := s.Service.CreateNetwork(want)
	if err != nil {
		t.Fatalf("create a network: %v", err)
	}
	if made.ID == "" || made.Name != want.Name || made.Type != want.Type || !slices.Equal(made.Subnets, want.Subnets) {
		t.Errorf("the network is %+v, want %+v", made, want)
	}
	if all := must(t, s.Service.Networks); len(all) != 1 || !hns.SameID(all[0].ID, made.ID) {
		t.Errorf("networks %+v", all)
	}
	refused("a network whose name is taken", hns.ErrExists, create(func(*hns.Network) {}))
	refused("a network whose adapter has a switch", errAny, create(func(n *hns.Network) { n.Name = "other" }))
	refused("the deletion of nobody's network", hns.ErrNotFound, func() error { return s.Service.DeleteNetwork(nobody) })
	refused("the switch of nobody's network", hns.ErrNotFound, func() error {
		_, err := s.Service.Switch(nobody)
		return err
	})
	refused("an extension that is not installed", hns.ErrNoExtension, func() error {
		return s.Service.EnableExtension(made.ID, nobody)
	})
	if err := s.Service.EnableExtension(made.ID, OVSExtension); err != nil {
		t.Errorf("enable Open vSwitch's extension: %v", err)
	}
	virtual, err := s.Service.Switch(made.ID)
	if extension, ok := virtual.Extension(OVSExtension); err != nil || !ok || !extension.Enabled {
		t.Errorf("the switch is %+v, %v", virtual, err)
	}
	return made.ID
}

func (s Subject) endpoint(
	t *testing.T, network string, refused func(string, error, func() error),
) (made hns.Endpoint) {
	t.Helper()
	want := hns.Endpoint{Name: "weft00000000001", Network: network, MAC: MAC("0a:58:0a:f4:01:03"),
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.1.3/24")},
		Gateways:  []netip.Addr{netip.MustParseAddr("10.244.1.1")},
		DNS:       hns.DNS{Servers: []string{"10.96.0.10"}, Search: []string{"svc.cluster.local"}}}
	create := func(change func(*hns.Endpoint)) func() error {
		return func() error {
			e := want
			change(&e)
			_, err := s.Service.CreateEndpoint(e)
			return err
		}
	}
	refused("an endpoint of nobody's network", hns.ErrNotFound, create(func(e *hns.Endpoint) { e.Network = nobody }))
	refused("an address of no subnet", hns.ErrAddressTaken, create(func(e *hns.Endpoint) {
		e.Addresses = []netip.Prefix{netip.MustParsePrefix("10.9.0.2/24")}
	}))
	made, err := s.Service.CreateEndpoint(want)
	if err != nil {
		t.Fatalf("create an endpoint: %v", err)
	}
	if made.ID == "" || made.Name != want.Name || !hns.SameID(made.Network, network) ||
		made.MAC.String() != want.MAC.String() || !slices.Equal(made.Addresses, want.Addresses) ||
		!slices.Equal(made.Gateways, want.Gateways) || !slices.Equal(made.DNS.Search, want.DNS.Search) {
		t.Errorf("the endpoint is %+v, want %+v", made, want)
	}
	refused("an endpoint whose name is taken", hns.ErrExists, create(func(e *hns.Endpoint) {
		e.Addresses = []netip.Prefix{netip.MustParsePrefix("10.244.1.4/24")}
	}))
	refused("an address that is taken", hns.ErrAddressTaken, create(func(e *hns.Endpoint) { e.Name = "weft00000000002" }))
	refused("the deletion of nobody's endpoint", hns.ErrNotFound, func() error { return s.Service.DeleteEndpoint(nobody) })
	named := must(t, func() ([]hns.Endpoint, error) { return s.Service.EndpointsNamed(want.Name) })
	if len(named) != 1 || !hns.SameID(named[0].ID, made.ID) {
		t.Errorf("the endpoints of its name are %+v", named)
	}
	if none := must(t, func() ([]hns.Endpoint, error) { return s.Service.EndpointsNamed("nobody") }); len(none) > 0 {
		t.Errorf("the endpoints of nobody's name are %+v", none)
	}
	return made
}

func (s Subject) attachment(t *testing.T, e hns.Endpoint, refused func(string, error, func() error)) {
	t.Helper()
	first, second := s.Namespaces[0], s.Namespaces[1]
	attach := func(namespace, endpoint string) func() error {
		return func() error { return s.Service.Attach(namespace, endpoint) }
	}
	refused("nobody's namespace", hns.ErrNotFound, func() error { _, err := s.Service.Namespace(nobody); return err })
	refused("an endpoint in nobody's namespace", hns.ErrNotFound, attach(nobody, e.ID))
	refused("nobody's endpoint in a namespace", hns.ErrNotFound, attach(first, nobody))
	for _, again := range []string{"", " again"} {
		if err := s.Service.Attach(first, e.ID); err != nil {
			t.Fatalf("attach the endpoint%s: %v", again, err)
		}
		refused("an endpoint that is there already", hns.ErrExists, attach(first, e.ID))
		refused("an endpoint that is elsewhere", hns.ErrExists, attach(second, e.ID))
		refused("the detachment from where it is not", hns.ErrNotFound,
			func() error { return s.Service.Detach(second, e.ID) })
		if n, err := s.Service.Namespace(first); err != nil || len(n.Endpoints) != 1 || !hns.SameID(n.Endpoints[0], e.ID) {
			t.Errorf("the namespace with the endpoint is %+v, %v", n, err)
		}
		if named := must(t, s.Service.Endpoints); len(named) != 1 || !hns.SameID(named[0].Namespace, first) {
			t.Errorf("the attached endpoint is %+v", named)
		}
		if err := s.Service.Detach(first, e.ID); err != nil {
			t.Errorf("detach the endpoint%s: %v", again, err)
		}
	}
	if err := s.Service.Attach(first, e.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Service.DeleteEndpoint(e.ID); err != nil {
		t.Errorf("delete the attached endpoint: %v", err)
	}
	if n, err := s.Service.Namespace(first); err != nil || len(n.Endpoints) != 0 {
		t.Errorf("the namespace of a deleted endpoint is %+v, %v", n, err)
	}
	if _, err := s.Service.CreateEndpoint(hns.Endpoint{Name: e.Name, Network: e.Network, MAC: e.MAC,
		Addresses: e.Addresses}); err != nil {
		t.Errorf("its name and address are free again: %v", err)
	}
}

func must[T any](t *testing.T, call func() (T, error)) T {
	t.Helper()
	value, err := call()
	if err != nil {
		t.Fatal(err)
	}
	return value
}
