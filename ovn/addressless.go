package ovn

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovsdb"
)

// addressless is a Service without a class that weft gives no addresses, and nobody else has given any yet.
type addressless struct {
	uid     types.UID
	expects expectation
}

// addresslessOwner is who is told of it.
func addresslessOwner(service string) ovsdb.Owner {
	return ovsdb.Owner("addresses of Service/" + service)
}

// expectAddresses takes in whether a Service waits for addresses of somebody whom weft does not know, as a cloud's
// controller. There may be none.
func (b *poolBook) expectAddresses(name string, s *objects.Service) {
	waiting := b.addressless
	if s == nil || s.Ignored || !s.Balancer.Wanted || s.Balancer.Class != "" || s.Balancer.Answered ||
		b.allocates(s) {
		delete(waiting, name)
		b.tell(addresslessOwner(name))
		return
	}
	if waiting[name].uid != s.UID {
		waiting[name] = addressless{s.UID, expecting}
		b.expect(signal{addressesOverdueSignal, name + "/" + string(s.UID)})
		b.tell(addresslessOwner(name)) // of the one that had this name before
	}
}

// missAddresses tells a Service that has waited long enough, by its key and UID.
func (b *poolBook) missAddresses(text string) {
	i := strings.LastIndexByte(text, '/')
	name, uid := text[:i], types.UID(text[i+1:])
	waiting := b.addressless
	if one, ok := waiting[name]; !ok || one.uid != uid || one.expects != expecting {
		return
	}
	waiting[name] = addressless{uid, overdue}
	b.tell(addresslessOwner(name), objects.Limitf(objects.ServiceKind, &b.services.at(name).object.ObjectMeta, "NobodyGivesAddresses",
		"status.loadBalancer: the Service has had no address for %v: it has no loadBalancerClass, and weft gives "+
			"such Services none; if a cloud or another load balancer serves the cluster, see its controller; otherwise "+
			"set allocate-load-balancer-addresses: true for weft's controller, or create the Service anew with "+
			"loadBalancerClass %s, and create an AddressPool", balancerPatience, v1alpha1.PoolClass))
}
