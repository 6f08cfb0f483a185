package hostservice

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	hostPortUnavailable = &reasons.Event{
		Name: "HostPortUnavailable", On: "Service, Pod",
		Meaning: "Another program on the node has the port, or had it a short time ago. The node's own host is not " +
			"served there. A NodePort is served to everybody else. If the port is a host port, or of an external " +
			"address that is the node's own, that program also gets the packets of pods and of clients outside.",
		Remedy: "Choose another port, or end the program: the port is free ten minutes later.",
		See:    "services.md#ports-of-the-hosts-own-daemons",
	}
	healthCheckPortUnavailable = &reasons.Event{
		Name: "HealthCheckPortUnavailable", On: "Service",
		Meaning: "healthCheckNodePort is not served on the node, since another program or the host itself has the port. " +
			"The node looks unhealthy to the load balancer.",
		Remedy: "End the program, or create the Service again with another port.",
		See:    "services.md#ports-of-the-hosts-own-daemons",
	}
	tooManyHostPorts = &reasons.Event{
		Name: "TooManyHostPorts", On: "Service, Pod",
		Meaning: "The node listens for its own host at up to 1,000 ports of host ports and external addresses. The " +
			"host's own programs do not reach the rest. Clients elsewhere do.",
		Remedy: "Use fewer ports.",
		See:    "services.md#asking-localhost",
	}
	tooManyExternalAddresses = &reasons.Event{
		Name: "TooManyExternalAddresses", On: "Service",
		Meaning: "The node serves clients outside at a limited number of pairs of external address and port. Older " +
			"Services have these. At the rest this node does not serve clients outside.",
		Remedy: "Use fewer addresses or ports.",
	}
	noHostAddress = &reasons.Event{
		Name: "NoHostAddress", On: "Pod",
		Meaning: "hostIP of a host port is no address of the node. The port is not served.",
		Remedy:  "Correct hostIP, or leave it out.",
	}
	hostPortTaken = &reasons.Event{
		Name: "HostPortTaken", On: "Pod",
		Meaning: "A Service, an older pod or the host itself has the port already. The pod is not reached by it.",
		Remedy:  "Choose another host port.",
		See:     "reference.md#addresses-and-ports-of-hosts",
	}
)
