package node

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	hnsHangs = &reasons.Event{
		Name: "HNSHangs", On: "Node",
		Meaning: "HNS, the network service of Windows, does not answer a call of the agent. Running pods keep their " +
			"network, and new pods may get none.",
		Remedy: "Run Restart-Service hns -Force on the node, which restarts weft-node, too. Or restart the node.",
		See:    "monitoring.md#wefthnshangs",
	}
	uplinkMTUTooLarge = &reasons.Event{
		Name: "UplinkMTUTooLarge", On: "Node",
		Meaning: "uplink-mtu is more than the interface of encap-address carries. Large packets to other nodes are lost, " +
			"so connections open and then hang.",
		Remedy: "Raise the MTU of the interface. Or lower uplink-mtu, restart the agent, and replace the node's pods: " +
			"these keep the MTU that they have.",
	}
	upcallsLost = &reasons.Event{
		Name: "UpcallsLost", On: "Node",
		Meaning: "No packet reaches the node's ovs-vswitchd. The datapath has lost all packets that it had no flow for, so " +
			"neither the host's bridges nor pods have a network.",
		Remedy: "Restart ovs-vswitchd (systemctl restart ovs-vswitchd). If its version is 3.1.0, install 3.1.1 or later.",
		See:    "monitoring.md#weftupcallslost",
	}
)

// Reasons of the condition [contract.AgentCondition].
var (
	agentReady = &reasons.Condition{
		Name: "AgentReady", On: "Node", Ready: true,
		Meaning: "The node's agent can attach new pods, and has found no problem of the node. That of the Event " +
			"ConnectionsNotBounded does not count here.",
	}
	agentWarns = &reasons.Condition{
		Name: "AgentWarns", On: "Node", Ready: true,
		Meaning: "The node's agent can attach new pods, but there is another problem. The message says which one.",
		Remedy:  "Do what the message says.",
	}
	agentNotReady = &reasons.Condition{
		Name: "AgentNotReady", On: "Node",
		Meaning: "The node's agent cannot attach new pods, or they would not work. The message says why. If it could " +
			"before, an interruption counts only after 15 seconds, except if the node's bridges or its pod subnet are missing.",
		Remedy: "Do what the message says. `weft doctor` on the node can tell more.",
	}
)
