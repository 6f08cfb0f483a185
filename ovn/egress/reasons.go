package egress

import "github.com/weftnet/weft/models/reasons"

// Reasons of the condition Ready.
var (
	carried = &reasons.Condition{
		Name: "Carried", On: "EgressIP", Ready: true,
		Meaning: "Nodes are ready to carry the addresses, one node at a time. The message says how many, and on which " +
			"network outside.",
	}
	badSpec = &reasons.Condition{
		Name: "BadSpec", On: "EgressIP",
		Meaning: "spec is wrong. The message names the field. The EgressIP selects no pod.",
		Remedy:  "Correct the field.",
	}
	addressInCluster = &reasons.Condition{
		Name: "AddressInCluster", On: "EgressIP",
		Meaning: "An address is in a range of the cluster's own, such as pod-cidrs.",
		Remedy:  "Give a free address of the network outside of the nodes' gateways.",
	}
	addressTaken = &reasons.Condition{
		Name: "AddressTaken", On: "EgressIP",
		Meaning: "An address already has another user. The message says which one.",
		Remedy:  "Give another address.",
	}
	noSuchFamily = &reasons.Condition{
		Name: "NoSuchFamily", On: "EgressIP",
		Meaning: "Pods have no address of the family of an address.",
		Remedy:  "Remove the address.",
	}
	noNode = &reasons.Condition{
		Name: "NoNode", On: "EgressIP",
		Meaning: "No node that spec.nodeSelector selects can carry the addresses. The message says why.",
		Remedy:  "Label Linux nodes that have a gateway, or do what the message says.",
	}
	addressNotInNetwork = &reasons.Condition{
		Name: "AddressNotInNetwork", On: "EgressIP",
		Meaning: "An address is not in the network of any selected node's gateway.",
		Remedy:  "Give a free address of that network, or select other nodes.",
	}
	noNumber = &reasons.Condition{
		Name: "NoNumber", On: "EgressIP",
		Meaning: "All numbers that join-cidrs has room for are taken.",
		Remedy:  "Remove Nodes and EgressIPs that are not used, or make join-cidrs larger.",
	}
)
