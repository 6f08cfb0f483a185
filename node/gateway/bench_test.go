package gateway

import (
	"net/netip"
	"testing"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/node/extbridge"
	"github.com/weftnet/weft/node/health"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/nodetest"
	"github.com/weftnet/weft/node/openvswitch/openvswitchtest"
	"github.com/weftnet/weft/node/platform"
	"github.com/weftnet/weft/node/platform/platformtest"
)

// bench is a gateway on the fake platform and a database in memory.
type bench struct {
	*Gateway
	fake *platformtest.Fake
}

// noServices are those of a host that answers for none.
type noServices struct{}

func (noServices) Entries() ([]extbridge.Entry, bool) { return nil, true }
func (noServices) Changed() <-chan struct{}           { return nil }

var subnets = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}

func newBench(t *testing.T, change func(*nodeconfig.Config)) *bench {
	t.Helper()
	config := nodeconfig.Default()
	config.NodeName, config.OVNSouthbound = "n1", "tcp:192.0.2.1:6642"
	config.EncapAddress = netip.MustParseAddr("172.30.0.1")
	config.HNSNetwork, config.Gateway, config.GatewayBridge = "", "", "br-ex" // those of any system
	config.Chassis, config.ConntrackLookup = nodeconfig.ChassisLocal, ""
	if change != nil {
		change(&config)
	}
	b := &bench{fake: platformtest.New()}
	b.Gateway = New(Parts{
		Config: config, Platform: b.fake, Database: openvswitchtest.New(t), Services: noServices{},
		Health: health.New(func(health.Condition, error) {}, func(*reasons.Event, string) {}, health.Uplink),
		Rounds: health.NewRounds(),
		Network: func() (contract.NodeNetwork, error) {
			return contract.NodeNetwork{ID: 1, PodCIDRs: subnets}, nil
		},
		NetworkSynced: func() bool { return true },
		PodSubnets:    func() []netip.Prefix { return subnets },
		EnqueueNode:   func() {}, DevicesChanged: func() {},
		TunnelsReady: func() error { return nil },
		ShutDatabase: func() (open func()) { return func() {} },
	})
	return b
}

// newUplinkBench is that of a host that shares its adapter with the pods, over an ovs-vswitchd.
func newUplinkBench(t *testing.T, daemon *openvswitchtest.Vswitchd, change func(*nodeconfig.Config)) *bench {
	t.Helper()
	b := newBench(t, func(c *nodeconfig.Config) {
		c.HNSNetwork, c.Gateway, c.GatewayBridge = "weft", nodeconfig.GatewayLocal, ""
		c.GatewayAddresses = []netip.Prefix{netip.MustParsePrefix("172.30.0.101/24")}
		change(c)
	})
	b.fake.Deferred = true
	b.fake.Uplink = platform.Uplink{Switch: "guid-1", Adapter: "Ethernet", Host: "vEthernet (Ethernet)"}
	b.Times.TakeUp = nodetest.Patience
	go daemon.Run(t.Context(), b.Database)
	return b
}
