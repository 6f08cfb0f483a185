package objects

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	bandwidthNotBounded = &reasons.Event{
		Name: "BandwidthNotBounded", On: "Pod",
		Meaning: "The pod has an annotation that asks for a bound of its bandwidth. Weft does not bound it.",
		Remedy:  "Remove the annotation. Bound the rate in the application, or on the network outside.",
		See:     "reference.md#annotations-that-weft-does-not-serve",
	}
	networkNotServed = &reasons.Event{
		Name: "NetworkNotServed", On: "Pod",
		Meaning: "The pod has an annotation that asks for another network. Weft attaches it to its own network alone.",
		Remedy:  "Remove the annotation, unless a meta plugin such as Multus calls Weft and serves the annotation.",
		See:     "reference.md#annotations-that-weft-does-not-serve",
	}
	addressNotServed = &reasons.Event{
		Name: "AddressNotServed", On: "Pod",
		Meaning: "The pod has an annotation that asks for an address. Weft gives any free address of the node's pod " +
			"subnet, and a MAC address made of it.",
		Remedy: "Remove the annotation. Reach the pod by a Service. If hosts outside must see a fixed address of " +
			"the pod, give it an EgressIP.",
		See: "reference.md#annotations-that-weft-does-not-serve",
	}
	destinationNotPreserved = &reasons.Event{
		Name: "DestinationNotPreserved", On: "Service",
		Meaning: "The Service has the annotation preserve-destination: \"true\". Endpoints on Windows nodes get packets " +
			"with their own address and port as destination.",
		Remedy: "Remove the annotation. Have the server listen at the pod's address and the target port.",
		See:    "reference.md#annotations-that-weft-does-not-serve",
	}
)
