//go:build linux

package chassis

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/node/tunnel"
)

// guard reads what a node's database says before the node's ovn-controller does. That one runs on this
// host, with this host's files, sockets and credentials, and does what it reads: it takes any chassis's
// name and any address for the Southbound or the bridge, a socket of this host's too, and the paths
// of key and certificate in table SSL before those of its command line; with bootstrap_ca_cert it even
// writes a file. Whoever has a node could so act as another, or as this host.
type guard struct {
	node       string
	southbound string // of ovn-remote; empty: the node's word is taken if it is a TCP address
	onlyTLS    bool   // in the node's word
	// claimed names another node that has the address, "" if there is none.
	claimed func(netip.Addr) string
}

// badDatabase is the reason, for metrics, of streams that ended since the node's database asked for
// what it may not have.
const badDatabase tunnel.Reason = "bad-database"

const (
	sslTable    = "SSL"
	rootTable   = "Open_vSwitch"
	settings    = "external_ids"
	remoteKey   = "ovn-remote"
	deepestJSON = 32 // levels; an update has eight, a schema ten, and each may cost a look at all below
	// bytes of one message, which takes some 20 times as much to read; a node of 250 pods sends less than 1 MB
	longestJSON = 4 << 20
)

// passedKeys of the Open_vSwitch row are about the node alone. Others do not reach ovn-controller, nor
// do keys with a chassis's name at their end, which would go first.
var passedKeys = []string{
	"arp-nd-max-timeout-sec", "ct-zone-range", "garp-max-timeout-sec", "hostname", "is-vtep", "ovn-bridge-datapath-type",
	"ovn-bridge-mappings", "ovn-bridge-remote-probe-interval", "ovn-chassis-mac-mappings", "ovn-cms-options",
	"ovn-enable-flow-based-tunnels", "ovn-enable-lflow-cache", "ovn-encap-csum", "ovn-encap-df_default", "ovn-encap-ip",
	"ovn-encap-ip-default", "ovn-encap-tos", "ovn-encap-type", "ovn-is-interconn", "ovn-limit-lflow-cache",
	"ovn-match-northd-version", "ovn-memlimit-lflow-cache-kb", "ovn-monitor-all", "ovn-ofctrl-wait-before-clear",
	"ovn-openflow-probe-interval", "ovn-remote-probe-interval", "ovn-set-local-ip", "ovn-transport-zones",
	"ovn-trim-limit-lflow-cache", "ovn-trim-timeout-ms", "ovn-trim-wmark-perc-lflow-cache", "system-id",
}

// refusedDatabase says what a node's database has and may not have.
type refusedDatabase struct{ text string }

func (r *refusedDatabase) Error() string { return r.text }

func refusedSetting(key, value, why string) error {
	return &refusedDatabase{fmt.Sprintf("external_ids:%s of its Open_vSwitch row is %q: %s", key,
		value[:min(len(value), 253)], why)}
}

// rows takes out of a message's value what ovn-controller must not see, and returns a
// error for what a node may not have. seen: settings of the Open_vSwitch row were in it. A reply to
// get_schema loses table SSL too: what looks like one may be an update.
func (g *guard) rows(value any, depth int) (seen bool, err error) {
	if depth > deepestJSON {
		return false, &refusedDatabase{fmt.Sprintf("it sends a message with more than %d levels", deepestJSON)}
	}
	switch value := value.(type) {
	case []any:
		for _, inner := range value {
			has, err := g.rows(inner, depth+1)
			if err != nil {
				return false, err
			}
			seen = seen || has
		}
	case map[string]any:
		delete(value, sslTable)
		for name, inner := range value {
			if name == rootTable {
				has, err := g.root(inner, false)
				if err != nil {
					return false, err
				}
				seen = seen || has
			}
			has, err := g.rows(inner, depth+1)
			if err != nil {
				return false, err
			}
			seen = seen || has
		}
	}
	return seen, nil
}

// whole are the names of a row in a table's updates where it has all its columns (RFC 7047, 4.1.6, and
// ovsdb-server(7), 4.1.13); elsewhere it has the differences.
var whole = []string{"initial", "insert", "new"}

// root is for updates of the Open_vSwitch table, in which it looks for rows at any depth.
func (g *guard) root(value any, full bool) (seen bool, err error) {
	inner, ok := value.(map[string]any)
	if !ok {
		return false, nil
	}
	if column, ok := inner[settings].([]any); ok {
		kept, err := g.filter(column)
		if err != nil {
			return false, err
		}
		inner[settings], seen = []any{"map", kept}, true
	}
	if full && g.southbound != "" {
		kept := []any{}
		if column, ok := inner[settings].([]any); ok {
			kept = column[1].([]any)
		}
		inner[settings] = []any{"map", append(kept, []any{remoteKey, g.southbound})}
	}
	for name, row := range inner {
		has, err := g.root(row, slices.Contains(whole, name))
		if err != nil {
			return false, err
		}
		seen = seen || has
	}
	return seen, nil
}

var errNoMap = &refusedDatabase{"external_ids of its Open_vSwitch row are no map of strings"}

// filter returns the pairs of ["map", [[KEY, VALUE]...]] that may pass.
func (g *guard) filter(column []any) ([]any, error) {
	if len(column) != 2 || column[0] != "map" {
		return nil, errNoMap
	}
	pairs, ok := column[1].([]any)
	if !ok {
		return nil, errNoMap
	}
	kept := []any{}
	for _, one := range pairs {
		pair, ok := one.([]any)
		if !ok || len(pair) != 2 {
			return nil, errNoMap
		}
		key, isKey := pair[0].(string)
		value, isValue := pair[1].(string)
		if !isKey || !isValue {
			return nil, errNoMap
		}
		if why := g.refuse(key, value); why != "" {
			return nil, refusedSetting(key, value, why)
		}
		if slices.Contains(passedKeys, key) || key == remoteKey && g.southbound == "" {
			kept = append(kept, pair)
		}
	}
	return kept, nil
}

// refuse says what is wrong with a setting, and "" if nothing is.
func (g *guard) refuse(key, value string) string {
	switch key {
	case "system-id":
		if value != g.node {
			return "a node whose ovn-controller runs on a chassis host has its own name; set it to " + g.node
		}
	case "ovn-bridge":
		if value != "br-int" {
			return "the tunnel leads to br-int; remove the key"
		}
	case "ovn-bridge-remote":
		return "it would be a connection of the chassis host; remove the key, ovs-openflow of the node's agent says where " +
			"br-int is"
	case remoteKey:
		if g.southbound == "" {
			if problem := refuseRemote(value, g.onlyTLS); problem != "" {
				return problem + "; see ovn-southbound of the node's agent and of the chassis host"
			}
		}
	case "ovn-encap-ip", "ovn-encap-ip-default":
		return g.refuseEncap(value)
	}
	return ""
}

// refuseRemote says what is wrong with a Southbound's address, and "" if nothing is.
func refuseRemote(value string, onlyTLS bool) string {
	for remote := range strings.SplitSeq(value, ",") {
		scheme, address, _ := strings.Cut(strings.TrimSpace(remote), ":")
		_, _, err := net.SplitHostPort(address)
		switch {
		case scheme != "ssl" && scheme != "tcp" || err != nil:
			return "ovn-controller may connect to ssl:HOST:PORT and tcp:HOST:PORT, or a list of them"
		case scheme == "tcp" && onlyTLS:
			return "ovn-controller has credentials (ovn-ca) and sends nothing in clear; write ssl:HOST:PORT"
		}
	}
	return ""
}

// refuseEncap: ovn-controller takes the chassis that has its addresses for its own from before a
// renaming (controller/chassis.c, chassis_get_stale_record).
func (g *guard) refuseEncap(value string) string {
	for text := range strings.SplitSeq(value, ",") {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return "it is not an IP address; set encap-address of the node's agent"
		}
		if other := g.claimed(address.Unmap()); other != "" {
			return "that is an address of Node " + other + "; set encap-address of the node's agent to one of its own, or " +
				"delete that Node if it is gone"
		}
		if !contract.TunnelAddress(address) {
			return "a tunnel ends at an address that one host has, written plainly; set encap-address of the node's agent"
		}
	}
	return ""
}

// through lets the database's messages come by the guard. trusted is called when its root row has.
func (g *guard) through(remote net.Conn, trusted func()) net.Conn {
	limit := &bounded{Reader: remote}
	decoder := json.NewDecoder(limit)
	decoder.UseNumber()
	return &guarded{Conn: remote, guard: g, limit: limit, decoder: decoder, trusted: trusted}
}

// guarded is the stream as ovn-controller may read it: parsed and written anew, so that no other reading
// of its bytes is possible.
type guarded struct {
	net.Conn
	guard   *guard
	limit   *bounded
	decoder *json.Decoder
	ready   []byte
	trusted func()
}

func (c *guarded) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		var message any
		c.limit.left = longestJSON
		if err := c.decoder.Decode(&message); err != nil {
			return 0, err
		}
		seen, err := c.guard.rows(message, 0)
		if err != nil {
			return 0, err
		}
		if c.ready, err = json.Marshal(message); err != nil {
			return 0, err
		}
		if seen {
			c.trusted()
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// CloseWrite passes on that ovn-controller sends no more.
func (c *guarded) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return c.Close()
	}
	return half.CloseWrite()
}

// bounded ends a message that is too long to be one.
type bounded struct {
	io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &refusedDatabase{fmt.Sprintf("it sends a message of more than %d bytes", longestJSON)}
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
