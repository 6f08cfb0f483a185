package ipsec

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/models/contract"
)

// The reqids of SAs that a node has opened to send by, and of those that others have opened to it: policies find SAs by
// them, and take no other IPsec of the host's for the tunnels'.
const (
	ReqIDOut = 6081
	ReqIDIn  = 6082
)

// policyPriority goes before charon's own policies, whose numbers are larger.
const policyPriority = 6081

// policies are those of the tunnels in a network namespace.
type policies struct{ netlink *netlink.Handle }

// wanted are the policies of a mode. With [Begin] what comes in the clear needs none to be taken.
func wanted(mode Mode) []netlink.XfrmPolicy {
	switch mode {
	case Begin:
		return []netlink.XfrmPolicy{
			tunnelPolicy(netlink.XFRM_DIR_OUT, net.IPv4zero.To4(), true), tunnelPolicy(netlink.XFRM_DIR_OUT, net.IPv6zero, true),
		}
	case Enforce:
		return []netlink.XfrmPolicy{
			tunnelPolicy(netlink.XFRM_DIR_OUT, net.IPv4zero.To4(), false), tunnelPolicy(netlink.XFRM_DIR_OUT, net.IPv6zero,
				false),
			tunnelPolicy(netlink.XFRM_DIR_IN, net.IPv4zero.To4(), false), tunnelPolicy(netlink.XFRM_DIR_IN, net.IPv6zero, false),
		}
	}
	return nil
}

// tunnelPolicy wants ESP of all packets to the tunnels' port, zero being the address family's.
func tunnelPolicy(dir netlink.Dir, zero net.IP, optional bool) netlink.XfrmPolicy {
	any := &net.IPNet{IP: zero, Mask: net.CIDRMask(0, 8*len(zero))}
	template := netlink.XfrmPolicyTmpl{Dst: zero, Src: zero, Proto: netlink.XFRM_PROTO_ESP,
		Mode: netlink.XFRM_MODE_TRANSPORT, Reqid: ReqIDIn}
	if dir == netlink.XFRM_DIR_OUT {
		template.Reqid = ReqIDOut
	}
	if optional {
		template.Optional = 1
	}
	return netlink.XfrmPolicy{
		Dst: any, Src: any, Proto: unix.IPPROTO_UDP, DstPort: contract.TunnelPort, Dir: dir, Priority: policyPriority,
		Tmpls: []netlink.XfrmPolicyTmpl{template},
	}
}

// ensure makes the policies those of mode; afresh writes them even where they are so already.
func (p policies) ensure(mode Mode, afresh bool) error {
	there, err := p.list()
	if errors.Is(err, unix.EPROTONOSUPPORT) && mode == Off {
		return nil // a kernel without XFRM has none
	}
	if err != nil {
		return fmt.Errorf("read the kernel's IPsec policies: %w; this needs a kernel with XFRM (CONFIG_XFRM_USER), and "+
			"CAP_NET_ADMIN", err)
	}
	want := wanted(mode)
	for _, policy := range want {
		if !afresh && slices.ContainsFunc(there, func(has netlink.XfrmPolicy) bool {
			return samePlace(has, policy) && sameDemand(has, policy)
		}) {
			continue
		}
		if err := p.netlink.XfrmPolicyUpdate(&policy); err != nil {
			return fmt.Errorf("write the kernel's IPsec policy of UDP port %d, %v: %w", contract.TunnelPort, policy.Dir, err)
		}
	}
	for _, policy := range wanted(Enforce) { // all that there may be
		isThere := slices.ContainsFunc(there, func(has netlink.XfrmPolicy) bool { return samePlace(has, policy) })
		isWanted := slices.ContainsFunc(want, func(w netlink.XfrmPolicy) bool { return samePlace(w, policy) })
		if !isThere || isWanted {
			continue
		}
		if err := p.netlink.XfrmPolicyDel(&policy); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the kernel's IPsec policy of UDP port %d, %v: %w", contract.TunnelPort, policy.Dir, err)
		}
	}
	return nil
}

// list asks for each address family by itself: what matches any address has none of its own.
func (p policies) list() ([]netlink.XfrmPolicy, error) {
	var all []netlink.XfrmPolicy
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		some, err := p.netlink.XfrmPolicyList(family)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// samePlace says whether the kernel takes one policy for the other.
func samePlace(a, b netlink.XfrmPolicy) bool {
	return a.Dir == b.Dir && a.Proto == b.Proto && a.DstPort == b.DstPort && a.SrcPort == b.SrcPort &&
		sameNet(a.Src, b.Src) && sameNet(a.Dst, b.Dst)
}

func sameDemand(a, b netlink.XfrmPolicy) bool {
	return a.Priority == b.Priority && a.Action == b.Action && slices.EqualFunc(a.Tmpls, b.Tmpls,
		func(a, b netlink.XfrmPolicyTmpl) bool {
			return a.Proto == b.Proto && a.Mode == b.Mode && a.Reqid == b.Reqid && a.Optional == b.Optional && a.Spi == b.Spi
		})
}

func sameNet(a, b *net.IPNet) bool {
	return a != nil && b != nil && a.IP.Equal(b.IP) && bytes.Equal(a.Mask, b.Mask)
}

// withdraw removes the SAs of a node's own association by which it sends, so that the kernel takes others from now on.
// charon would do so when the peer has already ended to take what comes by them.
func (p policies) withdraw(a association) error {
	for _, c := range a.Children {
		spi, err := strconv.ParseUint(c.Out, 16, 32)
		if err != nil {
			continue // it has none yet
		}
		state := &netlink.XfrmState{Dst: a.peer.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Spi: int(spi)}
		if err := p.netlink.XfrmStateDel(state); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove the kernel's SA %s to %v: %w", c.Out, a.peer, err)
		}
	}
	return nil
}
