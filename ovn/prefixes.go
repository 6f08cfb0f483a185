package ovn

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// family finds the prefix of addr's address family.
func family(list []netip.Prefix, addr netip.Addr) *netip.Prefix {
	for i := range list {
		if list[i].Addr().Is4() == addr.Is4() {
			return &list[i]
		}
	}
	return nil
}

// hostBits is the number of bits that tell a prefix's addresses apart.
func hostBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

func join[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return strings.Join(words, ",")
}

// nth is the n-th address of a prefix, from 0.
func nth(p netip.Prefix, n uint64) netip.Addr {
	b := p.Masked().Addr().As16()
	low := binary.BigEndian.Uint64(b[8:])
	binary.BigEndian.PutUint64(b[8:], low+n)
	addr := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		return addr.Unmap()
	}
	return addr
}

// offset is addr's place in p; ok is false when it is outside, or further than 64 bits can say.
func offset(p netip.Prefix, addr netip.Addr) (n uint64, ok bool) {
	if !p.Contains(addr) {
		return 0, false
	}
	base, at := p.Masked().Addr().As16(), addr.As16()
	if [8]byte(base[:8]) != [8]byte(at[:8]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(at[8:]) - binary.BigEndian.Uint64(base[8:]), true
}

// lastOf is a prefix's last address.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

// disjoint sorts ranges, IPv4 first, and drops those that are part of another.
func disjoint(list []netip.Prefix) []netip.Prefix {
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var kept []netip.Prefix
	for _, p := range list {
		if len(kept) == 0 || !kept[len(kept)-1].Overlaps(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// firsts are the first address of each family, by which pods leave.
func firsts(all []netip.Prefix) (list []netip.Prefix) {
	for _, p := range all {
		if *family(all, p.Addr()) == p {
			list = append(list, p)
		}
	}
	return list
}

// family2 is the place of an address family in a pair.
func family2(ipv4 bool) int {
	if ipv4 {
		return 0
	}
	return 1
}

func texts[T interface{ String() string }](list []T) []string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return words
}
