package hnstest

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/node/hostnet"
)

// adapters are the network interfaces of all compartments.
type adapters struct {
	list     []*adapter
	lastLUID uint64
	changed  []signal.Signal
}

type adapter struct {
	hostnet.Adapter
	routes     []hostnet.Route
	neighbours map[netip.Addr]string
	isolated   bool
	disabled   bool
	owner      string // ID of the network or endpoint that it came with
	friendly   string // Hyper-V's name of a vNIC, by which Open vSwitch finds it
}

func (a *adapters) add(one hostnet.Adapter, owner string, routes ...hostnet.Route) *adapter {
	a.lastLUID++
	one.LUID, one.Index, one.Up = a.lastLUID, uint32(a.lastLUID), one.Up || one.Kind == hostnet.Physical
	one.Compartment = max(one.Compartment, 1)
	added := &adapter{Adapter: one, routes: routes, owner: owner}
	a.list = append(a.list, added)
	a.notify()
	return added
}

func (a *adapters) remove(match func(*adapter) bool) {
	a.list = slices.DeleteFunc(a.list, match)
	a.notify()
}

func (a *adapters) named(alias string) *adapter {
	return one(a.list, func(o *adapter) bool { return o.Alias == alias })
}

func (a *adapters) byLUID(luid uint64) *adapter {
	return one(a.list, func(o *adapter) bool { return o.LUID == luid })
}

// vNIC returns the one that Hyper-V calls by that name.
func (a *adapters) vNIC(friendly string) *adapter {
	return one(a.list, func(o *adapter) bool { return o.friendly == friendly && friendly != "" })
}

// watch returns a signal of all changes from now on.
func (a *adapters) watch() signal.Signal {
	told := signal.New()
	a.changed = append(a.changed, told)
	return told
}

func (a *adapters) notify() {
	for _, c := range a.changed {
		c.Set()
	}
}
