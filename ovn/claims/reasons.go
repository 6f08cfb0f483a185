package claims

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	tooManyExternalAddresses = &reasons.Event{
		Name: "TooManyExternalAddresses", On: "Service",
		Meaning: "The Service has more than 1,000 pairs of external address and port. The rest is not served.",
		Remedy:  "Use fewer addresses, or divide the ports among several Services.",
		See:     "services.md#who-gets-an-address",
	}
	badExternalAddress = &reasons.Event{
		Name: "BadExternalAddress", On: "Service",
		Meaning: "An external address of the Service cannot be one, such as a loopback address or one of the cluster's " +
			"own. It is not served.",
		Remedy: "Give an address of the networks outside.",
		See:    "services.md#who-gets-an-address",
	}
	addressTaken = &reasons.Event{
		Name: "AddressTaken", On: "Service",
		Meaning: "An external address of the Service belongs to a host, or a port at it does. Or a NodePort or the " +
			"health check's port is in host-ports. The Service is not served there.",
		Remedy: "Choose another address or port, use a NodePort, or end the program that the message speaks of. The " +
			"operator can allow an address in spec.externalIPs by host-external-ip-cidrs.",
		See: "services.md#who-gets-an-address",
	}
	addressConflict = &reasons.Event{
		Name: "AddressConflict", On: "Service",
		Meaning: "Another Service, which comes first, has a port that the Service wants outside, or has the port's whole " +
			"address from an AddressPool. Or, at an address of a node, a NodePort or a health check has the port, perhaps " +
			"of this Service itself. The message says which. Clients there do not reach this port of this Service.",
		Remedy: "Choose another address or port.",
		See:    "services.md#who-gets-an-address",
	}
	nodePortOutOfRange = &reasons.Event{
		Name: "NodePortOutOfRange", On: "Service",
		Meaning: "A NodePort that the API server has given is not in node-port-range of the controller. It is served.",
		Remedy:  "Set node-port-range to the API server's --service-node-port-range.",
	}
)
