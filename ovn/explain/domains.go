package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/ovn/acl"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// resolve has domains that policies name be what nodes' agents say at a time.
func (c *Cluster) resolve(seen []*v1alpha1.ResolvedNames, now time.Time) error {
	return c.fillDomains(func(domain string, set *nb.AddressSet) []string {
		var list []string
		for _, o := range seen {
			for _, name := range o.Names {
				if !slices.Contains(slices.Collect(contract.DomainPatterns(contract.DomainName(name.Name))), domain) {
					continue
				}
				for _, a := range name.Addresses {
					if addr, err := netip.ParseAddr(a.Address); err == nil && a.Until.After(now) && addr.IsGlobalUnicast() &&
						addr.Unmap().Is4() == (set.ExternalIDs[ovsdb.KeyMark] == "ip4") {
						list = append(list, addr.Unmap().String())
					}
				}
			}
		}
		return list
	})
}

// resolveAs has them be what a Northbound has: no object tells which addresses are old by now.
func (c *Cluster) resolveAs(sets []*nb.AddressSet) error {
	there := map[string][]string{}
	for _, set := range sets {
		there[set.Name] = set.Addresses
	}
	return c.fillDomains(func(_ string, set *nb.AddressSet) []string { return there[set.Name] })
}

// fillDomains gives each set of a domain's addresses what a function says.
func (c *Cluster) fillDomains(addresses func(domain string, set *nb.AddressSet) []string) (err error) {
	found := false
	for _, set := range c.rows.AddressSets {
		if domain, ok := strings.CutPrefix(set.ExternalIDs[ovsdb.OwnerMark], "DomainName/"); ok {
			set.Addresses, found = addresses(domain, set), true
		}
	}
	if found {
		c.desired, err = acl.New(c.rows)
	}
	return err
}

// namesDomain says whether a rule does.
func namesDomain(r policy.Rule) bool {
	return slices.ContainsFunc(r.Peers, func(p policy.Peer) bool { return p.Domain != "" })
}

// domainNotes are about rules that name domains, where no running cluster tells their addresses.
func (c *Cluster) domainNotes(from *pod) []string {
	if from.why != "" {
		return nil
	}
	var notes []string
	for _, o := range c.order {
		for i := range o.Rules {
			if r := &o.Rules[i]; c.selects(o.Subject, from) && namesDomain(*r) {
				notes = append(notes, fmt.Sprintf("%s, %s names domains, whose addresses only a running cluster has: here they "+
					"match nothing", o, r.Field()))
			}
		}
	}
	return notes
}
