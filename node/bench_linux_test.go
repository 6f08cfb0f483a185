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
	"github.com/weftnet/weft/ovsdb"
)

// The two benchmarks do the same to OVN: a logical port, a device that is plugged, the wait for its
// flows. The floor does nothing else; ADD is the whole verb through the agent's socket. Run both
// with -benchtime=50x and compare p50 and p99.

func BenchmarkPlugFloor(b *testing.B) { benchmark(b, (*bench).plugByHand, (*bench).unplugByHand) }

func BenchmarkCNIAdd(b *testing.B) { benchmark(b, (*bench).add, (*bench).del) }

// bench is a ready cluster whose Northbound is written without forking a process.
type bench struct {
	*cluster
	northbound *ovsdb.Client
	lswitch    string
}

func benchmark(b *testing.B, attach, detach func(*bench, *pod) error) {
	c := newReadyCluster(b)
	model, err := nb.FullDatabaseModel()
	if err != nil {
		b.Fatal(err)
	}
	client, err := ovsdb.Connect(b.Context(), ovsdb.Config{Endpoints: c.ovn.Northbound(), Model: model, Tables: []ovsdb.Table{
		{Model: &nb.LogicalSwitch{}, Read: []string{"name"}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	x := &bench{cluster: c, northbound: client, lswitch: ovsdb.List[nb.LogicalSwitch](client, nil)[0].UUID}
	for _, together := range []int{1, 10} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) { x.measure(b, together, attach, detach) })
	}
}

func (x *bench) measure(b *testing.B, together int, attach, detach func(*bench, *pod) error) {
	x.tb = b
	var times []time.Duration
	for done := 0; done < b.N; done += together {
		b.StopTimer()
		pods := make([]*pod, min(together, b.N-done))
		for i := range pods {
			pods[i] = x.newPod(fmt.Sprintf("bench-%d", done+i), 3+i)
		}
		took := make([]time.Duration, len(pods))
		b.StartTimer()
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
		b.StopTimer()
		times = append(times, took...)
		for _, p := range pods {
			if err := detach(x, p); err != nil {
				b.Error(err)
			}
		}
		b.StartTimer()
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}

// addLogicalPort is the controller's transaction for a pod.
func (x *bench) addLogicalPort(p *pod) error {
	port := contract.PodPort(p.Namespace, p.Name)
	uuid := ovsdb.ID(nb.LogicalSwitchPortTable, ovsdb.Owner("Pod/"+p.String()), port)
	addresses := fmt.Sprintf("%v %v %v", contract.MAC(p.address), p.address, p.address6)
	_, err := x.northbound.Transact(x.tb.Context(),
		insertRow(nb.LogicalSwitchPortTable, uuid, libovsdb.Row{
			"name": port, "addresses": addresses, "port_security": addresses,
			"options": stringMap(map[string]string{"requested-chassis": testNode, "iface-id-ver": p.UID}),
		}),
		mutateRow(nb.LogicalSwitchTable, x.lswitch, addTo("ports", uuid)))
	return err
}

func (x *bench) removeLogicalPort(p *pod) error {
	uuid := ovsdb.ID(nb.LogicalSwitchPortTable, ovsdb.Owner("Pod/"+p.String()), contract.PodPort(p.Namespace, p.Name))
	_, err := x.northbound.Transact(x.tb.Context(), mutateRow(nb.LogicalSwitchTable, x.lswitch, removeFrom("ports", uuid)))
	return err
}

func (x *bench) add(p *pod) error {
	if err := x.addLogicalPort(p); err != nil {
		return err
	}
	x.annotate(p)
	_, err := x.cluster.add(p)
	return err
}

func (x *bench) del(p *pod) error {
	x.deletePod(p)
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
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: handDevice(p)}, PeerName: "p" + strings.TrimPrefix(handDevice(p), "h")}
	if err := netlink.LinkAdd(pair); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return err
	}
	owner := ovsdb.Owner("Hand/" + p.container)
	bridge := x.agent.ovs.bridge(integrationBridge)
	operations := append(insertPort(owner, handDevice(p), deviceSettings{externalIDs: map[string]string{
		"iface-id": contract.PodPort(p.Namespace, p.Name), "iface-id-ver": p.UID,
	}}), mutateRow(vswitch.BridgeTable, bridge.UUID, addTo("ports", ovsdb.ID(vswitch.PortTable, owner, handDevice(p)))))
	if err := x.agent.ovs.apply(x.tb.Context(), operations); err != nil {
		return err
	}
	return x.agent.ovs.WaitFor(x.tb.Context(), func() bool {
		device, ok := ovsdb.Get[vswitch.Interface](x.agent.ovs.Client, ovsdb.ID(vswitch.InterfaceTable, owner, handDevice(p)))
		return ok && device.ExternalIDs[installedKey] == "true"
	})
}

func (x *bench) unplugByHand(p *pod) error {
	bridge := x.agent.ovs.bridge(integrationBridge)
	port := ovsdb.ID(vswitch.PortTable, ovsdb.Owner("Hand/"+p.container), handDevice(p))
	if err := x.agent.ovs.apply(x.tb.Context(), []libovsdb.Operation{mutateRow(vswitch.BridgeTable, bridge.UUID, removeFrom("ports", port))}); err != nil {
		return err
	}
	if err := netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: handDevice(p)}}); err != nil {
		return err
	}
	return x.removeLogicalPort(p)
}
