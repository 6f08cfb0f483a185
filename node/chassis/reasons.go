//go:build linux

package chassis

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	chassisUnreachable = &reasons.Event{
		Name: "ChassisUnreachable", On: "Node",
		Meaning: "The chassis host does not reach the node's agent, or the agent does not reach its node's Open vSwitch, " +
			"or has too many connections. The message says which. Running pods keep their flows, and new pods wait.",
		Remedy: "Look at the firewall, the agent, Open vSwitch on the node, and the agent's log.",
		See:    "reference.md#chassis-hosts",
	}
	chassisHandshakeFailed = &reasons.Event{
		Name: "ChassisHandshakeFailed", On: "Node",
		Meaning: "The chassis host and the node's agent do not accept each other's certificates, the host has none, or the " +
			"agent does not serve chassis hosts. The message says which. Running pods keep their flows, and new pods wait.",
		Remedy: "Correct the certificate that the message names. If it is not valid yet, look at the clocks. If the agent " +
			"does not serve what the host asks for, look at the agent's key chassis and its version.",
		See: "reference.md#chassis-hosts",
	}
	chassisFactsInvalid = &reasons.Event{
		Name: "ChassisFactsInvalid", On: "Node",
		Meaning: "The annotation weft.net/node-facts of the Node cannot be read, or it has an address for the agent that " +
			"chassis hosts refuse. No chassis host begins to run the node's ovn-controller. One that runs it already goes " +
			"on, with the former address.",
		Remedy: "If the message names a key of the agent, set that key. Otherwise remove the annotation. The agent writes " +
			"it again.",
		See: "reference.md#chassis-hosts",
	}
	chassisDatabaseRefused = &reasons.Event{
		Name: "ChassisDatabaseRefused", On: "Node",
		Meaning: "A setting in the node's Open vSwitch database would let the node act as another node, would touch the " +
			"chassis host, or cannot be used. Or the database sends a message that is too large, or too deeply nested. The " +
			"message of the Event says which. Running pods keep their flows, and new pods wait.",
		Remedy: "Correct or remove the setting, as the message says. If nobody has made it by mistake, an attacker may " +
			"control the node: lock the node out.",
		See: "reference.md#chassis-hosts",
	}
	chassisControllerEnded = &reasons.Event{
		Name: "ChassisControllerEnded", On: "Node",
		Meaning: "The node's ovn-controller has ended by itself, has needed more memory than it may have, has not answered " +
			"for a minute and was killed, or could not be started. The message says which. The chassis host starts it " +
			"again. Running pods keep their flows, and new pods wait.",
		Remedy: "Look at the lines ovn-controller: of the chassis host's log. If it needs more memory, and the node is " +
			"sound, raise the key ovn-controller-memory of weft chassis.",
		See: "reference.md#chassis-hosts",
	}
	chassisTakenOver = &reasons.Event{
		Name: "ChassisTakenOver", On: "Node",
		Meaning: "Another chassis host runs the node's ovn-controller now, since the former host has not renewed its Lease.",
		See:     "reference.md#chassis-hosts",
		Normal:  true,
	}
)
