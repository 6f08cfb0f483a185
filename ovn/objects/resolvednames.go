package objects

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

// ResolvedNames is a ResolvedNames: what a node's agent has seen DNS servers answer.
type ResolvedNames struct {
	metav1.ObjectMeta // with its generation
	Names             map[string][]ResolvedAddress
}

type ResolvedAddress struct {
	Addr  netip.Addr
	Until int64 // seconds, as Unix counts them
}

// maxDomainName is the longest domain name's length, as text.
const maxDomainName = 253

// TrimResolvedNames leaves out what no host outside can have: nobody is let through to a node's own
// addresses because a name says so. Whoever owns a node may write anything into its object: what no agent
// writes, in number and length, is left out, too.
func TrimResolvedNames(u *unstructured.Unstructured, o *v1alpha1.ResolvedNames, err error) *ResolvedNames {
	r := &ResolvedNames{NewCustom(u, nil, err).ObjectMeta, map[string][]ResolvedAddress{}}
	total := 0
	for _, said := range o.Names {
		if len(said.Name) == 0 || len(said.Name) > maxDomainName {
			continue
		}
		name, most := Interned(contract.DomainName(said.Name)), contract.DomainAddresses
		if strings.HasPrefix(name, "*") {
			most = contract.DomainAddressesInAll
		}
		for _, a := range said.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if err != nil || addr.Zone() != "" || !addr.Unmap().IsGlobalUnicast() || len(r.Names[name]) == most {
				continue
			}
			if total++; total > contract.DomainAddressesInAll {
				return r
			}
			r.Names[name] = append(r.Names[name], ResolvedAddress{addr.Unmap(), a.Until.Unix()})
		}
	}
	return r
}

// ClockSkew is by how much the nodes' clocks may differ from this one.
const ClockSkew = 30 * time.Second

// Bounded is what is believed of an object that comes now: no address counts for longer than an agent may say.
func (r *ResolvedNames) Bounded(now int64) *ResolvedNames {
	last := now + int64((contract.DomainLongest + contract.DomainGrace + ClockSkew).Seconds())
	late := func(a ResolvedAddress) bool { return a.Until > last }
	bounded := r
	for name, list := range r.Names {
		if !slices.ContainsFunc(list, late) {
			continue
		}
		if bounded == r { // which others may be reading
			bounded = &ResolvedNames{r.ObjectMeta, maps.Clone(r.Names)}
		}
		list = slices.Clone(list)
		for i := range list {
			list[i].Until = min(list[i].Until, last)
		}
		bounded.Names[name] = list
	}
	return bounded
}
