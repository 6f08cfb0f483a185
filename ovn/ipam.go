package ovn

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
)

// firstPodOffset is a subnet's first address that a pod may have: its own name, the router and the
// management port come before it.
const firstPodOffset = 3

// maxPool bounds what a pool remembers: a /64 has more addresses than a node has pods.
const maxPool = 1 << 16

// pool hands out the numbers 0 to size-1, the next free one after the last it gave: a number that was
// freed is not given again before all others had their turn, so that what still remembers the old
// holder of an address (a client, a connection, a cache) does not meet a new one.
type pool struct {
	used []uint64
	size int
	free int
	next int
}

func newPool(size int) *pool {
	return &pool{used: make([]uint64, (size+63)/64), size: size, free: size}
}

// take gives a free number; ok is false when there is none.
func (p *pool) take() (n int, ok bool) {
	if p.free == 0 {
		return 0, false
	}
	n, ok = p.scan(p.next, p.size)
	if !ok {
		n, _ = p.scan(0, p.next)
	}
	p.claim(n)
	p.next = (n + 1) % p.size
	return n, true
}

// scan finds the first free number in [from, to).
func (p *pool) scan(from, to int) (int, bool) {
	for n := from; n < to; {
		word := ^p.used[n/64] >> (n % 64)
		if word == 0 {
			n += 64 - n%64
			continue
		}
		n += bits.TrailingZeros64(word)
		return n, n < to
	}
	return 0, false
}

// claim takes n; false says that it is taken or out of range. The turn moves on behind what was
// claimed, so that a restarted controller, too, gives a freed number late.
func (p *pool) claim(n int) bool {
	if n < 0 || n >= p.size || p.used[n/64]&(1<<(n%64)) != 0 {
		return false
	}
	p.used[n/64] |= 1 << (n % 64)
	p.free--
	if n >= p.next {
		p.next = (n + 1) % p.size
	}
	return true
}

// reserve takes n for something that is not handed out in turn.
func (p *pool) reserve(n int) bool {
	next := p.next
	ok := p.claim(n)
	p.next = next
	return ok
}

// release gives n back; giving back what is free changes nothing.
func (p *pool) release(n int) {
	if n < 0 || n >= p.size || p.used[n/64]&(1<<(n%64)) == 0 {
		return
	}
	p.used[n/64] &^= 1 << (n % 64)
	p.free++
}

// subnetPool allocates the pod addresses of one node subnet.
type subnetPool struct {
	subnet netip.Prefix
	pool   *pool
}

// newSubnetPool leaves out the addresses that are not pods', and of IPv4 the broadcast address.
func newSubnetPool(subnet netip.Prefix) *subnetPool {
	size := maxPool
	if b := hostBits(subnet); b < 16 {
		size = 1 << b
	}
	size -= firstPodOffset
	if subnet.Addr().Is4() && hostBits(subnet) <= 16 {
		size--
	}
	return &subnetPool{subnet, newPool(max(size, 0))}
}

func (s *subnetPool) take() (netip.Addr, bool) {
	n, ok := s.pool.take()
	if !ok {
		return netip.Addr{}, false
	}
	return nth(s.subnet, uint64(n+firstPodOffset)), true
}

func (s *subnetPool) claim(addr netip.Addr) bool {
	n, ok := offset(s.subnet, addr)
	return ok && n < maxPool && s.pool.claim(int(n)-firstPodOffset)
}

func (s *subnetPool) release(addr netip.Addr) {
	if n, ok := offset(s.subnet, addr); ok && n < maxPool {
		s.pool.release(int(n) - firstPodOffset)
	}
}

// subnetAllocator cuts node subnets out of one cluster range.
type subnetAllocator struct {
	cluster netip.Prefix
	mask    int
	pool    *pool
}

func newSubnetAllocator(cluster netip.Prefix, mask int) *subnetAllocator {
	return &subnetAllocator{cluster, mask, newPool(1 << min(mask-cluster.Bits(), 16))}
}

func (a *subnetAllocator) take() (netip.Prefix, error) {
	n, ok := a.pool.take()
	if !ok {
		return netip.Prefix{}, fmt.Errorf("all %d subnets of length /%d in %s are taken", a.pool.size, a.mask, a.cluster)
	}
	return netip.PrefixFrom(a.at(n), a.mask), nil
}

// at is the n-th subnet's first address.
func (a *subnetAllocator) at(n int) netip.Addr {
	b := a.cluster.Masked().Addr().As16()
	shift := a.cluster.Addr().BitLen() - a.mask // bits below the subnet's number
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	if shift >= 64 {
		hi += uint64(n) << (shift - 64)
	} else {
		lo += uint64(n) << shift
		if shift > 0 {
			hi += uint64(n) >> (64 - shift)
		}
	}
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	addr := netip.AddrFrom16(b)
	if a.cluster.Addr().Is4() {
		return addr.Unmap()
	}
	return addr
}

// number is the place of a subnet that take could have given.
func (a *subnetAllocator) number(subnet netip.Prefix) (int, bool) {
	if subnet.Bits() != a.mask || !a.cluster.Contains(subnet.Addr()) {
		return 0, false
	}
	base, at := a.cluster.Masked().Addr().As16(), subnet.Masked().Addr().As16()
	hi := binary.BigEndian.Uint64(at[:8]) - binary.BigEndian.Uint64(base[:8])
	lo := binary.BigEndian.Uint64(at[8:]) - binary.BigEndian.Uint64(base[8:])
	shift := a.cluster.Addr().BitLen() - a.mask
	n := hi >> (max(shift, 64) - 64)
	if shift < 64 {
		n = hi<<(64-shift) | lo>>shift
	}
	return int(n), n < uint64(a.pool.size)
}

func (a *subnetAllocator) claim(subnet netip.Prefix) bool {
	n, ok := a.number(subnet)
	return ok && a.pool.claim(n)
}

func (a *subnetAllocator) release(subnet netip.Prefix) {
	if n, ok := a.number(subnet); ok {
		a.pool.release(n)
	}
}
