package services

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var nobodyGivesAddresses = &reasons.Event{
	Name: "NobodyGivesAddresses", On: "Service",
	Meaning: "A Service of type LoadBalancer has no loadBalancerClass, and has had no address for a minute.",
	Remedy: "Set allocate-load-balancer-addresses for the controller, or create the Service again with the class " +
		"weft.net/address-pool. If a cloud must give the address, look at its controller.",
	See: "loadbalancer.md#a-service-that-waits",
}
