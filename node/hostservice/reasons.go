package hostservice

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	hostPortUnavailable = &reasons.Event{
		Name: "HostPortUnavailable", On: "Service, Pod",
		Meaning: "The agent cannot listen at the port: another program on the node listens there, or did so in the last " +
			"ten minutes, or the message gives another cause. Programs on the node itself, and clients outside that the " +
			"agent serves, do not reach the Service or the pod at this port. A NodePort is served to all other clients. At " +
			"a host port, or at an external address that is the node's own, all packets go to the other program, if one " +
			"listens there.",
		Remedy: "Choose another port. Or end the program: ten minutes later the Service or the pod gets the port. Or " +
			"remove the other cause.",
		See: "services.md#ports-of-the-hosts-own-daemons",
	}
	healthCheckPortUnavailable = &reasons.Event{
		Name: "HealthCheckPortUnavailable", On: "Service",
		Meaning: "healthCheckNodePort is not served on the node: another program or the host itself has the port, or the " +
			"message gives another cause. The node looks unhealthy to the load balancer.",
		Remedy: "Remove the cause, or create the Service again with another port.",
		See:    "services.md#ports-of-the-hosts-own-daemons",
	}
	tooManyHostPorts = &reasons.Event{
		Name: "TooManyHostPorts", On: "Service, Pod",
		Meaning: "For programs of its own host, and for clients outside that the agent serves, the node listens at up " +
			"to 1,000 ports: those of host ports and those of its own addresses that are external addresses of Services, " +
			"taken together. These clients do not reach the rest. All other clients do.",
		Remedy: "Use fewer ports.",
		See:    "services.md#asking-localhost",
	}
	tooManyExternalAddresses = &reasons.Event{
		Name: "TooManyExternalAddresses", On: "Service",
		Meaning: "A node serves clients outside at up to 10,000 pairs of external address and port, and at up to " +
			"2,500 of one namespace. Load balancers' addresses come before spec.externalIPs, and older Services before " +
			"younger ones. Others have all of these pairs, so clients outside do not reach the Service's further pairs by " +
			"this node.",
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
		Meaning: "At an address of the node, the port belongs to a Service, to an older pod, to the API server, or to the " +
			"host (key host-ports of the controller). The pod is not reached by it there.",
		Remedy: "Choose another host port.",
		See:    "reference.md#addresses-and-ports-of-hosts",
	}
)
