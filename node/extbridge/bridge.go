package extbridge

import (
	"net"
	"net/netip"

	"github.com/weftnet/weft/models/contract"
)

// A Bridge is a node's external bridge: an uplink, the host behind the bridge's own (LOCAL) port, and OVN
// behind the patch port of the node's gateway router. A value says all that the flows depend on, except for the
// entries.
type Bridge struct {
	Name string
	// Uplink and Patch are OpenFlow port numbers; zero is a port that is not there yet.
	Uplink, Patch uint16
	// MAC is the host's on the bridge.
	MAC net.HardwareAddr
	// Host are the host's addresses on the bridge, of both families; the first of each is the one that
	// pods leave with.
	Host []netip.Addr
	// Cluster are the ranges whose addresses mean nothing outside: pods' and the join network's.
	Cluster []netip.Prefix
	// PodSubnets are the node's own.
	PodSubnets []netip.Prefix
	// Routed: pods keep their addresses outside.
	Routed bool
	// HyperV: the datapath is Windows', which drops what it cannot track (SCTP), writes no IPv6 addresses,
	// and begins at the same number whenever it looks for a port.
	HyperV bool
	// LookupFirst: the datapath has to look a packet up in another zone before it commits a connection, see
	// package ctlookup.
	LookupFirst bool
	// FTP: connection tracking may have packets of FTP and TFTP. Windows' reads them on its own, and may stop the machine.
	FTP bool
	// HostAddresses: the gateway router has the host's MAC and addresses. Otherwise it has its own, and
	// GatewayMAC is its MAC.
	HostAddresses bool
	GatewayMAC    net.HardwareAddr
}

// An Entry is something of the outside that belongs to OVN: connections to it go to the gateway router and
// not to the host.
type Entry struct {
	// Addr is a virtual address; the zero value stands for every address in Bridge.Host (a NodePort).
	Addr netip.Addr
	// Protocol is "tcp", "udp" or "sctp".
	Protocol string
	Port     uint16
}

// A Neighbour is one that the host has for good on the bridge.
type Neighbour struct {
	Addr netip.Addr
	MAC  net.HardwareAddr
}

// Neighbours are those that the host needs besides the flows: it answers the gateway router's clients there, and
// nobody would answer its questions for them.
func Neighbours(b Bridge) []Neighbour {
	if !b.HostAddresses {
		return nil
	}
	var list []Neighbour
	for _, client := range contract.HostClients {
		if len(b.hosts(familyOf(client))) > 0 {
			list = append(list, Neighbour{client, clientMAC()})
		}
	}
	return list
}
