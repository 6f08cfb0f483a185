package ovn

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

// pendingBook knows the Services that wait for addresses of somebody whom Weft does not know, as a cloud's controller.
// There may be none.
type pendingBook struct {
	part.Immediate
	part.Rowless
	*part.Outbox
	settings *settings.Settings
	services serviceView
	all      map[string]pendingService
}

func newPendingBook(o *part.Outbox, s *settings.Settings, services serviceView) pendingBook {
	return pendingBook{Outbox: o, settings: s, services: services, all: map[string]pendingService{}}
}

// pendingService is a Service without a class that Weft gives no addresses, and nobody else has given any yet.
type pendingService struct {
	uid  types.UID
	told bool // that nobody has given it any for long
}

// pendingOwner is who is told of it.
func pendingOwner(service string) ovsdb.Owner {
	return ovsdb.Owner("addresses of Service/" + service)
}

// Take is part of [part.Part].
func (b *pendingBook) Take(batch *part.Batch) {
	for _, text := range batch.Signals(addressesOverdue) {
		i := strings.LastIndexByte(text, '/')
		b.miss(text[:i], types.UID(text[i+1:]))
	}
}

// update takes in whether a Service waits.
func (b *pendingBook) update(name string, s *objects.Service) {
	if s == nil || s.Ignored || !s.Balancer.Wanted || s.Balancer.Class != "" || s.Balancer.Answered ||
		pools.Allocates(b.settings, s) {
		delete(b.all, name)
		b.Tell(pendingOwner(name))
		return
	}
	if b.all[name].uid != s.UID {
		b.all[name] = pendingService{s.UID, false}
		b.Expect(part.Signal{What: addressesOverdue, Name: name + "/" + string(s.UID)})
		b.Tell(pendingOwner(name)) // of the one that had this name before
	}
}

// miss tells a Service that has waited long enough.
func (b *pendingBook) miss(name string, uid types.UID) {
	if one, ok := b.all[name]; !ok || one.uid != uid || one.told {
		return
	}
	b.all[name] = pendingService{uid, true}
	b.Tell(pendingOwner(name), objects.Limitf(objects.ServiceKind, &b.services.Service(name).ObjectMeta,
		"NobodyGivesAddresses",
		"status.loadBalancer: the Service has had no address for %v: it has no loadBalancerClass, and weft gives "+
			"such Services none; if a cloud or another load balancer serves the cluster, see its controller; otherwise "+
			"set allocate-load-balancer-addresses: true for weft's controller, or create the Service anew with "+
			"loadBalancerClass %s, and create an AddressPool", balancerPatience, v1alpha1.PoolClass))
}
