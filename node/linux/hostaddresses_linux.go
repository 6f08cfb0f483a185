package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hostAddress is an address of the host's on some device.
type hostAddress struct {
	Address netip.Prefix `json:"address"`
	// Preferred and Valid are the ends of its lifetimes, zero where it has none.
	Preferred time.Time `json:"preferred,omitzero"`
	Valid     time.Time `json:"valid,omitzero"`
	// Message is RTM_NEWADDR of rtnetlink(7) without the lifetimes.
	Message []byte `json:"message"`

	m message
}

// lasting are the flags of an address that are set by whoever gives it to a device; the others tell how
// the kernel got on with it.
const lasting = unix.IFA_F_NODAD | unix.IFA_F_HOMEADDRESS | unix.IFA_F_MANAGETEMPADDR |
	unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_MCAUTOJOIN

// hostAddresses of a device, in the order in which they have to be given to another for the same order there.
func hostAddresses(device int) ([]hostAddress, error) {
	all, err := dump(unix.RTM_GETADDR, netlink.FAMILY_ALL, addressHeader)
	if err != nil {
		return nil, fmt.Errorf("list the host's addresses: %w", err)
	}
	v4, v6 := []hostAddress{}, []hostAddress{}
	for _, m := range all {
		if int(binary.NativeEndian.Uint32(m.header[4:])) != device {
			continue
		}
		address, err := parseAddress(m)
		switch {
		case err != nil:
			return nil, err
		case address.Address.Addr().Is4():
			v4 = append(v4, address)
		default: // the kernel lists the last one first
			v6 = append(v6, address)
		}
	}
	slices.Reverse(v6)
	return append(v4, v6...), nil
}

func parseAddress(m message) (hostAddress, error) {
	raw := m.get(unix.IFA_LOCAL)
	if raw == nil {
		raw = m.get(unix.IFA_ADDRESS)
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return hostAddress{}, fmt.Errorf("the kernel told of an address of %d bytes", len(raw))
	}
	a := hostAddress{Address: netip.PrefixFrom(addr, int(m.header[1]))}
	if lifetimes := m.get(unix.IFA_CACHEINFO); len(lifetimes) >= 8 {
		a.Preferred, a.Valid = ends(lifetimes[:4]), ends(lifetimes[4:8])
	}
	a.m = m.without(unix.IFA_CACHEINFO)
	a.Message = a.m.bytes()
	return a, nil
}

func ends(seconds []byte) time.Time {
	left := binary.NativeEndian.Uint32(seconds)
	if left == math.MaxUint32 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(left) * time.Second)
}

// remains is the opposite of ends.
func remains(end time.Time) []byte {
	if end.IsZero() {
		return nativeNumber(math.MaxUint32)
	}
	return nativeNumber(uint32(max(0, time.Until(end).Round(time.Second)/time.Second)))
}

func (a hostAddress) flags() uint32 {
	if a.m.get(unix.IFA_FLAGS) == nil {
		return uint32(a.m.header[2])
	}
	return a.m.number(unix.IFA_FLAGS)
}

// same says whether two are one address with the same settings. A lease that was renewed makes it another.
func (a hostAddress) same(b hostAddress) bool {
	const clocks = time.Minute // seconds are rounded
	near := func(a, b time.Time) bool { return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < clocks }
	return bytes.Equal(a.Message, b.Message) && near(a.Valid, b.Valid) && near(a.Preferred, b.Preferred)
}

// on is the message by which another device gets the address. IPv4's have a label that begins with the
// device's name.
func (a hostAddress) on(device netlink.Link, flags uint32) message {
	m := a.m.with(unix.IFA_FLAGS, nativeNumber(flags))
	m.header[2] = byte(flags)
	binary.NativeEndian.PutUint32(m.header[4:], uint32(device.Attrs().Index))
	m = m.with(unix.IFA_CACHEINFO, slices.Concat(remains(a.Preferred), remains(a.Valid), make([]byte, 8)))
	if label := m.get(unix.IFA_LABEL); label != nil {
		renamed := device.Attrs().Name
		if _, alias, ok := strings.Cut(strings.TrimRight(string(label), "\x00"), ":"); ok {
			renamed += ":" + alias
		}
		m = m.without(unix.IFA_LABEL)
		if len(renamed) < unix.IFNAMSIZ {
			m = m.with(unix.IFA_LABEL, append([]byte(renamed), 0))
		}
	}
	return m
}

// give gives the address to a device, also one that has it already. Nobody looks for a duplicate: the host
// has had it all the time.
func (a hostAddress) give(device netlink.Link) error {
	if !a.Valid.IsZero() && time.Until(a.Valid) < time.Second {
		return nil
	}
	const create = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	wanted := a.flags() & lasting
	now := wanted
	if a.Address.Addr().Is6() {
		now |= unix.IFA_F_NODAD
	}
	err := send(unix.RTM_NEWADDR, create, a.on(device, now))
	if err == nil && now != wanted {
		err = send(unix.RTM_NEWADDR, create, a.on(device, wanted))
	}
	if err != nil {
		return fmt.Errorf("give address %v to device %s: %w", a.Address, device.Attrs().Name, err)
	}
	return nil
}

// remove takes the address from the device that has it.
func (a hostAddress) remove() error {
	err := send(unix.RTM_DELADDR, 0, a.m)
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("take address %v from its old device: %w", a.Address, err)
	}
	return nil
}

// globals leaves out what a device has by itself.
func globals(addresses []hostAddress) []hostAddress {
	return slices.DeleteFunc(slices.Clone(addresses),
		func(a hostAddress) bool { return !a.Address.Addr().IsGlobalUnicast() })
}
