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
		Meaning: "An external address of the Service belongs to a host, or a port at it does. The Service is not " +
			"served there.",
		Remedy: "Choose another address or port, or use a NodePort. The operator can allow the address by " +
			"host-external-ip-cidrs.",
		See: "services.md#who-gets-an-address",
	}
	addressConflict = &reasons.Event{
		Name: "AddressConflict", On: "Service",
		Meaning: "An external address and port of the Service is in use: by another Service, which comes first, or, at " +
			"an address of a node, by a NodePort or a health check, perhaps of this Service itself. The message says " +
			"which. Clients there reach what it names.",
		Remedy: "Choose another address or port.",
		See:    "services.md#who-gets-an-address",
	}
	nodePortOutOfRange = &reasons.Event{
		Name: "NodePortOutOfRange", On: "Service",
		Meaning: "A NodePort that the API server has given is not in node-port-range of the controller. It is served.",
		Remedy:  "Set node-port-range to the API server's --service-node-port-range.",
	}
)
