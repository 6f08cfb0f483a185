package acl

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"strconv"
)

// number is an unsigned integer of up to 128 bits: OVN compares every field that is no string as one.
type number struct{ high, low uint64 }

func (n number) and(m number) number { return number{n.high & m.high, n.low & m.low} }

func (n number) compare(m number) int {
	switch {
	case n == m:
		return 0
	case n.high < m.high || n.high == m.high && n.low < m.low:
		return -1
	}
	return 1
}

// width is the number of bits that n needs.
func (n number) width() int {
	if n.high != 0 {
		return 64 + bits.Len64(n.high)
	}
	return bits.Len64(n.low)
}

// ones is the number with the lowest n bits set.
func ones(n int) number {
	if n > 64 {
		return number{1<<(n-64) - 1, ^uint64(0)}
	}
	return number{0, 1<<n - 1}
}

// prefix is the mask of a CIDR prefix of an address of so many bits.
func prefix(length, width int) number {
	all, rest := ones(width), ones(width-length)
	return number{all.high &^ rest.high, all.low &^ rest.low}
}

func addressNumber(a netip.Addr) number {
	if a.Is4() {
		b := a.As4()
		return number{0, uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func macNumber(mac []byte) (n number) {
	for _, b := range mac {
		n.low = n.low<<8 | uint64(b)
	}
	return n
}

// format is how a constant was written.
type format int

const (
	decimal format = iota
	hexadecimal
	ethernet
	ipv4
	ipv6
)

// constant is an integer of a match or an address set, with the bits of it that count.
type constant struct {
	value  number
	mask   number
	masked bool
	format format
}

// width is the least width of a field that the constant can be compared with.
func (c constant) width() int {
	switch {
	case c.masked:
		return c.mask.width()
	case c.format == ipv4:
		return 32
	case c.format == ipv6:
		return 128
	case c.format == ethernet:
		return 48
	}
	return c.value.width()
}

func (c constant) String() string {
	text := c.format.text(c.value)
	if !c.masked {
		return text
	}
	if width := map[format]int{ipv4: 32, ipv6: 128}[c.format]; width > 0 {
		for length := range width + 1 {
			if c.mask == prefix(length, width) {
				return text + "/" + strconv.Itoa(length)
			}
		}
	}
	return text + "/" + c.format.text(c.mask)
}

func (f format) text(n number) string {
	switch f {
	case decimal:
		return strconv.FormatUint(n.low, 10)
	case hexadecimal:
		if n.high != 0 {
			return fmt.Sprintf("0x%x%016x", n.high, n.low)
		}
		return fmt.Sprintf("0x%x", n.low)
	case ethernet:
		return net.HardwareAddr(binary.BigEndian.AppendUint64(nil, n.low)[2:]).String()
	case ipv4:
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(n.low)))).String()
	}
	return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n.high),
		n.low))).String()
}
