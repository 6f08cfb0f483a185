package topology

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	notAGatewayNode = &reasons.Event{
		Name: "NotAGatewayNode", On: "Node",
		Meaning: "The Node has the label weft.net/gateway, and cannot carry the shared gateway. The message says " +
			"what is missing. If it is not a key of the controller, other Nodes with the label can carry it.",
		Remedy: "Do what the message says, or remove the label.",
		See:    "gateways.md",
	}
	noSharedGateway = &reasons.Event{
		Name: "NoSharedGateway", On: "Node",
		Meaning: "The node's pods leave by the shared gateway, and no node carries it. They reach pods and their node, and " +
			"nothing else.",
		Remedy: "Do what the message says: set shared-gateway-addresses, label nodes with weft.net/gateway, or set gateway " +
			"to local for the node's agent.",
		See: "gateways.md",
	}
)
