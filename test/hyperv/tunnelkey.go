//go:build linux

package hyperv

import (
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The kinds of a tunnel's attributes (OVS_TUNNEL_KEY_ATTR_*).
const (
	tunnelID           = 0
	tunnelIPv4Src      = 1
	tunnelIPv4Dst      = 2
	tunnelTOS          = 3
	tunnelTTL          = 4
	tunnelDontFragment = 5
	tunnelChecksum     = 6
	tunnelOAM          = 7
	tunnelGeneveOpts   = 8
	tunnelTPSrc        = 9
	tunnelTPDst        = 10
	tunnelIPv6Src      = 12
	tunnelIPv6Dst      = 13
)

var tunnelSizes = map[uint16]int{
	tunnelID: 8, tunnelIPv4Src: 4, tunnelIPv4Dst: 4, tunnelTOS: 1, tunnelTTL: 1, tunnelDontFragment: 0,
	tunnelChecksum: 0, tunnelOAM: 0, tunnelIPv6Src: 16, tunnelIPv6Dst: 16,
}

// Flags of a tunnel's key, part of what has to be equal.
const (
	flagDontFragment = 1 << iota
	flagChecksum
	flagKey
	flagOAM
	flagCritical
	flagGeneveOptions
)

// tunnelKey is of a tunnel's packet; without a dst there is none.
type tunnelKey struct {
	src, dst netip.Addr
	id       uint64 // in the order of the network
	flags    uint16
	tos, ttl uint8
	portDst  uint16
	hash     uint16 // of the flow, for the source port
	options  string
}

func (t tunnelKey) set() bool { return t.dst.IsValid() && !t.dst.IsUnspecified() }

// parseTunnel: Flow.c, MapTunAttrToFlowPut for a flow's key, and OvsTunnelAttrToIPTunnelKey, which is
// strict, for an action.
func parseTunnel(data []byte, strict bool) (tunnelKey, error) {
	var t tunnelKey
	list, err := parseAttributes(data)
	if err != nil {
		return t, err
	}
	for _, a := range list {
		if size, known := tunnelSizes[a.kind]; known && size != len(a.data) {
			return t, unix.EINVAL
		}
		switch a.kind {
		case tunnelID:
			t.id, t.flags = order.Uint64(a.data), t.flags|flagKey
		case tunnelIPv4Src, tunnelIPv6Src:
			t.src, _ = netip.AddrFromSlice(a.data)
		case tunnelIPv4Dst, tunnelIPv6Dst:
			t.dst, _ = netip.AddrFromSlice(a.data)
		case tunnelTOS:
			t.tos = a.data[0]
		case tunnelTTL:
			t.ttl = a.data[0]
		case tunnelDontFragment:
			t.flags |= flagDontFragment
		case tunnelChecksum:
			t.flags |= flagChecksum
		case tunnelOAM:
			t.flags |= flagOAM
		case tunnelTPDst:
			if len(a.data) == 2 {
				t.portDst = order.Uint16(a.data)
			}
		case tunnelGeneveOpts:
			if err := t.setOptions(a.data); err != nil && strict {
				return t, err
			}
		default:
			if strict {
				return t, unix.EINVAL
			}
		}
	}
	return t, nil
}

// setOptions: Flow.c, OvsTunnelAttrToGeneveOptions.
func (t *tunnelKey) setOptions(options []byte) error {
	if len(options) > 255 || len(options)%4 != 0 {
		return unix.EINVAL
	}
	for rest := options; len(rest) > 0; {
		length := 4 + int(rest[3]&0x1f)*4
		if length > len(rest) {
			return unix.EINVAL
		}
		if rest[2]&0x80 != 0 {
			t.flags |= flagCritical
		}
		rest = rest[length:]
	}
	t.options, t.flags = string(options), t.flags|flagGeneveOptions
	return nil
}

// encode: Flow.c, MapFlowTunKeyToNlKey.
func (t tunnelKey) encode(a *netlink.AttributeEncoder) error {
	a.Bytes(tunnelID, order.AppendUint64(nil, t.id))
	address := func(ip netip.Addr, v4, v6 uint16) {
		switch {
		case !ip.IsValid() || ip.IsUnspecified():
		case ip.Is4():
			a.Bytes(v4, ip.AsSlice())
		default:
			a.Bytes(v6, ip.AsSlice())
		}
	}
	address(t.dst, tunnelIPv4Dst, tunnelIPv6Dst)
	address(t.src, tunnelIPv4Src, tunnelIPv6Src)
	a.Uint8(tunnelTOS, t.tos)
	a.Uint8(tunnelTTL, t.ttl)
	if t.options != "" {
		a.Bytes(tunnelGeneveOpts, []byte(t.options))
	}
	a.Bytes(tunnelTPSrc, order.AppendUint16(nil, t.hash))
	a.Bytes(tunnelTPDst, order.AppendUint16(nil, t.portDst))
	return nil
}
