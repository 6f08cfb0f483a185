package ovn

import (
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovsdb"
)

// records are decisions of earlier terms that the Northbound holds. They count for more than what
// stands in Kubernetes objects: only controllers write there, while annotations and what follows from
// them are within reach of whoever may create or edit a pod.
type records struct {
	pods map[types.UID][]netip.Addr
}

// recordsOf reads them out of rows.
func recordsOf(ports []*nb.LogicalSwitchPort) records {
	r := records{pods: map[types.UID][]netip.Addr{}}
	for _, port := range ports {
		k, ok := ownerKey(ovsdb.Owner(port.ExternalIDs[ovsdb.OwnerMark]))
		if ok && k.kind == podKind {
			r.pods[types.UID(port.ExternalIDs[ovsdb.KeyMark])] = portIPs(port)
		}
	}
	return r
}

// portIPs are the IP addresses in a port's addresses: it is "MAC IP IP", as portAddresses writes it.
func portIPs(port *nb.LogicalSwitchPort) []netip.Addr {
	var list []netip.Addr
	for _, text := range port.Addresses {
		for _, word := range strings.Fields(text) {
			if addr, err := netip.ParseAddr(word); err == nil && addr.Zone() == "" {
				list = append(list, addr)
			}
		}
	}
	return list
}
