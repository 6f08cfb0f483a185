package pools

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	addressLost = &reasons.Event{
		Name: "AddressLost", On: "Service",
		Meaning: "The Service's address of an AddressPool is also that of another Service, which keeps it. The Service " +
			"gets another one, if an AddressPool has one for it.",
		Remedy: "Clients and DNS names must use the new address.",
		See:    "loadbalancer.md#which-address-a-service-gets",
	}
	addressTaken = &reasons.Event{
		Name: "AddressTaken", On: "Service",
		Meaning: "The Service's address of an AddressPool has another user, such as a node, or is the first or the " +
			"broadcast address of a node's subnet outside. The Service keeps the address, and nobody announces it.",
		Remedy: "Take the address from the other user, or create the Service again.",
		See:    "loadbalancer.md#is-a-pool-ready",
	}
	addressOfNoPool = &reasons.Event{
		Name: "AddressOfNoPool", On: "Service",
		Meaning: "The Service's address is in no AddressPool that is in force. The Service keeps it, and nobody announces " +
			"it.",
		Remedy: "Add the address to spec.ranges of an AddressPool, or create the Service again.",
		See:    "loadbalancer.md#which-address-a-service-gets",
	}
	badLoadBalancerAddress = &reasons.Event{
		Name: "BadLoadBalancerAddress", On: "Service",
		Meaning: "The Service asks for an address that cannot be read or used, or for two of one address family. It " +
			"gets any address, or keeps the one that it has.",
		Remedy: "Correct the annotation weft.net/load-balancer-addresses, or spec.loadBalancerIP.",
		See:    "loadbalancer.md#which-address-a-service-gets",
	}
	noLoadBalancerAddress = &reasons.Event{
		Name: "NoLoadBalancerAddress", On: "Service",
		Meaning: "No AddressPool can give the Service an address, or the one that it asks for. The message says why. If " +
			"no AddressPool has the address that the Service asks for, the Service keeps the one that it has.",
		Remedy: "Do what the message says. The Service gets an address as soon as one is free.",
		See:    "loadbalancer.md#which-address-a-service-gets",
	}
)

// Reasons of the condition Ready.
var (
	inUse = &reasons.Condition{
		Name: "InUse", On: "AddressPool", Ready: true,
		Meaning: "All ranges are in use. The message names ranges that are not in the network of any node's gateway.",
	}
	usedUp = &reasons.Condition{
		Name: "UsedUp", On: "AddressPool", Ready: true,
		Meaning: "All addresses are taken.",
		Remedy:  "Add a range to spec.ranges.",
	}
	badSpec = &reasons.Condition{
		Name: "BadSpec", On: "AddressPool",
		Meaning: "spec is wrong. The message names the field. The pool gives no addresses.",
		Remedy:  "Correct the field.",
	}
	badRange = &reasons.Condition{
		Name: "BadRange", On: "AddressPool",
		Meaning: "A range cannot be read or used. The ranges that the message does not name are in use.",
		Remedy:  "Correct the range.",
	}
	rangeOverlaps = &reasons.Condition{
		Name: "RangeOverlaps", On: "AddressPool",
		Meaning: "A range overlaps with one of the cluster's own, with one in host-cidrs, with an earlier range of this " +
			"pool, or with a range of an older pool. It is not used. The ranges that the message does not name are in use.",
		Remedy: "Remove or change the range.",
	}
	rangeTaken = &reasons.Condition{
		Name: "AddressTaken", On: "AddressPool",
		Meaning: "A range has an address of a node, a next hop, the shared gateway, an API server or a host that is no " +
			"node. That address is left out.",
		Remedy: "Leave the address out of the range.",
	}
)
