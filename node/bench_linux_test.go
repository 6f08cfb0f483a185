package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/vswitch"
	"github.com/weftnet/weft/node/nodeconfig"
	"github.com/weftnet/weft/node/openvswitch"
	"github.com/weftnet/weft/ovsdb"
)

// BenchmarkCNIAdd measures ADD beside its floor, in turns and on the same node, so that what else the
// machine does meets both. Both do the same to OVN: a logical port, a device that is plugged, the
// wait for its flows. The floor does nothing else; ADD is the whole verb through the agent's socket.
// With -benchtime=50x each is done 50 times.
func BenchmarkCNIAdd(b *testing.B) {
	x := newBench(b)
	for _, together := range []int{1, 10} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) {
			x.tb = b
			var add, floor []time.Duration
			for done := 0; done < b.N; done += together {
				n := min(together, b.N-done)
				floor = append(floor, x.round(b, n, (*bench).plugByHand, (*bench).unplugByHand)...)
				add = append(add, x.round(b, n, (*bench).add, (*bench).del)...)
			}
			report(b, "add", add)
			report(b, "floor", floor)
			b.ReportMetric(float64(percentile(add, 50))/float64(percentile(floor, 50)), "p50-ratio")
			b.ReportMetric(0, "ns/op") // of both together says nothing
		})
	}
}

func report(b *testing.B, what string, times []time.Duration) {
	slices.Sort(times)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(percentile(times, p).Microseconds())/1000, fmt.Sprintf("%s-p%d-ms", what, p))
	}
}

// percentile of sorted times.
func percentile(times []time.Duration, p int) time.Duration { return times[len(times)*p/100] }

// bench is a ready cluster whose Northbound is written without forking a process.
type bench struct {
	*cluster
	northbound *ovsdb.Client
	lswitch    string
}

func newBench(b *testing.B) *bench {
	b.Helper()
	c := newReadyCluster(b)
	model, err := nb.FullDatabaseModel()
	if err != nil {
		b.Fatal(err)
	}
	client, err := ovsdb.Connect(b.Context(),
		ovsdb.Config{Endpoints: c.ovn.Northbound(), Model: model, Tables: []ovsdb.Table{
			{Model: &nb.LogicalSwitch{}, Read: []string{"name"}},
		}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return &bench{cluster: c, northbound: client, lswitch: ovsdb.List[nb.LogicalSwitch](client, nil)[0].UUID}
}

// round attaches n new pods at the same time, tells how long each took, and detaches them.
func (x *bench) round(b *testing.B, n int, attach, detach func(*bench, *pod) error) []time.Duration {
	b.Helper()
	pods, took := make([]*pod, n), make([]time.Duration, n)
	for i := range pods {
		pods[i] = x.newPod(fmt.Sprintf("bench-%d", i), 3+i)
		x.annotate(pods[i]) // the API server here is a stand-in, whose time says nothing
	}
	var calls sync.WaitGroup
	for i, p := range pods {
		calls.Go(func() {
			start := time.Now()
			if err := attach(x, p); err != nil {
				b.Error(err)
			}
			took[i] = time.Since(start)
		})
	}
	calls.Wait()
	for _, p := range pods {
		if err := detach(x, p); err != nil {
			b.Error(err)
		}
		x.deletePod(p)
	}
	return took
}

// addLogicalPort is the controller's transaction for a pod.
func (x *bench) addLogicalPort(p *pod) error {
	port := contract.PodPort(p.Namespace, p.Name)
	uuid := ovsdb.ID(nb.LogicalSwitchPortTable, ovsdb.Owner("Pod/"+p.String()), port)
	addresses := fmt.Sprintf("%v %v %v", contract.MAC(p.address), p.address, p.address6)
	_, err := x.northbound.Transact(x.tb.Context(),
		openvswitch.InsertRow(nb.LogicalSwitchPortTable, uuid, libovsdb.Row{
			"name": port, "addresses": addresses, "port_security": addresses,
			"options": openvswitch.StringMap(map[string]string{"requested-chassis": testNode, "iface-id-ver": p.UID}),
		}),
		openvswitch.MutateRow(nb.LogicalSwitchTable, x.lswitch, openvswitch.AddTo("ports", uuid)))
	return err
}

func (x *bench) removeLogicalPort(p *pod) error {
	uuid := ovsdb.ID(nb.LogicalSwitchPortTable, ovsdb.Owner("Pod/"+p.String()), contract.PodPort(p.Namespace, p.Name))
	_, err := x.northbound.Transact(x.tb.Context(),
		openvswitch.MutateRow(nb.LogicalSwitchTable, x.lswitch, openvswitch.RemoveFrom("ports", uuid)))
	return err
}

func (x *bench) add(p *pod) error {
	if err := x.addLogicalPort(p); err != nil {
		return err
	}
	_, err := x.cluster.add(p)
	return err
}

func (x *bench) del(p *pod) error {
	if err := x.cluster.del(p); err != nil {
		return err
	}
	return x.removeLogicalPort(p)
}

func handDevice(p *pod) string { return "h" + p.container[max(0, len(p.container)-12):] }

// plugByHand is `ovn-nbctl lsp-add`, `ip link add`, `ovs-vsctl add-port` and `ovs-vsctl wait-until`
// without the processes.
func (x *bench) plugByHand(p *pod) error {
	if err := x.addLogicalPort(p); err != nil {
		return err
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: handDevice(p)},
		PeerName: "p" + strings.TrimPrefix(handDevice(p), "h")}
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return err
	}
	owner := ovsdb.Owner("Hand/" + p.container)
	bridge := x.agent.ovs.Bridge(nodeconfig.IntegrationBridge)
	operations := append(openvswitch.InsertPort(owner, handDevice(p),
		openvswitch.DeviceSettings{ExternalIDs: map[string]string{
			"iface-id": contract.PodPort(p.Namespace, p.Name), "iface-id-ver": p.UID,
		}}), openvswitch.MutateRow(vswitch.BridgeTable, bridge.UUID,
		openvswitch.AddTo("ports", ovsdb.ID(vswitch.PortTable, owner, handDevice(p)))))
	if err := x.agent.ovs.Apply(x.tb.Context(), operations); err != nil {
		return err
	}
	return x.agent.ovs.WaitFor(x.tb.Context(), func() bool {
		device, ok := ovsdb.Get[vswitch.Interface](x.agent.ovs.Client, ovsdb.ID(vswitch.InterfaceTable, owner, handDevice(p)))
		return ok && device.ExternalIDs[openvswitch.InstalledKey] == "true"
	})
}

func (x *bench) unplugByHand(p *pod) error {
	bridge := x.agent.ovs.Bridge(nodeconfig.IntegrationBridge)
	port := ovsdb.ID(vswitch.PortTable, ovsdb.Owner("Hand/"+p.container), handDevice(p))
	if err := x.agent.ovs.Apply(x.tb.Context(),
		[]libovsdb.Operation{openvswitch.MutateRow(vswitch.BridgeTable, bridge.UUID,
			openvswitch.RemoveFrom("ports", port))}); err != nil {
		return err
	}
	if err := netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: handDevice(p)}}); err != nil {
		return err
	}
	return x.removeLogicalPort(p)
}
