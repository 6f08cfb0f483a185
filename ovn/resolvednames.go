package ovn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

// resolvedNames is a ResolvedNames: what a node's agent has seen DNS servers answer.
type resolvedNames struct {
	metav1.ObjectMeta // with its generation
	names             map[string][]resolvedAddress
}

type resolvedAddress struct {
	addr  netip.Addr
	until int64 // seconds, as Unix counts them
}

// maxDomainName is the longest domain name's length, as text.
const maxDomainName = 253

// trimResolvedNames leaves out what no host outside can have: nobody is let through to a node's own
// addresses because a name says so. Whoever owns a node may write anything into its object: what no agent
// writes, in number and length, is left out, too.
func trimResolvedNames(u *unstructured.Unstructured, o *v1alpha1.ResolvedNames, err error) *resolvedNames {
	r := &resolvedNames{newCustom(u, nil, err).ObjectMeta, map[string][]resolvedAddress{}}
	total := 0
	for _, said := range o.Names {
		if len(said.Name) == 0 || len(said.Name) > maxDomainName {
			continue
		}
		name, most := shared(contract.DomainName(said.Name)), contract.DomainAddresses
		if strings.HasPrefix(name, "*") {
			most = contract.DomainAddressesInAll
		}
		for _, a := range said.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if err != nil || addr.Zone() != "" || !addr.Unmap().IsGlobalUnicast() || len(r.names[name]) == most {
				continue
			}
			if total++; total > contract.DomainAddressesInAll {
				return r
			}
			r.names[name] = append(r.names[name], resolvedAddress{addr.Unmap(), a.Until.Unix()})
		}
	}
	return r
}

// clockSkew is by how much the nodes' clocks may differ from this one.
const clockSkew = 30 * time.Second

// bounded is what is believed of an object that comes now: no address counts for longer than an agent may say.
func (r *resolvedNames) bounded(now int64) *resolvedNames {
	last := now + int64((contract.DomainLongest + contract.DomainGrace + clockSkew).Seconds())
	late := func(a resolvedAddress) bool { return a.until > last }
	bounded := r
	for name, list := range r.names {
		if !slices.ContainsFunc(list, late) {
			continue
		}
		if bounded == r { // which others may be reading
			bounded = &resolvedNames{r.ObjectMeta, maps.Clone(r.names)}
		}
		list = slices.Clone(list)
		for i := range list {
			list[i].until = min(list[i].until, last)
		}
		bounded.names[name] = list
	}
	return bounded
}
