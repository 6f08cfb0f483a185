package nodes

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	badNodeFacts = &reasons.Event{
		Name: "BadNodeFacts", On: "Node",
		Meaning: "The annotation weft.net/node-facts cannot be used. The node's agent writes it.",
		Remedy:  "Remove the annotation. The agent writes it again.",
	}
	badNodeNetwork = &reasons.Event{
		Name: "BadNodeNetwork", On: "Node",
		Meaning: "Somebody has changed the annotation weft.net/node-network, which Weft alone writes. Weft has written it " +
			"again.",
		Remedy: "Do not edit the annotation.",
	}
	noPodSubnet = &reasons.Event{
		Name: "NoPodSubnet", On: "Node",
		Meaning: "The Node has had no pod subnet for ten seconds, or one that cannot be used. Its pods get no network.",
		Remedy:  "Give the Node spec.podCIDRs, or set allocate-node-cidrs for the controller.",
	}
	noNodeID = &reasons.Event{
		Name: "NoNodeID", On: "Node",
		Meaning: "Each node needs an address of join-cidrs, the ranges between the cluster's router and the " +
			"gateway routers. No address is left for the node. Its pods get no network.",
		Remedy: "Make join-cidrs larger.",
	}
	duplicateChassis = &reasons.Event{
		Name: "DuplicateChassis", On: "Node",
		Meaning: "Another Node has the same chassis name (external_ids:system-id of Open vSwitch), as copied " +
			"machines have. If the Northbound already has one of the two with this name, that Node keeps the " +
			"name. Otherwise the older Node keeps it. This node's pods have no network.",
		Remedy: "Give each node a system-id of its own.",
	}
	duplicateGateway = &reasons.Event{
		Name: "DuplicateGateway", On: "Node",
		Meaning: "Another Node's gateway on the same network outside has the same address, or the same MAC " +
			"address, as this node's gateway. The Node that had its gateway first keeps it, or else the older " +
			"Node. This node has no gateway.",
		Remedy: "Give this node another address, or another MAC address. If the two are on different networks, " +
			"give these different names (gateway-network). If the other Node is gone, delete it.",
	}
	gatewayNetworkNotGranted = &reasons.Event{
		Name: "GatewayNetworkNotGranted", On: "Node",
		Meaning: "The node's agent says that its gateway is on a network outside that no administrator has granted to the " +
			"Node. The node carries no EgressIP and no shared gateway, and announces no addresses.",
		Remedy: "If the node is on that network, label the Node as the message says. Otherwise correct gateway-network of " +
			"its agent.",
		See: "gateways.md#networks-outside",
	}
	windowsDatapath = &reasons.Event{
		Name: "WindowsDatapath", On: "Node",
		Meaning: "Open vSwitch on Windows cannot do something that Weft does on Linux nodes. The message names it. It is " +
			"left out on this node.",
		Remedy: "If pods need it, run them on Linux nodes.",
		See:    "windows-driver.md#what-the-datapath-of-a-windows-node-cannot-do",
	}
)
