package ovn

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovsdb"
)

// notWithZones is the reason of an Event.
var notWithZones = &reasons.Event{
	Name: "NotWithZones", On: "EgressIP, AddressPool",
	Meaning: "The cluster has zones, and Weft does not serve such objects in a cluster with zones. The pods that an " +
		"EgressIP selects leave by the gateways of their nodes. No Service gets an address of an AddressPool.",
	Remedy: "Delete the object, or run the cluster without zones.",
	See:    "zones.md#not-covered",
}

// withoutUnserved leaves out the objects that a cluster with zones does not serve, and tells them so.
func (c *cluster) withoutUnserved(events []part.Event, get part.Lookup) (served []part.Event) {
	for _, e := range events {
		switch key, _ := e.(objects.Key); key.Kind {
		case objects.EgressKind, objects.PoolKind:
			var found []objects.Problem
			if object, _ := get(key).(metav1.ObjectMetaAccessor); object != nil {
				meta, _ := object.GetObjectMeta().(*metav1.ObjectMeta)
				found = append(found, objects.Problemf(key.Kind, meta, notWithZones, "a cluster with zones serves no %s; delete it",
					key.Kind))
			}
			c.Tell(ovsdb.Owner(key.Kind.String()+"/"+key.Name), found...)
		default:
			served = append(served, e)
		}
	}
	return served
}
