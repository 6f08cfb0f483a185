package ipsec

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/weftnet/weft/models/contract"
)

// Names in charon. Whatever else it is used for has others.
const (
	connectionPrefix = "weft-"
	childOut         = "weft-out" // what this node sends
	childIn          = "weft-in"  // what the peer sends, which it opens
)

func connectionName(peer netip.Addr) string { return connectionPrefix + peer.String() }

// peerOf is the peer of a connection of that name.
func peerOf(connection string) (netip.Addr, bool) {
	text, ours := strings.CutPrefix(connection, connectionPrefix)
	if !ours {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(text)
	return addr, err == nil
}

// connection is what charon is told of a peer, see "connections" in swanctl.conf(5).
type connection struct {
	LocalAddrs  []string         `vici:"local_addrs"`
	RemoteAddrs []string         `vici:"remote_addrs"`
	Version     string           `vici:"version"`
	Proposals   []string         `vici:"proposals"`
	Unique      string           `vici:"unique"`
	Mobike      string           `vici:"mobike"`
	SendCert    string           `vici:"send_cert"`
	DPDDelay    string           `vici:"dpd_delay"`
	ReauthTime  string           `vici:"reauth_time"`
	Local       authentication   `vici:"local"`
	Remote      authentication   `vici:"remote"`
	Children    map[string]child `vici:"children"`
}

type authentication struct {
	Auth        string   `vici:"auth"`
	ID          string   `vici:"id"`
	Certs       []string `vici:"certs"`
	Authorities []string `vici:"cacerts"`
}

type child struct {
	Mode         string   `vici:"mode"`
	LocalTS      []string `vici:"local_ts"`
	RemoteTS     []string `vici:"remote_ts"`
	ESPProposals []string `vici:"esp_proposals"`
	ReqID        string   `vici:"reqid"`
	Policies     string   `vici:"policies"`
	RekeyTime    string   `vici:"rekey_time"`
	RekeyPackets string   `vici:"rekey_packets"`
	ReplayWindow string   `vici:"replay_window"`
}

// The first proposals are what nodes of Linux agree on, the others are of Windows' sets too.
var (
	ikeProposals = []string{"aes256gcm16-prfsha384-x25519", "aes256-sha384-ecp384", "aes256-sha256-ecp256"}
	espProposals = []string{"aes256gcm16-x25519-esn", "aes256gcm16-esn-noesn"}
)

// newConnection is of a node whose tunnels end at local.
func newConnection(local, peer netip.Addr, c credentials) connection {
	tunnels := "dynamic[udp/" + strconv.Itoa(contract.TunnelPort) + "]"
	const anyPort = "dynamic[udp]"
	out := child{
		Mode: "transport", LocalTS: []string{anyPort}, RemoteTS: []string{tunnels}, ESPProposals: espProposals,
		ReqID: strconv.Itoa(ReqIDOut), Policies: "no",
		// A renewal comes first. What is left is a node whose agent does not run, and sequence numbers of 32 bits.
		RekeyTime: "3h", RekeyPackets: "2000000000",
		ReplayWindow: "1024", // of packets that several processors have sent
	}
	in := out // who has opened an SA rekeys it
	in.LocalTS, in.RemoteTS, in.ReqID, in.RekeyTime, in.RekeyPackets = out.RemoteTS, out.LocalTS, strconv.Itoa(ReqIDIn),
		"0", "0"
	return connection{
		LocalAddrs: []string{local.String()}, RemoteAddrs: []string{peer.String()}, Version: "2", Proposals: ikeProposals,
		// A peer that has lost its SAs says so with its first one (INITIAL_CONTACT), and those of its former life go.
		Unique: "no", Mobike: "no", SendCert: "always", DPDDelay: "10s", ReauthTime: "0",
		Local:    authentication{Auth: "pubkey", ID: "CN=" + subject(local), Certs: c.certificates},
		Remote:   authentication{Auth: "pubkey", ID: "CN=" + subject(peer), Authorities: c.authorities},
		Children: map[string]child{childOut: out, childIn: in},
	}
}
