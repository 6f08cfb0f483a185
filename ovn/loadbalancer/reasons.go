package loadbalancer

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	badAddress = &reasons.Event{
		Name: "BadAddress", On: "Service",
		Meaning: "An address of the Service cannot be read, such as an IPv4 address with leading zeros. Its other " +
			"addresses are served.",
		Remedy: "Correct or remove the address.",
	}
	badEndpointAddress = &reasons.Event{
		Name: "BadEndpointAddress", On: "Service",
		Meaning: "An EndpointSlice of the Service has an address that cannot be used. The other endpoints are served.",
		Remedy:  "Correct or remove the address in the slice.",
	}
	badEndpointPort = &reasons.Event{
		Name: "BadEndpointPort", On: "Service",
		Meaning: "An EndpointSlice of the Service has a port that cannot be used. The other ports are served.",
		Remedy:  "Correct or remove the port in the slice.",
	}
	noSCTPOnWindows = &reasons.Event{
		Name: "NoSCTPOnWindows", On: "Service",
		Meaning: "The Service has SCTP ports, and the cluster has Windows nodes. These ports are not served on Windows " +
			"nodes, and SCTP endpoints there are left out.",
		Remedy: "Run clients and endpoints on Linux nodes.",
	}
	tooManyServicePorts = &reasons.Event{
		Name: "TooManyServicePorts", On: "Service",
		Meaning: "The Service has more than 1,000 ports. Or nodes or zones have rows of their own of it, and all its " +
			"rows have more than 500,000 endpoints even with one endpoint per port. The last ports are not served.",
		Remedy: "Divide the ports among several Services.",
		See:    "services.md#what-one-service-may-cost",
	}
	tooManySourceRanges = &reasons.Event{
		Name: "TooManySourceRanges", On: "Service",
		Meaning: "The Service has more than 1,000 loadBalancerSourceRanges. Clients of the others are not let in.",
		Remedy:  "Use fewer ranges, or divide them among several Services.",
		See:     "services.md#what-one-service-may-cost",
	}
	tooManyEndpoints = &reasons.Event{
		Name: "TooManyEndpoints", On: "Service",
		Meaning: "All addresses and ports of the Service together have more than 50,000 endpoints. Or nodes or zones have " +
			"rows of their own of it, and all its rows have more than 500,000. OVN sends no traffic to the rest.",
		Remedy: "Use fewer endpoints, or divide them among several Services.",
		See:    "services.md#what-one-service-may-cost",
	}
	endpointAtTunnelPort = &reasons.Event{
		Name: "EndpointAtTunnelPort", On: "Service",
		Meaning: "An EndpointSlice of the Service has an endpoint that is not a pod, and its port is UDP 6081, " +
			"the port of the tunnels between hosts. The endpoint is left out.",
		Remedy: "Give the endpoint another port.",
	}
	sessionAffinityTimeout = &reasons.Event{
		Name: "SessionAffinityTimeout", On: "Service",
		Meaning: "timeoutSeconds of the session affinity is longer than the 65,535 seconds that OVN can " +
			"remember. If a client opens no connection for 65,535 seconds, its next one may get another endpoint.",
		Remedy: "Set a shorter time.",
		See:    "services.md#session-affinity",
	}
	badSourceRange = &reasons.Event{
		Name: "BadSourceRange", On: "Service",
		Meaning: "loadBalancerSourceRanges has an entry that is no range of addresses. The other entries count.",
		Remedy:  "Correct or remove the entry.",
	}
	noSourceRange = &reasons.Event{
		Name: "NoSourceRange", On: "Service",
		Meaning: "loadBalancerSourceRanges has no range of the address family of one of the Service's load balancer " +
			"addresses. Only the nodes' hosts are let in there.",
		Remedy: "Add a range of that family. 0.0.0.0/0 and ::/0 let all clients in.",
	}
)
