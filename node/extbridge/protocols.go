package extbridge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/weftnet/weft/node/ctlookup"
)

// Registers in which Hyper-V's flows have the numbers of the zones.
const (
	registerZone       = "NXM_NX_REG0[0..15]"
	registerZoneClient = "NXM_NX_REG1[0..15]"
)

// divideProtocols gives TCP zones of its own, since Hyper-V's connection tracking takes a packet of TCP for one of a
// connection of another protocol, see package ctlookup. What comes in fragments is put together before its protocol
// counts.
func (w *flows) divideProtocols() {
	if !w.HyperV {
		return
	}
	tracked := false
	for _, flow := range slices.Clone(w.list) {
		if !slices.ContainsFunc(flow.Actions, tracksIn(zone, zoneClient)) {
			continue
		}
		tracked = true
		w.wholeFirst(flow)
		flow.Actions = zonesByProtocol(flow.Actions)
	}
	if !tracked {
		return
	}
	zones := func(priority, zone, client int) rule {
		return w.add(tableZones, priority, ovs.Load(fmt.Sprintf("%#x", zone), registerZone),
			ovs.Load(fmt.Sprintf("%#x", client), registerZoneClient))
	}
	zones(0, zone, zoneClient)
	for _, f := range families {
		zones(10, zoneTCP, zoneClientTCP).proto(f.tcp)
	}
}

// tracksIn is whether an action is a ct in one of some zones.
func tracksIn(zones ...int) func(ovs.Action) bool {
	return func(action ovs.Action) bool {
		words, err := action.MarshalText()
		return err == nil && slices.ContainsFunc(zones, func(zone int) bool {
			return strings.HasPrefix(string(words), "ct(") && strings.Contains(string(words), fmt.Sprintf("zone=%d", zone))
		})
	}
}

// zonesByProtocol has the zones of actions chosen by the packet's protocol.
func zonesByProtocol(actions []ovs.Action) []ovs.Action {
	var all []ovs.Action
	for _, action := range actions {
		for number, register := range map[int]string{zone: registerZone, zoneClient: registerZoneClient} {
			if !tracksIn(number)(action) {
				continue
			}
			words, _ := action.MarshalText() // tracksIn has read them
			arguments := strings.TrimSuffix(strings.TrimPrefix(string(words), "ct("), ")")
			all = append(all, ovs.Resubmit(0, tableZones))
			action = ovs.ConnectionTracking(strings.Replace(arguments, fmt.Sprintf("zone=%d", number), "zone="+register, 1))
			break
		}
		all = append(all, action)
	}
	return all
}

// wholeFirst has fragments put together that a flow would track, of which IPv6 tells the protocol in the first alone.
// The packet comes to the flow's table again.
func (w *flows) wholeFirst(flow *ovs.Flow) {
	six := slices.Contains([]ovs.Protocol{ipv6.ip, ipv6.tcp, ipv6.udp, ipv6.icmp}, flow.Protocol)
	if !six || !slices.Contains([]int{tableClassify, tableTrack}, flow.Table) {
		return
	}
	again := *flow
	again.Matches = slices.Clone(flow.Matches)
	again.Priority++
	again.Actions = together(flow.Table)
	fragments := rule{&again}.untracked()
	switch whole, of := fragmentsOf(flow); {
	case whole:
		return
	case !of:
		fragments.fragment()
	}
	w.list = append(w.list, fragments.Flow)
}

// fragmentsOf says whether a flow is of packets that are whole, or of fragments alone.
func fragmentsOf(flow *ovs.Flow) (whole, fragments bool) {
	for _, match := range flow.Matches {
		words, err := match.MarshalText()
		if field, value, _ := strings.Cut(string(words), "="); err == nil && (field == "ip_frag" || field == "nw_frag") {
			return value == string(ovs.IPFragFlagNo), value != string(ovs.IPFragFlagNo)
		}
	}
	return false, false
}

// together has a lookup put fragments together, in a zone that has no connections, and the table look at the packet
// again.
func together(table int) []ovs.Action {
	return []ovs.Action{ovs.ConnectionTracking(fmt.Sprintf("table=%d,zone=%d", table, ctlookup.Zone))}
}
