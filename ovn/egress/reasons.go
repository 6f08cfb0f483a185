package egress

import "github.com/weftnet/weft/models/reasons"

// Reasons of the condition Ready.
var (
	carried = &reasons.Condition{
		Name: "Carried", On: "EgressIP", Ready: true,
		Meaning: "Nodes can carry the addresses, one node at a time. The message says how many, on which network " +
			"outside, and for which address there is no next hop.",
		Remedy: "If an address has no next hop, set gateway-next-hops of the node's agent. Otherwise no action is needed.",
	}
	badSpec = &reasons.Condition{
		Name: "BadSpec", On: "EgressIP",
		Meaning: "spec is wrong. The message names the field. The EgressIP selects no pod.",
		Remedy:  "Correct the field.",
	}
	addressInCluster = &reasons.Condition{
		Name: "AddressInCluster", On: "EgressIP",
		Meaning: "An address is in a range of the cluster's own, such as pod-cidrs.",
		Remedy:  "Give a free address of the external subnet of the nodes' gateways.",
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
		Meaning: "No selected node that could carry the addresses has all of them in the subnets of its gateway.",
		Remedy:  "Give free addresses of one node's subnets, or select other nodes.",
	}
	noNumber = &reasons.Condition{
		Name: "NoNumber", On: "EgressIP",
		Meaning: "All numbers that join-cidrs has room for are taken.",
		Remedy:  "Remove Nodes and EgressIPs that are not used, or make join-cidrs larger.",
	}
)
