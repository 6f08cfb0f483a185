package services

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/pools"
	"github.com/weftnet/weft/ovn/settings"
	"github.com/weftnet/weft/ovsdb"
)

// balancerPatience is how long a cloud may take to give a Service addresses. After that the Service is told that nobody
// does.
const balancerPatience = time.Minute

// addressesOverdue says that a Service, named with its UID, has waited long enough for addresses.
var addressesOverdue = part.NewSignal("addresses overdue of Service", balancerPatience)

// Pending knows the Services that wait for addresses of somebody whom Weft does not know, as a cloud's controller.
// There may be none.
type Pending struct {
	part.Immediate
	part.Rowless
	*part.Outbox
	settings *settings.Settings
	all      map[string]waiting
}

// NewPending knows of no Service yet.
func NewPending(o *part.Outbox, s *settings.Settings) *Pending {
	return &Pending{Outbox: o, settings: s, all: map[string]waiting{}}
}

// waiting is a Service without a class that Weft gives no addresses, and nobody else has given any yet.
type waiting struct {
	object *objects.Service
	told   bool // that nobody has given it any for long
}

// pendingOwner is who is told of it.
func pendingOwner(service string) ovsdb.Owner {
	return ovsdb.Owner("addresses of Service/" + service)
}

// Take is part of [part.Part].
func (b *Pending) Take(batch *part.Batch) {
	for _, text := range batch.Signals(addressesOverdue) {
		i := strings.LastIndexByte(text, '/')
		b.miss(text[:i], types.UID(text[i+1:]))
	}
}

// update takes in whether a Service waits.
func (b *Pending) update(name string, s *objects.Service) {
	if s == nil || s.Ignored || !s.Balancer.Wanted || s.Balancer.Class != "" || s.Balancer.Answered ||
		pools.Allocates(b.settings, s) {
		delete(b.all, name)
		b.Tell(pendingOwner(name))
		return
	}
	one, waits := b.all[name]
	if waits && one.object.UID == s.UID {
		b.all[name] = waiting{s, one.told}
		return
	}
	b.all[name] = waiting{s, false}
	b.Expect(part.Signal{What: addressesOverdue, Name: name + "/" + string(s.UID)})
	b.Tell(pendingOwner(name)) // of the one that had this name before
}

// miss tells a Service that has waited long enough.
func (b *Pending) miss(name string, uid types.UID) {
	one, waits := b.all[name]
	if !waits || one.object.UID != uid || one.told {
		return
	}
	b.all[name] = waiting{one.object, true}
	b.Tell(pendingOwner(name), objects.Limitf(objects.ServiceKind, &one.object.ObjectMeta, nobodyGivesAddresses,
		"status.loadBalancer: the Service has had no address for %v: it has no loadBalancerClass, and weft gives "+
			"such Services none; if a cloud or another load balancer serves the cluster, see its controller; otherwise "+
			"set allocate-load-balancer-addresses: true for weft's controller, or create the Service anew with "+
			"loadBalancerClass %s, and create an AddressPool", balancerPatience, v1alpha1.PoolClass))
}
