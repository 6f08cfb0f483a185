package flows

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

// Entry is what a node remembers of a connection in one zone.
type Entry struct {
	Node string
	contract.Connection
}

// tuple is how packets of a connection are on their way. It is the key of the connection there.
type tuple struct {
	protocol            string
	source, destination netip.AddrPort
	id                  uint16
	node                string // of addresses that each node has for itself, "" of others
}

// perNode are the addresses that are the same on every node, and never leave it. See contract.HostVIPs.
var perNode = []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fd69::/64")}

func isPerNode(addr netip.Addr) bool {
	return slices.ContainsFunc(perNode, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (e *Entry) tuple(source, destination netip.AddrPort) tuple {
	t := tuple{protocol: e.Protocol, source: source, destination: destination, id: e.ID}
	if isPerNode(source.Addr()) || isPerNode(destination.Addr()) {
		t.node = e.Node
	}
	return t
}

// comes and leaves are the packets of whoever has begun the connection, before and behind the zone.
func (e *Entry) comes() tuple  { return e.tuple(e.Original.Source, e.Original.Destination) }
func (e *Entry) leaves() tuple { return e.tuple(e.Reply.Destination, e.Reply.Source) }

// connection is what all entries of one say together.
type connection struct {
	first, last tuple
	known       bool // first has been found
	nodes       []string
	state       string
	sent, heard contract.Direction // the largest counts
}

// Join makes one flow of all entries of a connection, sorted by source and destination.
func Join(entries []Entry, names *Names) []api.Flow {
	next, translated := map[tuple]tuple{}, map[tuple]struct{}{}
	for i := range entries {
		if before, after := entries[i].comes(), entries[i].leaves(); before != after {
			next[before] = after
			translated[after] = struct{}{}
		}
	}
	connections := map[tuple]*connection{}
	for i := range entries {
		before := entries[i].comes()
		last := follow(next, before)
		c := connections[last]
		if c == nil {
			c = &connection{first: before, last: last}
			connections[last] = c
		}
		if _, within := translated[before]; !within && !c.known {
			c.first, c.known = before, true
		}
		c.add(&entries[i])
	}
	flows := make([]api.Flow, 0, len(connections))
	for _, c := range connections {
		flows = append(flows, c.flow(names))
	}
	slices.SortFunc(flows, func(a, b api.Flow) int { return compare(&a, &b) })
	return flows
}

// maxLinks bounds a chain: what nodes say may go round in circles.
const maxLinks = 8

// follow is the end of the chain that begins with a tuple.
func follow(next map[tuple]tuple, from tuple) tuple {
	for range maxLinks {
		after, more := next[from]
		if !more {
			break
		}
		from = after
	}
	return from
}

func (c *connection) add(e *Entry) {
	if at, there := slices.BinarySearch(c.nodes, e.Node); !there {
		c.nodes = slices.Insert(c.nodes, at, e.Node)
	}
	if stage(e.State) > stage(c.state) {
		c.state = e.State
	}
	grow(&c.sent, &e.Original)
	grow(&c.heard, &e.Reply)
}

// grow keeps the largest counts: each zone that packets pass counts the same ones.
func grow(most, counted *contract.Direction) {
	most.Packets, most.Bytes = max(most.Packets, counted.Packets), max(most.Bytes, counted.Bytes)
}

// stages are the states of a connection in their order, all that Open vSwitch has a name for (CT_DPIF_TCP_STATES and
// CT_DPIF_SCTP_STATES in lib/ct-dpif.h). Zones may differ: one has missed the last packets, or was only asked about a
// connection that is begun in another.
var stages = []string{"LISTEN", "HEARTBEAT_SENT", "HEARTBEAT_ACKED", synSent, "SYN_RECV", "COOKIE_WAIT",
	"COOKIE_ECHOED", established, "FIN_WAIT_1", "CLOSE_WAIT", "FIN_WAIT_2", "CLOSING", "LAST_ACK", "SHUTDOWN_SENT",
	"SHUTDOWN_RECD", "SHUTDOWN_ACK_SENT", "TIME_WAIT", "CLOSED"}

const (
	synSent     = "SYN_SENT"
	established = "ESTABLISHED"
)

// correctedState is the state of the entry that has come farthest. If packets are counted, they decide whether TCP is
// answered, because a state may be wrong about it:
//
//   - The extension of Windows gives a state as a number of Open vSwitch. An ovs-vswitchd of Linux takes it for a
//     number of Linux (nl_ct_tcp_state_to_dpif in lib/netlink-conntrack.c). It shows FIN_WAIT_2, of a connection that
//     its client has closed, as SYN_SENT. It takes SYN_SENT for SYN_RECV, which it shows as ESTABLISHED
//     (coalesce_tcp_state in lib/ct-dpif.c).
//   - Linux has SYN_SENT2 for a connection that both ends have begun, which is shown as SYN_SENT, too.
//
// What has an answer is ESTABLISHED then, as Open vSwitch calls a connection from its first answer on. No entry tells
// how far it has come since.
func (c *connection) correctedState() string {
	sent, heard := c.sent.Packets > 0, c.heard.Packets > 0
	switch {
	case c.state == synSent && heard:
		return established
	case c.last.protocol == "tcp" && c.state == established && sent && !heard:
		return synSent
	}
	return c.state
}

// stage is how far a connection has come: 0 in a state that has no name here, and -1 without one, as of UDP.
func stage(state string) int {
	if state == "" {
		return -1
	}
	return slices.Index(stages, state) + 1
}

func (c *connection) flow(names *Names) api.Flow {
	node := c.nodes[0]
	f := api.Flow{
		Source: names.end(c.first.source, node), Destination: names.end(c.last.destination, node),
		Protocol: strings.ToUpper(c.last.protocol), State: c.correctedState(), Nodes: c.nodes,
		Packets: c.sent.Packets, Bytes: c.sent.Bytes, ReplyPackets: c.heard.Packets, ReplyBytes: c.heard.Bytes,
	}
	if c.first.destination != c.last.destination {
		f.Service = names.service(f.Protocol, c.first.destination)
	}
	if c.first.source != c.last.source {
		f.SeenAs = printed(c.last.source)
	}
	return f
}

// printed is an address with its port, or alone in a protocol without ports.
func printed(at netip.AddrPort) string {
	if at.Port() == 0 {
		return at.Addr().String()
	}
	return at.String()
}

// compare sorts by names, and what has none by addresses.
func compare(a, b *api.Flow) int {
	return cmp.Or(compareEnds(&a.Source, &b.Source), compareEnds(&a.Destination, &b.Destination),
		cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Source.Port, b.Source.Port),
		cmp.Compare(a.Destination.Port, b.Destination.Port), slices.Compare(a.Nodes, b.Nodes))
}

func compareEnds(a, b *api.FlowEnd) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Address, b.Address))
}
