package gateway

import (
	"net/netip"
	"slices"
	"testing"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/ovsdb"
)

// The controller is told of a gateway with the host's addresses when flows for just these are there; one with
// addresses of its own waits for nothing.
func TestGatewayWaitsForItsFlows(t *testing.T) {
	external := func(mac string, shared bool, addresses ...string) External {
		e := External{Bridge: "br-ex", Gateway: contract.Gateway{HostAddresses: shared, MAC: mac}}
		for _, text := range addresses {
			e.Host.Addresses = append(e.Host.Addresses, netip.MustParsePrefix(text))
		}
		e.Gateway.Addresses = mainAddresses(e.Host.Addresses)
		return e
	}
	now := external("02:00:00:00:00:02", true, "192.0.2.2/24", "192.0.2.3/24", "2001:db8::2/64")
	for name, test := range map[string]struct {
		inForce, wanted External
		ready           bool
	}{
		"no flows":           {External{}, now, false},
		"the same":           {now, now, true},
		"a further address":  {now, external("02:00:00:00:00:02", true, "192.0.2.2/24", "2001:db8::2/64"), true},
		"another address":    {now, external("02:00:00:00:00:02", true, "192.0.2.3/24", "2001:db8::2/64"), false},
		"another MAC":        {now, external("02:00:00:00:00:03", true, "192.0.2.2/24", "2001:db8::2/64"), false},
		"addresses were own": {external("02:00:00:00:00:02", false, "192.0.2.2/24", "2001:db8::2/64"), now, false},
		"own addresses":      {External{}, external("02:00:00:00:00:99", false, "192.0.2.2/24"), true},
	} {
		f := newBridgeFlows(nodeconfig.Config{})
		f.inForce = test.inForce
		if err := f.ready(test.wanted); (err == nil) != test.ready {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Ports are protected from each other while they share an address, and the bridge is marked while it has flows.
func TestDividing(t *testing.T) {
	ovs := openvswitchtest.New(t)
	bridge, patch := ovsdb.ID(vswitch.BridgeTable, "test", "br-ex"), openvswitch.PatchName("n1")
	var operations []libovsdb.Operation
	var ports []string
	for _, name := range []string{"br-ex", "ex0", patch, "patch-localnet@shared-to-br-int"} {
		operations = append(operations, openvswitch.InsertPort("test", name, openvswitch.DeviceSettings{})...)
		ports = append(ports, ovsdb.ID(vswitch.PortTable, "test", name))
	}
	root, err := ovs.Root()
	if err != nil {
		t.Fatal(err)
	}
	operations = append(operations, openvswitch.InsertRow(vswitch.BridgeTable, bridge,
		libovsdb.Row{"name": "br-ex", "ports": openvswitch.References(ports...)}),
		openvswitch.MutateRow(vswitch.OpenvSwitchTable, root.UUID, openvswitch.AddTo("bridges", bridge)))
	if err := ovs.Apply(t.Context(), operations); err != nil {
		t.Fatal(err)
	}
	until := func(condition func() bool) {
		t.Helper()
		if err := ovs.WaitFor(t.Context(), condition); err != nil {
			t.Fatal(err)
		}
	}
	state := func() (marked bool, protected []string) {
		row := ovs.Bridge("br-ex")
		for _, port := range ovsdb.List(ovs.Client, func(p *vswitch.Port) bool { return p.Protected }) {
			protected = append(protected, port.Name)
		}
		slices.Sort(protected)
		return row != nil && row.ExternalIDs[openvswitch.FlowsKey] != "", protected
	}
	for _, step := range []struct {
		name      string
		change    func(*vswitch.Bridge) []libovsdb.Operation
		marked    bool
		protected []string
	}{
		{"the host's addresses", func(b *vswitch.Bridge) []libovsdb.Operation { return ovs.Dividing(b, patch, true) },
			true, []string{"br-ex", patch}},
		{"own addresses", func(b *vswitch.Bridge) []libovsdb.Operation { return ovs.Dividing(b, patch, false) }, true, nil},
		{"none", func(b *vswitch.Bridge) []libovsdb.Operation { return ovs.Undividing(b, patch) }, false, nil},
	} {
		until(func() bool { return ovs.Bridge("br-ex") != nil })
		if err := ovs.Apply(t.Context(), step.change(ovs.Bridge("br-ex"))); err != nil {
			t.Fatal(err)
		}
		until(func() bool {
			marked, protected := state()
			return marked == step.marked && slices.Equal(protected, step.protected)
		})
		if again := ovs.Dividing(ovs.Bridge("br-ex"), patch, len(step.protected) > 0); step.marked && len(again) > 0 {
			t.Errorf("%s: a second time it wants %v", step.name, again)
		}
	}
}
