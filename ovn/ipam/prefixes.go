package ipam

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Family finds the prefix of addr's address family.
func Family(list []netip.Prefix, addr netip.Addr) *netip.Prefix {
	for i := range list {
		if list[i].Addr().Is4() == addr.Is4() {
			return &list[i]
		}
	}
	return nil
}

// HostBits is the number of bits that tell a prefix's addresses apart.
func HostBits(p netip.Prefix) int { return p.Addr().BitLen() - p.Bits() }

func Join[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return strings.Join(words, ",")
}

// Nth is the n-th address of a prefix, from 0.
func Nth(p netip.Prefix, n uint64) netip.Addr {
	b := p.Masked().Addr().As16()
	low := binary.BigEndian.Uint64(b[8:])
	binary.BigEndian.PutUint64(b[8:], low+n)
	addr := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		return addr.Unmap()
	}
	return addr
}

// Offset is addr's place in p; ok is false when it is outside, or further than 64 bits can say.
func Offset(p netip.Prefix, addr netip.Addr) (n uint64, ok bool) {
	if !p.Contains(addr) {
		return 0, false
	}
	base, at := p.Masked().Addr().As16(), addr.As16()
	if [8]byte(base[:8]) != [8]byte(at[:8]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(at[8:]) - binary.BigEndian.Uint64(base[8:]), true
}

// LastOf is a prefix's last address.
func LastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

// Disjoint sorts ranges, IPv4 first, and drops those that are part of another.
func Disjoint(list []netip.Prefix) []netip.Prefix {
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

// Firsts are the first address of each family, by which pods leave.
func Firsts(all []netip.Prefix) (list []netip.Prefix) {
	for _, p := range all {
		if *Family(all, p.Addr()) == p {
			list = append(list, p)
		}
	}
	return list
}

// FamilyIndex is the place of an address family in a pair.
func FamilyIndex(ipv4 bool) int {
	if ipv4 {
		return 0
	}
	return 1
}

func Texts[T interface{ String() string }](list []T) []string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return words
}
