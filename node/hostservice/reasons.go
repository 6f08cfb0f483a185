package hostservice

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	hostPortUnavailable = &reasons.Event{
		Name: "HostPortUnavailable", On: "Service, Pod",
		Meaning: "Another program on the node listens at the port, or listened there in the last ten minutes. " +
			"Programs on the node itself, and clients by a network card that is not on the external bridge, do not " +
			"reach the Service or the pod at this port. A NodePort is served to all other clients. At a host port, " +
			"or at an external address that is the node's own, all packets go to that program.",
		Remedy: "Choose another port. Or end the program: ten minutes later the Service or the pod gets the port.",
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
		Meaning: "For programs of its own host, and for clients by a network card that is not on the external " +
			"bridge, the node listens at up to 1,000 ports: those of host ports and those of its own addresses that " +
			"are external addresses of Services, taken together. These clients do not reach the rest. All other " +
			"clients do.",
		Remedy: "Use fewer ports.",
		See:    "services.md#asking-localhost",
	}
	tooManyExternalAddresses = &reasons.Event{
		Name: "TooManyExternalAddresses", On: "Service",
		Meaning: "A node serves clients outside at up to 10,000 pairs of external address and port, and at up to " +
			"2,500 of one namespace. Older Services have all of these pairs. So clients outside do not reach the " +
			"Service's further pairs by this node.",
		Remedy: "Use fewer addresses or ports.",
	}
	noHostAddress = &reasons.Event{
		Name: "NoHostAddress", On: "Pod",
		Meaning: "hostIP of a host port is no address of the node. The port is not served. The controller finds " +
			"the same mistake, with the reason UnknownHostIP.",
		Remedy: "Correct hostIP, or leave it out.",
	}
	hostPortTaken = &reasons.Event{
		Name: "HostPortTaken", On: "Pod",
		Meaning: "The port belongs to a Service, to an older pod, or to the host (key host-ports of the " +
			"controller). The pod is not reached by it.",
		Remedy: "Choose another host port.",
		See:    "reference.md#addresses-and-ports-of-hosts",
	}
)
