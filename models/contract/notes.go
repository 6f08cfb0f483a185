package contract

import (
	"slices"
	"strings"
)

// Note is something that an agent tells of its node though new pods can be attached. The agent writes "NAME: TEXT", to
// the message of [AgentCondition] and to its answer to /readyz.
type Note struct {
	Name string
	// Remedy is what to do about it.
	Remedy string
}

// RestartHNS is the remedy when HNS hangs. Without -Force it is not stopped, since the service weft-node depends on it.
const RestartHNS = "on the node: `Restart-Service hns -Force`, which restarts weft-node, too; or restart the node"

// Notes are all of them.
var Notes = []Note{
	{"next-hops", "give the host a default route by the external bridge, or set gateway-next-hops"},
	{"refused-flows", "report it to the developers of Weft, with the log of ovs-vswitchd and the versions of Open " +
		"vSwitch and of its driver; what depends on these flows does not work until then"},
	{"conntrack-lookup", "set conntrack-lookup to auto, and restart the agent"},
	{"connections", "install Open vSwitch 3.6 or 3.7; until then a pod can take the node's room for all connections"},
	{"external-networks", "make the bridge, or correct bridge-mappings"},
	{"clear-tunnels", "remove the cause that the message names"},
	{"encrypted-peers", "look at the log of charon on both nodes: `journalctl -u strongswan`"},
	{"hns", RestartHNS},
	{"mtu", "lower uplink-mtu, or raise the MTU of the interface"},
	{"upcalls", "on the node: `systemctl restart ovs-vswitchd`; if its version is 3.1.0, install 3.1.1 or later"},
}

// NoteOf is the note that a text begins with.
func NoteOf(text string) (note Note, ok bool) {
	name, _, _ := strings.Cut(text, ":")
	i := slices.IndexFunc(Notes, func(n Note) bool { return n.Name == name })
	if i < 0 {
		return Note{}, false
	}
	return Notes[i], true
}

// NotesIn are the notes that a message of [AgentCondition] has.
func NotesIn(message string) (found []Note) {
	for part := range strings.SplitSeq(message, AgentMessageSeparator) {
		if note, ok := NoteOf(part); ok && !slices.Contains(found, note) {
			found = append(found, note)
		}
	}
	return found
}

// AgentMessageSeparator stands between the parts of a message of [AgentCondition].
const AgentMessageSeparator = "; "
