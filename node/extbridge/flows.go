package extbridge

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/digitalocean/go-openvswitch/ovs"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/ctlookup"
)

// Tables of the bridge. A table that no flow matches in drops, except for the first.
const (
	tableClassify = 0  // by where a packet comes from
	tableOutside  = 10 // from outside to the host's MAC, tracked
	tableHost     = 20 // from the host, tracked
	tableTrack    = 25 // from the gateway router, not tracked yet
	tableGateway  = 30 // from the gateway router, tracked
	tableAlias    = 40 // from the gateway router to the host
	tableFromHost = 50 // the host's answer, to whom it has seen
	tableZones    = 60 // gives Hyper-V the zones of the packet's protocol
)

// Zones of connection tracking. ovn-controller takes the lowest that are free.
const (
	zone       = 64000
	zoneClient = 64001 // of the source addresses that the host sees by its alias

	zoneTCP       = 64002 // as zone, where TCP has zones of its own
	zoneClientTCP = 64003 // as zoneClient
)

// Bounds are how many connections the zones may have in which the bridge's flows remember them, where a share is n.
func Bounds(n int) map[int]int {
	most := contract.BridgeShare * n
	return map[int]int{zone: most, zoneTCP: most, zoneClient: n, zoneClientTCP: n}
}

// Marks of connections in zone.
const (
	markGateway = 1
	markHost    = 2
	markAlias   = 3
)

// firstPort to lastPort are where the translated connections of pods begin: the ports that the host's own
// system, too, gives to who asks for none. What is an entry's below them, nobody else has.
const (
	firstPort = 1 << 15
	lastPort  = 1<<16 - 1
)

// localPort is LOCAL as a field's value.
const localPort = "0xfffe"

// The cookie of each flow has CookieMark under CookieMask. The rest is a digest of the flow's text, by which installed
// flows are compared with wanted ones.
const (
	CookieMark = 0x7765 << 48 // "we"
	CookieMask = 0xffff << 48
)

// Flows are the flows of a bridge that give OVN the entries and the pods' connections, and the host the
// rest; sorted and without doubles. None, that is plain NORMAL switching, where there is nothing to divide.
// Entries that do not fit the bridge (a protocol that its datapath does not track, a pod's address) are left out.
func Flows(b Bridge, entries []Entry) []*ovs.Flow {
	w := &flows{Bridge: b, entries: b.destinations(entries)}
	switch {
	case len(b.MAC) == 0 || len(b.Host) == 0:
		return nil
	case b.HostAddresses:
		w.shared()
	case len(b.GatewayMAC) > 0 && b.Patch != 0 && len(w.entries) > 0:
		w.own()
	default:
		return nil
	}
	w.add(tableClassify, 1, ovs.Normal())
	w.divideProtocols()
	return w.finish()
}

// flows collects those of one bridge.
type flows struct {
	Bridge
	entries []destination
	list    []*ovs.Flow
}

// destination is an entry with its address.
type destination struct {
	family family
	addr   netip.Addr
	proto  ovs.Protocol
	port   uint16
}

// family has the words of an IP version.
type family struct {
	four           bool
	ip, icmp       ovs.Protocol
	tcp, udp, sctp ovs.Protocol
}

var (
	ipv4     = family{true, ovs.ProtocolIPv4, ovs.ProtocolICMPv4, ovs.ProtocolTCPv4, ovs.ProtocolUDPv4, "sctp"}
	ipv6     = family{false, ovs.ProtocolIPv6, ovs.ProtocolICMPv6, ovs.ProtocolTCPv6, ovs.ProtocolUDPv6, "sctp6"}
	families = []family{ipv4, ipv6}
)

func familyOf(addr netip.Addr) family {
	if addr.Is4() {
		return ipv4
	}
	return ipv6
}

// destinations spells the entries out: a NodePort is one a host address. The cluster's own addresses are none.
func (b Bridge) destinations(entries []Entry) []destination {
	var found []destination
	for _, e := range entries {
		addrs := []netip.Addr{e.Addr.Unmap()}
		if !e.Addr.IsValid() {
			addrs = b.Host
		}
		for _, addr := range addrs {
			f := familyOf(addr)
			proto, ok := map[string]ovs.Protocol{"tcp": f.tcp, "udp": f.udp, "sctp": f.sctp}[strings.ToLower(e.Protocol)]
			inside := slices.ContainsFunc(b.Cluster, func(p netip.Prefix) bool { return p.Contains(addr) })
			if !ok || e.Port == 0 || inside || proto == f.sctp && b.HyperV {
				continue
			}
			found = append(found, destination{f, addr, proto, e.Port})
		}
	}
	return found
}

// later6 are the fragments of an IPv6 packet except its first one: for Open vSwitch they have the protocol of the
// fragment header. All of IPv4's have the packet's protocol. A lookup puts a packet together from all of its fragments.
const later6 ovs.Protocol = "later6"

// errors are the types of ICMP that tell of a packet that did not arrive.
func (f family) errors() []uint8 {
	if f.four {
		return []uint8{3, 11, 12}
	}
	return []uint8{1, 2, 3, 4}
}

// unique says that whatever has the entry's address and port, there and back, is the gateway router's. At an
// address of the host's, port numbers from firstPort may be those of connections.
func (b Bridge) unique(e destination) bool {
	return e.port < firstPort || !slices.Contains(b.Host, e.addr)
}

// tracked are the protocols that connection tracking knows.
func (b Bridge) tracked(f family) []ovs.Protocol {
	protocols := []ovs.Protocol{f.tcp, f.udp, f.icmp}
	if !f.four {
		protocols = append(protocols, later6)
	}
	if !b.HyperV {
		protocols = append(protocols, f.sctp)
	}
	return protocols
}

// fragmented are the protocols whose fragments are tracked if those of UDP are: over IPv6, all that have later ones in
// common with it. Hyper-V drops what it tracks of a protocol that it does not know.
func (b Bridge) fragmented(f family) []ovs.Protocol {
	switch {
	case f.four:
		return []ovs.Protocol{f.udp}
	case b.HyperV:
		return b.tracked(f)
	}
	return []ovs.Protocol{f.ip}
}

// host is the host's main address of a family.
func (b Bridge) host(f family) (netip.Addr, bool) {
	i := slices.IndexFunc(b.Host, func(a netip.Addr) bool { return a.Is4() == f.four })
	if i < 0 {
		return netip.Addr{}, false
	}
	return b.Host[i], true
}

// hosts are all of the host's addresses of a family.
func (b Bridge) hosts(f family) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(b.Host), func(a netip.Addr) bool { return a.Is4() != f.four })
}

// toPatch are the actions that give a packet to the gateway router.
func (b Bridge) toPatch(before ...ovs.Action) []ovs.Action {
	if b.Patch == 0 {
		return []ovs.Action{ovs.Drop()}
	}
	return append(before, ovs.Output(int(b.Patch)))
}

// toBoth are the actions that give a packet to the host, and a copy to the gateway router.
func (b Bridge) toBoth(before ...ovs.Action) []ovs.Action {
	if b.Patch == 0 {
		return []ovs.Action{ovs.Local()}
	}
	return append([]ovs.Action{ovs.Local()}, b.toPatch(before...)...)
}

// across are the actions that let a packet pass between the host and the gateway router, whose ports are
// protected from each other: as if it came from nowhere.
func across(actions ...ovs.Action) []ovs.Action {
	return append([]ovs.Action{ovs.Load("0", "NXM_OF_IN_PORT[]")}, actions...)
}

// asHost has NORMAL take a packet for one of the host's, and learn nothing else.
func asHost(before ...ovs.Action) []ovs.Action {
	return append(before, ovs.Load(localPort, "NXM_OF_IN_PORT[]"), ovs.Normal())
}

// rule is a flow in the making.
type rule struct{ *ovs.Flow }

// add adds a flow that matches everything, until it is narrowed.
func (w *flows) add(table, priority int, actions ...ovs.Action) rule {
	flow := &ovs.Flow{Table: table, Priority: priority, Actions: actions}
	w.list = append(w.list, flow)
	return rule{flow}
}

func (r rule) port(p int) rule              { r.InPort = p; return r }
func (r rule) with(m ...ovs.Match) rule     { r.Matches = append(r.Matches, m...); return r }
func (r rule) untracked() rule              { return r.state("-trk") }
func (r rule) state(flags ...string) rule   { return r.with(ovs.ConnectionTrackingState(flags...)) }
func (r rule) mark(m uint32) rule           { return r.with(ovs.ConnectionTrackingMark(m, 0xffffffff)) }
func (r rule) from(m net.HardwareAddr) rule { return r.with(ovs.DataLinkSource(m.String())) }
func (r rule) to(m net.HardwareAddr) rule   { return r.with(ovs.DataLinkDestination(m.String())) }
func (r rule) proto(p ovs.Protocol) rule {
	if p == later6 {
		return r.proto(ovs.ProtocolIPv6).with(ovs.NetworkProtocol(44))
	}
	r.Protocol = p
	return r
}

// whole matches packets that are no fragments: only these have ports for certain.
func (r rule) whole() rule { return r.with(ovs.IPFrag(ovs.IPFragFlagNo)) }

// fragment matches fragments, which may have the ports of their packet or not.
func (r rule) fragment() rule { return r.with(ovs.IPFrag(ovs.IPFragFlagYes)) }

func (r rule) icmp(kind uint8) rule {
	if r.Protocol == ovs.ProtocolICMPv6 {
		return r.with(ovs.ICMP6Type(kind))
	}
	return r.with(ovs.ICMPType(kind))
}

func (r rule) src(p netip.Prefix) rule {
	if p.Addr().Is4() {
		return r.with(ovs.NetworkSource(short(p)))
	}
	return r.with(ovs.IPv6Source(short(p)))
}

func (r rule) dst(p netip.Prefix) rule {
	if p.Addr().Is4() {
		return r.with(ovs.NetworkDestination(short(p)))
	}
	return r.with(ovs.IPv6Destination(short(p)))
}

func (r rule) srcAddr(a netip.Addr) rule { return r.src(netip.PrefixFrom(a, a.BitLen())) }
func (r rule) dstAddr(a netip.Addr) rule { return r.dst(netip.PrefixFrom(a, a.BitLen())) }

// short is a prefix as people write it: a single address without its length.
func short(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.Masked().String()
}

// State flags.
const (
	isTracked  = "+trk"
	isNew      = "+new"
	isOld      = "+est"
	isRelated  = "+rel"
	isInvalid  = "+inv"
	isReply    = "+rpl"
	notReply   = "-rpl"
	notOld     = "-est"
	notRelated = "-rel"
)

// known matches what belongs to a connection: packets of it, and errors about it.
func (w *flows) known(table, priority int, mark uint32, actions ...ovs.Action) {
	for _, flag := range []string{isOld, isRelated} {
		w.add(table, priority, actions...).state(isTracked, flag).mark(mark)
	}
}

// track looks a packet up in the zone, translates it as its connection is translated, and goes on in a table.
func track(zone, table int) ovs.Action {
	return ovs.ConnectionTracking(fmt.Sprintf("table=%d,zone=%d,nat", table, zone))
}

// translate translates a packet as its connection is translated. Unlike track it costs no second pass, and so
// flows that follow still see what the packet was before.
func translate(zone int) ovs.Action {
	return ovs.ConnectionTracking(fmt.Sprintf("zone=%d,nat", zone))
}

// commit remembers a connection by a mark; more are further arguments, as a translation.
func commit(mark uint32, more ...string) ovs.Action {
	args := append([]string{"commit", fmt.Sprintf("zone=%d", zone)}, more...)
	return ovs.ConnectionTracking(strings.Join(append(args, fmt.Sprintf("exec(set_field:0x%x->ct_mark)", mark)), ","))
}

func natSource(addr netip.Addr) string { return "nat(src=" + bracketed(addr) + ")" }

// natPorts is natSource by ports that are no entry's.
func natPorts(addr netip.Addr) string {
	return fmt.Sprintf("nat(src=%s:%d-%d)", bracketed(addr), firstPort, lastPort)
}

func natDestination(addr netip.Addr) string { return "nat(dst=" + bracketed(addr) + ")" }

func bracketed(addr netip.Addr) string {
	if addr.Is4() {
		return addr.String()
	}
	return "[" + addr.String() + "]"
}

// clientMAC is where the host sends packets for the gateway router: at the common one it would keep them.
func clientMAC() net.HardwareAddr { return contract.MAC(contract.HostClients[0]) }

// lookupFirst has a lookup before each action that commits.
func lookupFirst(actions []ovs.Action) []ovs.Action {
	var all []ovs.Action
	for _, action := range actions {
		if words, err := action.MarshalText(); err == nil && ctlookup.Before(string(words)) {
			all = append(all, ovs.ConnectionTracking(fmt.Sprintf("zone=%d", ctlookup.Zone)))
		}
		all = append(all, action)
	}
	return all
}

// finish gives the flows their cookies and order.
func (w *flows) finish() []*ovs.Flow {
	type text struct {
		*ovs.Flow
		words string
	}
	seen, all := map[uint64]bool{}, []text{}
	for _, flow := range w.list {
		if w.LookupFirst {
			flow.Actions = lookupFirst(flow.Actions)
		}
		words, err := flow.MarshalText()
		if err != nil { // made of parsed values only
			panic(fmt.Sprintf("extbridge: flow %+v: %v", flow, err))
		}
		digest := sha256.Sum256(words)
		flow.Cookie = CookieMark | binary.BigEndian.Uint64(digest[:])&^CookieMask
		if !seen[flow.Cookie] {
			seen[flow.Cookie] = true
			all = append(all, text{flow, string(words)})
		}
	}
	slices.SortFunc(all, func(a, b text) int {
		if a.Table != b.Table {
			return a.Table - b.Table
		}
		if a.Priority != b.Priority {
			return b.Priority - a.Priority
		}
		return strings.Compare(a.words, b.words)
	})
	list := make([]*ovs.Flow, len(all))
	for i, t := range all {
		list[i] = t.Flow
	}
	return list
}
