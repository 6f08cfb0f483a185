package pods

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	addressLost = &reasons.Event{
		Name: "AddressLost", On: "Pod",
		Meaning: "The pod cannot keep its address. Another pod has it, it is reserved, or the pod subnet of the node has " +
			"changed.",
		Remedy: "Delete the pod, so that it is created again with another address.",
	}
	noFreeAddress = &reasons.Event{
		Name: "NoFreeAddress", On: "Pod",
		Meaning: "All addresses of the node's pod subnet are taken. The pod gets one when another pod of the node ends.",
		Remedy:  "Lower kubelet's maxPods, or use larger pod subnets.",
	}
	badPodNetwork = &reasons.Event{
		Name: "BadPodNetwork", On: "Pod",
		Meaning: "Somebody has written a value that cannot be read to the annotation weft.net/pod-network. Weft " +
			"has written it again.",
		Remedy: "Do not write the annotation. Weft alone writes it.",
	}
	podNetworkRestored = &reasons.Event{
		Name: "PodNetworkRestored", On: "Pod",
		Meaning: "Somebody has written another readable value to the annotation weft.net/pod-network, or has " +
			"created the pod with it. Weft has written it again.",
		Remedy: "Do not write the annotation. Weft alone writes it.",
	}
	tooManyHostPorts = &reasons.Event{
		Name: "TooManyHostPorts", On: "Pod",
		Meaning: "The pod has more than 1,000 host ports. The rest is not served.",
		Remedy:  "Use fewer host ports, or several pods.",
	}
	noSCTPOnWindows = &reasons.Event{
		Name: "NoSCTPOnWindows", On: "Pod",
		Meaning: "A host port of the pod is of SCTP, and the pod runs on a Windows node. The port is not served.",
		Remedy:  "Run the pod on a Linux node.",
	}
	unknownHostIP = &reasons.Event{
		Name: "UnknownHostIP", On: "Pod",
		Meaning: "hostIP of a host port is no address of the pod's node. Nobody can reach the port. The node's " +
			"agent finds the same mistake, with the reason NoHostAddress.",
		Remedy: "Correct hostIP, or leave it out.",
	}
)
