package nodes

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	badNodeFacts = &reasons.Event{
		Name: "BadNodeFacts", On: "Node",
		Meaning: "The annotation weft.net/node-facts, which the node's agent writes, cannot be read, and what it said " +
			"before stays in force. Or a part of it cannot be used, and is left out. The message says which.",
		Remedy: "Remove the annotation. The agent writes it again. If the Event comes again, correct on the node what the " +
			"message names, such as its gateway's addresses.",
	}
	badNodeNetwork = &reasons.Event{
		Name: "BadNodeNetwork", On: "Node",
		Meaning: "Somebody has written a value that cannot be read to the annotation weft.net/node-network. Weft has " +
			"written it again.",
		Remedy: "Do not write the annotation. Weft alone writes it.",
	}
	noPodSubnet = &reasons.Event{
		Name: "NoPodSubnet", On: "Node",
		Meaning: "For ten seconds the Node has had no spec.podCIDRs, and the controller cuts no subnets; or its " +
			"spec.podCIDRs cannot be used; or pod-cidrs has no subnet left for it. The message says which. The Node's pods " +
			"get no network.",
		Remedy: "Do what the message says, for example give the Node spec.podCIDRs, set allocate-node-cidrs for the " +
			"controller, or remove Nodes that are not used.",
	}
	noNodeID = &reasons.Event{
		Name: "NoNodeID", On: "Node",
		Meaning: "Each node needs a number, by which its gateway router has an address of join-cidrs. All numbers " +
			"that join-cidrs has room for, at most 65,532, are taken. The node's pods get no network.",
		Remedy: "Remove Nodes and EgressIPs that are not used, or make join-cidrs larger.",
	}
	unknownZone = &reasons.Event{
		Name: "UnknownZone", On: "Node",
		Meaning: "The Node's label weft.net/zone names no zone of the cluster. The node stays in the zone that it has been " +
			"in. If it has been in none, or if ovn-northbound no longer names that zone, its pods get no network.",
		Remedy: "Correct the label, or name the zone and its Northbound in the controllers' ovn-northbound. Without the " +
			"label, the node is in the first zone.",
		See: "zones.md#who-decides-what",
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
		Remedy: "If the node is on that network, label the Node, or rename the network, as the message says. Otherwise " +
			"correct gateway-network of its agent.",
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
