package linux

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/contract"
)

// message is one of rtnetlink(7): a fixed header and attributes. What the host has on a device is given to
// another by the kernel's own message about it, so that nothing gets lost of which this program knows
// nothing.
type message struct {
	header     []byte
	attributes []attribute
}

type attribute struct {
	kind  uint16
	value []byte
}

// Lengths of fixed headers: struct ifaddrmsg, struct rtmsg, struct ndmsg.
const (
	addressHeader  = unix.SizeofIfAddrmsg
	routeHeader    = unix.SizeofRtMsg
	neighborHeader = unix.SizeofNdMsg
)

func parseMessage(data []byte, header int) (message, error) {
	if len(data) < header {
		return message{}, fmt.Errorf("a message of %d bytes is too short", len(data))
	}
	m := message{header: append([]byte{}, data[:header]...)}
	for data = data[header:]; len(data) >= unix.SizeofRtAttr; {
		length := int(binary.NativeEndian.Uint16(data))
		if length < unix.SizeofRtAttr || length > len(data) {
			return message{}, fmt.Errorf("an attribute of %d bytes in %d", length, len(data))
		}
		m.attributes = append(m.attributes,
			attribute{binary.NativeEndian.Uint16(data[2:]), append([]byte{}, data[unix.SizeofRtAttr:length]...)})
		padded := (length + unix.RTA_ALIGNTO - 1) &^ (unix.RTA_ALIGNTO - 1)
		data = data[min(padded, len(data)):]
	}
	return m, nil
}

func (m message) bytes() []byte {
	data := append([]byte{}, m.header...)
	for _, a := range m.attributes {
		data = append(data, nl.NewRtAttr(int(a.kind), a.value).Serialize()...)
	}
	return data
}

// get returns nil where the message has no such attribute.
func (m message) get(kind uint16) []byte {
	for _, a := range m.attributes {
		if a.kind == kind {
			return a.value
		}
	}
	return nil
}

// number is a 32-bit attribute, 0 where there is none.
func (m message) number(kind uint16) uint32 {
	if value := m.get(kind); len(value) >= 4 {
		return binary.NativeEndian.Uint32(value)
	}
	return 0
}

// with is a copy whose attribute has that value; without any where it is nil.
func (m message) with(kind uint16, value []byte) message {
	changed := message{header: append([]byte{}, m.header...)}
	for _, a := range m.attributes {
		if a.kind != kind {
			changed.attributes = append(changed.attributes, a)
		}
	}
	if value != nil {
		changed.attributes = append(changed.attributes, attribute{kind, value})
	}
	return changed
}

func (m message) without(kinds ...uint16) message {
	for _, kind := range kinds {
		m = m.with(kind, nil)
	}
	return m
}

func nativeNumber(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// dump asks the kernel for all objects of a kind: unix.RTM_GETADDR, RTM_GETROUTE or RTM_GETNEIGH. The kernel
// answers with messages of the kind that makes such an object.
func dump(kind int, family byte, header int) ([]message, error) {
	answers, err := retryDump(func() ([][]byte, error) {
		request := nl.NewNetlinkRequest(kind, unix.NLM_F_DUMP)
		question := make([]byte, header)
		question[0] = family
		request.AddRawData(question)
		return request.Execute(unix.NETLINK_ROUTE, uint16(kind-2)) // RTM_GET… is RTM_NEW… + 2
	})
	if err != nil {
		return nil, err
	}
	found := make([]message, 0, len(answers))
	for _, answer := range answers {
		m, err := parseMessage(answer, header)
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, nil
}

// send has the kernel do what the message says.
func send(kind, flags int, m message) error {
	request := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	request.AddRawData(m.bytes())
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// hostNeighbors are the entries of the device's neighbour table that somebody has set for good, without those of
// EnsureNeighbours.
func hostNeighbors(device int) ([]message, error) {
	all, err := dump(unix.RTM_GETNEIGH, netlink.FAMILY_ALL, neighborHeader)
	if err != nil {
		return nil, fmt.Errorf("list the host's neighbours: %w", err)
	}
	found := []message{}
	for _, m := range all {
		family, state := m.header[0], binary.NativeEndian.Uint16(m.header[8:])
		if addr, _ := netip.AddrFromSlice(m.get(unix.NDA_DST)); slices.Contains(contract.HostClients[:], addr) {
			continue
		}
		if int(binary.NativeEndian.Uint32(m.header[4:])) == device && state == unix.NUD_PERMANENT &&
			(family == unix.AF_INET || family == unix.AF_INET6) {
			found = append(found, m.without(unix.NDA_CACHEINFO, unix.NDA_PROBES))
		}
	}
	return found, nil
}

func giveNeighbor(m message, device int) error {
	given := m.with(unix.NDA_CACHEINFO, nil)
	binary.NativeEndian.PutUint32(given.header[4:], uint32(device))
	return send(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, given)
}
