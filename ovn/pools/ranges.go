package pools

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/ovn/ipam"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/topology"
)

// checkPools decides which ranges are used, and which addresses in them are not.
func (b *Part) checkPools() {
	clear(b.announcers.outside.ways)
	outside := b.around.OutsideAddresses()
	for _, p := range b.settings.KeptByHosts() {
		if p.IsSingleIP() && outside[p.Addr()] == "" {
			outside[p.Addr()] = "a host (host-cidrs, ovn-northbound)"
		}
	}
	addresses := slices.SortedFunc(maps.Keys(outside), netip.Addr.Compare)
	reserved := maps.Clone(outside)
	var networks []objects.AddressRange
	for n := range b.nodes.Placed() {
		if g := n.Facts.Gateway; g != nil {
			for _, p := range g.Addresses {
				if n.Outside != "" {
					networks = append(networks, objects.RangeOf(p))
				}
				if ipam.HostBits(p) > 1 {
					reserved[p.Masked().Addr()] = "the name of subnet " + p.Masked().String()
					if p.Addr().Is4() {
						reserved[ipam.LastOf(p)] = "the broadcast address of subnet " + p.Masked().String()
					}
				}
			}
		}
	}
	byAge := slices.SortedFunc(maps.Values(b.all), func(a, b *state) int {
		return cmp.Or(objects.Older(&a.object.ObjectMeta, &b.object.ObjectMeta), cmp.Compare(a.object.Name, b.object.Name))
	})
	for i, p := range byAge {
		b.checkPool(p, byAge[:i], networks, func(r objects.AddressRange) string {
			if i := slices.IndexFunc(addresses, r.Contains); i >= 0 {
				return fmt.Sprintf("%s, which is that of %s", addresses[i], outside[addresses[i]])
			}
			return ""
		})
	}
	b.reserved.outside = reserved
	b.addresses.Count(b.reserved.all())
}

// checkPool checks a pool's ranges; the older pools are right, and whoever has an address outside, as taken says. The
// gateways of nodes are in these networks.
func (b *Part) checkPool(p *state, older []*state, networks []objects.AddressRange,
	taken func(objects.AddressRange) string) {
	p.Ranges, p.reason, p.wrong, p.silent = nil, nil, "", ""
	var found, silent []string
	complain := func(reason *reasons.Condition, format string, args ...any) {
		p.reason = cmp.Or(p.reason, reason)
		found = append(found, fmt.Sprintf(format, args...))
	}
	if p.object.Wrong != "" {
		complain(badSpec, "%s", p.object.Wrong)
		p.wrong = p.object.Wrong
		return
	}
	for i, r := range p.object.Ranges {
		field := fmt.Sprintf("spec.ranges[%d]: %s", i, objects.Quoted(r.Text))
		if r.Wrong != "" {
			complain(badRange, "%s %s", field, r.Wrong)
			continue
		}
		key, in, bad := b.settings.ClusterRange(func(q netip.Prefix) bool {
			return objects.RangeOf(q).Overlaps(r)
		})
		if bad {
			complain(rangeOverlaps, "%s overlaps with %s %s; give addresses of the nodes' external subnet", field, key, in)
			continue
		}
		if in, bad := b.ofHosts(r); bad {
			complain(rangeOverlaps, "%s overlaps with %s of host-cidrs, and hosts keep their addresses; give others", field, in)
			continue
		}
		if other := overlapping(r, p.Ranges, older); other != "" {
			complain(rangeOverlaps, "%s overlaps with %s; remove one of them", field, other)
			continue
		}
		if what := taken(r); what != "" {
			complain(rangeTaken, "%s holds %s and is left out; leave it out of the range", field, what)
		}
		p.Add(r)
		if !slices.ContainsFunc(networks, r.Overlaps) {
			silent = append(silent, field)
		}
	}
	p.wrong = strings.Join(found, "; ")
	if len(silent) > 0 {
		p.silent = fmt.Sprintf("; of the nodes on a network outside, none has its gateway in the network of %s: nobody "+
			"announces its addresses, and clients outside do not reach them; give addresses of these nodes' external "+
			"subnet, or grant more nodes their network (label %s)", strings.Join(silent, ", "), topology.NetworkLabel)
	}
}

// ofHosts is a range of hosts that are no nodes, of more than one address, in which a pool's range has addresses.
func (b *Part) ofHosts(r objects.AddressRange) (netip.Prefix, bool) {
	for _, p := range b.settings.KeptByHosts() {
		if !p.IsSingleIP() && objects.RangeOf(p).Overlaps(r) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

func overlapping(r objects.AddressRange, own []*Range, older []*state) string {
	for _, o := range own {
		if r.Overlaps(o.AddressRange) {
			return o.Text + " of the same pool"
		}
	}
	for _, p := range older {
		for _, o := range p.Ranges {
			if r.Overlaps(o.AddressRange) {
				return o.Text + " of AddressPool " + p.object.Name + ", which is older"
			}
		}
	}
	return ""
}
