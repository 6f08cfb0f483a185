package gateway

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	nextHopMissing = &reasons.Event{
		Name: "NextHopMissing", On: "Node",
		Meaning: "A next hop of the node's gateway cannot be used, or gateway-next-hops is empty and the host has no " +
			"default route for one of the gateway's address families. The message says which. If no next hop of a family is " +
			"left, pods reach only the gateway's own subnet of that family outside.",
		Remedy: "Give the host a default route by the external bridge, or set gateway-next-hops.",
		See:    "gateways.md#next-hops",
	}
	externalFlowsRefused = &reasons.Event{
		Name: "ExternalFlowsRefused", On: "Node",
		Meaning: "Open vSwitch refuses flows of the external bridge. The message has the reason. The other flows are in " +
			"force.",
		Remedy: "Report it to the developers of Weft, with the version of Open vSwitch.",
	}
	bridgeMissing = &reasons.Event{
		Name: "BridgeMissing", On: "Node",
		Meaning: "bridge-mappings names a bridge that Open vSwitch does not have. The network outside of that bridge is " +
			"not reached.",
		Remedy: "Make the bridge, or correct bridge-mappings.",
		See:    "gateways.md#more-networks",
	}
	connectionsNotBounded = &reasons.Event{
		Name: "ConnectionsNotBounded", On: "Node",
		Meaning: "The Open vSwitch of this Windows node cannot limit the connections of a pod. So one pod can " +
			"take all places of the node's table of connections.",
		Remedy: "Install Open vSwitch 3.6 or 3.7.",
		See:    "reference.md#connections-of-pods-on-windows-nodes",
	}
	conntrackLookupOff = &reasons.Event{
		Name: "ConntrackLookupOff", On: "Node",
		Meaning: "conntrack-lookup is false, and the node's driver needs the lookup. Pings between pods of the node " +
			"fail, and connections by a ClusterIP to an endpoint on the client's node.",
		Remedy: "Set conntrack-lookup to auto, and restart the agent.",
		See:    "windows-driver.md#the-lookup-before-a-commit",
	}
)
