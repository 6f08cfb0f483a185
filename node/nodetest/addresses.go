package nodetest

import "net/netip"

// Prefixes are what the texts say.
func Prefixes(texts ...string) []netip.Prefix {
	list := []netip.Prefix{}
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// Addrs are what the texts say.
func Addrs(texts ...string) []netip.Addr {
	list := []netip.Addr{}
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}
