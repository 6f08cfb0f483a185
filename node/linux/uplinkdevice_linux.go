package linux

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/weftnet/weft/node/platform"
)

// chooseDevice checks the device that the host is to share. Nothing was changed yet.
func (s *sharing) chooseDevice(bridge platform.UplinkBridge, saved *savedUplink) (netlink.Link, error) {
	links, err := retryDump(s.netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list the host's devices: %w", err)
	}
	i := slices.IndexFunc(links, func(link netlink.Link) bool { return link.Attrs().Name == s.device })
	if i < 0 {
		return nil, fmt.Errorf("gateway-interface: this host has no device %q, it has %s; set the key to one of them",
			s.device, deviceNames(links))
	}
	device := links[i]
	if reason := s.invalidReason(bridge, device, links); reason != "" {
		return nil, fmt.Errorf("gateway-interface: device %s %s; the host keeps it as it is", s.device, reason)
	}
	if saved != nil {
		return device, nil
	}
	own, err := readHost(device.Attrs().Index)
	if err != nil {
		return nil, err
	}
	shared, err := s.readHostNamed(s.bridge)
	if err != nil {
		return nil, err
	}
	switch {
	case len(globals(own.addresses)) > 0, len(globals(shared.addresses)) > 0:
		return device, nil
	case len(own.routes) > 0:
		return nil, fmt.Errorf("gateway-interface: device %s has routes of the host's but none of its addresses, which "+
			"the gateway would share; give it an address, or set gateway-addresses after moving the routes to another device",
			s.device)
	}
	return nil, fmt.Errorf("gateway-interface: device %s has no address of the host's that the gateway could share; "+
		"give it one, or set gateway-addresses for a gateway with addresses of its own", s.device)
}

// invalidReason says what kind of device cannot be a port of a bridge while the host goes on using it.
func (s *sharing) invalidReason(bridge platform.UplinkBridge, device netlink.Link, all []netlink.Link) string {
	attributes := device.Attrs()
	switch {
	case attributes.Flags&net.FlagLoopback != 0:
		return "is the loopback; name the one that leads outside"
	case attributes.EncapType != "ether":
		return fmt.Sprintf("is no Ethernet device but %s; name one that is", attributes.EncapType)
	case device.Type() == "bridge":
		return "is a bridge of the kernel's, which Open vSwitch cannot take; name the device in it, and remove the bridge"
	case wireless(attributes.Name):
		return "is a wireless one, whose access point takes one MAC address only; name a wired one"
	}
	if holder := bridge.Holder(attributes.Name); holder != "" && holder != s.bridge {
		return fmt.Sprintf("is a port of the Open vSwitch bridge %s; run `ovs-vsctl del-port %s %s` if weft is to have it "+
			"for %s, or set gateway-bridge", holder, holder, attributes.Name, s.bridge)
	}
	if attributes.Name == s.bridge || device.Type() == "openvswitch" {
		return "is an interface of Open vSwitch's own; name the one that leads outside"
	}
	isMaster := func(other netlink.Link) bool { return other.Attrs().Index == attributes.MasterIndex }
	if i := slices.IndexFunc(all, isMaster); attributes.MasterIndex != 0 && i >= 0 {
		master := all[i]
		if master.Type() != "openvswitch" { // the kernel datapath is the master of all ports
			return fmt.Sprintf("belongs to %s, a %s; name that instead, or take the device out of it", master.Attrs().Name,
				master.Type())
		}
	}
	for _, other := range all {
		taken := strings.HasPrefix(other.Type(), "macv") || strings.HasPrefix(other.Type(), "ipv") ||
			other.Type() == "vlan" && s.userspace
		if other.Attrs().ParentIndex == attributes.Index && other.Attrs().NetNsID < 0 && taken {
			return fmt.Sprintf("carries %s, a %s, which would get no packets any more; remove that, or name another device",
				other.Attrs().Name, other.Type())
		}
	}
	return ""
}

func wireless(name string) bool {
	for _, mark := range []string{"wireless", "phy80211"} {
		if _, err := os.Stat(filepath.Join("/sys/class/net", name, mark)); err == nil {
			return true
		}
	}
	return false
}

func deviceNames(links []netlink.Link) string {
	names := []string{}
	for _, link := range links {
		if link.Attrs().Flags&net.FlagLoopback == 0 {
			names = append(names, link.Attrs().Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
