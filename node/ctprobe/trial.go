package ctprobe

import (
	"net/netip"
	"slices"

	"github.com/weftnet/weft/node/ctlookup"
)

// Tables of the probe's, as the package's words show them. They are between OVN's, of which the last is below 100, and
// those of package ctlookup.
const (
	tableRequest = 240 + iota
	tableSender
	tableReceiver
	tableCommitted
	tableReply
	tableReplied
)

// Zones of the probe's. ovn-controller takes the lowest that are free.
const (
	zoneSender   = 64010
	zoneReceiver = 64011
)

// Addresses of the probe's packets: of a range for tests of network devices (RFC 2544), and in no packet that leaves.
var (
	server  = netip.AddrFrom4([4]byte{198, 18, 0, 1})
	virtual = netip.AddrFrom4([4]byte{198, 18, 0, 2})
)

const (
	virtualPort = 80
	serverPort  = 8080
)

// kind is one of exchanges.
type kind int

const (
	ping kind = iota
	translated
)

func (k kind) String() string {
	if k == ping {
		return "a ping"
	}
	return "a connection by a virtual address"
}

// trial is an exchange of a request and its reply.
type trial struct {
	kind
	lookup bool   // before the commit in the receiver's zone
	index  byte   // of the trials
	number uint16 // the client's port, or its messages' identifier
}

func (t trial) String() string {
	if t.lookup {
		return t.kind.String() + " with a lookup before its commit"
	}
	return t.kind.String()
}

// cure is the trial of the same kind that has the lookup.
func (t trial) cure(trials []trial) trial {
	return trials[slices.IndexFunc(trials, func(other trial) bool { return other.kind == t.kind && other.lookup })]
}

func (t trial) client() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 1, t.index}) }

// What the flows that end a packet's way have seen.
const (
	committed    = 1 // the request, committed in both zones
	recognized   = 2 // the reply, as a reply of the connection
	unrecognized = 3 // the reply, as anything else
)

// Cookies of the probe's flows: a mark, and with it the trial's index and what the flow has seen.
const (
	cookieMark = 0x7767 << 48
	cookieMask = 0xffff << 48
)

func (t trial) cookie(seen uint64) uint64 { return cookieMark | uint64(t.index)<<8 | seen }

// flows are the messages that add those of a trial.
func (t trial) flows() [][]byte {
	fromClient, toClient := ipv4Source(t.client()), ipv4Destination(t.client())
	begins := slices.Concat(fromClient, ctState(stateTracked|stateNew))
	replies := slices.Concat(toClient, ctState(stateTracked|stateEstablished|stateReply))
	track := ctAction{zone: zoneSender, table: tableSender}
	commit := ctAction{zone: zoneSender, commit: true}
	if t.kind == translated {
		track.nat, commit.nat = natAgain(), natTo(server, serverPort)
	}
	receive := ctAction{zone: zoneReceiver, table: tableReceiver}.encode()
	last := ctAction{zone: zoneReceiver, commit: true, table: tableCommitted}.encode()
	if t.lookup {
		last = append(ctAction{zone: ctlookup.Zone}.encode(), last...)
	}
	reply := ctAction{zone: zoneReceiver, table: tableReplied}.encode()
	return [][]byte{
		flow{table: tableRequest, match: fromClient, actions: track.encode()}.add(),
		flow{table: tableSender, match: begins, actions: append(commit.encode(), receive...)}.add(),
		flow{table: tableReceiver, match: begins, actions: last}.add(),
		flow{table: tableCommitted, match: fromClient, cookie: t.cookie(committed)}.add(),
		flow{table: tableReply, match: toClient, actions: reply}.add(),
		flow{table: tableReplied, priority: 1, match: replies, cookie: t.cookie(recognized)}.add(),
		flow{table: tableReplied, match: toClient, cookie: t.cookie(unrecognized)}.add(),
	}
}

// request is the packet that the client sends, reply the server's answer as it comes to the receiver's zone.
func (t trial) request() []byte {
	if t.kind == ping {
		return echo(t.client(), server, echoRequest, t.number)
	}
	return udp(netip.AddrPortFrom(t.client(), t.number), netip.AddrPortFrom(virtual, virtualPort))
}

func (t trial) reply() []byte {
	if t.kind == ping {
		return echo(server, t.client(), echoReply, t.number)
	}
	return udp(netip.AddrPortFrom(server, serverPort), netip.AddrPortFrom(t.client(), t.number))
}
