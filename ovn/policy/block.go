package policy

import (
	"fmt"
	"net/netip"

	"go4.org/netipx"
)

// block reads a block of addresses less some within, as disjoint prefixes: what is left out costs no
// negation, which in flows is far dearer.
func (r *reader) block(field, cidr string, except []string) (prefixes []netip.Prefix, ok bool) {
	whole, why := parsePrefix(cidr)
	if why != "" {
		r.wrong(field+".cidr", "%q %s; it matches nothing until it is corrected", quoted(cidr), why)
		return nil, false
	}
	var set netipx.IPSetBuilder
	set.AddPrefix(whole)
	for i, text := range except {
		at := fmt.Sprintf("%s.except[%d]", field, i)
		part, why := parsePrefix(text)
		switch {
		case why != "":
			// What it was to leave out is not known: nothing of the block is allowed.
			r.wrong(at, "%q %s; its block %s matches nothing until it is corrected", quoted(text), why, whole)
			return nil, false
		case part.Addr().Is4() != whole.Addr().Is4() || part.Bits() < whole.Bits() || !whole.Contains(part.Addr()):
			r.wrong(at, "%s is not within the block %s, so that it leaves nothing out; give a part of the block, or remove it",
				part, whole)
			if part.Overlaps(whole) {
				return nil, false
			}
		default:
			set.RemovePrefix(part)
		}
	}
	left, err := set.IPSet()
	if err != nil {
		r.wrong(field, "%v; it matches nothing until it is corrected", err)
		return nil, false
	}
	prefixes = left.Prefixes()
	if r.prefixes+len(prefixes) > maxPrefixes {
		r.wrong(field, "brings the policy's blocks, less their exceptions, to more than %d prefixes, and matches nothing; "+
			"leave fewer parts out of it", maxPrefixes)
		return nil, false
	}
	r.prefixes += len(prefixes)
	return prefixes, true
}

func parsePrefix(text string) (p netip.Prefix, why string) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, "is not a CIDR, like 192.0.2.0/24 or 2001:db8::/32"
	case p.Addr().Is4In6():
		return p, "is an IPv4 block dressed as IPv6; write it as IPv4"
	}
	return p.Masked(), ""
}
