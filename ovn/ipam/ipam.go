package ipam

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
)

// firstPodOffset is a subnet's first address that a pod may have: its own name, the router and the
// management port come before it.
const firstPodOffset = 3

// MaxPool bounds what a pool remembers: a /64 has more addresses than a node has pods.
const MaxPool = 1 << 16

// NumberPool hands out the numbers 0 to size-1, the next free one after the last it gave: a number that was
// freed is not given again before all others had their turn, so that what still remembers the old
// holder of an address (a client, a connection, a cache) does not meet a new one.
type NumberPool struct {
	used []uint64
	Size int
	Free int
	next int
}

func NewPool(size int) *NumberPool {
	return &NumberPool{used: make([]uint64, (size+63)/64), Size: size, Free: size}
}

// Take gives a free number; ok is false when there is none.
func (p *NumberPool) Take() (n int, ok bool) {
	if p.Free == 0 {
		return 0, false
	}
	n, ok = p.scan(p.next, p.Size)
	if !ok {
		n, _ = p.scan(0, p.next)
	}
	p.Claim(n)
	p.next = (n + 1) % p.Size
	return n, true
}

// scan finds the first free number in [from, to).
func (p *NumberPool) scan(from, to int) (int, bool) {
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

// Claim takes n; false says that it is taken or out of range. The turn moves on behind what was
// claimed, so that a restarted controller, too, gives a freed number late.
func (p *NumberPool) Claim(n int) bool {
	if n < 0 || n >= p.Size || p.used[n/64]&(1<<(n%64)) != 0 {
		return false
	}
	p.used[n/64] |= 1 << (n % 64)
	p.Free--
	if n >= p.next {
		p.next = (n + 1) % p.Size
	}
	return true
}

// Reserve takes n for something that is not handed out in turn.
func (p *NumberPool) Reserve(n int) bool {
	next := p.next
	ok := p.Claim(n)
	p.next = next
	return ok
}

// Release gives n back; giving back what is free changes nothing.
func (p *NumberPool) Release(n int) {
	if n < 0 || n >= p.Size || p.used[n/64]&(1<<(n%64)) == 0 {
		return
	}
	p.used[n/64] &^= 1 << (n % 64)
	p.Free++
}

// SubnetPool allocates the pod addresses of one node subnet.
type SubnetPool struct {
	Subnet netip.Prefix
	Pool   *NumberPool
}

// NewSubnetPool has the addresses of a subnet that pods may have.
func NewSubnetPool(subnet netip.Prefix) *SubnetPool {
	return &SubnetPool{subnet, NewPool(Capacity(subnet))}
}

// Capacity is how many addresses of a subnet pods may have: without those that are not pods', and of IPv4 the
// broadcast address.
func Capacity(subnet netip.Prefix) int {
	size := MaxPool
	if b := HostBits(subnet); b < 16 {
		size = 1 << b
	}
	size -= firstPodOffset
	if subnet.Addr().Is4() && HostBits(subnet) <= 16 {
		size--
	}
	return max(size, 0)
}

func (s *SubnetPool) Take() (netip.Addr, bool) {
	n, ok := s.Pool.Take()
	if !ok {
		return netip.Addr{}, false
	}
	return Nth(s.Subnet, uint64(n+firstPodOffset)), true
}

func (s *SubnetPool) Claim(addr netip.Addr) bool {
	n, ok := Offset(s.Subnet, addr)
	return ok && n < MaxPool && s.Pool.Claim(int(n)-firstPodOffset)
}

func (s *SubnetPool) Release(addr netip.Addr) {
	if n, ok := Offset(s.Subnet, addr); ok && n < MaxPool {
		s.Pool.Release(int(n) - firstPodOffset)
	}
}

// SubnetAllocator cuts node subnets out of one cluster range.
type SubnetAllocator struct {
	Cluster netip.Prefix
	mask    int
	Pool    *NumberPool
}

func NewSubnetAllocator(cluster netip.Prefix, mask int) *SubnetAllocator {
	return &SubnetAllocator{cluster, mask, NewPool(1 << min(mask-cluster.Bits(), 16))}
}

func (a *SubnetAllocator) Take() (netip.Prefix, error) {
	n, ok := a.Pool.Take()
	if !ok {
		return netip.Prefix{}, fmt.Errorf("all %d subnets of length /%d in %s are taken", a.Pool.Size, a.mask,
			a.Cluster)
	}
	return netip.PrefixFrom(a.at(n), a.mask), nil
}

// at is the n-th subnet's first address.
func (a *SubnetAllocator) at(n int) netip.Addr {
	b := a.Cluster.Masked().Addr().As16()
	shift := a.Cluster.Addr().BitLen() - a.mask // bits below the subnet's number
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
	if a.Cluster.Addr().Is4() {
		return addr.Unmap()
	}
	return addr
}

// number is the place of a subnet that take could have given.
func (a *SubnetAllocator) number(subnet netip.Prefix) (int, bool) {
	if subnet.Bits() != a.mask || !a.Cluster.Contains(subnet.Addr()) {
		return 0, false
	}
	base, at := a.Cluster.Masked().Addr().As16(), subnet.Masked().Addr().As16()
	hi := binary.BigEndian.Uint64(at[:8]) - binary.BigEndian.Uint64(base[:8])
	lo := binary.BigEndian.Uint64(at[8:]) - binary.BigEndian.Uint64(base[8:])
	shift := a.Cluster.Addr().BitLen() - a.mask
	n := hi >> (max(shift, 64) - 64)
	if shift < 64 {
		n = hi<<(64-shift) | lo>>shift
	}
	return int(n), n < uint64(a.Pool.Size)
}

func (a *SubnetAllocator) Claim(subnet netip.Prefix) bool {
	n, ok := a.number(subnet)
	return ok && a.Pool.Claim(n)
}

func (a *SubnetAllocator) Release(subnet netip.Prefix) {
	if n, ok := a.number(subnet); ok {
		a.Pool.Release(n)
	}
}
