package ovn

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/records"
	"github.com/weftnet/weft/ovn/services"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// Rehearsal is a controller without a cluster: it is told of objects as events tell a real one, and says what the
// Northbound would hold. It is not safe for use by several goroutines at once.
type Rehearsal struct {
	settings *settings.Settings
	cluster  *cluster
	objects  map[part.Event]any
	rows     map[ovsdb.Owner]ovsdb.Change
	last     []ovsdb.Change
	notes    []part.Patch
}

// NewRehearsal begins without any object. No Northbound is dialled.
func NewRehearsal(config settings.Config) (*Rehearsal, error) {
	s, err := config.Settings()
	if err != nil {
		return nil, err
	}
	return &Rehearsal{settings: s, cluster: newCluster(s), objects: map[part.Event]any{},
		rows: map[ovsdb.Owner]ovsdb.Change{}}, nil
}

// Update takes in one batch of events: objects as they are now, and those that are gone. They are of the kinds that
// [Translate] takes, Services, EndpointSlices, AddressPools and EgressIPs.
func (r *Rehearsal) Update(now, gone []runtime.Object) error {
	var keys []part.Event
	for i, o := range slices.Concat(now, gone) {
		k, trimmed, err := rehearsed(o.DeepCopyObject())
		if err != nil {
			return err
		}
		if keys = append(keys, k); i < len(now) {
			r.objects[k] = trimmed
		} else {
			delete(r.objects, k)
		}
	}
	r.cluster.update(keys, r.get)
	r.last = r.cluster.takeChanges()
	for _, change := range r.last {
		if r.rows[change.Owner] = change; len(change.Rows) == 0 {
			delete(r.rows, change.Owner)
		}
	}
	r.notes = append(r.notes, r.cluster.TakeNotes()...)
	return nil
}

func (r *Rehearsal) get(e part.Event) any { return r.objects[e] }

// Rows are what the updates together have made, by owner.
func (r *Rehearsal) Rows() []ovsdb.Change {
	return slices.SortedFunc(maps.Values(r.rows), compareOwners)
}

// Changes are those that the last update has made, in the order in which they are written.
func (r *Rehearsal) Changes() []ovsdb.Change { return r.last }

// Notes are what the controller would have written to objects since the last call.
func (r *Rehearsal) Notes() []part.Patch {
	notes := r.notes
	r.notes = nil
	return notes
}

// Restarted is what a controller would write that begins with the objects that are there now.
func (r *Rehearsal) Restarted() []ovsdb.Change {
	c := newCluster(r.settings)
	c.begin(records.Records{}, slices.Collect(maps.Keys(r.objects)), r.get)
	return slices.SortedFunc(slices.Values(c.takeEverything()), compareOwners)
}

// Problems are what objects' owners have been told since the last call.
func (r *Rehearsal) Problems() []objects.Problem { return r.cluster.TakeProblems() }

// Behind says what clients that come by a door get at an address and port: by the code that makes the rows of the
// Service that has it. ok is false where no Service has it there.
func (r *Rehearsal) Behind(kind string, at netip.AddrPort, door services.Door) (b services.Behind, ok bool) {
	return r.cluster.services.Behind(kind, at, door)
}

// Holders says who has which ports for clients that come by a door: by the code that makes the rows of Services, and by
// the rows of the node's pods. More than one has a port where two load balancers would.
func (r *Rehearsal) Holders(door services.Door) map[services.Port][]services.Holder {
	found := r.cluster.services.Holders(door)
	for name := range r.cluster.pods.On(door.Node) {
		for _, row := range r.rows[northbound.PodOwner(name)].Rows {
			if lb, ok := row.Model.(*nb.LoadBalancer); ok {
				for text, to := range lb.Vips {
					at := services.Port{Protocol: *lb.Protocol, At: netip.MustParseAddrPort(text)} // as hostPorts has written it
					found[at] = append(found[at], services.Holder{Kind: "Pod", Name: name, To: netip.MustParseAddrPort(to)})
				}
			}
		}
	}
	return found
}

func compareOwners(a, b ovsdb.Change) int {
	switch {
	case a.Owner < b.Owner:
		return -1
	case a.Owner > b.Owner:
		return 1
	}
	return 0
}

func rehearsed(o runtime.Object) (k objects.Key, trimmed any, err error) {
	switch o := o.(type) {
	case *corev1.Service:
		return offlineTrim(o, o, objects.Key{Kind: objects.ServiceKind})
	case *discoveryv1.EndpointSlice:
		return offlineTrim(o, o, objects.Key{Kind: objects.SliceKind})
	case *v1alpha1.AddressPool:
		return offlineCustom(o, o, objects.PoolKind)
	case *v1alpha1.EgressIP:
		return offlineCustom(o, o, objects.EgressKind)
	}
	return offlineObject(o)
}
